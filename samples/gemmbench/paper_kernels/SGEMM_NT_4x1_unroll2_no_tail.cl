/* Wrong on purpose: the mistake of the kernels whose validation failed in the GEMMbench paper.
 *
 * C = alpha * A * B^T + beta * C, float32, row-major; B is given transposed ("NT"). NDRange:
 * (n / 4) x n; a work-item makes 1 row by 4 columns of C, and 4 must divide n.
 *
 * The loop over k takes two vectors a step, 8 elements, and nothing ends it at n. Where n is no
 * multiple of 8, the last step goes on beyond the row: into the next row of A and of B, and behind
 * the last row into whatever lies there. All orders of the paper are multiples of 8, so there it
 * never showed.
 */

__kernel void gemm(__global const float *restrict A, __global const float *restrict B,
                   __global float *restrict C, float alpha, float beta, uint n)
{
    const size_t i = get_global_id(1), j = 4 * get_global_id(0);
    __global const float *a = A + i * n;
    __global const float *b0 = B + j * n, *b1 = b0 + n, *b2 = b1 + n, *b3 = b2 + n;
    float4 sum0 = (float4)(0), sum1 = sum0, sum2 = sum0, sum3 = sum0;
    for (size_t k = 0; k < n; k += 8) {
        sum0 += vload4(0, a + k) * vload4(0, b0 + k);
        sum1 += vload4(0, a + k) * vload4(0, b1 + k);
        sum2 += vload4(0, a + k) * vload4(0, b2 + k);
        sum3 += vload4(0, a + k) * vload4(0, b3 + k);
        sum0 += vload4(0, a + k + 4) * vload4(0, b0 + k + 4);
        sum1 += vload4(0, a + k + 4) * vload4(0, b1 + k + 4);
        sum2 += vload4(0, a + k + 4) * vload4(0, b2 + k + 4);
        sum3 += vload4(0, a + k + 4) * vload4(0, b3 + k + 4);
    }
    const float4 sum = (float4)(sum0.x + sum0.y + sum0.z + sum0.w,
                                sum1.x + sum1.y + sum1.z + sum1.w,
                                sum2.x + sum2.y + sum2.z + sum2.w,
                                sum3.x + sum3.y + sum3.z + sum3.w);
    __global float *c = C + i * n + j;
    vstore4(alpha * sum + beta * vload4(0, c), 0, c);
}
