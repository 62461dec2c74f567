/* Wrong on purpose: the mistake of the kernels whose validation failed in the GEMMbench paper.
 *
 * C = alpha * A * B^T + beta * C, float64, row-major; B is given transposed ("NT"). NDRange:
 * (n / 2) x n; a work-item makes 1 row by 2 columns of C, and 2 must divide n.
 *
 * The loop over k runs in whole chunks of DK vectors, 64 elements, with a barrier behind each, and
 * nothing ends it at n. Where n is no multiple of 64, the last chunk goes on beyond the row: into
 * the next row of A and of B, and behind the last row into whatever lies there.
 *
 *     row i of A      |<------- n ------->|<- the next row ->
 *     chunks          |<------ whole chunks ------->|         n = 96: 32 products too many
 */

#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

#define DK 32 /* vectors of k from one barrier to the next */

__kernel void gemm(__global const double *restrict A, __global const double *restrict B,
                   __global double *restrict C, double alpha, double beta, uint n)
{
    const size_t i = get_global_id(1), j = 2 * get_global_id(0);
    __global const double *a = A + i * n;
    __global const double *b0 = B + j * n, *b1 = b0 + n;
    double2 sum0 = (double2)(0), sum1 = sum0;
    for (size_t k = 0; k < n;) {
        for (uint vector = 0; vector < DK; vector++, k += 2) {
            sum0 += vload2(0, a + k) * vload2(0, b0 + k);
            sum1 += vload2(0, a + k) * vload2(0, b1 + k);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    const double2 sum = (double2)(sum0.x + sum0.y, sum1.x + sum1.y);
    __global double *c = C + i * n + j;
    vstore2(alpha * sum + beta * vload2(0, c), 0, c);
}
