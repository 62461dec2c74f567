/* C = alpha * A * B + beta * C, row-major: element (i, j) of a matrix is at [i * ld + j].
 *
 *        tile of B                     Tiles as in 02. A work-item computes WIDTH neighbours in a row
 *       +-----------+                  of C, as one vector. Here WIDTH = 4.
 *       |   [bbbb]  |
 *       +-----------+                  A is loaded into local memory in vectors as wide as those of
 *  +--+ +-----------+                  B, but used element by element: each a is multiplied by a
 *  |a | |   [oooo]  |                  vector of B.
 *  +--+ +-----------+
 *
 * NDRange: (N / WIDTH, M) work-items in work-groups of TS/WIDTH x TS. WIDTH (1, 2, 4, 8, 16) must
 * divide TS, lda, ldb and ldc, and rows must start on whole vectors; TS must divide M, N and K: the
 * host copies and pads the matrices if necessary.
 *
 * The idea: memory is read in lines, and an instruction that asks for WIDTH elements costs about as
 * much as one that asks for one.
 *
 * The cost it removes: instructions. All loads and stores fall to 1 / WIDTH. Elements of A are still
 * read one by one from local memory, but each of them now serves WIDTH products. */

#ifndef REAL /* the defaults; build options must define all of these, or none */
#define REAL float
#define TS 32 /* side of a tile */
#define WIDTH 4 /* elements of a vector */
#endif

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
    __local VEC a_tile[TS][TS / WIDTH], b_tile[TS][TS / WIDTH];
    const int column = get_local_id(0), row = get_local_id(1); /* in the tiles, in vectors */
    const int j = get_global_id(0) * WIDTH, i = get_global_id(1);
    __local const REAL *a_row = (__local const REAL *)a_tile[row];

    VEC sum = 0;
    for (int k0 = 0; k0 < K; k0 += TS) {
        a_tile[row][column] = *(__global const VEC *)&A[i * (size_t)lda + k0 + column * WIDTH];
        b_tile[row][column] = *(__global const VEC *)&B[(k0 + row) * (size_t)ldb + j];
        barrier(CLK_LOCAL_MEM_FENCE); /* the others' elements are read below */

        for (int k = 0; k < TS; k++)
            sum += a_row[k] * b_tile[k][column];
        barrier(CLK_LOCAL_MEM_FENCE); /* the next step overwrites what the others may still read */
    }

    /* Where beta is 0, C is not read. */
    __global VEC *c = (__global VEC *)&C[i * (size_t)ldc + j];
    *c = beta == 0 ? alpha * sum : alpha * sum + beta * *c;
}
