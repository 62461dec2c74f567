/* C = alpha * A * B^T + beta * C, float32, row-major; B is given transposed ("NT"):
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
 * NDRange: (n / 4) x n, each at least 1; dimension 0 goes over the columns. A work-item makes 1
 * row by 4 columns of C. Nothing need divide n: what is left over at the right is made by the last
 * work-item of its row.
 *
 * The lanes of the vectors are 4 neighbours in k, which are neighbours in memory in A and in B.
 * Each of the 4 sums is a vector, and its lanes are added at the end.
 *
 * The work-items of a group meet after every DK vectors of k, 128 elements. They share no memory
 * of their own, so the result does not need it: it keeps them from drifting apart, and what one of
 * them has brought into the cache is still there for the others. It is n alone that says how many
 * chunks there are, so every work-item meets the same barriers, and the last chunk ends at n.
 */

#ifndef DK
#define DK 32 /* vectors of k from one barrier to the next */
#endif

/* Rows i .. i_end - 1 and columns first .. j_end - 1 of C, one element at a time. */
void edge(__global const float *A, __global const float *B, __global float *C, float alpha,
          float beta, uint n, uint i, uint i_end, uint first, uint j_end)
{
    for (; i < i_end; i++) {
        for (uint j = first; j < j_end; j++) {
            float sum = 0;
            for (uint k = 0; k < n; k++)
                sum += A[(size_t)i * n + k] * B[(size_t)j * n + k];
            __global float *c = C + (size_t)i * n + j;
            *c = alpha * sum + beta * *c;
        }
    }
}

__kernel void gemm(__global const float *restrict A, __global const float *restrict B,
                   __global float *restrict C, float alpha, float beta, uint n)
{
    const uint i = get_global_id(1), j = 4 * get_global_id(0);
    const bool whole = j + 4 <= n; /* not where an order is less than a tile's side */

    __global const float *A0 = A + (size_t)i * n;
    __global const float *B0 = B + (size_t)j * n, *B1 = B0 + n, *B2 = B1 + n,
        *B3 = B2 + n;
    float4 sum0 = (float4)(0), sum1 = sum0, sum2 = sum0, sum3 = sum0;
    float4 total = (float4)(0);
    for (size_t start = 0; start < n; start += 4 * DK) {
        const size_t end = min(start + 4 * DK, (size_t)n);
        size_t k = start;
        if (whole) {
            for (; k + 4 <= end; k += 4) {
                const float4 a = vload4(0, A0 + k);
                sum0 += a * vload4(0, B0 + k);
                sum1 += a * vload4(0, B1 + k);
                sum2 += a * vload4(0, B2 + k);
                sum3 += a * vload4(0, B3 + k);
            }
            for (; k < end; k++)
                total += A0[k] * (float4)(B0[k], B1[k], B2[k], B3[k]);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (whole) {
        total += (float4)(sum0.x + sum0.y + sum0.z + sum0.w, sum1.x + sum1.y + sum1.z + sum1.w,
                          sum2.x + sum2.y + sum2.z + sum2.w, sum3.x + sum3.y + sum3.z + sum3.w);
        __global float *C0 = C + (size_t)i * n + j;
        vstore4(alpha * total + beta * vload4(0, C0), 0, C0);
    }

    if (get_global_id(0) + 1 == get_global_size(0))
        edge(A, B, C, alpha, beta, n, i, i + 1, whole ? j + 4 : j, n);
}
