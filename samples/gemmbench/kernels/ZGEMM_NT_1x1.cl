/* C = alpha * A * B^T + beta * C, complex128, row-major; B is given transposed ("NT"):
 *
 *                          n              element (row, column) of a matrix is at
 *                    +-----------+        [row * n + column]
 *                  n | --> B     |
 *                    |           |        The sum over k walks along a row of A and along
 *            n       +-----------+        a row of B: in both, neighbours in k are
 *      +-----------+ +-----------+        neighbours in memory. Row j of B makes column j
 *    n | --> A     | |   o   C   |        of C.
 *      +-----------+ +-----------+
 *
 * NDRange: n x n, a work-item per element of C; dimension 0 goes over the columns. Any order from
 * 1 up.
 * A complex number is a double2, real part first, which is how numpy, C and Fortran store it too.
 * B is transposed, not conjugated.
 */

#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

double2 times(double2 a, double2 b)
{
    return (double2)(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}

__kernel void gemm(__global const double2 *restrict A, __global const double2 *restrict B,
                   __global double2 *restrict C, double2 alpha, double2 beta, uint n)
{
    const size_t j = get_global_id(0), i = get_global_id(1);
    double2 sum = (double2)(0);
    for (size_t k = 0; k < n; k++)
        sum += times(A[i * n + k], B[j * n + k]);
    C[i * n + j] = times(alpha, sum) + times(beta, C[i * n + j]);
}
