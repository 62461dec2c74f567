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
 */

#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
#ifndef REAL
#define REAL float /* or double */
#endif
#ifdef HALF
#define STORED half
#define LOAD(at, p) vload_half(at, p)
#define STORE(x, at, p) vstore_half(x, at, p)
#else
#define STORED REAL
#define LOAD(at, p) (p)[at]
#define STORE(x, at, p) (p)[at] = (x)
#endif
#ifdef TRANS_B
#define AT_B(k, j) ((j) * n + (k))
#else
#define AT_B(k, j) ((k) * n + (j))
#endif

__kernel void gemm(__global const STORED *restrict A, __global const STORED *restrict B,
                   __global STORED *restrict C, REAL alpha, REAL beta, uint n)
{
    const size_t j = get_global_id(0), i = get_global_id(1);
    REAL sum = 0;
    for (size_t k = 0; k < n; k++)
        sum += LOAD(i * n + k, A) * LOAD(AT_B(k, j), B);
    STORE(alpha * sum + beta * LOAD(i * n + j, C), i * n + j, C);
}
