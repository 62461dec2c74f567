/* C = alpha * A * B + beta * C, row-major, one element of C per work-item. B is stored as it is
 * ("NN") or, with -DTRANS_B, transposed ("NT"):
 *
 *            NN            n                    NT            n          element (row, column)
 *                    +-----------+                      +-----------+    of a matrix is at
 *                  n |   |   B   |                    n | --> B     |    [row * n + column]
 *                    |   v       |                      |           |
 *            n       +-----------+              n       +-----------+
 *      +-----------+ +-----------+        +-----------+ +-----------+
 *    n | --> A     | |   o   C   |      n | --> A     | |   o   C   |
 *      +-----------+ +-----------+        +-----------+ +-----------+
 *
 * The sum over k runs along a row of A, where neighbours are neighbours in memory. In NN it runs
 * down a column of B, whose elements lie n apart; in NT along row j of B, which gives column j of C.
 *
 * NDRange: n x n; dimension 0 goes over the columns. Any order from 1 up. Neighbours in dimension 0
 * read the same element of A. In NN they read neighbouring elements of B: on a GPU, one memory
 * transaction. In NT these elements lie a row apart: one transaction for each.
 *
 * With -DHALF the matrices are of half, but alpha, beta and the sums are float. vload_half and
 * vstore_half are part of every OpenCL; cl_khr_fp16 is not needed.
 *
 * With -DCOMPLEX a number is a vector of two elements, real part first, as numpy, C and Fortran
 * store it. In NT, B is not conjugated.
 */

#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
#ifndef REAL
#define REAL float /* or double */
#endif
#define JOIN(a, b) a##b
#define EXPAND(a, b) JOIN(a, b) /* replaces REAL before it joins */
#ifdef COMPLEX
#define NUMBER EXPAND(REAL, 2)
#define IS_ZERO(a) ((a).x == 0 && (a).y == 0)
#else
#define NUMBER REAL
#define IS_ZERO(a) ((a) == 0)
#define times(a, b) ((a) * (b))
#endif
#if defined(HALF) && defined(COMPLEX)
#error "HALF and COMPLEX exclude each other"
#endif
#ifdef HALF
#define STORED half
#define LOAD(at, p) vload_half(at, p)
#define STORE(x, at, p) vstore_half(x, at, p)
#else
#define STORED NUMBER
#define LOAD(at, p) (p)[at]
#define STORE(x, at, p) (p)[at] = (x)
#endif
#ifdef TRANS_B
#define AT_B(k, j) ((j) * n + (k))
#else
#define AT_B(k, j) ((k) * n + (j))
#endif

#ifdef COMPLEX
NUMBER times(NUMBER a, NUMBER b)
{
    return (NUMBER)(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}
#endif

__kernel void gemm(__global const STORED *restrict A, __global const STORED *restrict B,
                   __global STORED *restrict C, NUMBER alpha, NUMBER beta, uint n)
{
    const size_t j = get_global_id(0), i = get_global_id(1);
    NUMBER sum = (NUMBER)(0);
    for (size_t k = 0; k < n; k++)
        sum += times(LOAD(i * n + k, A), LOAD(AT_B(k, j), B));
    sum = times(alpha, sum);
    /* Where beta is 0, C is not read: it may contain anything, even NaN. */
    STORE(IS_ZERO(beta) ? sum : sum + times(beta, LOAD(i * n + j, C)), i * n + j, C);
}
