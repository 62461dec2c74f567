/* C = alpha * A * B + beta * C, row-major: element (i, j) of a matrix is at [i * ld + j].
 * A is given transposed, as K x M: element (i, k) of A is at [k * lda + i].
 *
 *                tile of B             A work-group computes TS x TS elements of C, as in 03, but
 *               +-----------+          its tiles of A and B are only TSDK deep.
 *          TSDK |           |
 *               +-----------+          Another kernel transposes A first: both tiles are now
 *        TSDK   +-----------+          loaded along rows of memory, for any TSDK. On its way into
 *       +----+  |           |          local memory the tile of A is transposed back: work-items
 *  tile |    |  |           |          that load neighbours write them one below the other,
 *  of A |    |  |     C     | TS       TSDK + PAD elements apart.
 *       |    |  |           |
 *       +----+  +-----------+
 *
 * NDRange: (N, M / WPT) work-items in work-groups of TS x TS/WPT. WPT must divide TS, and TS / WPT
 * must divide TSDK. TS must divide M and N, and TSDK K: the host pads the matrices with zeros.
 *
 * The idea: the depth of the tiles of A and B is independent of the size of the tile of C. Shallow
 * tiles need less local memory, so that more work-groups fit on a compute unit and hide each other's
 * latency.
 *
 * The cost it removes: local memory, from 2 * TS * TS to about 2 * TS * TSDK elements. It adds
 * the transposition, M * K reads and writes, and a danger: if rows of the tile of A were TSDK = 16
 * elements long, the writes of a column would all go to 2 of 32 banks of local memory, one after the
 * other. PAD = 2 more elements per row spread them over more banks: see 06. */

#ifndef REAL /* the defaults; build options must define all of these, or none */
#define REAL float
#define TS 32 /* side of a tile of C */
#define TSDK 16 /* depth of the tiles of A and B */
#define WPT 8 /* elements of C for each work-item */
#define PAD 2 /* unused elements at the end of a row of the tile of A */
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
    __local REAL a_tile[TS][TSDK + PAD], b_tile[TSDK][TS];
    const int x = get_local_id(0), y = get_local_id(1);
    const int i0 = get_group_id(1) * TS, j = get_global_id(0);

    REAL sums[WPT];
#pragma unroll
    for (int w = 0; w < WPT; w++)
        sums[w] = 0;

    for (int k0 = 0; k0 < K; k0 += TSDK) {
        for (int k = y; k < TSDK; k += ROWS) {
            a_tile[x][k] = A[(k0 + k) * (size_t)lda + i0 + x];
            b_tile[k][x] = B[(k0 + k) * (size_t)ldb + j];
        }
        barrier(CLK_LOCAL_MEM_FENCE); /* the others' elements are read below */

        for (int k = 0; k < TSDK; k++) {
            const REAL b = b_tile[k][x];
#pragma unroll
            for (int w = 0; w < WPT; w++)
                sums[w] += a_tile[y + w * ROWS][k] * b;
        }
        barrier(CLK_LOCAL_MEM_FENCE); /* the next step overwrites what the others may still read */
    }

#pragma unroll
    for (int w = 0; w < WPT; w++) {
        __global REAL *c = &C[(i0 + y + w * ROWS) * (size_t)ldc + j];
        *c = beta == 0 ? alpha * sums[w] : alpha * sums[w] + beta * *c;
    }
}
