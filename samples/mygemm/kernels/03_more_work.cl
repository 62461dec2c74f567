/* C = alpha * A * B + beta * C, row-major: element (i, j) of a matrix is at [i * ld + j].
 *
 *        tile of B                     Tiles as in 02. A work-item computes WPT elements of a column
 *       +-----------+                  of the tile, TS / WPT rows apart. Here TS = 4, WPT = 2:
 *       |   b       |
 *       +-----------+                     row of the tile   0  1  2  3
 *                                         work-item's row   0  1  0  1
 *  +--+ +-----------+
 *  |a | |   o       |                  Neighbours in dimension 0 load neighbouring elements of a row
 *  |  | |           |                  of A and of B: these loads are coalesced.
 *  |a | |   o       |
 *  |  | |           |
 *  +--+ +-----------+
 *
 * NDRange: (N, M / WPT) work-items in work-groups of TS x TS/WPT. WPT must divide TS. TS must divide
 * M, N and K: the host pads the matrices with zeros.
 *
 * The idea: in 02 each multiplication reads two elements from local memory, and these reads limit the
 * rate. Here a work-item uses an element b of B for all its rows.
 *
 * The cost it removes: local reads fall from 2 to 1 + 1 / WPT for each multiplication. */

#ifndef REAL /* the defaults; build options must define all of these, or none */
#define REAL float
#define TS 32 /* side of a tile */
#define WPT 8 /* elements of C for each work-item */
#endif
#define ROWS (TS / WPT) /* of work-items in a work-group */

__kernel void gemm(const int M, const int N, const int K, const REAL alpha,
                   __global const REAL *restrict A, const int lda,
                   __global const REAL *restrict B, const int ldb, const REAL beta,
                   __global REAL *restrict C, const int ldc)
{
#ifdef OF_BATCH /* with --batch: the matrices of this product, see batch.cl */
    OF_BATCH(A); OF_BATCH(B); OF_BATCH(C);
#endif
    __local REAL a_tile[TS][TS], b_tile[TS][TS];
    const int column = get_local_id(0), row = get_local_id(1); /* in the tiles, the first one */
    const int j = get_global_id(0), i = get_group_id(1) * TS + row;

    REAL sums[WPT];
#pragma unroll
    for (int w = 0; w < WPT; w++)
        sums[w] = 0;

    for (int k0 = 0; k0 < K; k0 += TS) {
        for (int w = 0; w < WPT; w++) {
            const int r = row + w * ROWS;
            a_tile[r][column] = A[(i + w * ROWS) * (size_t)lda + k0 + column];
            b_tile[r][column] = B[(k0 + r) * (size_t)ldb + j];
        }
        barrier(CLK_LOCAL_MEM_FENCE); /* the others' elements are read below */

        for (int k = 0; k < TS; k++) {
            const REAL b = b_tile[k][column];
#pragma unroll
            for (int w = 0; w < WPT; w++)
                sums[w] += a_tile[row + w * ROWS][k] * b;
        }
        barrier(CLK_LOCAL_MEM_FENCE); /* the next step overwrites what the others may still read */
    }

#pragma unroll
    for (int w = 0; w < WPT; w++) {
        __global REAL *c = &C[(i + w * ROWS) * (size_t)ldc + j];
        *c = beta == 0 ? alpha * sums[w] : alpha * sums[w] + beta * *c;
    }
}
