/* C = alpha * A * B + beta * C, complex, row-major; A and B as they are ("NN"):
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
 * up. A complex number is a vector of two elements, real part first, which is how numpy, C and
 * Fortran store it too.
 */

#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
#ifndef REAL
#define REAL float /* or double */
#endif
#define JOIN(a, b) a##b
#define EXPAND(a, b) JOIN(a, b) /* replaces REAL before it joins */
#define COMPLEX EXPAND(REAL, 2)

COMPLEX times(COMPLEX a, COMPLEX b)
{
    return (COMPLEX)(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}

__kernel void gemm(__global const COMPLEX *restrict A, __global const COMPLEX *restrict B,
                   __global COMPLEX *restrict C, COMPLEX alpha, COMPLEX beta, uint n)
{
    const size_t j = get_global_id(0), i = get_global_id(1);
    COMPLEX sum = (COMPLEX)(0);
    for (size_t k = 0; k < n; k++)
        sum += times(A[i * n + k], B[k * n + j]);
    C[i * n + j] = times(alpha, sum) + times(beta, C[i * n + j]);
}
