/* C = alpha * A * B + beta * C with A and C column-major and B row-major ("NT": as a column-major
 * matrix, what is stored is B transposed):
 *
 *                     N                      A and C: element (row, column) at [row + column * ld]
 *                +---------+                 B:       element (row, column) at [row * ldb + column]
 *              K |  B  -> k|
 *                |         |                 A: M x K    B: K x N    C: M x N
 *        K       +---------+
 *     +------+   +---------+                 For one k, the elements that are needed of A lie next
 *     |  |   |   |         |                 to each other, and so do those of B: a column of A
 *   M |A v   |   |  o   C  |                 times a row of B adds to every element of the tile.
 *     |      |   |         |
 *     +------+   +---------+
 *        k
 *
 * NDRange: (M / TILE_SIZE_M, N / TILE_SIZE_N) work-items in work-groups of TILE_GROUP_M x
 * TILE_GROUP_N. Each work-item makes a strided tile of TILE_SIZE_M x TILE_SIZE_N elements of C, as
 * gemm_nn.cl pictures it: element i of the tile is TILE_GROUP_M rows after element i - 1, so that
 * work-items that are neighbours in dimension 0 touch neighbours in memory, and can become the lanes
 * of a vector. In dimension 1 the tile is strided by TILE_GROUP_N.
 *
 * Must divide: TILE_GROUP_M * TILE_SIZE_M the rows M, and TILE_GROUP_N * TILE_SIZE_N the columns N.
 * Nothing is tested here: the host pads the matrices. K may be any number.
 */

#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

#ifndef T
#define T float
#endif
#ifndef TILE_SIZE_M
#define TILE_SIZE_M 1
#endif
#ifndef TILE_GROUP_M
#define TILE_GROUP_M 16
#endif
#ifndef TILE_SIZE_N
#define TILE_SIZE_N 128
#endif
#ifndef TILE_GROUP_N
#define TILE_GROUP_N 1
#endif

__kernel __attribute__((reqd_work_group_size(TILE_GROUP_M, TILE_GROUP_N, 1)))
void gemm_nt(int K, T alpha, __global const T *restrict A, ulong lda,
             __global const T *restrict B, ulong ldb, T beta, __global T *restrict C, ulong ldc)
{
    /* The first row and column of this work-item's tile; in size_t, because a large matrix has more
     * elements than an int can count. */
    const size_t row = get_group_id(0) * (TILE_GROUP_M * TILE_SIZE_M) + get_local_id(0);
    const size_t column = get_group_id(1) * (TILE_GROUP_N * TILE_SIZE_N) + get_local_id(1);
    A += row;
    B += column;
    C += row + column * (size_t)ldc;

    T sums[TILE_SIZE_N][TILE_SIZE_M];
#pragma unroll
    for (int j = 0; j < TILE_SIZE_N; j++)
        for (int i = 0; i < TILE_SIZE_M; i++)
            sums[j][i] = 0;

    /* The sums are not blocked over k: a tile that is small enough for the registers keeps them
     * there, a larger one fetches and puts back each of them for every product. The loop over j is
     * unrolled, so that no sum is indexed by a variable; the loop over i may become vectors. */
    for (int k = 0; k < K; k++) {
#pragma unroll
        for (int j = 0; j < TILE_SIZE_N; j++)
            for (int i = 0; i < TILE_SIZE_M; i++)
                sums[j][i] += A[i * TILE_GROUP_M] * B[j * TILE_GROUP_N];
        A += (size_t)lda;
        B += (size_t)ldb;
    }

#pragma unroll
    for (int j = 0; j < TILE_SIZE_N; j++) {
        for (int i = 0; i < TILE_SIZE_M; i++) {
            __global T *c = C + j * TILE_GROUP_N * (size_t)ldc + i * TILE_GROUP_M;
            *c = alpha * sums[j][i] + beta * *c;
        }
    }
}
