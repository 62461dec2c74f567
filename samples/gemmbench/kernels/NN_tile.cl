/* C = alpha * A * B + beta * C, row-major, B as it is ("NN"); ROWS rows by WIDTH columns of C per
 * work-item:
 *
 *                          N              element (row, column) of a matrix with the
 *                    +-----------+        leading dimension ld is at [row * ld + column]
 *                  K | |||   B   |
 *                    | vvv       |        A: M x K    B: K x N    C: M x N
 *            K       +-----------+
 *      +-----------+ +-----------+        The sums run over k along ROWS rows of A, and down
 *    M | --> A     | | ooo   C   |        WIDTH columns of B, whose rows lie ldb elements apart.
 *      | -->       | | ooo       |
 *      +-----------+ +-----------+
 *
 * NDRange: (N / WIDTH) x (M / ROWS), each at least 1; dimension 0 goes over the columns. Any M, N and
 * K from 1 up: the last work-item of each dimension also makes the columns and rows that are left
 * over. Without -DMNK the matrices are square, of order n.
 *
 * The lanes of the sums are WIDTH columns of C. A vector of A holds WIDTH neighbours in k; each of
 * its elements is multiplied by a vector of B, so no lanes need adding at the end.
 *
 * ROWS     rows of A that a vector of B serves. At WIDTH 4, a step of k has 4 products of vectors for
 *          5 loads with 1 row, and 8 for 6 with 2.
 * UNROLL   vectors of A per step: with 2, half as many tests and jumps, and loads that need not
 *          wait for each other.
 * DK       if defined, the work-items of a group meet at a barrier after every DK vectors of k. The
 *          result does not need it. It keeps them from drifting apart, so that a vector of B which
 *          one of them has brought into the cache is still there for the others. The number of
 *          chunks depends on K alone, so all work-items reach the same barriers.
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
#ifndef ROWS
#define ROWS 1 /* or 2 */
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
#if ROWS == 2
#define SECOND(statement) statement /* of the second row */
#else
#define SECOND(statement)
#endif
/* Add the products of a0 and a1, elements of A in column k, with WIDTH elements of row k of B. */
#define ADD(a0, a1, k)                             \
    do {                                           \
        const VECTOR b = VLOAD(0, Bj + (k) * ldb); \
        sum0 += a0 * b;                            \
        SECOND(sum1 += a1 * b);                    \
    } while (0)

__kernel void gemm(__global const STORED *restrict A, __global const STORED *restrict B,
                   __global STORED *restrict C, REAL alpha, REAL beta, ORDERS)
{
#ifndef MNK
    const uint M = n, N = n, K = n, lda = n, ldb = n, ldc = n;
#endif
    const uint i = ROWS * get_global_id(1), j = WIDTH * get_global_id(0);
    /* False only if an order is less than the tile's side. */
    const bool whole = j + WIDTH <= N && (ROWS == 1 || i + ROWS <= M);
    __global const STORED *Ai = A + (size_t)i * lda, *Bj = B + j;

    VECTOR sum0 = (VECTOR)(0);
    SECOND(VECTOR sum1 = (VECTOR)(0));
    for (size_t start = 0; start < K; start += CHUNK) {
        const size_t end = min(start + CHUNK, (size_t)K);
        size_t k = start;
        if (whole) {
            for (; k + UNROLL * WIDTH <= end; k += UNROLL * WIDTH) {
                #pragma unroll
                for (uint v = 0; v < UNROLL * WIDTH; v += WIDTH) {
                    const VECTOR a0 = VLOAD(0, Ai + k + v);
                    SECOND(const VECTOR a1 = VLOAD(0, Ai + lda + k + v));
                    ADD(a0.x, a1.x, k + v);
                    ADD(a0.y, a1.y, k + v + 1);
#if WIDTH == 4
                    ADD(a0.z, a1.z, k + v + 2);
                    ADD(a0.w, a1.w, k + v + 3);
#endif
                }
            }
            for (; k < end; k++)
                ADD(LOAD(k, Ai), LOAD(lda + k, Ai), k);
        }
#ifdef DK
        barrier(CLK_LOCAL_MEM_FENCE);
#endif
    }
    if (whole) {
        __global STORED *c = C + (size_t)i * ldc + j;
        VSTORE(alpha * sum0 + beta * VLOAD(0, c), 0, c);
        SECOND(VSTORE(alpha * sum1 + beta * VLOAD(0, c + ldc), 0, c + ldc));
    }

    /* What is left over at the right and at the bottom, one element at a time. */
    const bool right = get_global_id(0) + 1 == get_global_size(0);
    const bool bottom = ROWS > 1 && get_global_id(1) + 1 == get_global_size(1);
    if (!right && !bottom)
        return;
    const uint rows = bottom ? M - i : ROWS, columns = right ? N - j : WIDTH;
    for (uint r = 0; r < rows; r++) {
        __global const STORED *Ar = Ai + (size_t)r * lda;
        __global STORED *Cr = C + (size_t)(i + r) * ldc;
        for (uint col = whole && r < ROWS ? j + WIDTH : j; col < j + columns; col++) {
            REAL sum = 0;
            for (size_t k = 0; k < K; k++)
                sum += LOAD(k, Ar) * LOAD(k * ldb + col, B);
            STORE(alpha * sum + beta * LOAD(col, Cr), col, Cr);
        }
    }
}
