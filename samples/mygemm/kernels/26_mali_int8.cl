/* C = alpha * A * B + beta * C for integers: A and B have 8 bits, all others 32; row-major: element
 * (i, j) of a matrix is at [i * ld + j].
 *
 *                 LANES pixels
 *              +----+----+----+----+     Four k's of a row of A, or of a column of B, are one uint:
 *        K / 4 |bbbb|bbbb|bbbb|bbbb|     four bytes, the first the lowest. A pixel (x, q) of the image
 *              |bbbb|bbbb|bbbb|bbbb|     has those of k's 4q to 4q + 3 of columns 4x to 4x + 3 of B.
 *              +----+----+----+----+     A is packed in panels of M0 rows: for every four k's, a uint
 *      K / 4   +----+----+----+----+     of each row.
 *     +----+   |oooo|    |    |    |
 *  M0 |vvvv|   |oooo|    |    |    |     A work-item computes M0 x 4 elements of C. For every
 *     |vvvv|   |oooo|    |    |    |     four k's it reads M0 / 4 vectors of its panel of A and one
 *     +----+   +----+----+----+----+     pixel of B, and computes 4 * M0 dot products of them.
 *
 * `work` holds A with M rounded up to M0 and K to 4 * UNROLL, a byte for each element. `b_image` is
 * CL_RGBA, CL_UNSIGNED_INT32, at least ceil(N / 4) pixels wide and ceil(K / (4 * UNROLL)) * UNROLL
 * high. NDRanges: pack_a (ceil(K / (4 * UNROLL)) * UNROLL, ceil(M / M0) * M0 / 4), pack_b (the
 * pixels of `b_image`), and gemm as in mali.cl. Build options must define REAL as int.
 *
 * C is exact while it is within 32 bits: for alpha = 1 and beta = 0 up to K = 131071, since a product
 * is at most 2^14.
 *
 * The idea: small numbers, four at a time. The weights of a neural network may be bytes. From the
 * Valhall generation on, a Mali has an instruction that multiplies two vectors of four bytes element
 * by element and adds up the four products, in the time of a single multiplication.
 *
 * The cost it removes: memory, a quarter of float32's, and arithmetic if that instruction exists
 * (cl_khr_integer_dot_product). Without it the same is written in plain OpenCL C; this may be fast, or,
 * as on Bifrost, slower than float32. */

#define DEPTH(K) (UP(K, 4 * UNROLL) / 4) /* uints for a row of A and a column of B */

/* All kernels of this file have the same arguments; `access` is that of the image. */
#define ARGUMENTS(access)                                                                      \
    const int M, const int N, const int K, const int alpha, __global const char *restrict A,   \
        const int lda, __global const char *restrict B, const int ldb, const int beta,         \
        __global int *restrict C, const int ldc, __global uint4 *restrict work,                \
        access image2d_t b_image

/* Return the sum of the products of four signed bytes each, and `sum`. */
#ifdef __opencl_c_integer_dot_product_input_4x8bit_packed
int add_dot(uint a, uint b, int sum)
{
    return sum + dot_4x8packed_ss_int(a, b);
}
#else
int add_dot(uint a, uint b, int sum)
{
    const int4 products = convert_int4(as_char4(a)) * convert_int4(as_char4(b));
    return sum + products.s0 + products.s1 + products.s2 + products.s3;
}
#endif

/* Return the first `count` of four bytes, `step` elements apart, as a uint; 0 for the others. */
uint four_bytes(__global const char *from, int step, int count)
{
    uint four = 0;
    for (int k = 0; k < min(count, 4); k++)
        four |= (uint)(uchar)from[k * (size_t)step] << (8 * k);
    return four;
}

/* Copy four k's of four rows of A. */
__kernel void pack_a(ARGUMENTS(__read_only))
{
    const int q = get_global_id(0), i = get_global_id(1) * 4;
    if (q >= DEPTH(K) || i >= UP(M, M0))
        return;
    uint rows[4];
    for (int r = 0; r < 4; r++)
        rows[r] = i + r < M ? four_bytes(A + (i + r) * (size_t)lda + 4 * q, 1, K - 4 * q) : 0;
    work[(i / M0 * (size_t)DEPTH(K) + q) * PIECES_M + i % M0 / 4] =
        (uint4)(rows[0], rows[1], rows[2], rows[3]);
}

/* Copy four k's of four columns of B into a pixel. */
__kernel void pack_b(ARGUMENTS(__write_only))
{
    const int x = get_global_id(0), q = get_global_id(1);
    if (4 * x >= N || q >= DEPTH(K))
        return;
    uint columns[4];
    for (int c = 0; c < 4; c++) {
        const int j = 4 * x + c;
        columns[c] = j < N ? four_bytes(B + 4 * q * (size_t)ldb + j, ldb, K - 4 * q) : 0;
    }
    write_imageui(b_image, (int2)(x, q), (uint4)(columns[0], columns[1], columns[2], columns[3]));
}

/* Add the dot products of a row's four k's and those of four columns. */
#define ADD_ROW(sum, row, columns)                  \
    sum.s0 = add_dot(row, columns.s0, sum.s0);      \
    sum.s1 = add_dot(row, columns.s1, sum.s1);      \
    sum.s2 = add_dot(row, columns.s2, sum.s2);      \
    sum.s3 = add_dot(row, columns.s3, sum.s3)

__kernel GROUP void gemm(ARGUMENTS(__read_only))
{
    const int i = get_global_id(1) * M0, x = get_global_id(0);
    if (i >= M || 4 * x >= N)
        return;
    const int depth = DEPTH(K);
    __global const uint4 *a = work + get_global_id(1) * (size_t)depth * PIECES_M;

    int4 sums[M0];
#pragma unroll
    for (int m = 0; m < M0; m++)
        sums[m] = 0;

    for (int q0 = 0; q0 < depth; q0 += UNROLL) {
#pragma unroll
        for (int q = 0; q < UNROLL; q++) {
            const uint4 columns = read_imageui(b_image, (int2)(x, q0 + q));
#pragma unroll
            for (int m = 0; m < PIECES_M; m++) {
                const uint4 rows = a[q * PIECES_M + m];
                ADD_ROW(sums[4 * m], rows.s0, columns);
                ADD_ROW(sums[4 * m + 1], rows.s1, columns);
                ADD_ROW(sums[4 * m + 2], rows.s2, columns);
                ADD_ROW(sums[4 * m + 3], rows.s3, columns);
            }
        }
        a += UNROLL * PIECES_M;
    }

    update(C, ldc, sums, M, N, i, 4 * x, alpha, beta);
}
