/* C = alpha * A * B + beta * C, row-major, B as it is ("NN"); 1 row by WIDTH columns of C per
 * work-item:
 *
 *                          n              element (row, column) of a matrix is at
 *                    +-----------+        [row * n + column]
 *                  n | |||   B   |
 *                    | vvv       |        The sums run over k along a row of A, and down WIDTH
 *            n       +-----------+        columns of B, whose rows lie n elements apart.
 *      +-----------+ +-----------+
 *    n | --> A     | | ooo   C   |
 *      +-----------+ +-----------+
 *
 * NDRange: (n / WIDTH) x n, each at least 1; dimension 0 goes over the columns. Any order from 1 up:
 * the last work-item of each row also makes the columns that are left over.
 *
 * The lanes of the sum are WIDTH columns of C. A vector of A holds WIDTH neighbours in k; each of
 * its elements is multiplied by a vector of B, so no lanes need adding at the end.
 *
 * UNROLL   vectors of A per step: with 2, half as many tests and jumps, and loads that do not
 *          wait for each other.
 * DK       if defined, the work-items of a group meet at a barrier after every DK vectors of k. The
 *          result does not need it. It keeps them together, so that a vector of B which one of
 *          them has loaded is still in the cache for the others. The number of
 *          chunks depends on n alone, so all work-items reach the same barriers.
 * HALF     if defined, the matrices are of half; alpha, beta and the sums are float. cl_khr_fp16 is
 *          not needed.
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
#define CHUNK n
#endif

__kernel void gemm(__global const STORED *restrict A, __global const STORED *restrict B,
                   __global STORED *restrict C, REAL alpha, REAL beta, uint n)
{
    const uint i = get_global_id(1), j = WIDTH * get_global_id(0);
    const bool whole = j + WIDTH <= n; /* false only if n is less than WIDTH */
    __global const STORED *Ai = A + (size_t)i * n, *Bj = B + j;

    VECTOR sum = (VECTOR)(0);
    for (size_t start = 0; start < n; start += CHUNK) {
        const size_t end = min(start + CHUNK, (size_t)n);
        size_t k = start;
        if (whole) {
            for (; k + UNROLL * WIDTH <= end; k += UNROLL * WIDTH) {
                #pragma unroll
                for (uint v = 0; v < UNROLL * WIDTH; v += WIDTH) {
                    const VECTOR a = VLOAD(0, Ai + k + v);
                    sum += a.x * VLOAD(0, Bj + (k + v) * n);
                    sum += a.y * VLOAD(0, Bj + (k + v + 1) * n);
#if WIDTH == 4
                    sum += a.z * VLOAD(0, Bj + (k + v + 2) * n);
                    sum += a.w * VLOAD(0, Bj + (k + v + 3) * n);
#endif
                }
            }
            for (; k < end; k++)
                sum += LOAD(k, Ai) * VLOAD(0, Bj + k * n);
        }
#ifdef DK
        barrier(CLK_LOCAL_MEM_FENCE);
#endif
    }
    __global STORED *Ci = C + (size_t)i * n;
    if (whole)
        VSTORE(alpha * sum + beta * VLOAD(0, Ci + j), 0, Ci + j);

    /* The columns that are left over, one element at a time. */
    if (get_global_id(0) + 1 == get_global_size(0)) {
        for (uint col = whole ? j + WIDTH : j; col < n; col++) {
            REAL one = 0;
            for (size_t k = 0; k < n; k++)
                one += LOAD(k, Ai) * LOAD(k * n + col, B);
            STORE(alpha * one + beta * LOAD(col, Ci), col, Ci);
        }
    }
}
