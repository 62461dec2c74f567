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
 * 4 must divide M0, and UNROLL must be a power of two. `work` holds A with M rounded up to M0 and K to
 * 4 * UNROLL, a byte for each element, and begins at a multiple of 16 bytes. `b_image` is CL_RGBA,
 * CL_UNSIGNED_INT32, at least ceil(N / 4) pixels wide and ceil(K / (4 * UNROLL)) * UNROLL high: both
 * must be within CL_DEVICE_IMAGE2D_MAX_WIDTH and _HEIGHT. Elements outside of the matrices are 0.
 *
 * NDRanges, in this order, rounded up to whole work-groups: pack_a (ceil(K / (4 * UNROLL)) * UNROLL,
 * ceil(M / 4)), pack_b (the pixels of `b_image`) in groups of any size; gemm (ceil(N / 4),
 * ceil(M / M0)) in groups of LANES x ROWS. There are no other constraints. C is exact while it is
 * within 32 bits: for alpha = 1 and beta = 0 up to K = 131071, since a product is at most 2^14.
 *
 * The idea: small numbers, four at a time. The weights of a neural network may be bytes, and a Mali
 * since the Valhall generation has an instruction that multiplies two vectors of four bytes element
 * by element and adds up the four products, in the time of a single multiplication.
 *
 * The cost it removes: memory, a quarter of float32's, and arithmetic if that instruction exists
 * (cl_khr_integer_dot_product). Without it the same is written in plain OpenCL C; this may be fast, or,
 * as on Bifrost, slower than float32. */

#ifndef M0 /* the defaults; build options must define all of these, or none */
#define M0 4 /* rows of C for each work-item */
#define UNROLL 4 /* steps of four k's between two tests for the end */
#define LANES 16 /* work-items in a work-group, along a row of C: those of one warp or two */
#define ROWS 4 /* and along a column */
#endif

#define PIECES (M0 / 4) /* vectors in a column of the tile */
#define UP(n, unit) (((n) + (unit) - 1) & ~((unit) - 1)) /* unit is a power of two */
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
    work[(i / M0 * (size_t)DEPTH(K) + q) * PIECES + i % M0 / 4] =
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

/* Write alpha * sum + beta * c to the elements of a row of C, of which `left` exist from here on. Where
 * beta is 0, C is not read. */
void update(__global int *c, const int4 sum, const int left, const int alpha, const int beta)
{
    const int4 product = alpha * sum;
    if (left > 0)
        c[0] = beta == 0 ? product.s0 : product.s0 + beta * c[0];
    if (left > 1)
        c[1] = beta == 0 ? product.s1 : product.s1 + beta * c[1];
    if (left > 2)
        c[2] = beta == 0 ? product.s2 : product.s2 + beta * c[2];
    if (left > 3)
        c[3] = beta == 0 ? product.s3 : product.s3 + beta * c[3];
}

/* Add the dot products of a row's four k's and those of four columns. */
#define ADD_ROW(sum, row, columns)                  \
    sum.s0 = add_dot(row, columns.s0, sum.s0);      \
    sum.s1 = add_dot(row, columns.s1, sum.s1);      \
    sum.s2 = add_dot(row, columns.s2, sum.s2);      \
    sum.s3 = add_dot(row, columns.s3, sum.s3)

/* The size of the group is stated: a Mali of the Midgard generation then gives each work-item 16
 * vector registers instead of 8. */
__kernel __attribute__((reqd_work_group_size(LANES, ROWS, 1))) void gemm(ARGUMENTS(__read_only))
{
    const int i = get_global_id(1) * M0, x = get_global_id(0);
    if (i >= M || 4 * x >= N)
        return;
    const int depth = DEPTH(K);
    __global const uint4 *a = work + get_global_id(1) * (size_t)depth * PIECES;

    int4 sums[M0];
#pragma unroll
    for (int m = 0; m < M0; m++)
        sums[m] = 0;

    for (int q0 = 0; q0 < depth; q0 += UNROLL) {
#pragma unroll
        for (int q = 0; q < UNROLL; q++) {
            const uint4 columns = read_imageui(b_image, (int2)(x, q0 + q));
#pragma unroll
            for (int m = 0; m < PIECES; m++) {
                const uint4 rows = a[q * PIECES + m];
                ADD_ROW(sums[4 * m], rows.s0, columns);
                ADD_ROW(sums[4 * m + 1], rows.s1, columns);
                ADD_ROW(sums[4 * m + 2], rows.s2, columns);
                ADD_ROW(sums[4 * m + 3], rows.s3, columns);
            }
        }
        a += UNROLL * PIECES;
    }

    C += i * (size_t)ldc + 4 * x;
#pragma unroll
    for (int m = 0; m < M0; m++) {
        if (i + m < M)
            update(C, sums[m], N - 4 * x, alpha, beta);
        C += ldc;
    }
}
