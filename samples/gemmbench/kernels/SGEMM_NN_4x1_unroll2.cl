/* C = alpha * A * B + beta * C, float32, row-major; A and B as they are ("NN"):
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
 * NDRange: (n / 4) x n, each at least 1; dimension 0 goes over the columns. A work-item makes 1
 * row by 4 columns of C. Nothing need divide n: what is left over at the right is made by the last
 * work-item of its row.
 *
 * The lanes of a sum are 4 columns of C. A vector of A holds 4 neighbours in k; each of its
 * elements is multiplied with a vector of B, so no lanes need adding at the end.
 *
 * Two vectors of A at a time: half as many tests and jumps, and loads that need not wait for each
 * other.
 */

/* Rows i .. i_end - 1 and columns first .. j_end - 1 of C, one element at a time. */
void edge(__global const float *A, __global const float *B, __global float *C, float alpha,
          float beta, uint n, uint i, uint i_end, uint first, uint j_end)
{
    for (; i < i_end; i++) {
        for (uint j = first; j < j_end; j++) {
            float sum = 0;
            for (uint k = 0; k < n; k++)
                sum += A[(size_t)i * n + k] * B[(size_t)k * n + j];
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

    if (whole) {
        __global const float *A0 = A + (size_t)i * n;
        __global const float *Bj = B + j;
        float4 sum = (float4)(0);
        size_t k = 0;
        for (; k + 8 <= n; k += 8) {
            const float4 a0 = vload4(0, A0 + k);
            sum += a0.x * vload4(0, Bj + k * n);
            sum += a0.y * vload4(0, Bj + (k + 1) * n);
            sum += a0.z * vload4(0, Bj + (k + 2) * n);
            sum += a0.w * vload4(0, Bj + (k + 3) * n);
            const float4 a1 = vload4(0, A0 + k + 4);
            sum += a1.x * vload4(0, Bj + (k + 4) * n);
            sum += a1.y * vload4(0, Bj + (k + 5) * n);
            sum += a1.z * vload4(0, Bj + (k + 6) * n);
            sum += a1.w * vload4(0, Bj + (k + 7) * n);
        }
        for (; k < n; k++)
            sum += A0[k] * vload4(0, Bj + k * n);
        __global float *C0 = C + (size_t)i * n + j;
        vstore4(alpha * sum + beta * vload4(0, C0), 0, C0);
    }

    if (get_global_id(0) + 1 == get_global_size(0))
        edge(A, B, C, alpha, beta, n, i, i + 1, whole ? j + 4 : j, n);
}
