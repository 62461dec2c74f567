/* C = alpha * A * B^T + beta * C, row-major, B stored transposed ("NT"); 2 rows by WIDTH columns of C
 * per work-item:
 *
 *                          K              element (row, column) of a matrix with the
 *                    +-----------+        leading dimension ld is at [row * ld + column]
 *                  N | --> B     |
 *                    | -->       |        A: M x K    B: N x K    C: M x N
 *            K       | -->       |
 *                    +-----------+        The sums run over k along two rows of A and along
 *      +-----------+ +-----------+        WIDTH rows of B: in both, neighbours in k are
 *    M | --> A     | | ooo   C   |        neighbours in memory. Row j of B makes column j
 *      | -->       | | ooo       |        of C.
 *      +-----------+ +-----------+
 *
 * NDRange: (N / WIDTH) x (M / 2), each at least 1; dimension 0 goes over the columns. Any M, N and K
 * from 1 up: the last work-item of each dimension also makes the columns and rows that are left
 * over. Without -DMNK the matrices are square, of order n.
 *
 * The lanes of all vectors are WIDTH neighbours in k. Each element has a sum of its own, a vector
 * whose lanes are added at the end. A vector of B serves two rows of A: at WIDTH 4, 8 products of
 * vectors for 6 loads, where NT_1_row.cl has 4 for 5. DK is explained in NN_1_row.cl.
 */

#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
#ifndef REAL
#define REAL float /* or double */
#endif
#ifndef WIDTH
#define WIDTH 4 /* elements of a vector: 2 or 4 */
#endif
#define JOIN(a, b) a##b
#define EXPAND(a, b) JOIN(a, b) /* replaces REAL and WIDTH before it joins */
#define VECTOR EXPAND(REAL, WIDTH)
#define VLOAD EXPAND(vload, WIDTH)
#define VSTORE EXPAND(vstore, WIDTH)
#ifdef MNK
#define ORDERS uint M, uint N, uint K, uint lda, uint ldb, uint ldc
#else
#define ORDERS uint n
#endif
#ifdef DK
#define CHUNK (WIDTH * DK) /* elements of k from one barrier to the next */
#else
#define CHUNK K
#endif

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

__kernel void gemm(__global const REAL *restrict A, __global const REAL *restrict B,
                   __global REAL *restrict C, REAL alpha, REAL beta, ORDERS)
{
#ifndef MNK
    const uint M = n, N = n, K = n, lda = n, ldb = n, ldc = n;
#endif
    const size_t i = 2 * get_global_id(1), j = WIDTH * get_global_id(0);
    /* False only if an order is less than the tile's side. */
    const bool whole = j + WIDTH <= N && i + 2 <= M;
    __global const REAL *A0 = A + i * lda, *A1 = A0 + lda;
    __global const REAL *Bj = B + j * ldb;

    VECTOR sums0[WIDTH], sums1[WIDTH];
    #pragma unroll
    for (uint c = 0; c < WIDTH; c++) /* Mesa's compilers for Mali abort at an initializer */
        sums0[c] = sums1[c] = (VECTOR)(0);
    VECTOR total0 = (VECTOR)(0), total1 = total0;
    for (size_t start = 0; start < K; start += CHUNK) {
        const size_t end = min(start + CHUNK, (size_t)K);
        size_t k = start;
        if (whole) {
            for (; k + WIDTH <= end; k += WIDTH) {
                const VECTOR a0 = VLOAD(0, A0 + k), a1 = VLOAD(0, A1 + k);
                #pragma unroll
                for (uint c = 0; c < WIDTH; c++) {
                    const VECTOR b = VLOAD(0, Bj + c * ldb + k);
                    sums0[c] += a0 * b;
                    sums1[c] += a1 * b;
                }
            }
            for (; k < end; k++) {
                const VECTOR b = column(Bj + k, ldb);
                total0 += A0[k] * b;
                total1 += A1[k] * b;
            }
        }
#ifdef DK
        barrier(CLK_LOCAL_MEM_FENCE);
#endif
    }
    if (whole) {
        __global REAL *C0 = C + i * ldc + j, *C1 = C0 + ldc;
        total0 += lane_sums(sums0);
        total1 += lane_sums(sums1);
        VSTORE(alpha * total0 + beta * VLOAD(0, C0), 0, C0);
        VSTORE(alpha * total1 + beta * VLOAD(0, C1), 0, C1);
    }

    /* What is left over at the right and at the bottom, one element at a time. */
    const size_t i_end = get_global_id(1) + 1 == get_global_size(1) ? M : i + 2;
    const size_t j_end = get_global_id(0) + 1 == get_global_size(0) ? N : j + WIDTH;
    for (size_t row = i; row < i_end; row++) {
        for (size_t col = whole && row < i + 2 ? j + WIDTH : j; col < j_end; col++) {
            REAL sum = 0;
            for (size_t k = 0; k < K; k++)
                sum += A[row * lda + k] * B[col * ldb + k];
            __global REAL *c = C + row * ldc + col;
            *c = alpha * sum + beta * *c;
        }
    }
}
