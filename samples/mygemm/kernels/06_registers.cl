/* C = alpha * A * B + beta * C, row-major: element (i, j) of a matrix is at [i * ld + j].
 * A is given transposed, as K x M: element (i, k) of A is at [k * lda + i].
 *
 *                   tile of B          A work-group computes TSM x TSN elements of C from tiles that
 *               +---------------+      are TSK deep. A work-item computes WPTM x WPTN of them, TSM /
 *           TSK | b   b   b   b |      WPTM rows and TSN / WPTN columns apart: here 2 x 4.
 *               +---------------+
 *        TSK    +---------------+      At each k it reads WPTM elements a and WPTN elements b into
 *       +----+  | o   o   o   o |      registers and multiplies each a by each b.
 *  tile | a  |  |               |
 *  of A |    |  |               | TSM
 *       | a  |  | o   o   o   o |
 *       +----+  +---------------+
 *                      TSN
 *
 * NDRange: (N / WPTN, M / WPTM) work-items in work-groups of TSN/WPTN x TSM/WPTM. WPTM must divide
 * TSM; WPTN must divide TSN; the work-items of a group must divide TSK * TSM and TSK * TSN. TSM must
 * divide M, TSN must divide N, TSK must divide K: the host pads the matrices with zeros.
 *
 * The idea: 03 reuses only elements of B; blocking in both dimensions reuses a and b.
 *
 * The cost it removes: local reads for each multiplication fall from 1 + 1 / WPT to 1 / WPTM +
 * 1 / WPTN, from 1.13 to 0.25. Global loads fall as well: the tile of C is 128 x 128 instead of
 * 32 x 32. It needs registers: WPTM * WPTN sums for each work-item.
 *
 * Neighbours store elements of A that are TSK + PAD apart in local memory. If that has 32 banks of 4
 * bytes, 32 such stores go to 2 banks with PAD 0, 16 with PAD 2 (as in the original), and to all 32
 * with PAD 1, as TSK + PAD is odd. This is arithmetic: the rates were not compared on a GPU. */

#ifndef REAL /* the defaults; build options must define all of these, or none */
#define REAL float
#define TSM 128 /* rows of a tile of C */
#define TSN 128 /* columns of a tile of C */
#define TSK 16 /* depth of the tiles of A and B */
#define WPTM 8 /* rows of C for each work-item */
#define WPTN 8 /* columns of C for each work-item */
#define PAD 2 /* unused elements at the end of a row of the tile of A, against bank conflicts */
#endif
#define COLUMNS (TSN / WPTN) /* of work-items in a work-group */
#define ROWS (TSM / WPTM)
#define ITEMS (COLUMNS * ROWS)

__kernel void gemm(const int M, const int N, const int K, const REAL alpha,
                   __global const REAL *restrict A, const int lda,
                   __global const REAL *restrict B, const int ldb, const REAL beta,
                   __global REAL *restrict C, const int ldc)
{
#ifdef OF_BATCH /* with --batch: the matrices of this product, see batch.cl */
    OF_BATCH(A); OF_BATCH(B); OF_BATCH(C);
#endif
    __local REAL a_tile[TSM][TSK + PAD], b_tile[TSK][TSN];
    const int x = get_local_id(0), y = get_local_id(1), item = y * COLUMNS + x;
    const int i0 = get_group_id(1) * TSM, j0 = get_group_id(0) * TSN;

    REAL sums[WPTM][WPTN];
#pragma unroll
    for (int m = 0; m < WPTM; m++)
#pragma unroll
        for (int n = 0; n < WPTN; n++)
            sums[m][n] = 0;

    for (int k0 = 0; k0 < K; k0 += TSK) {
        /* Neighbouring work-items load neighbouring elements of the tiles. */
        for (int e = item; e < TSK * TSM; e += ITEMS) {
            const int k = e / TSM, row = e % TSM;
            a_tile[row][k] = A[(k0 + k) * (size_t)lda + i0 + row];
        }
        for (int e = item; e < TSK * TSN; e += ITEMS) {
            const int k = e / TSN, column = e % TSN;
            b_tile[k][column] = B[(k0 + k) * (size_t)ldb + j0 + column];
        }
        barrier(CLK_LOCAL_MEM_FENCE); /* the others' elements are read below */

        for (int k = 0; k < TSK; k++) {
            REAL b[WPTN];
#pragma unroll
            for (int n = 0; n < WPTN; n++)
                b[n] = b_tile[k][x + n * COLUMNS];
#pragma unroll
            for (int m = 0; m < WPTM; m++) {
                const REAL a = a_tile[y + m * ROWS][k];
#pragma unroll
                for (int n = 0; n < WPTN; n++)
                    sums[m][n] += a * b[n];
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE); /* the next step overwrites what the others may still read */
    }

    /* Where beta is 0, C is not read. */
#pragma unroll
    for (int m = 0; m < WPTM; m++) {
#pragma unroll
        for (int n = 0; n < WPTN; n++) {
            __global REAL *c = &C[(i0 + y + m * ROWS) * (size_t)ldc + j0 + x + n * COLUMNS];
            *c = beta == 0 ? alpha * sums[m][n] : alpha * sums[m][n] + beta * *c;
        }
    }
}
