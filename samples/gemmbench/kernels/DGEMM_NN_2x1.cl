/* C = alpha * A * B + beta * C, float64, row-major; A and B as they are ("NN"):
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
 * NDRange: (n / 2) x n, each at least 1; dimension 0 goes over the columns. A work-item makes 1
 * row by 2 columns of C. Nothing need divide n: what is left over at the right is made by the last
 * work-item of its row.
 *
 * The lanes of a sum are 2 columns of C. A vector of A holds 2 neighbours in k; each of its
 * elements is multiplied with a vector of B, so no lanes need adding at the end.
 */

#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

/* Rows i .. i_end - 1 and columns first .. j_end - 1 of C, one element at a time. */
void edge(__global const double *A, __global const double *B, __global double *C, double alpha,
          double beta, uint n, uint i, uint i_end, uint first, uint j_end)
{
    for (; i < i_end; i++) {
        for (uint j = first; j < j_end; j++) {
            double sum = 0;
            for (uint k = 0; k < n; k++)
                sum += A[(size_t)i * n + k] * B[(size_t)k * n + j];
            __global double *c = C + (size_t)i * n + j;
            *c = alpha * sum + beta * *c;
        }
    }
}

__kernel void gemm(__global const double *restrict A, __global const double *restrict B,
                   __global double *restrict C, double alpha, double beta, uint n)
{
    const uint i = get_global_id(1), j = 2 * get_global_id(0);
    const bool whole = j + 2 <= n; /* not where an order is less than a tile's side */

    if (whole) {
        __global const double *A0 = A + (size_t)i * n;
        __global const double *Bj = B + j;
        double2 sum = (double2)(0);
        size_t k = 0;
        for (; k + 2 <= n; k += 2) {
            const double2 a = vload2(0, A0 + k);
            sum += a.x * vload2(0, Bj + k * n);
            sum += a.y * vload2(0, Bj + (k + 1) * n);
        }
        for (; k < n; k++)
            sum += A0[k] * vload2(0, Bj + k * n);
        __global double *C0 = C + (size_t)i * n + j;
        vstore2(alpha * sum + beta * vload2(0, C0), 0, C0);
    }

    if (get_global_id(0) + 1 == get_global_size(0))
        edge(A, B, C, alpha, beta, n, i, i + 1, whole ? j + 2 : j, n);
}
