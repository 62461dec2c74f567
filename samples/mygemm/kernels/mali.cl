/* For kernels 22 to 26, on a Mali: parameters, types, and the edges of the matrices. Compiled before
 * their files.
 *
 * A work-item computes M0 x N0 elements of C; a work-group is LANES work-items wide. The N0 / 4
 * vectors of a work-item in a row of C lie LANES vectors apart, so that neighbours always read
 * neighbours. M0, N0, LANES and UNROLL must be powers of two, M0 and N0 at least 4.
 *
 * NDRanges, in this order, rounded up to whole work-groups: pack_a and pack_b in groups of any size,
 * then gemm (ceil(N / N0), ceil(M / M0)) in groups of LANES x ROWS. There are no other constraints:
 * the copies have zeros where the matrices end, work-items outside of C return at once, and at the
 * edges only elements of C are written. An image must be within CL_DEVICE_IMAGE2D_MAX_WIDTH and
 * _HEIGHT, a buffer for copies begins at a multiple of 16 bytes. */

#ifndef REAL
#define REAL float /* type of C, and of A and B in kernels 22 to 25 */
#endif
#ifndef SUM
#define SUM REAL /* type of sums */
#endif
#ifndef M0
#define M0 4 /* rows of C for each work-item; 4 in 25 */
#endif
#ifndef N0
#define N0 4 /* columns of C for each work-item; 4 in 25 and 26 */
#endif
#ifndef UNROLL /* the defaults; build options must define these three, or none */
#define UNROLL 4 /* steps between two tests for the end: each of one k, in 26 of four */
#define LANES 16 /* work-items of a work-group along a row of C: those of one warp or two */
#define ROWS 4 /* work-items of a work-group along a column of C */
#endif
#ifndef OF_BATCH
#define OF_BATCH(matrix) /* with --batch, selects this product: batch.cl */
#endif

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define VEC JOIN(SUM, 4)
#define PIECES_M (M0 / 4) /* vectors in a column of the tile */
#define PIECES_N (N0 / 4) /* and in a row */
#define PANEL (LANES * N0) /* columns of C for a work-group */
#define UP(n, unit) (((n) + (unit) - 1) & ~((unit) - 1)) /* unit is a power of two */

/* All kernels of a file have the same arguments: these, and its own. */
#define MATRICES                                                                              \
    const int M, const int N, const int K, const REAL alpha, __global const REAL *restrict A, \
        const int lda, __global const REAL *restrict B, const int ldb, const REAL beta,       \
        __global REAL *restrict C, const int ldc

/* The size of the group is stated: a Mali of the Midgard generation then gives each work-item 16
 * vector registers instead of 8. */
#define GROUP __attribute__((reqd_work_group_size(LANES, ROWS, 1)))

/* A call that is not inlined keeps the sums of a work-item in memory. */
#define INLINE __attribute__((always_inline))

/* Return four elements that are `step` apart; 0 for all but the first `left` ones. */
INLINE VEC four(__global const REAL *from, const size_t step, const int left)
{
    return (VEC)(left > 0 ? from[0] : 0, left > 1 ? from[step] : 0,
                 left > 2 ? from[2 * step] : 0, left > 3 ? from[3 * step] : 0);
}

/* Return four neighbours of column k of A, from row i on; 0 for those that do not exist. */
INLINE VEC of_column(__global const REAL *A, const int lda, const int M, const int K, const int i,
                     const int k)
{
    return four(A + i * (size_t)lda + k, lda, k < K ? M - i : 0);
}

/* Return four neighbours of row k of B, from column j on; 0 for those that do not exist. */
INLINE VEC of_row(__global const REAL *B, const int ldb, const int N, const int K, const int j,
                  const int k)
{
    return four(B + k * (size_t)ldb + j, 1, k < K ? N - j : 0);
}

/* Write alpha * sum + beta * c to the elements of a row of C, of which `left` exist from here on. Where
 * beta is 0, C is not read. */
void update_four(__global REAL *c, const VEC sum, const int left, const SUM alpha, const SUM beta)
{
    const VEC product = alpha * sum;
    if (left > 0)
        c[0] = (REAL)(beta == 0 ? product.s0 : product.s0 + beta * c[0]);
    if (left > 1)
        c[1] = (REAL)(beta == 0 ? product.s1 : product.s1 + beta * c[1]);
    if (left > 2)
        c[2] = (REAL)(beta == 0 ? product.s2 : product.s2 + beta * c[2]);
    if (left > 3)
        c[3] = (REAL)(beta == 0 ? product.s3 : product.s3 + beta * c[3]);
}

/* The same for all sums of a work-item, row after row. The first element is (i, j). `sums` has one
 * dimension: Mesa keeps an array of two in memory where a function gets it. */
INLINE void update(__global REAL *C, const int ldc, const VEC *sums, const int M, const int N,
                   const int i, const int j, const SUM alpha, const SUM beta)
{
    C += i * (size_t)ldc + j;
#pragma unroll
    for (int m = 0; m < M0; m++) {
        if (i + m < M) {
#pragma unroll
            for (int n = 0; n < PIECES_N; n++)
                update_four(C + n * (LANES * 4), sums[m * PIECES_N + n],
                            N - j - n * (LANES * 4), alpha, beta);
        }
        C += ldc;
    }
}
