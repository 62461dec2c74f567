/* C = alpha * A * B + beta * C, float16, row-major; A and B as they are ("NN"):
 *
 *                          n              element (row, column) of a matrix is at
 *                    +-----------+        [row * n + column]
 *                  n |   |   B   |
 *                    |   v       |        The sum over k walks along a row of A, where
 *            n       +-----------+        neighbours are neighbours in memory, and down B,
 *      +-----------+ +-----------+        whose rows lie n elements apart.
 *    n | --> A     | |   o   C   |
 *      +-----------+ +-----------+
 *
 * NDRange: n x n, a work-item per element of C; dimension 0 goes over the columns. Any order from
 * 1 up.
 * Neighbours in dimension 0 read the same element of A and neighbouring elements of B: on a GPU
 * one memory transaction each.
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
        sum += vload_half(i * n + k, A) * vload_half(k * n + j, B);
    vstore_half(alpha * sum + beta * vload_half(i * n + j, C), i * n + j, C);
}
