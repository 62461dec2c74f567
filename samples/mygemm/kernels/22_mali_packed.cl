/* C = alpha * A * B + beta * C, row-major: element (i, j) of a matrix is at [i * ld + j].
 *
 *                 LANES * N0
 *             +----------------+        A and B are copied first, in the order in which they are read:
 *           K |>>>>>>>>>>>>>>>>|        A in panels of M0 rows, column after column, B in panels
 *             |>>>>>>>>>>>>>>>>|        of LANES * N0 columns, row after row.
 *             +----------------+
 *       K     +----+----+--            A: M0 = 4, K = 3         B: LANES * N0 = 4, K = 2
 *     +----+  |oooo|oooo|                 0  1  2                  0  1  2  3 | 8  9 10 11
 *  M0 |vvvv|  |oooo|oooo|                 3  4  5   is stored      4  5  6  7 |12 13 14 15
 *     |vvvv|  +----+----+                 6  7  8   0 3 6 9 1 4
 *     +----+  |    |                      9 10 11   7 10 2 5 8 11  is stored 0 1 2 3 ... 15
 *
 * As in 21, a work-item computes M0 x N0 elements of C, and a work-group is LANES work-items
 * wide. At each k a work-item reads M0 / 4 vectors of its panel of A, and N0 / 4 of B, LANES vectors
 * apart. 4 must divide M0 and N0, and UNROLL must be a power of two.
 *
 * `work` holds A with M rounded up to M0 and K to UNROLL, then B with K rounded up to UNROLL and N to
 * LANES * N0; elements outside of the matrices are 0. It begins at a multiple of 4 elements.
 *
 * NDRanges, in this order, rounded up to whole work-groups: pack_a (ceil(K / UNROLL) * UNROLL,
 * ceil(M / M0)), pack_b (ceil(N / (LANES * N0)) * LANES * N0 / 4, ceil(K / UNROLL) * UNROLL) in groups
 * of any size; gemm (ceil(N / N0), ceil(M / M0)) in groups of LANES x ROWS. There are no
 * other constraints: work-items outside of C return at once, and at the edges only elements of C are
 * written.
 *
 * The idea: one pointer for all rows. If the rows of a tile are lda elements apart, each row needs
 * its own address. In a panel, elements are contiguous in the order of their use, and distances are
 * constants.
 *
 * The cost it removes: registers, and the integer arithmetic of addresses. With 32 registers instead
 * of 60, a Mali of the Bifrost or Valhall generation runs twice as many work-items, which hide the
 * latency of memory. Here a vector of A has four rows of one column, so that no registers hold the
 * next k's. The copies move M * K + K * N elements, few compared with M * N * K. */

#ifndef REAL /* the defaults; build options must define all of these, or none */
#define REAL float
#define M0 4 /* rows of C for each work-item */
#define N0 4 /* columns of C for each work-item */
#define UNROLL 4 /* k's between two tests for the end */
#define LANES 16 /* work-items in a work-group, along a row of C: those of one warp or two */
#define ROWS 4 /* and along a column */
#endif
#ifndef OF_BATCH
#define OF_BATCH(matrix) /* with --batch, selects this product: batch.cl */
#endif

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define VEC JOIN(REAL, 4)
#define PIECES_M (M0 / 4) /* vectors in a column of the tile */
#define PIECES_N (N0 / 4) /* and in a row */
#define PANEL (LANES * N0) /* columns of a panel of B */
#define UP(n, unit) (((n) + (unit) - 1) & ~((unit) - 1)) /* unit is a power of two */

/* All kernels of this file have the same arguments. */
#define ARGUMENTS                                                                               \
    const int M, const int N, const int K, const REAL alpha, __global const REAL *restrict A,   \
        const int lda, __global const REAL *restrict B, const int ldb, const REAL beta,         \
        __global REAL *restrict C, const int ldc, __global VEC *restrict work

