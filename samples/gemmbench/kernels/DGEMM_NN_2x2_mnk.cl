/* C = alpha * A * B + beta * C, float64, row-major; A and B as they are ("NN"):
 *
 *                          N              element (row, column) of a matrix with the
 *                    +-----------+        leading dimension ld is at [row * ld + column]
 *                  K |   |   B   |
 *                    |   v       |        A: M x K    B: K x N    C: M x N
 *            K       +-----------+        The sum over k walks along a row of A, where
 *      +-----------+ +-----------+        neighbours are neighbours in memory, and down B,
 *    M | --> A     | |   o   C   |        whose rows lie ldb elements apart.
 *      +-----------+ +-----------+
 *
 * NDRange: (N / 2) x (M / 2), each at least 1; dimension 0 goes over the columns. A work-item
 * makes 2 rows by 2 columns of C. Nothing need divide the orders: what is left over at the right
 * and at the bottom is made by the last work-item of each dimension.
 *
 * The lanes of a sum are 2 columns of C. A vector of A holds 2 neighbours in k; each of its
 * elements is multiplied with a vector of B, so no lanes need adding at the end. A vector of B
 * serves two rows of A: 4 products of vectors for 4 loads, where one row has 2 for 3.
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
                sum += A[(size_t)i * lda + k] * B[(size_t)k * ldb + j];
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
        __global const double *Bj = B + j;
        double2 sum0 = (double2)(0), sum1 = sum0;
        size_t k = 0;
        for (; k + 2 <= K; k += 2) {
            const double2 a0 = vload2(0, A0 + k);
            const double2 a1 = vload2(0, A1 + k);
            const double2 b0 = vload2(0, Bj + k * ldb);
            const double2 b1 = vload2(0, Bj + (k + 1) * ldb);
            sum0 += a0.x * b0 + a0.y * b1;
            sum1 += a1.x * b0 + a1.y * b1;
        }
        for (; k < K; k++) {
            const double2 b = vload2(0, Bj + k * ldb);
            sum0 += A0[k] * b;
            sum1 += A1[k] * b;
        }
        __global double *C0 = C + (size_t)i * ldc + j, *C1 = C0 + ldc;
        vstore2(alpha * sum0 + beta * vload2(0, C0), 0, C0);
        vstore2(alpha * sum1 + beta * vload2(0, C1), 0, C1);
    }

    const uint i_end = get_global_id(1) + 1 == get_global_size(1) ? M : i + 2;
    const uint j_end = get_global_id(0) + 1 == get_global_size(0) ? N : j + 2;
    edge(A, B, C, alpha, beta, K, lda, ldb, ldc, i, min(i + 2, i_end), whole ? j + 2 : j, j_end);
    edge(A, B, C, alpha, beta, K, lda, ldb, ldc, i + 2, i_end, j, j_end);
}
