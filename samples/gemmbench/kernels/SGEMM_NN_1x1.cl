/* C = alpha * A * B + beta * C, row-major; A and B as they are ("NN"):
 *
 *                          n              element (row, column) of a matrix is at
 *                    +-----------+        [row * n + column]
 *                  n |   |   B   |
 *                    |   v       |        The sum over k runs along a row of A, where
 *            n       +-----------+        neighbours are neighbours in memory, and down B,
 *      +-----------+ +-----------+        whose rows lie n elements apart.
 *    n | --> A     | |   o   C   |
 *      +-----------+ +-----------+
 *
 * NDRange: n x n, a work-item per element of C; dimension 0 goes over the columns. Any order from 1
 * up. Neighbours in dimension 0 read the same element of A and neighbouring elements of B: on a GPU
 * one memory transaction each.
 *
 * Built with -DHALF the matrices are of half, and alpha, beta and the sums of float: half is a type
 * of storage, which vload_half and vstore_half read and write. They are part of every OpenCL;
 * cl_khr_fp16 is not needed.
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

__kernel void gemm(__global const STORED *restrict A, __global const STORED *restrict B,
                   __global STORED *restrict C, REAL alpha, REAL beta, uint n)
{
    const size_t j = get_global_id(0), i = get_global_id(1);
    REAL sum = 0;
    for (size_t k = 0; k < n; k++)
        sum += LOAD(i * n + k, A) * LOAD(k * n + j, B);
    STORE(alpha * sum + beta * LOAD(i * n + j, C), i * n + j, C);
}
