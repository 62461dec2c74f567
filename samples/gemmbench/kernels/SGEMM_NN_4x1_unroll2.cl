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
 * NDRange: (n / WIDTH) x n, each at least 1; dimension 0 goes over the columns. A work-item makes 1
 * row by WIDTH columns of C. Nothing need divide n: what is left over at the right is made by the
 * last work-item of its row.
 *
 * The lanes of a sum are WIDTH columns of C. A vector of A holds WIDTH neighbours in k; each of its
 * elements is multiplied with a vector of B, so no lanes need adding at the end.
 *
 * Two vectors of A at a time: half as many tests and jumps, and loads that need not wait for each
 * other.
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
    const uint i = get_global_id(1), j = WIDTH * get_global_id(0);
    const bool whole = j + WIDTH <= n; /* not where an order is less than a tile's side */

    if (whole) {
        __global const REAL *A0 = A + (size_t)i * n;
        __global const REAL *Bj = B + j;
        VECTOR sum = (VECTOR)(0);
        size_t k = 0;
        for (; k + 2 * WIDTH <= n; k += 2 * WIDTH) {
            const VECTOR a0 = VLOAD(0, A0 + k);
            sum += a0.x * VLOAD(0, Bj + k * n);
            sum += a0.y * VLOAD(0, Bj + (k + 1) * n);
#if WIDTH == 4
            sum += a0.z * VLOAD(0, Bj + (k + 2) * n);
            sum += a0.w * VLOAD(0, Bj + (k + 3) * n);
#endif
            const VECTOR a1 = VLOAD(0, A0 + k + WIDTH);
            sum += a1.x * VLOAD(0, Bj + (k + WIDTH) * n);
            sum += a1.y * VLOAD(0, Bj + (k + WIDTH + 1) * n);
#if WIDTH == 4
            sum += a1.z * VLOAD(0, Bj + (k + WIDTH + 2) * n);
            sum += a1.w * VLOAD(0, Bj + (k + WIDTH + 3) * n);
#endif
        }
        for (; k < n; k++)
            sum += A0[k] * VLOAD(0, Bj + k * n);
        __global REAL *C0 = C + (size_t)i * n + j;
        VSTORE(alpha * sum + beta * VLOAD(0, C0), 0, C0);
    }

    if (get_global_id(0) + 1 == get_global_size(0))
        edge(A, B, C, alpha, beta, n, i, i + 1, whole ? j + WIDTH : j, n);
}
