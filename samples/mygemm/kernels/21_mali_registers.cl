/* C = alpha * A * B + beta * C, row-major: element (i, j) of a matrix is at [i * ld + j].
 *
 *              N0
 *          +--------+                  A work-item computes M0 x N0 elements of C. In each step
 *        4 | [bbbb] |                  it loads a vector of 4 elements of each of its M0 rows of A,
 *          | [bbbb] |                  and for each of 4 k's the N0 elements of that row of B.
 *     4    +--------+
 *  +------+ +------+
 *  |[aaaa]| |[oooo]|                   A work-group is LANES work-items wide: its N0 / 4 vectors in a
 *  |[aaaa]| |[oooo]| M0                row of B lie LANES vectors apart, so that neighbours always
 *  +------+ +------+                   read neighbours.
 *
 * NDRange: (N / N0, M / M0) work-items in work-groups of LANES x ROWS, rounded up to whole ones;
 * work-items outside of C return at once. LANES * N0 must divide N, M0 must divide M, and 4 must divide
 * K, N0 and the leading dimensions: the host copies and pads the matrices.
 *
 * The idea: fit the hardware of a Mali. Its local memory is main memory, so the copies to local
 * memory and the barriers of kernels 2 to 10 only cost time here. It has few registers, 64 of 32 bits
 * for a work-item, and runs twice as many work-items if they need only 32 each: a tile of 8 x 8 does
 * not fit. Each load is a message to a unit that accepts one message per clock, of any width: so all
 * loads are 16 bytes wide.
 *
 * The cost it removes: address arithmetic. Kernel 11 with tiles of 4 x 4 has the same loads, but
 * computes each address with a multiplication. Here pointers advance by loop-invariant strides. */

#ifndef REAL /* the defaults; build options must define all of these, or none */
#define REAL float
#define M0 4 /* rows of C for each work-item */
#define N0 4 /* columns of C for each work-item */
#define LANES 16 /* work-items of a work-group along a row of C: those of one warp or two */
#define ROWS 4 /* work-items of a work-group along a column of C */
#endif

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define VEC JOIN(REAL, 4)
#define PIECES (N0 / 4) /* vectors in a row of the tile */
#define ELEMENT(v, k) ((k) == 0 ? (v).s0 : (k) == 1 ? (v).s1 : (k) == 2 ? (v).s2 : (v).s3)

/* The size of the group is stated: a Mali of the Midgard generation then gives each work-item 16
 * vector registers instead of 8. */
__kernel __attribute__((reqd_work_group_size(LANES, ROWS, 1)))
void gemm(const int M, const int N, const int K, const REAL alpha, __global const REAL *restrict A,
          const int lda, __global const REAL *restrict B, const int ldb, const REAL beta,
          __global REAL *restrict C, const int ldc)
{
#ifdef OF_BATCH /* with --batch: the matrices of this product, see batch.cl */
    OF_BATCH(A); OF_BATCH(B); OF_BATCH(C);
#endif
    const int i = get_global_id(1) * M0;
    const int j = get_group_id(0) * (LANES * N0) + get_local_id(0) * 4; /* of the first vector */
    if (i >= M || j >= N)
        return;
    A += i * (size_t)lda;
    B += j;

    VEC sums[M0][PIECES];
#pragma unroll
    for (int m = 0; m < M0; m++)
#pragma unroll
        for (int n = 0; n < PIECES; n++)
            sums[m][n] = 0;

    for (int k0 = 0; k0 < K; k0 += 4) {
        /* The vectors are read through pointers: vload4 assumes no alignment, and some compilers
         * split it into four loads. */
        VEC a[M0];
#pragma unroll
        for (int m = 0; m < M0; m++)
            a[m] = *(__global const VEC *)(A + m * lda);
#pragma unroll
        for (int k = 0; k < 4; k++)
#pragma unroll
            for (int n = 0; n < PIECES; n++) {
                const VEC b = *(__global const VEC *)(B + k * ldb + n * (LANES * 4));
#pragma unroll
                for (int m = 0; m < M0; m++)
                    sums[m][n] += ELEMENT(a[m], k) * b;
            }
        A += 4;
        B += 4 * (size_t)ldb;
    }

    /* Where beta is 0, C is not read. */
    C += i * (size_t)ldc + j;
#pragma unroll
    for (int m = 0; m < M0; m++) {
#pragma unroll
        for (int n = 0; n < PIECES; n++) {
            __global VEC *c = (__global VEC *)(C + n * (LANES * 4));
            const VEC product = alpha * sums[m][n];
            *c = beta == 0 ? product : product + beta * *c;
        }
        C += ldc;
    }
}
