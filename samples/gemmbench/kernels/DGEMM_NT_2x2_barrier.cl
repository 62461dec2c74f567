/* C = alpha * A * B^T + beta * C, float64, row-major; B is given transposed ("NT"):
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
 * NDRange: (n / 2) x (n / 2), each at least 1; dimension 0 goes over the columns. A work-item
 * makes 2 rows by 2 columns of C. Nothing need divide n: what is left over at the right and at the
 * bottom is made by the last work-item of each dimension.
 *
 * The lanes of the vectors are 2 neighbours in k, which are neighbours in memory in A and in B.
 * Each of the 4 sums is a vector, and its lanes are added at the end. A vector of B serves two
 * rows of A: 4 products of vectors for 4 loads, where one row has 2 for 3.
 *
 * The work-items of a group meet after every DK vectors of k, 64 elements. They share no memory of
 * their own, so the result does not need it: it keeps them from drifting apart, and what one of
 * them has brought into the cache is still there for the others. It is n alone that says how many
 * chunks there are, so every work-item meets the same barriers, and the last chunk ends at n.
 */

#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

#ifndef DK
#define DK 32 /* vectors of k from one barrier to the next */
#endif

/* Rows i .. i_end - 1 and columns first .. j_end - 1 of C, one element at a time. */
void edge(__global const double *A, __global const double *B, __global double *C, double alpha,
          double beta, uint n, uint i, uint i_end, uint first, uint j_end)
{
    for (; i < i_end; i++) {
        for (uint j = first; j < j_end; j++) {
            double sum = 0;
            for (uint k = 0; k < n; k++)
                sum += A[(size_t)i * n + k] * B[(size_t)j * n + k];
            __global double *c = C + (size_t)i * n + j;
            *c = alpha * sum + beta * *c;
        }
    }
}

__kernel void gemm(__global const double *restrict A, __global const double *restrict B,
                   __global double *restrict C, double alpha, double beta, uint n)
{
    const uint i = 2 * get_global_id(1), j = 2 * get_global_id(0);
    const bool whole = j + 2 <= n && i + 2 <= n; /* not where an order is less than a tile's side */

    __global const double *A0 = A + (size_t)i * n, *A1 = A0 + n;
    __global const double *B0 = B + (size_t)j * n, *B1 = B0 + n;
    double2 sum0 = (double2)(0), sum1 = sum0, sum2 = sum0, sum3 = sum0;
    double2 total0 = (double2)(0), total1 = total0;
    for (size_t start = 0; start < n; start += 2 * DK) {
        const size_t end = min(start + 2 * DK, (size_t)n);
        size_t k = start;
        if (whole) {
            for (; k + 2 <= end; k += 2) {
                const double2 a0 = vload2(0, A0 + k);
                const double2 a1 = vload2(0, A1 + k);
                const double2 b0 = vload2(0, B0 + k);
                const double2 b1 = vload2(0, B1 + k);
                sum0 += a0 * b0;
                sum1 += a0 * b1;
                sum2 += a1 * b0;
                sum3 += a1 * b1;
            }
            for (; k < end; k++) {
                const double2 b = (double2)(B0[k], B1[k]);
                total0 += A0[k] * b;
                total1 += A1[k] * b;
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (whole) {
        total0 += (double2)(sum0.x + sum0.y, sum1.x + sum1.y);
        total1 += (double2)(sum2.x + sum2.y, sum3.x + sum3.y);
        __global double *C0 = C + (size_t)i * n + j, *C1 = C0 + n;
        vstore2(alpha * total0 + beta * vload2(0, C0), 0, C0);
        vstore2(alpha * total1 + beta * vload2(0, C1), 0, C1);
    }

    const uint i_end = get_global_id(1) + 1 == get_global_size(1) ? n : i + 2;
    const uint j_end = get_global_id(0) + 1 == get_global_size(0) ? n : j + 2;
    edge(A, B, C, alpha, beta, n, i, min(i + 2, i_end), whole ? j + 2 : j, j_end);
    edge(A, B, C, alpha, beta, n, i + 2, i_end, j, j_end);
}
