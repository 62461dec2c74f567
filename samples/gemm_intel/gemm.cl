/* C = alpha * A * B + beta * C with A and C column-major. B is column-major as well ("NN": neither is
 * transposed) or, with -DNT, row-major ("NT": seen as column-major, B is stored transposed):
 *
 *           NN        N                    NT        N
 *                +---------+                    +---------+    A: M x K    B: K x N    C: M x N
 *              K |  B  |   |                  K |  B  -> k|
 *                |     v   |  k                 |         |    Element (row, column) is at
 *        K       +---------+            K       +---------+    [row + column * ld], of a row-major
 *     +------+   +---------+         +------+   +---------+    B at [row * ldb + column].
 *     |      |   |         |         |  |   |   |         |
 *   M | A -> |   |  o   C  |       M |A v   |   |  o   C  |
 *     |      |   |         |         |      |   |         |
 *     +------+   +---------+         +------+   +---------+
 *        k                              k
 *
 * In NN the sum over k runs along a row of A, whose elements are lda apart, and down a column of B,
 * whose elements are contiguous. In NT the elements for one k are contiguous in A and in B: a column
 * of A times a row of B adds to every element of the tile.
 *
 * NDRange: (M / TILE_SIZE_M, N / TILE_SIZE_N) work-items in work-groups of TILE_GROUP_M x
 * TILE_GROUP_N. Each work-item computes a tile of TILE_SIZE_M x TILE_SIZE_N elements of C, and the
 * work-group a block of TILE_GROUP_M * TILE_SIZE_M rows and TILE_GROUP_N * TILE_SIZE_N columns.
 * The tile is strided. With TILE_GROUP_M = 4 and TILE_SIZE_M = 2 the rows of a block belong to
 *
 *     row           0  1  2  3  4  5  6  7
 *     work-item     0  1  2  3  0  1  2  3      not 0 0 1 1 2 2 3 3
 *
 * so in each step the work-items of dimension 0 read neighbouring elements of A and write
 * neighbouring elements of C. The code is scalar. A compiler for CPUs may put the work-items of
 * dimension 0 into the lanes of its vectors. With the strided tile, each of their accesses is then one
 * contiguous vector load or store; a tile of neighbouring rows would need a gather. On a GPU the same
 * accesses coalesce. A compiler that runs work-items one by one can vectorise the loop over i instead:
 * with TILE_GROUP_M = 1 the rows of one tile are neighbours.
 *
 * TILE_GROUP_M * TILE_SIZE_M must divide M, TILE_GROUP_N * TILE_SIZE_N must divide N, and TILE_SIZE_K
 * must divide K; in NT it is 1. The kernel has no bounds checks: the host pads the matrices.
 */

#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

#ifndef T /* the defaults; build options must define all of these, or none */
#define T float
#define TILE_SIZE_M 1
#define TILE_GROUP_M 16
#define TILE_SIZE_N 128
#define TILE_GROUP_N 1
#define TILE_SIZE_K 8
#endif
#ifdef NT
#undef TILE_SIZE_K
#define TILE_SIZE_K 1
#define B_ROW (size_t)ldb /* elements from a row of B to the next, and from a column */
#define B_COLUMN 1
#else
#define B_ROW 1
#define B_COLUMN (size_t)ldb
#endif

__kernel __attribute__((reqd_work_group_size(TILE_GROUP_M, TILE_GROUP_N, 1)))
void gemm(int K, T alpha, __global const T *restrict A, ulong lda,
          __global const T *restrict B, ulong ldb, T beta, __global T *restrict C, ulong ldc)
{
    /* The first row and column of this work-item's tile. Offsets are size_t: from order 46341 on, a
     * matrix has more elements than an int can count. */
    const size_t row = get_group_id(0) * (TILE_GROUP_M * TILE_SIZE_M) + get_local_id(0);
    const size_t column = get_group_id(1) * (TILE_GROUP_N * TILE_SIZE_N) + get_local_id(1);
    A += row;
    B += column * B_COLUMN;
    C += row + column * (size_t)ldc;

    T sums[TILE_SIZE_N][TILE_SIZE_M];
#pragma unroll
    for (int j = 0; j < TILE_SIZE_N; j++)
        for (int i = 0; i < TILE_SIZE_M; i++)
            sums[j][i] = 0;

    /* TILE_SIZE_K columns of A at a time: they stay in registers while j runs over the columns of
     * the tile, and a sum is loaded and stored once for TILE_SIZE_K products. The loops over j
     * and l are unrolled, so that no sum is indexed by a variable and each can live in a register;
     * the loop over i remains a loop that the compiler may vectorise. With steps of 1, a tile that
     * does not fit in the registers loads and stores each sum for every product. */
    for (int k = 0; k < K; k += TILE_SIZE_K) {
#pragma unroll
        for (int j = 0; j < TILE_SIZE_N; j++) {
            for (int i = 0; i < TILE_SIZE_M; i++) {
                T sum = sums[j][i];
#pragma unroll
                for (int l = 0; l < TILE_SIZE_K; l++)
                    sum += A[l * (size_t)lda + i * TILE_GROUP_M]
                           * B[j * TILE_GROUP_N * B_COLUMN + l * B_ROW];
                sums[j][i] = sum;
            }
        }
        A += TILE_SIZE_K * (size_t)lda;
        B += TILE_SIZE_K * B_ROW;
    }

    /* C is read even if beta is 0, unlike in BLAS: NaN in it remains NaN. To ask for beta here made
     * the nt kernel slower with Intel's runtime, and the sample draws a beta that is not 0. */
#pragma unroll
    for (int j = 0; j < TILE_SIZE_N; j++) {
        for (int i = 0; i < TILE_SIZE_M; i++) {
            __global T *c = C + j * TILE_GROUP_N * (size_t)ldc + i * TILE_GROUP_M;
            *c = alpha * sums[j][i] + beta * *c;
        }
    }
}
