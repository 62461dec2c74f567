/* C = alpha * A * B + beta * C, row-major, B as it is ("NN"); 2 rows by WIDTH columns of C per
 * work-item:
 *
 *                          N              element (row, column) of a matrix with the
 *                    +-----------+        leading dimension ld is at [row * ld + column]
 *                  K | |||   B   |
 *                    | vvv       |        A: M x K    B: K x N    C: M x N
 *            K       +-----------+
 *      +-----------+ +-----------+        The sums run over k along two rows of A, and down
 *    M | --> A     | | ooo   C   |        WIDTH columns of B, whose rows lie ldb elements apart.
 *      | -->       | | ooo       |
 *      +-----------+ +-----------+
 *
 * NDRange: (N / WIDTH) x (M / 2), each at least 1; dimension 0 goes over the columns. Any M, N and K
 * from 1 up: the last work-item of each dimension also makes the columns and rows that are left
 * over. Without -DMNK the matrices are square, of order n.
 *
 * The lanes of the sums are WIDTH columns of C. A vector of B serves two rows of A: at WIDTH 4,
 * 8 products of vectors for 6 loads, where NN_1_row.cl has 4 for 5. DK is explained there.
 */

#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
#ifndef REAL
#define REAL float /* or double */
#endif
#ifndef WIDTH
#define WIDTH 4 /* elements of a vector: 2 or 4 */
#endif
#define JOIN(a, b) a##b
#define EXPAND(a, b) JOIN(a, b) /* replaces REAL and WIDTH before it joins */
#define VECTOR EXPAND(REAL, WIDTH)
#define VLOAD EXPAND(vload, WIDTH)
#define VSTORE EXPAND(vstore, WIDTH)
#ifdef MNK
#define ORDERS uint M, uint N, uint K, uint lda, uint ldb, uint ldc
#else
#define ORDERS uint n
#endif
#ifdef DK
#define CHUNK (WIDTH * DK) /* elements of k from one barrier to the next */
#else
#define CHUNK K
#endif

__kernel void gemm(__global const REAL *restrict A, __global const REAL *restrict B,
                   __global REAL *restrict C, REAL alpha, REAL beta, ORDERS)
{
#ifndef MNK
    const uint M = n, N = n, K = n, lda = n, ldb = n, ldc = n;
#endif
    const size_t i = 2 * get_global_id(1), j = WIDTH * get_global_id(0);
    /* False only if an order is less than the tile's side. */
    const bool whole = j + WIDTH <= N && i + 2 <= M;
    __global const REAL *A0 = A + i * lda, *A1 = A0 + lda, *Bj = B + j;

    VECTOR sum0 = (VECTOR)(0), sum1 = sum0;
    for (size_t start = 0; start < K; start += CHUNK) {
        const size_t end = min(start + CHUNK, (size_t)K);
        size_t k = start;
        if (whole) {
            for (; k + WIDTH <= end; k += WIDTH) {
                const VECTOR a0 = VLOAD(0, A0 + k), a1 = VLOAD(0, A1 + k);
                const VECTOR b0 = VLOAD(0, Bj + k * ldb), b1 = VLOAD(0, Bj + (k + 1) * ldb);
                sum0 += a0.x * b0 + a0.y * b1;
                sum1 += a1.x * b0 + a1.y * b1;
#if WIDTH == 4
                const VECTOR b2 = VLOAD(0, Bj + (k + 2) * ldb), b3 = VLOAD(0, Bj + (k + 3) * ldb);
                sum0 += a0.z * b2 + a0.w * b3;
                sum1 += a1.z * b2 + a1.w * b3;
#endif
            }
            for (; k < end; k++) {
                const VECTOR b = VLOAD(0, Bj + k * ldb);
                sum0 += A0[k] * b;
                sum1 += A1[k] * b;
            }
        }
#ifdef DK
        barrier(CLK_LOCAL_MEM_FENCE);
#endif
    }
    if (whole) {
        __global REAL *C0 = C + i * ldc + j, *C1 = C0 + ldc;
        VSTORE(alpha * sum0 + beta * VLOAD(0, C0), 0, C0);
        VSTORE(alpha * sum1 + beta * VLOAD(0, C1), 0, C1);
    }

    /* What is left over at the right and at the bottom, one element at a time. */
    const size_t i_end = get_global_id(1) + 1 == get_global_size(1) ? M : i + 2;
    const size_t j_end = get_global_id(0) + 1 == get_global_size(0) ? N : j + WIDTH;
    for (size_t row = i; row < i_end; row++) {
        for (size_t col = whole && row < i + 2 ? j + WIDTH : j; col < j_end; col++) {
            REAL sum = 0;
            for (size_t k = 0; k < K; k++)
                sum += A[row * lda + k] * B[k * ldb + col];
            __global REAL *c = C + row * ldc + col;
            *c = alpha * sum + beta * *c;
        }
    }
}
