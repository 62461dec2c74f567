/* C = alpha * A * B^T + beta * C, float16, row-major; B is given transposed ("NT"):
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
 *
 * vload_half and vstore_half are part of every OpenCL: half is a type of storage here, cl_khr_fp16
 * is not needed. So alpha, beta and the sums are float, and only the result is rounded to half.
 */

__kernel void gemm(__global const half *restrict A, __global const half *restrict B,
                   __global half *restrict C, float alpha, float beta, uint n)
{
    const size_t j = get_global_id(0), i = get_global_id(1);
    float sum = 0;
    for (size_t k = 0; k < n; k++)
        sum += vload_half(i * n + k, A) * vload_half(j * n + k, B);
    vstore_half(alpha * sum + beta * vload_half(i * n + j, C), i * n + j, C);
}
