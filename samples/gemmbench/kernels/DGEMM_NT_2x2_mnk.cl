/* C = alpha * A * B^T + beta * C, float64, row-major; B is given transposed ("NT"):
 *
 *                          K              element (row, column) of a matrix with the
 *                    +-----------+        leading dimension ld is at [row * ld + column]
 *                  N | --> B     |
 *                    |           |        A: M x K    B: N x K    C: M x N
 *            K       +-----------+        The sum over k walks along a row of A and along
 *      +-----------+ +-----------+        a row of B: in both, neighbours in k are
 *    M | --> A     | |   o   C   |        neighbours in memory. Row j of B makes column j
 *      +-----------+ +-----------+        of C.
 *
 * NDRange: (N / 2) x (M / 2), each at least 1; dimension 0 goes over the columns. A work-item
 * makes 2 rows by 2 columns of C. Nothing need divide the orders: what is left over at the right
 * and at the bottom is made by the last work-item of each dimension.
 *
 * The lanes of the vectors are 2 neighbours in k, which are neighbours in memory in A and in B.
 * Each of the 4 sums is a vector, and its lanes are added at the end. A vector of B serves two
 * rows of A: 4 products of vectors for 4 loads, where one row has 2 for 3.
 */

#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

/* Rows i .. i_end - 1 and columns first .. j_end - 1 of C, one element at a time. */
void edge(__global const double *A, __global const double *B, __global double *C, double alpha,
          double beta, uint K, uint lda, uint ldb, uint ldc,
          uint i, uint i_end, uint first, uint j_end)
{
    for (; i < i_end; i++) {
        for (uint j = first; j < j_end; j++) {
            double sum = 0;
            for (uint k = 0; k < K; k++)
                sum += A[(size_t)i * lda + k] * B[(size_t)j * ldb + k];
            __global double *c = C + (size_t)i * ldc + j;
            *c = alpha * sum + beta * *c;
        }
    }
}

__kernel void gemm(__global const double *restrict A, __global const double *restrict B,
                   __global double *restrict C, double alpha, double beta, uint M, uint N, uint K,
                   uint lda, uint ldb, uint ldc)
{
    const uint i = 2 * get_global_id(1), j = 2 * get_global_id(0);
    const bool whole = j + 2 <= N && i + 2 <= M; /* not where an order is less than a tile's side */

    if (whole) {
        __global const double *A0 = A + (size_t)i * lda, *A1 = A0 + lda;
        __global const double *B0 = B + (size_t)j * ldb, *B1 = B0 + ldb;
        double2 sum0 = (double2)(0), sum1 = sum0, sum2 = sum0, sum3 = sum0;
        double2 total0 = (double2)(0), total1 = total0;
        size_t k = 0;
        for (; k + 2 <= K; k += 2) {
            const double2 a0 = vload2(0, A0 + k);
            const double2 a1 = vload2(0, A1 + k);
            const double2 b0 = vload2(0, B0 + k);
            const double2 b1 = vload2(0, B1 + k);
            sum0 += a0 * b0;
            sum1 += a0 * b1;
            sum2 += a1 * b0;
            sum3 += a1 * b1;
        }
        for (; k < K; k++) {
            const double2 b = (double2)(B0[k], B1[k]);
            total0 += A0[k] * b;
            total1 += A1[k] * b;
        }
        total0 += (double2)(sum0.x + sum0.y, sum1.x + sum1.y);
        total1 += (double2)(sum2.x + sum2.y, sum3.x + sum3.y);
        __global double *C0 = C + (size_t)i * ldc + j, *C1 = C0 + ldc;
        vstore2(alpha * total0 + beta * vload2(0, C0), 0, C0);
        vstore2(alpha * total1 + beta * vload2(0, C1), 0, C1);
    }

    const uint i_end = get_global_id(1) + 1 == get_global_size(1) ? M : i + 2;
    const uint j_end = get_global_id(0) + 1 == get_global_size(0) ? N : j + 2;
    edge(A, B, C, alpha, beta, K, lda, ldb, ldc, i, min(i + 2, i_end), whole ? j + 2 : j, j_end);
    edge(A, B, C, alpha, beta, K, lda, ldb, ldc, i + 2, i_end, j, j_end);
}
