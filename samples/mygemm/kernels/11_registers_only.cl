/* C = alpha * A * B + beta * C, row-major: element (i, j) of a matrix is at [i * ld + j].
 *
 *              RX                       A work-item computes RY rows and RX columns of C. In each
 *          +--------+                   step it loads RK vectors of RX elements of B, and RY vectors of
 *       RK | [bbbb] |                   RK elements of A, and multiplies them from registers.
 *          | [bbbb] |
 *    RK    +--------+
 *  +----+  +--------+
 *  |[aa]|  | [oooo] |
 *  |[aa]|  | [oooo] | RY
 *  |[aa]|  | [oooo] |
 *  +----+  +--------+
 *
 * NDRange: (N / RX, M / RY) work-items in work-groups of THREADSX x THREADSY. N must be a multiple of
 * RX * THREADSX, M of RY * THREADSY, K of RK; RX and RK are 1, 2, 4, 8 or 16 and divide the leading
 * dimensions: the host copies and pads the matrices.
 *
 * The idea: no local memory and no barrier. Neighbours need the same elements at about the same
 * time, so a cache does what 02 does explicitly. clBLAS does the same.
 *
 * The cost it removes: barriers, and copies from global to local memory. A CPU has no separate
 * local memory; a GPU reads repeatedly from a cache that is slower than its local memory. */

#ifndef REAL /* the defaults; build options must define all of these, or none */
#define REAL float
#define RX 8 /* columns of C for each work-item: one vector */
#define RY 4 /* rows of C for each work-item */
#define RK 4 /* elements of a vector of A */
#define THREADSX 8 /* work-items of a work-group along a row of C */
#define THREADSY 8 /* work-items of a work-group along a column of C */
#endif

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#if RX == 1
#define VECX REAL
#else
#define VECX JOIN(REAL, RX)
#endif
#if RK == 1
#define VECK REAL
#else
#define VECK JOIN(REAL, RK)
#endif

/* A vector and its elements. */
typedef union {
    VECK all;
    REAL each[RK];
} vector;

__kernel void gemm(const int M, const int N, const int K, const REAL alpha,
                   __global const REAL *restrict A, const int lda,
                   __global const REAL *restrict B, const int ldb, const REAL beta,
                   __global REAL *restrict C, const int ldc)
{
#ifdef OF_BATCH /* with --batch: the matrices of this product, see batch.cl */
    OF_BATCH(A); OF_BATCH(B); OF_BATCH(C);
#endif
    const int j = get_global_id(0) * RX, i = get_global_id(1) * RY;
    A += i * (size_t)lda;
    B += j;
    C += i * (size_t)ldc + j;

    VECX sums[RY];
#pragma unroll
    for (int y = 0; y < RY; y++)
        sums[y] = 0;

    for (int k0 = 0; k0 < K; k0 += RK) {
        VECX b[RK];
#pragma unroll
        for (int k = 0; k < RK; k++)
            b[k] = *(__global const VECX *)&B[(k0 + k) * (size_t)ldb];
#pragma unroll
        for (int y = 0; y < RY; y++) {
            vector a;
            a.all = *(__global const VECK *)&A[y * (size_t)lda + k0];
#pragma unroll
            for (int k = 0; k < RK; k++)
                sums[y] += a.each[k] * b[k];
        }
    }

    /* Where beta is 0, C is not read. */
#pragma unroll
    for (int y = 0; y < RY; y++) {
        __global VECX *c = (__global VECX *)&C[y * (size_t)ldc];
        *c = beta == 0 ? alpha * sums[y] : alpha * sums[y] + beta * *c;
    }
}
