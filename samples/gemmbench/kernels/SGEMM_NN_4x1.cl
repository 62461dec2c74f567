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
 * Built with -DHALF the matrices are of half, and alpha, beta and the sums of float: half is a type
 * of storage, which vload_half and vstore_half read and write. They are part of every OpenCL;
 * cl_khr_fp16 is not needed.
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
#ifdef HALF
#define STORED half
#define LOAD(at, p) vload_half(at, p)
#define STORE(x, at, p) vstore_half(x, at, p)
#define VLOAD EXPAND(vload_half, WIDTH)
#define VSTORE EXPAND(vstore_half, WIDTH)
#else
#define STORED REAL
#define LOAD(at, p) (p)[at]
#define STORE(x, at, p) (p)[at] = (x)
#define VLOAD EXPAND(vload, WIDTH)
#define VSTORE EXPAND(vstore, WIDTH)
#endif

/* Rows i .. i_end - 1 and columns first .. j_end - 1 of C, one element at a time. */
void edge(__global const STORED *A, __global const STORED *B, __global STORED *C, REAL alpha,
          REAL beta, uint n, uint i, uint i_end, uint first, uint j_end)
{
    for (; i < i_end; i++) {
        for (uint j = first; j < j_end; j++) {
            REAL sum = 0;
            for (uint k = 0; k < n; k++)
                sum += LOAD((size_t)i * n + k, A) * LOAD((size_t)k * n + j, B);
            const size_t at = (size_t)i * n + j;
            STORE(alpha * sum + beta * LOAD(at, C), at, C);
        }
    }
}

__kernel void gemm(__global const STORED *restrict A, __global const STORED *restrict B,
                   __global STORED *restrict C, REAL alpha, REAL beta, uint n)
{
    const uint i = get_global_id(1), j = WIDTH * get_global_id(0);
    const bool whole = j + WIDTH <= n; /* not where an order is less than a tile's side */

    if (whole) {
        __global const STORED *A0 = A + (size_t)i * n;
        __global const STORED *Bj = B + j;
        VECTOR sum = (VECTOR)(0);
        size_t k = 0;
        for (; k + WIDTH <= n; k += WIDTH) {
            const VECTOR a = VLOAD(0, A0 + k);
            sum += a.x * VLOAD(0, Bj + k * n);
            sum += a.y * VLOAD(0, Bj + (k + 1) * n);
#if WIDTH == 4
            sum += a.z * VLOAD(0, Bj + (k + 2) * n);
            sum += a.w * VLOAD(0, Bj + (k + 3) * n);
#endif
        }
        for (; k < n; k++)
            sum += LOAD(k, A0) * VLOAD(0, Bj + k * n);
        __global STORED *C0 = C + (size_t)i * n + j;
        VSTORE(alpha * sum + beta * VLOAD(0, C0), 0, C0);
    }

    if (get_global_id(0) + 1 == get_global_size(0))
        edge(A, B, C, alpha, beta, n, i, i + 1, whole ? j + WIDTH : j, n);
}
