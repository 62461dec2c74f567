/* C = alpha * A * B + beta * C, row-major: element (i, j) of a matrix is at [i * ld + j].
 *
 *                     N
 *               +---+----+---+
 *            TS |   |    |   |         A work-group computes TS x TS elements of C. It needs
 *               +---+----+---+         TS rows of A and TS columns of B, and takes them in steps
 *           K   |   | B  |   |         of k: one tile of A and one of B at a time, in local memory.
 *               +---+----+---+
 *        K      |   |    |   |
 *  +--+--+--+   +---+----+---+
 *  |  |  |  |   |            |
 *  +--+--+--+   |   +----+   |
 *  |-> A-> -> TS|   | C  |   |
 *  +--+--+--+   |   +----+   |
 *    TS         +------------+
 *
 * NDRange: (N, M) work-items in work-groups of TS x TS, one for each element of C. Each loads one
 * element of either tile. TS must divide M, N and K: the host pads the matrices with zeros.
 *
 * The idea: TS work-items of the group need the same element of A, and TS the same element of B. Each
 * element is loaded once into local memory and read there TS times.
 *
 * The cost it removes: global loads fall from 2 * M * N * K to 2 * M * N * K / TS. */

#ifndef REAL /* the defaults; build options must define all of these, or none */
#define REAL float
#define TS 32 /* side of a tile */
#endif

/* The size of the group is stated: otherwise NVIDIA's compiler assumes at most 256 work-items. */
__kernel __attribute__((reqd_work_group_size(TS, TS, 1)))
void gemm(const int M, const int N, const int K, const REAL alpha, __global const REAL *restrict A,
          const int lda, __global const REAL *restrict B, const int ldb, const REAL beta,
          __global REAL *restrict C, const int ldc)
{
#ifdef OF_BATCH /* with --batch: the matrices of this product, see batch.cl */
    OF_BATCH(A); OF_BATCH(B); OF_BATCH(C);
#endif
    __local REAL a_tile[TS][TS], b_tile[TS][TS];
    const int column = get_local_id(0), row = get_local_id(1); /* in the tiles */
    const int j = get_global_id(0), i = get_global_id(1);      /* in C */

    REAL sum = 0;
    for (int k0 = 0; k0 < K; k0 += TS) {
        a_tile[row][column] = A[i * (size_t)lda + k0 + column];
        b_tile[row][column] = B[(k0 + row) * (size_t)ldb + j];
        barrier(CLK_LOCAL_MEM_FENCE); /* the others' elements are read below */

        for (int k = 0; k < TS; k++)
            sum += a_tile[row][k] * b_tile[k][column];
        barrier(CLK_LOCAL_MEM_FENCE); /* the next step overwrites what the others may still read */
    }

    /* Where beta is 0, C is not read. */
    __global REAL *c = &C[i * (size_t)ldc + j];
    *c = beta == 0 ? alpha * sum : alpha * sum + beta * *c;
}
