/* C = alpha * A * B^T + beta * C, row-major; B is given transposed ("NT"):
 *
 *                          K              element (row, column) of a matrix with the
 *                    +-----------+        leading dimension ld is at [row * ld + column]
 *                  N | --> B     |
 *                    |           |        A: M x K    B: N x K    C: M x N
 *            K       +-----------+        The sum over k runs along a row of A and along
 *      +-----------+ +-----------+        a row of B: in both, neighbours in k are
 *    M | --> A     | |   o   C   |        neighbours in memory. Row j of B makes column j
 *      +-----------+ +-----------+        of C.
 *
 * NDRange: (N / WIDTH) x (M / 2), each at least 1; dimension 0 goes over the columns. A work-item
 * makes 2 rows by WIDTH columns of C. Nothing need divide the orders: what is left over at the
 * right and at the bottom is made by the last work-item of each dimension.
 *
 * The lanes of the vectors are WIDTH neighbours in k, which are neighbours in memory in A and in B.
 * There is a sum for each element; it is a vector whose lanes are added at the end. A vector of B
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
          REAL beta, uint K, uint lda, uint ldb, uint ldc, uint i, uint i_end,
          uint first, uint j_end)
{
    for (; i < i_end; i++) {
        for (uint j = first; j < j_end; j++) {
            REAL sum = 0;
            for (uint k = 0; k < K; k++)
                sum += A[(size_t)i * lda + k] * B[(size_t)j * ldb + k];
            __global REAL *c = C + (size_t)i * ldc + j;
            *c = alpha * sum + beta * *c;
        }
    }
}

__kernel void gemm(__global const REAL *restrict A, __global const REAL *restrict B,
                   __global REAL *restrict C, REAL alpha, REAL beta, uint M, uint N,
                   uint K, uint lda, uint ldb, uint ldc)
{
    const uint i = 2 * get_global_id(1), j = WIDTH * get_global_id(0);
    /* not where an order is less than a tile's side */
    const bool whole = j + WIDTH <= N && i + 2 <= M;

    if (whole) {
        __global const REAL *A0 = A + (size_t)i * lda, *A1 = A0 + lda;
        __global const REAL *Bj = B + (size_t)j * ldb;
        VECTOR sum0[WIDTH] = {(VECTOR)(0)}, sum1[WIDTH] = {(VECTOR)(0)};
        VECTOR total0 = (VECTOR)(0), total1 = total0;
        size_t k = 0;
        for (; k + WIDTH <= K; k += WIDTH) {
            const VECTOR a0 = VLOAD(0, A0 + k), a1 = VLOAD(0, A1 + k);
            #pragma unroll
            for (uint c = 0; c < WIDTH; c++) {
                const VECTOR b = VLOAD(0, Bj + c * ldb + k);
                sum0[c] += a0 * b;
                sum1[c] += a1 * b;
            }
        }
        for (; k < K; k++) {
            const VECTOR b = column(Bj + k, ldb);
            total0 += A0[k] * b;
            total1 += A1[k] * b;
        }
        total0 += lane_sums(sum0);
        total1 += lane_sums(sum1);
        __global REAL *C0 = C + (size_t)i * ldc + j, *C1 = C0 + ldc;
        VSTORE(alpha * total0 + beta * VLOAD(0, C0), 0, C0);
        VSTORE(alpha * total1 + beta * VLOAD(0, C1), 0, C1);
    }

    const uint i_end = get_global_id(1) + 1 == get_global_size(1) ? M : i + 2;
    const uint j_end = get_global_id(0) + 1 == get_global_size(0) ? N : j + WIDTH;
    edge(A, B, C, alpha, beta, K, lda, ldb, ldc, i, min(i + 2, i_end), whole ? j + WIDTH : j,
         j_end);
    edge(A, B, C, alpha, beta, K, lda, ldb, ldc, i + 2, i_end, j, j_end);
}
