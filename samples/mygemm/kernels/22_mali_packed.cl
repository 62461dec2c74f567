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
 * A work-item computes M0 x N0 elements of C, as mali.cl describes. At each k it reads M0 / 4 vectors
 * of its panel of A, and N0 / 4 of B, LANES vectors apart.
 *
 * `work` holds A with M rounded up to M0 and K to UNROLL, then B with K rounded up to UNROLL and N to
 * LANES * N0. NDRanges: pack_a (ceil(K / UNROLL) * UNROLL, ceil(M / M0)), pack_b (ceil(N / (LANES *
 * N0)) * LANES * N0 / 4, ceil(K / UNROLL) * UNROLL), and gemm as in mali.cl.
 *
 * The idea: one pointer for all rows. If the rows of a tile are lda elements apart, each row needs
 * its own address. In a panel, elements are contiguous in the order of their use, and distances are
 * constants.
 *
 * The cost it removes: registers, and the integer arithmetic of addresses. With 32 registers instead
 * of 60, a Mali of the Bifrost or Valhall generation runs twice as many work-items, which hide the
 * latency of memory. Here a vector of A has four rows of one column, so that no registers hold the
 * next k's. The copies move M * K + K * N elements, few compared with M * N * K. */

#define ARGUMENTS MATRICES, __global VEC *restrict work

/* Copy the M0 elements of column k that a panel of A has. Neighbours read neighbours. */
__kernel void pack_a(ARGUMENTS)
{
    OF_BATCH(A); OF_BATCH(work);
    const int k = get_global_id(0), panel = get_global_id(1), depth = UP(K, UNROLL);
    if (k >= depth || panel * M0 >= M)
        return;
    work += (panel * (size_t)depth + k) * PIECES_M;
    for (int m = 0; m < M0; m += 4)
        work[m / 4] = of_column(A, lda, M, K, panel * M0 + m, k);
}

/* Copy four neighbours of row k of B. */
__kernel void pack_b(ARGUMENTS)
{
    OF_BATCH(B); OF_BATCH(work);
    const int v = get_global_id(0), k = get_global_id(1), depth = UP(K, UNROLL);
    if (v >= UP(N, PANEL) / 4 || k >= depth)
        return;
    const VEC columns = of_row(B, ldb, N, K, 4 * v, k);
    work += UP(M, M0) / 4 * (size_t)depth; /* behind A */
    const int panel = v / (PANEL / 4), within = v % (PANEL / 4);
    work[(panel * (size_t)depth + k) * (PANEL / 4) + within] = columns;
}

__kernel GROUP void gemm(ARGUMENTS)
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

    VEC sums[M0 * PIECES_N];
#pragma unroll
    for (int m = 0; m < M0; m++)
#pragma unroll
        for (int n = 0; n < PIECES_N; n++)
            sums[m * PIECES_N + n] = 0;

    for (int k0 = 0; k0 < K; k0 += UNROLL) {
#pragma unroll
        for (int k = 0; k < UNROLL; k++)
#pragma unroll
            for (int m = 0; m < PIECES_M; m++) {
                const VEC rows = a[k * PIECES_M + m];
#pragma unroll
                for (int n = 0; n < PIECES_N; n++) {
                    const VEC columns = b[(k * PIECES_N + n) * LANES];
                    sums[4 * m * PIECES_N + n] += rows.s0 * columns;
                    sums[(4 * m + 1) * PIECES_N + n] += rows.s1 * columns;
                    sums[(4 * m + 2) * PIECES_N + n] += rows.s2 * columns;
                    sums[(4 * m + 3) * PIECES_N + n] += rows.s3 * columns;
                }
            }
        a += UNROLL * PIECES_M;
        b += UNROLL * (PANEL / 4);
    }
    update(C, ldc, sums, M, N, i, j, alpha, beta);
}
