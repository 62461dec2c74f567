/* C = alpha * A * B + beta * C, row-major: element (i, j) of a matrix is at [i * ld + j].
 * A is given transposed, as K x M: element (i, k) of A is at [k * lda + i].
 *
 *                      tile of B           Tiles as in 06, in vectors of WIDTH elements. A work-item
 *            +-----------------------+     computes WPTM x WPTN elements: in a row, WPTN / WIDTH
 *        TSK | [bbbb]      [bbbb]    |     vectors, TSN * WIDTH / WPTN columns apart.
 *            +-----------------------+
 *     TSK    +-----------------------+     The tile of A is kept as it is given, k after k: rows of
 *    +---+   | [oooo]      [oooo]    |     TSM neighbours, stored wide and read one by one.
 *    |a  |   |                       |     All work-items with the same y read the same a, which a
 *    |   |   |                       |     GPU's local memory broadcasts to all of them.
 *    |a  |   | [oooo]      [oooo]    | TSM
 *    +---+   +-----------------------+
 *                       TSN
 *
 * NDRange: (N / WPTN, M / WPTM) work-items in work-groups of TSN/WPTN x TSM/WPTM. TSM is a multiple of
 * WPTM, TSN of WPTN; WPTN and TSM are multiples of WIDTH (1, 2, 4, 8, 16); TSK * TSM and TSK * TSN of
 * WIDTH times the work-items of a group. M must be a multiple of TSM, N of TSN, K of TSK, the leading
 * dimensions of WIDTH, and rows must start on whole vectors: the host copies and pads the matrices.
 *
 * The idea: the vectors of 04 in the registers of 06.
 *
 * The cost it removes: instructions. Global loads and stores, writes to local memory and reads of b
 * fall to 1 / WIDTH. */

#ifndef REAL /* the defaults; build options must define all of these, or none */
#define REAL float
#define TSM 128 /* rows of a tile of C */
#define TSN 128 /* columns of a tile of C */
#define TSK 16 /* depth of the tiles of A and B */
#define WPTM 8 /* rows of C for each work-item */
#define WPTN 8 /* columns of C for each work-item */
#define WIDTH 4 /* elements of a vector */
#endif
#define COLUMNS (TSN / WPTN) /* of work-items in a work-group */
#define ROWS (TSM / WPTM)
#define ITEMS (COLUMNS * ROWS)
#define VECS_M (TSM / WIDTH) /* vectors in a row of the tile of A, and of the tile of B */
#define VECS_N (TSN / WIDTH)

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#if WIDTH == 1
#define VEC REAL
#else
#define VEC JOIN(REAL, WIDTH)
#endif

__kernel void gemm(const int M, const int N, const int K, const REAL alpha,
                   __global const REAL *restrict A, const int lda,
                   __global const REAL *restrict B, const int ldb, const REAL beta,
                   __global REAL *restrict C, const int ldc)
{
#ifdef OF_BATCH /* with --batch: the matrices of this product, see batch.cl */
    OF_BATCH(A); OF_BATCH(B); OF_BATCH(C);
#endif
    __local VEC a_tile[TSK][VECS_M], b_tile[TSK][VECS_N];
    const int x = get_local_id(0), y = get_local_id(1), item = y * COLUMNS + x;
    const int i0 = get_group_id(1) * TSM, j0 = get_group_id(0) * TSN;

    VEC sums[WPTM][WPTN / WIDTH];
#pragma unroll
    for (int m = 0; m < WPTM; m++)
#pragma unroll
        for (int n = 0; n < WPTN / WIDTH; n++)
            sums[m][n] = 0;

    for (int k0 = 0; k0 < K; k0 += TSK) {
        for (int v = item; v < TSK * VECS_M; v += ITEMS) {
            const int k = v / VECS_M, at = v % VECS_M;
            a_tile[k][at] = *(__global const VEC *)&A[(k0 + k) * (size_t)lda + i0 + at * WIDTH];
        }
        for (int v = item; v < TSK * VECS_N; v += ITEMS) {
            const int k = v / VECS_N, at = v % VECS_N;
            b_tile[k][at] = *(__global const VEC *)&B[(k0 + k) * (size_t)ldb + j0 + at * WIDTH];
        }
        barrier(CLK_LOCAL_MEM_FENCE); /* the others' elements are read below */

        /* Fully unrolled: a compiler that runs the work-items of a group one after the other, as
         * PoCL's does, would otherwise switch between them at each k and keep their sums in memory. */
#pragma unroll
        for (int k = 0; k < TSK; k++) {
            __local const REAL *a_row = (__local const REAL *)a_tile[k];
            VEC b[WPTN / WIDTH];
#pragma unroll
            for (int n = 0; n < WPTN / WIDTH; n++)
                b[n] = b_tile[k][x + n * COLUMNS];
#pragma unroll
            for (int m = 0; m < WPTM; m++) {
                const REAL a = a_row[y + m * ROWS];
#pragma unroll
                for (int n = 0; n < WPTN / WIDTH; n++)
                    sums[m][n] += a * b[n];
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE); /* the next step overwrites what the others may still read */
    }

    /* Where beta is 0, C is not read. */
#pragma unroll
    for (int m = 0; m < WPTM; m++) {
        __global REAL *row = &C[(i0 + y + m * ROWS) * (size_t)ldc + j0];
#pragma unroll
        for (int n = 0; n < WPTN / WIDTH; n++) {
            __global VEC *c = (__global VEC *)&row[(x + n * COLUMNS) * WIDTH];
            *c = beta == 0 ? alpha * sums[m][n] : alpha * sums[m][n] + beta * *c;
        }
    }
}
