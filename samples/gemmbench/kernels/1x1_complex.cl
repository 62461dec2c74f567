/* C = alpha * A * B + beta * C, complex, row-major, one element of C per work-item. B is stored as
 * it is ("NN") or, with -DTRANS_B, transposed, not conjugated ("NT"): 1x1.cl has the pictures.
 *
 * NDRange: n x n; dimension 0 goes over the columns. Any order from 1 up. A complex number is a
 * vector of two elements, real part first, as numpy, C and Fortran store it.
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
#ifdef TRANS_B
#define AT_B(k, j) ((j) * n + (k))
#else
#define AT_B(k, j) ((k) * n + (j))
#endif

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
        sum += times(A[i * n + k], B[AT_B(k, j)]);
    C[i * n + j] = times(alpha, sum) + times(beta, C[i * n + j]);
}
