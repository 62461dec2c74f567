/* C = alpha * A * B^T + beta * C, row-major; B is given transposed ("NT"):
 *
 *                          n              element (row, column) of a matrix is at
 *                    +-----------+        [row * n + column]
 *                  n | --> B     |
 *                    |           |        The sum over k runs along a row of A and along
 *            n       +-----------+        a row of B: in both, neighbours in k are
 *      +-----------+ +-----------+        neighbours in memory. Row j of B makes column j
 *    n | --> A     | |   o   C   |        of C.
 *      +-----------+ +-----------+
 *
 * NDRange: (n / WIDTH) x (n / 2), each at least 1; dimension 0 goes over the columns. A work-item
 * makes 2 rows by WIDTH columns of C. Nothing need divide n: what is left over at the right and at
 * the bottom is made by the last work-item of each dimension.
 *
 * The lanes of the vectors are WIDTH neighbours in k, which are neighbours in memory in A and in B.
 * There is a sum for each element; it is a vector whose lanes are added at the end. A vector of B
 * serves two rows of A: at WIDTH 4, 8 products of vectors for 6 loads, where one row has 4 for 5.
 *
 * The work-items of a group meet after every DK vectors of k. They share no memory of their own, so
 * the result does not need it: it keeps them from drifting apart, and what one of them has brought
 * into the cache is still there for the others. It is n alone that says how many chunks there are,
 * so every work-item meets the same barriers, and the last chunk ends at n.
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
#ifndef DK
#define DK 32 /* vectors of k from one barrier to the next */
#endif
#define JOIN(a, b) a##b
#define EXPAND(a, b) JOIN(a, b) /* replaces REAL and WIDTH before it joins */
#define VECTOR EXPAND(REAL, WIDTH)
#define VLOAD EXPAND(vload, WIDTH)
#define VSTORE EXPAND(vstore, WIDTH)

/* The sums of the lanes of WIDTH vectors. */
VECTOR lane_sums(const VECTOR *v)
{
#if WIDTH == 4
    return (VECTOR)(v[0].x + v[0].y + v[0].z + v[0].w, v[1].x + v[1].y + v[1].z + v[1].w,
                    v[2].x + v[2].y + v[2].z + v[2].w, v[3].x + v[3].y + v[3].z + v[3].w);
#else
    return (VECTOR)(v[0].x + v[0].y, v[1].x + v[1].y);
#endif
}

/* WIDTH elements that lie ld apart, the first at p. */
VECTOR column(__global const REAL *p, uint ld)
{
#if WIDTH == 4
    return (VECTOR)(p[0], p[ld], p[2 * ld], p[3 * ld]);
#else
    return (VECTOR)(p[0], p[ld]);
#endif
}

/* Rows i .. i_end - 1 and columns first .. j_end - 1 of C, one element at a time. */
void edge(__global const REAL *A, __global const REAL *B, __global REAL *C, REAL alpha,
          REAL beta, uint n, uint i, uint i_end, uint first, uint j_end)
{
    for (; i < i_end; i++) {
        for (uint j = first; j < j_end; j++) {
            REAL sum = 0;
            for (uint k = 0; k < n; k++)
                sum += A[(size_t)i * n + k] * B[(size_t)j * n + k];
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

    __global const REAL *A0 = A + (size_t)i * n, *A1 = A0 + n;
    __global const REAL *Bj = B + (size_t)j * n;
    VECTOR sum0[WIDTH] = {(VECTOR)(0)}, sum1[WIDTH] = {(VECTOR)(0)};
    VECTOR total0 = (VECTOR)(0), total1 = total0;
    for (size_t start = 0; start < n; start += WIDTH * DK) {
        const size_t end = min(start + WIDTH * DK, (size_t)n);
        size_t k = start;
        if (whole) {
            for (; k + WIDTH <= end; k += WIDTH) {
                const VECTOR a0 = VLOAD(0, A0 + k), a1 = VLOAD(0, A1 + k);
                #pragma unroll
                for (uint c = 0; c < WIDTH; c++) {
                    const VECTOR b = VLOAD(0, Bj + c * n + k);
                    sum0[c] += a0 * b;
                    sum1[c] += a1 * b;
                }
            }
            for (; k < end; k++) {
                const VECTOR b = column(Bj + k, n);
                total0 += A0[k] * b;
                total1 += A1[k] * b;
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (whole) {
        total0 += lane_sums(sum0);
        total1 += lane_sums(sum1);
        __global REAL *C0 = C + (size_t)i * n + j, *C1 = C0 + n;
        VSTORE(alpha * total0 + beta * VLOAD(0, C0), 0, C0);
        VSTORE(alpha * total1 + beta * VLOAD(0, C1), 0, C1);
    }

    const uint i_end = get_global_id(1) + 1 == get_global_size(1) ? n : i + 2;
    const uint j_end = get_global_id(0) + 1 == get_global_size(0) ? n : j + WIDTH;
    edge(A, B, C, alpha, beta, n, i, min(i + 2, i_end), whole ? j + WIDTH : j, j_end);
    edge(A, B, C, alpha, beta, n, i + 2, i_end, j, j_end);
}
