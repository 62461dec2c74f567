/* C = alpha * A * B + beta * C, row-major, B as it is ("NN"); ROWS rows by WIDTH columns of C per
 * work-item, here with ROWS = 2:
 *
 *                          N              element (row, column) of a matrix with the
 *                    +-----------+        leading dimension ld is at [row * ld + column]
 *                  K | |||   B   |
 *                    | vvv       |        A: M x K    B: K x N    C: M x N
 *            K       +-----------+
 *      +-----------+ +-----------+        The sums run over k along the rows of A, and down
 *    M | --> A     | | ooo   C   |        WIDTH columns of B, whose rows lie ldb elements apart.
 *      | -->       | | ooo       |
 *      +-----------+ +-----------+
 *
 * NDRange: (N / WIDTH) x (M / ROWS), each at least 1; dimension 0 goes over the columns. Any M, N and
 * K from 1 up: the last work-item of each dimension also computes the columns and rows that are left
 * over.
 *
 * The lanes of a sum are WIDTH columns of C. A vector of A holds WIDTH neighbours in k; each of its
 * elements is multiplied by a vector of B, so no lanes need adding at the end. Products are
 * added in pairs before they go to the sum, so it waits for half as many additions.
 *
 * ROWS     with 2, a vector of B is used for two rows of A: at WIDTH 4, 8 vector products for 6 loads;
 *          with 1, 4 products for 5 loads.
 * UNROLL   vectors of A per step: with 2, half as many comparisons and branches, and loads that
 *          are independent of each other.
 * DK       if defined, the work-items of a group meet at a barrier after every DK vectors of k. The
 *          result does not need it. It keeps them together, so that a vector of B that one of
 *          them has loaded is still in the cache for the others. The number of chunks depends on K
 *          alone, so all work-items reach the same barriers.
 * HALF     if defined, the matrices are of half; alpha, beta and the sums are float. cl_khr_fp16 is
 *          not needed.
 * MNK      if defined, the kernel takes M, N, K and the leading dimensions. Otherwise the matrices are
 *          square, of order n.
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
#ifndef ROWS
#define ROWS 1
#endif
#ifndef UNROLL
#define UNROLL 1
#endif
#define JOIN(a, b) a##b
#define EXPAND(a, b) JOIN(a, b) /* replaces REAL and WIDTH before it joins */
#define VECTOR EXPAND(REAL, WIDTH)
#ifdef HALF
#define STORED half
#define LOAD(at, p) vload_half(at, p)
#define STORE(x, at, p) vstore_half(x, at, p)
#define VLOAD EXPAND(vload_half, WIDTH)
#define VSTORE EXPAND(vstore_half, WIDTH)
#else
#define STORED REAL
#define LOAD(at, p) (p)[at]
#define STORE(x, at, p) (p)[at] = (x)
#define VLOAD EXPAND(vload, WIDTH)
#define VSTORE EXPAND(vstore, WIDTH)
#endif
#ifdef DK
#define CHUNK (WIDTH * DK) /* elements of k from one barrier to the next */
#else
#define CHUNK K
#endif
#ifdef MNK
#define ORDERS uint M, uint N, uint K, uint lda, uint ldb, uint ldc
#else
#define ORDERS uint n
#endif

__kernel void gemm(__global const STORED *restrict A, __global const STORED *restrict B,
                   __global STORED *restrict C, REAL alpha, REAL beta, ORDERS)
{
#ifndef MNK
    const uint M = n, N = n, K = n, lda = n, ldb = n, ldc = n;
#endif
    const size_t i = ROWS * get_global_id(1), j = WIDTH * get_global_id(0);
    /* False only if an order is less than the tile's side. */
    const bool whole = j + WIDTH <= N && i + ROWS <= M;
    __global const STORED *Ai = A + i * lda, *Bj = B + j;

    VECTOR sums[ROWS];
    #pragma unroll
    for (uint r = 0; r < ROWS; r++) /* Mesa's compilers for Mali abort at an initializer */
        sums[r] = (VECTOR)(0);
    for (size_t start = 0; start < K; start += CHUNK) {
        const size_t end = min(start + CHUNK, (size_t)K);
        size_t k = start;
        if (whole) {
            for (; k + UNROLL * WIDTH <= end; k += UNROLL * WIDTH) {
                #pragma unroll
                for (uint v = 0; v < UNROLL * WIDTH; v += WIDTH) {
                    const VECTOR b0 = VLOAD(0, Bj + (k + v) * ldb);
                    const VECTOR b1 = VLOAD(0, Bj + (k + v + 1) * ldb);
#if WIDTH == 4
                    const VECTOR b2 = VLOAD(0, Bj + (k + v + 2) * ldb);
                    const VECTOR b3 = VLOAD(0, Bj + (k + v + 3) * ldb);
#endif
                    #pragma unroll
                    for (uint r = 0; r < ROWS; r++) {
                        const VECTOR a = VLOAD(0, Ai + r * lda + k + v);
                        sums[r] += a.x * b0 + a.y * b1;
#if WIDTH == 4
                        sums[r] += a.z * b2 + a.w * b3;
#endif
                    }
                }
            }
            for (; k < end; k++) {
                const VECTOR b = VLOAD(0, Bj + k * ldb);
                #pragma unroll
                for (uint r = 0; r < ROWS; r++)
                    sums[r] += LOAD(r * lda + k, Ai) * b;
            }
        }
#ifdef DK
        barrier(CLK_LOCAL_MEM_FENCE);
#endif
    }
    if (whole) {
        #pragma unroll
        for (uint r = 0; r < ROWS; r++) {
            __global STORED *c = C + (i + r) * ldc + j;
            VSTORE(alpha * sums[r] + beta * VLOAD(0, c), 0, c);
        }
    }

    /* What is left over at the right and at the bottom, one element at a time. */
    const size_t i_end = get_global_id(1) + 1 == get_global_size(1) ? M : i + ROWS;
    const size_t j_end = get_global_id(0) + 1 == get_global_size(0) ? N : j + WIDTH;
    for (size_t row = i; row < i_end; row++) {
        for (size_t col = whole && row < i + ROWS ? j + WIDTH : j; col < j_end; col++) {
            REAL one = 0;
            for (size_t k = 0; k < K; k++)
                one += LOAD(row * lda + k, A) * LOAD(k * ldb + col, B);
            STORE(alpha * one + beta * LOAD(row * ldc + col, C), row * ldc + col, C);
        }
    }
}
