/* C = alpha * A * B^T + beta * C, complex64, row-major; B is given transposed ("NT"):
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
 * A complex number is a float2, real part first, which is how numpy, C and Fortran store it too. B
 * is transposed, not conjugated.
 */

float2 times(float2 a, float2 b)
{
    return (float2)(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}

__kernel void gemm(__global const float2 *restrict A, __global const float2 *restrict B,
                   __global float2 *restrict C, float2 alpha, float2 beta, uint n)
{
    const size_t j = get_global_id(0), i = get_global_id(1);
    float2 sum = (float2)(0);
    for (size_t k = 0; k < n; k++)
        sum += times(A[i * n + k], B[j * n + k]);
    C[i * n + j] = times(alpha, sum) + times(beta, C[i * n + j]);
}
