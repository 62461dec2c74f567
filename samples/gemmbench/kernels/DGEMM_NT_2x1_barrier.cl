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
 * NDRange: (n / 2) x n, each at least 1; dimension 0 goes over the columns. A work-item makes 1
 * row by 2 columns of C. Nothing need divide n: what is left over at the right is made by the last
 * work-item of its row.
 *
 * The lanes of the vectors are 2 neighbours in k, which are neighbours in memory in A and in B.
 * Each of the 2 sums is a vector, and its lanes are added at the end.
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
    const uint i = get_global_id(1), j = 2 * get_global_id(0);
    const bool whole = j + 2 <= n; /* not where an order is less than a tile's side */

    __global const double *A0 = A + (size_t)i * n;
    __global const double *B0 = B + (size_t)j * n, *B1 = B0 + n;
    double2 sum0 = (double2)(0), sum1 = sum0;
    double2 total = (double2)(0);
    for (size_t start = 0; start < n; start += 2 * DK) {
        const size_t end = min(start + 2 * DK, (size_t)n);
        size_t k = start;
        if (whole) {
            for (; k + 2 <= end; k += 2) {
                const double2 a = vload2(0, A0 + k);
                sum0 += a * vload2(0, B0 + k);
                sum1 += a * vload2(0, B1 + k);
            }
            for (; k < end; k++)
                total += A0[k] * (double2)(B0[k], B1[k]);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (whole) {
        total += (double2)(sum0.x + sum0.y, sum1.x + sum1.y);
        __global double *C0 = C + (size_t)i * n + j;
        vstore2(alpha * total + beta * vload2(0, C0), 0, C0);
    }

    if (get_global_id(0) + 1 == get_global_size(0))
        edge(A, B, C, alpha, beta, n, i, i + 1, whole ? j + 2 : j, n);
}
