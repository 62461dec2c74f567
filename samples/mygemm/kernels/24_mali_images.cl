/* C = alpha * A * B + beta * C, float32, row-major: element (i, j) of a matrix is at [i * ld + j].
 *
 *                 LANES * N0 / 4 pixels
 *             +----+----+----+----+     Both matrices are copied into images. Pixel (x, k) of the one
 *           K |bbbb|bbbb|bbbb|bbbb|     has elements 4x to 4x + 3 of row k of B, pixel (y, k) of the
 *             |bbbb|bbbb|bbbb|bbbb|     other elements 4y to 4y + 3 of column k of A: A is transposed.
 *             +----+----+----+----+
 *       K     +----+----+----+----+
 *     +----+  |oooo|    |oooo|    |     As in 21, a work-item computes M0 x N0 elements of C,
 *  M0 |aa  |  |oooo|    |oooo|    |     and a work-group is LANES work-items wide. At each k a
 *     |aa  |  |oooo|    |oooo|    |     work-item reads M0 / 4 pixels of A, and N0 / 4 of B, LANES
 *     +----+  +----+----+----+----+     pixels apart.
 *
 * 4 must divide M0 and N0, and UNROLL must be a power of two. Both images are CL_RGBA, CL_FLOAT and
 * at least ceil(K / UNROLL) * UNROLL high; `a_image` is at least ceil(M / M0) * M0 / 4 pixels wide,
 * `b_image` ceil(N / (LANES * N0)) * LANES * N0 / 4. They must be within CL_DEVICE_IMAGE2D_MAX_WIDTH
 * and _HEIGHT. Elements outside of the matrices are 0.
 *
 * NDRanges, in this order, rounded up to whole work-groups: pack_a and pack_b (the pixels of their
 * image) in groups of any size; gemm (ceil(N / N0), ceil(M / M0)) in groups of LANES x ROWS. There
 * are no other constraints: work-items outside of C return at once, and at the edges only elements
 * of C are written.
 *
 * The idea: no addresses. All reads in the loop are of pixels, and the texture unit computes their
 * addresses from two coordinates. The loop waits for that unit only, which on a Mali since the Valhall
 * generation reads 4 to 8 pixels while the load/store unit reads one vector.
 *
 * The cost it removes: the messages to the load/store unit. With tiles of 4 x 4, there are two
 * messages for 16 multiply-adds: then arithmetic limits a Valhall, not loads. A Bifrost
 * reads only two pixels at a time, and gains as much from tiles of 4 x 8 in 23. */

#ifndef M0 /* the defaults; build options must define all of these, or none */
#define M0 4 /* rows of C for each work-item */
#define N0 4 /* columns of C for each work-item */
#define UNROLL 4 /* k's between two tests for the end */
#define LANES 16 /* work-items in a work-group, along a row of C: those of one warp or two */
#define ROWS 4 /* and along a column */
#endif

#define PIECES_M (M0 / 4) /* vectors in a column of the tile */
#define PIECES_N (N0 / 4) /* and in a row */
#define PANEL (LANES * N0) /* columns of C for a work-group */
#define UP(n, unit) (((n) + (unit) - 1) & ~((unit) - 1)) /* unit is a power of two */

/* All kernels of this file have the same arguments; `access` is that of the images. */
#define ARGUMENTS(access)                                                                        \
    const int M, const int N, const int K, const float alpha, __global const float *restrict A,  \
        const int lda, __global const float *restrict B, const int ldb, const float beta,        \
        __global float *restrict C, const int ldc, access image2d_t a_image,                     \
        access image2d_t b_image

/* Copy four neighbours of column k of A into a pixel. */
__kernel void pack_a(ARGUMENTS(__write_only))
{
    const int y = get_global_id(0), k = get_global_id(1);
    if (y >= UP(M, M0) / 4 || k >= UP(K, UNROLL))
        return;
    float rows[4];
    for (int r = 0; r < 4; r++) {
        const int i = 4 * y + r;
        rows[r] = i < M && k < K ? A[i * (size_t)lda + k] : 0;
    }
    write_imagef(a_image, (int2)(y, k), (float4)(rows[0], rows[1], rows[2], rows[3]));
}

/* Copy four neighbours of row k of B into a pixel. */
__kernel void pack_b(ARGUMENTS(__write_only))
{
    const int x = get_global_id(0), k = get_global_id(1);
    if (x >= UP(N, PANEL) / 4 || k >= UP(K, UNROLL))
        return;
    float columns[4];
    for (int c = 0; c < 4; c++) {
        const int j = 4 * x + c;
        columns[c] = j < N && k < K ? B[k * (size_t)ldb + j] : 0;
    }
    write_imagef(b_image, (int2)(x, k), (float4)(columns[0], columns[1], columns[2], columns[3]));
}

/* Write alpha * sum + beta * c to the elements of a row of C, of which `left` exist from here on. Where
 * beta is 0, C is not read. */
void update(__global float *c, const float4 sum, const int left, const float alpha, const float beta)
{
    const float4 product = alpha * sum;
    if (left > 0)
        c[0] = beta == 0 ? product.s0 : product.s0 + beta * c[0];
    if (left > 1)
        c[1] = beta == 0 ? product.s1 : product.s1 + beta * c[1];
    if (left > 2)
        c[2] = beta == 0 ? product.s2 : product.s2 + beta * c[2];
    if (left > 3)
        c[3] = beta == 0 ? product.s3 : product.s3 + beta * c[3];
}

/* The size of the group is stated: a Mali of the Midgard generation then gives each work-item 16
 * vector registers instead of 8. */
__kernel __attribute__((reqd_work_group_size(LANES, ROWS, 1))) void gemm(ARGUMENTS(__read_only))
{
    const int i = get_global_id(1) * M0;
    const int x = get_group_id(0) * (PANEL / 4) + get_local_id(0); /* of the first vector */
    if (i >= M || x >= UP(N, 4) / 4)
        return;

    float4 sums[M0][PIECES_N];
#pragma unroll
    for (int m = 0; m < M0; m++)
#pragma unroll
        for (int n = 0; n < PIECES_N; n++)
            sums[m][n] = 0;

    for (int k0 = 0; k0 < K; k0 += UNROLL) {
#pragma unroll
        for (int k = 0; k < UNROLL; k++) {
            float4 rows[PIECES_M];
#pragma unroll
            for (int m = 0; m < PIECES_M; m++)
                rows[m] = read_imagef(a_image, (int2)(i / 4 + m, k0 + k));
#pragma unroll
            for (int n = 0; n < PIECES_N; n++) {
                const float4 columns = read_imagef(b_image, (int2)(x + n * LANES, k0 + k));
#pragma unroll
                for (int m = 0; m < PIECES_M; m++) {
                    sums[4 * m][n] += rows[m].s0 * columns;
                    sums[4 * m + 1][n] += rows[m].s1 * columns;
                    sums[4 * m + 2][n] += rows[m].s2 * columns;
                    sums[4 * m + 3][n] += rows[m].s3 * columns;
                }
            }
        }
    }

    C += i * (size_t)ldc + 4 * x;
#pragma unroll
    for (int m = 0; m < M0; m++) {
        if (i + m < M) {
#pragma unroll
            for (int n = 0; n < PIECES_N; n++)
                update(C + n * (LANES * 4), sums[m][n], N - 4 * (x + n * LANES), alpha, beta);
        }
        C += ldc;
    }
}
