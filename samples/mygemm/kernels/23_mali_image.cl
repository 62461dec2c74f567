/* C = alpha * A * B + beta * C, float32, row-major: element (i, j) of a matrix is at [i * ld + j].
 *
 *                 LANES * N0 / 4 pixels
 *             +----+----+----+----+     B is copied into an image: pixel (x, k) has elements 4x to
 *           K |bbbb|bbbb|bbbb|bbbb|     4x + 3 of its row k. A is packed as in 22, in panels of M0
 *             |bbbb|bbbb|bbbb|bbbb|     rows, column after column.
 *             +----+----+----+----+
 *       K     +----+----+----+----+
 *     +----+  |oooo|    |oooo|    |     As in 21, a work-item computes M0 x N0 elements of C,
 *  M0 |vvvv|  |oooo|    |oooo|    |     and a work-group is LANES work-items wide. At each k a
 *     |vvvv|  |oooo|    |oooo|    |     work-item reads M0 / 4 vectors of its panel of A, and
 *     +----+  +----+----+----+----+     N0 / 4 pixels of B, LANES pixels apart.
 *
 * 4 must divide M0 and N0, and UNROLL must be a power of two. `work` holds A with M rounded up to M0
 * and K to UNROLL, and begins at a multiple of 16 bytes. `b_image` is CL_RGBA, CL_FLOAT, at least
 * ceil(N / (LANES * N0)) * LANES * N0 / 4 pixels wide and ceil(K / UNROLL) * UNROLL high: both must be
 * within CL_DEVICE_IMAGE2D_MAX_WIDTH and _HEIGHT. Elements outside of the matrices are 0.
 *
 * NDRanges, in this order, rounded up to whole work-groups: pack_a (ceil(K / UNROLL) * UNROLL,
 * ceil(M / M0)), pack_b (the pixels of `b_image`) in groups of any size; gemm (ceil(N / N0),
 * ceil(M / M0)) in groups of LANES x ROWS. There are no other constraints: work-items outside of C
 * return at once, and at the edges only elements of C are written.
 *
 * The idea: a GPU has a second path to memory. Images are read through the texture unit, which has
 * its own cache, computes the address from two coordinates, and on a Mali reads 2 to 8 pixels while
 * the load/store unit reads one vector. With A through one and B through the other, both are busy.
 *
 * The cost it removes: half of the messages to the load/store unit, which took as long as the
 * arithmetic or longer. CPUs gain nothing: they have no texture unit, and each read of an image is a
 * function call. */

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

/* All kernels of this file have the same arguments; `access` is that of the image. */
#define ARGUMENTS(access)                                                                        \
    const int M, const int N, const int K, const float alpha, __global const float *restrict A,  \
        const int lda, __global const float *restrict B, const int ldb, const float beta,        \
        __global float *restrict C, const int ldc, __global float4 *restrict work,               \
        access image2d_t b_image

/* Copy the M0 elements of column k that a panel of A has. Neighbours read neighbours. */
__kernel void pack_a(ARGUMENTS(__read_only))
{
    const int k = get_global_id(0), panel = get_global_id(1), depth = UP(K, UNROLL);
    if (k >= depth || panel * M0 >= M)
        return;
    work += (panel * (size_t)depth + k) * PIECES_M;
    for (int m = 0; m < M0; m += 4) {
        float rows[4];
        for (int r = 0; r < 4; r++) {
            const int i = panel * M0 + m + r;
            rows[r] = i < M && k < K ? A[i * (size_t)lda + k] : 0;
        }
        work[m / 4] = (float4)(rows[0], rows[1], rows[2], rows[3]);
    }
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
    __global const float4 *a = work + get_global_id(1) * (size_t)UP(K, UNROLL) * PIECES_M;

    float4 sums[M0][PIECES_N];
#pragma unroll
    for (int m = 0; m < M0; m++)
#pragma unroll
        for (int n = 0; n < PIECES_N; n++)
            sums[m][n] = 0;

    for (int k0 = 0; k0 < K; k0 += UNROLL) {
#pragma unroll
        for (int k = 0; k < UNROLL; k++)
#pragma unroll
            for (int n = 0; n < PIECES_N; n++) {
                const float4 columns = read_imagef(b_image, (int2)(x + n * LANES, k0 + k));
#pragma unroll
                for (int m = 0; m < PIECES_M; m++) {
                    const float4 rows = a[k * PIECES_M + m];
                    sums[4 * m][n] += rows.s0 * columns;
                    sums[4 * m + 1][n] += rows.s1 * columns;
                    sums[4 * m + 2][n] += rows.s2 * columns;
                    sums[4 * m + 3][n] += rows.s3 * columns;
                }
            }
        a += UNROLL * PIECES_M;
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