/* Copy the M0 elements of column k that a panel of A has. Neighbours read neighbours. */
__kernel void pack_a(ARGUMENTS)
{
    OF_BATCH(A); OF_BATCH(work);
    const int k = get_global_id(0), panel = get_global_id(1), depth = UP(K, UNROLL);
    if (k >= depth || panel * M0 >= M)
        return;
    work += (panel * (size_t)depth + k) * PIECES_M;
    for (int m = 0; m < M0; m += 4) {
        REAL rows[4];
        for (int r = 0; r < 4; r++) {
            const int i = panel * M0 + m + r;
            rows[r] = i < M && k < K ? A[i * (size_t)lda + k] : 0;
        }
        work[m / 4] = (VEC)(rows[0], rows[1], rows[2], rows[3]);
    }
}

/* Copy four neighbours of row k of B. */
__kernel void pack_b(ARGUMENTS)
{
    OF_BATCH(B); OF_BATCH(work);
    const int v = get_global_id(0), k = get_global_id(1), depth = UP(K, UNROLL);
    if (v >= UP(N, PANEL) / 4 || k >= depth)
        return;
    REAL columns[4];
    for (int c = 0; c < 4; c++) {
        const int j = 4 * v + c;
        columns[c] = j < N && k < K ? B[k * (size_t)ldb + j] : 0;
    }
    work += UP(M, M0) / 4 * (size_t)depth; /* behind A */
    const int panel = v / (PANEL / 4), within = v % (PANEL / 4);
    work[(panel * (size_t)depth + k) * (PANEL / 4) + within] =
        (VEC)(columns[0], columns[1], columns[2], columns[3]);
}

/* Write alpha * sum + beta * c to the elements of a row of C, of which `left` exist from here on. Where
 * beta is 0, C is not read. */
void update(__global REAL *c, const VEC sum, const int left, const REAL alpha, const REAL beta)
{
    const VEC product = alpha * sum;
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
__kernel __attribute__((reqd_work_group_size(LANES, ROWS, 1))) void gemm(ARGUMENTS)
{
    OF_BATCH(work); OF_BATCH(C);
    const int i = get_global_id(1) * M0;
    const int j = get_group_id(0) * PANEL + get_local_id(0) * 4; /* of the first vector */
    if (i >= M || j >= N)
        return;
    const int depth = UP(K, UNROLL);
    __global const VEC *a = work + get_global_id(1) * (size_t)depth * PIECES_M;
    __global const VEC *b = work + UP(M, M0) / 4 * (size_t)depth +
                            get_group_id(0) * (size_t)depth * (PANEL / 4) + get_local_id(0);

    VEC sums[M0][PIECES_N];
#pragma unroll
    for (int m = 0; m < M0; m++)
#pragma unroll
        for (int n = 0; n < PIECES_N; n++)
            sums[m][n] = 0;

    for (int k0 = 0; k0 < K; k0 += UNROLL) {
#pragma unroll
        for (int k = 0; k < UNROLL; k++)
#pragma unroll
            for (int m = 0; m < PIECES_M; m++) {
                const VEC rows = a[k * PIECES_M + m];
#pragma unroll
                for (int n = 0; n < PIECES_N; n++) {
                    const VEC columns = b[(k * PIECES_N + n) * LANES];
                    sums[4 * m][n] += rows.s0 * columns;
                    sums[4 * m + 1][n] += rows.s1 * columns;
                    sums[4 * m + 2][n] += rows.s2 * columns;
                    sums[4 * m + 3][n] += rows.s3 * columns;
                }
            }
        a += UNROLL * PIECES_M;
        b += UNROLL * (PANEL / 4);
    }

    C += i * (size_t)ldc + j;
#pragma unroll
    for (int m = 0; m < M0; m++) {
        if (i + m < M) {
#pragma unroll
            for (int n = 0; n < PIECES_N; n++)
                update(C + n * (LANES * 4), sums[m][n], N - j - n * (LANES * 4), alpha, beta);
        }
        C += ldc;
    }
}
