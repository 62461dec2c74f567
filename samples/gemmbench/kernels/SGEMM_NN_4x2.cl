/* C = alpha * A * B + beta * C, row-major; A and B as they are ("NN"):
 *
 *                          n              element (row, column) of a matrix is at
 *                    +-----------+        [row * n + column]
 *                  n |   |   B   |
 *                    |   v       |        The sum over k runs along a row of A, where
 *            n       +-----------+        neighbours are neighbours in memory, and down B,
 *      +-----------+ +-----------+        whose rows lie n elements apart.
 *    n | --> A     | |   o   C   |
 *      +-----------+ +-----------+
 *
 * NDRange: (n / WIDTH) x (n / 2), each at least 1; dimension 0 goes over the columns. A work-item
 * makes 2 rows by WIDTH columns of C. Nothing need divide n: what is left over at the right and at
 * the bottom is made by the last work-item of each dimension.
 *
 * The lanes of a sum are WIDTH columns of C. A vector of A holds WIDTH neighbours in k; each of its
 * elements is multiplied with a vector of B, so no lanes need adding at the end. A vector of B
 * serves two rows of A: at WIDTH 4, 8 products of vectors for 6 loads, where one row has 4 for 5.
 */

#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
#ifndef REAL
#define REAL float /* or double */
#endif
#ifndef WIDTH
#define WIDTH 4 /* elements of a vector, and columns of C that a work-item makes: 2 or 4 */
#endif
#define JOIN(a, b) a##b
#define EXPAND(a, b) JOIN(a, b) /* replaces REAL and WIDTH before it joins */
#define VECTOR EXPAND(REAL, WIDTH)
#define VLOAD EXPAND(vload, WIDTH)
#define VSTORE EXPAND(vstore, WIDTH)

/* Rows i .. i_end - 1 and columns first .. j_end - 1 of C, one element at a time. */
void edge(__global const REAL *A, __global const REAL *B, __global REAL *C, REAL alpha,
          REAL beta, uint n, uint i, uint i_end, uint first, uint j_end)
{
    for (; i < i_end; i++) {
        for (uint j = first; j < j_end; j++) {
            REAL sum = 0;
            for (uint k = 0; k < n; k++)
                sum += A[(size_t)i * n + k] * B[(size_t)k * n + j];
            __global REAL *c = C + (size_t)i * n + j;
            *c = alpha * sum + beta * *c;
        }
    }
}

__kernel void gemm(__global const REAL *restrict A, __global const REAL *restrict B,
                   __global REAL *restrict C, REAL alpha, REAL beta, uint n)
{
    const uint i = 2 * get_global_id(1), j = WIDTH * get_global_id(0);
    /* not where an order is less than a tile's side */
    const bool whole = j + WIDTH <= n && i + 2 <= n;

    if (whole) {
        __global const REAL *A0 = A + (size_t)i * n, *A1 = A0 + n;
        __global const REAL *Bj = B + j;
        VECTOR sum0 = (VECTOR)(0), sum1 = sum0;
        size_t k = 0;
        for (; k + WIDTH <= n; k += WIDTH) {
            const VECTOR a0 = VLOAD(0, A0 + k), a1 = VLOAD(0, A1 + k);
            const VECTOR b0 = VLOAD(0, Bj + k * n), b1 = VLOAD(0, Bj + (k + 1) * n);
            sum0 += a0.x * b0 + a0.y * b1;
            sum1 += a1.x * b0 + a1.y * b1;
#if WIDTH == 4
            const VECTOR b2 = VLOAD(0, Bj + (k + 2) * n), b3 = VLOAD(0, Bj + (k + 3) * n);
            sum0 += a0.z * b2 + a0.w * b3;
            sum1 += a1.z * b2 + a1.w * b3;
#endif
        }
        for (; k < n; k++) {
            const VECTOR b = VLOAD(0, Bj + k * n);
            sum0 += A0[k] * b;
            sum1 += A1[k] * b;
        }
        __global REAL *C0 = C + (size_t)i * n + j, *C1 = C0 + n;
        VSTORE(alpha * sum0 + beta * VLOAD(0, C0), 0, C0);
        VSTORE(alpha * sum1 + beta * VLOAD(0, C1), 0, C1);
    }

    const uint i_end = get_global_id(1) + 1 == get_global_size(1) ? n : i + 2;
    const uint j_end = get_global_id(0) + 1 == get_global_size(0) ? n : j + WIDTH;
    edge(A, B, C, alpha, beta, n, i, min(i + 2, i_end), whole ? j + WIDTH : j, j_end);
    edge(A, B, C, alpha, beta, n, i + 2, i_end, j, j_end);
}
