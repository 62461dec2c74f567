/* C = alpha * A * B^T + beta * C, float64, row-major; B is given transposed ("NT"):
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
 * Neighbours in dimension 0 read the same element of A and, at each step, elements of B that lie a
 * row apart: on a GPU these are as many memory transactions.
 */

#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

__kernel void gemm(__global const double *restrict A, __global const double *restrict B,
                   __global double *restrict C, double alpha, double beta, uint n)
{
    const size_t j = get_global_id(0), i = get_global_id(1);
    double sum = 0;
    for (size_t k = 0; k < n; k++)
        sum += A[i * n + k] * B[j * n + k];
    C[i * n + j] = alpha * sum + beta * C[i * n + j];
}
