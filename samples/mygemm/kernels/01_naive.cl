/* C = alpha * A * B + beta * C, row-major: element (i, j) of a matrix is at [i * ld + j].
 *
 *                  N
 *             +---------+
 *           K |  B  |   |              A: M x K    B: K x N    C: M x N
 *             |     v   |
 *      K      +---------+              A work-item computes one element. It reads a row of A
 *   +-----+   +---------+              and a column of B.
 *   |     |   |         |
 * M | A-> |   |  o   C  |
 *   |     |   |         |
 *   +-----+   +---------+
 *
 * NDRange: (N, M) work-items, rounded up to whole work-groups of TS x TS; work-items outside of C
 * return at once. M, N and K may be any number from 1 up.
 *
 * The idea: none yet, this is the formula. Neighbours in dimension 0 have neighbouring columns j: they
 * read neighbouring elements of B, write neighbouring elements of C, and read the same element of A.
 *
 * The cost: 2 loads from global memory for each multiply-add, 2 * M * N * K in all.
 * The kernels that follow load less often. */

#ifndef REAL /* the defaults; build options must define all of these, or none */
#define REAL float
#define TS 32 /* side of a work-group */
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
    const int j = get_global_id(0), i = get_global_id(1);
    if (i >= M || j >= N)
        return;

    /* Offsets are size_t: from order 46341 on, a matrix has more elements than an int can count. */
    REAL sum = 0;
    for (int k = 0; k < K; k++)
        sum += A[i * (size_t)lda + k] * B[k * (size_t)ldb + j];

    /* If beta is 0, C is not read: it may contain anything, even NaN. */
    __global REAL *c = &C[i * (size_t)ldc + j];
    *c = beta == 0 ? alpha * sum : alpha * sum + beta * *c;
}
