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
 * NDRange: (n / 4) x (n / 2), each at least 1; dimension 0 goes over the columns. A work-item
 * makes 2 rows by 4 columns of C. Nothing need divide n: what is left over at the right and at the
 * bottom is made by the last work-item of each dimension.
 *
 * The lanes of the vectors are 4 neighbours in k, which are neighbours in memory in A and in B.
 * Each of the 8 sums is a vector, and its lanes are added at the end. A vector of B serves two
 * rows of A: 8 products of vectors for 6 loads, where one row has 4 for 5.
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
    const uint i = 2 * get_global_id(1), j = 4 * get_global_id(0);
    const bool whole = j + 4 <= n && i + 2 <= n; /* not where an order is less than a tile's side */

    __global const float *A0 = A + (size_t)i * n, *A1 = A0 + n;
    __global const float *B0 = B + (size_t)j * n, *B1 = B0 + n, *B2 = B1 + n,
        *B3 = B2 + n;
    float4 sum0 = (float4)(0), sum1 = sum0, sum2 = sum0, sum3 = sum0,
        sum4 = sum0, sum5 = sum0, sum6 = sum0, sum7 = sum0;
    float4 total0 = (float4)(0), total1 = total0;
    for (size_t start = 0; start < n; start += 4 * DK) {
        const size_t end = min(start + 4 * DK, (size_t)n);
        size_t k = start;
        if (whole) {
            for (; k + 4 <= end; k += 4) {
                const float4 a0 = vload4(0, A0 + k);
                const float4 a1 = vload4(0, A1 + k);
                const float4 b0 = vload4(0, B0 + k);
                const float4 b1 = vload4(0, B1 + k);
                const float4 b2 = vload4(0, B2 + k);
                const float4 b3 = vload4(0, B3 + k);
                sum0 += a0 * b0;
                sum1 += a0 * b1;
                sum2 += a0 * b2;
                sum3 += a0 * b3;
                sum4 += a1 * b0;
                sum5 += a1 * b1;
                sum6 += a1 * b2;
                sum7 += a1 * b3;
            }
            for (; k < end; k++) {
                const float4 b = (float4)(B0[k], B1[k], B2[k], B3[k]);
                total0 += A0[k] * b;
                total1 += A1[k] * b;
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (whole) {
        total0 += (float4)(sum0.x + sum0.y + sum0.z + sum0.w, sum1.x + sum1.y + sum1.z + sum1.w,
                           sum2.x + sum2.y + sum2.z + sum2.w, sum3.x + sum3.y + sum3.z + sum3.w);
        total1 += (float4)(sum4.x + sum4.y + sum4.z + sum4.w, sum5.x + sum5.y + sum5.z + sum5.w,
                           sum6.x + sum6.y + sum6.z + sum6.w, sum7.x + sum7.y + sum7.z + sum7.w);
        __global float *C0 = C + (size_t)i * n + j, *C1 = C0 + n;
        vstore4(alpha * total0 + beta * vload4(0, C0), 0, C0);
        vstore4(alpha * total1 + beta * vload4(0, C1), 0, C1);
    }

    const uint i_end = get_global_id(1) + 1 == get_global_size(1) ? n : i + 2;
    const uint j_end = get_global_id(0) + 1 == get_global_size(0) ? n : j + 4;
    edge(A, B, C, alpha, beta, n, i, min(i + 2, i_end), whole ? j + 4 : j, j_end);
    edge(A, B, C, alpha, beta, n, i + 2, i_end, j, j_end);
}
