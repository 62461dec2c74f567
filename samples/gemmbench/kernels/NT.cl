/* C = alpha * A * B^T + beta * C, row-major, B stored transposed ("NT"); ROWS rows by WIDTH columns
 * of C per work-item, here with ROWS = 2:
 *
 *                          K              element (row, column) of a matrix with the
 *                    +-----------+        leading dimension ld is at [row * ld + column]
 *                  N | --> B     |
 *                    | -->       |        A: M x K    B: N x K    C: M x N
 *            K       | -->       |
 *                    +-----------+        The sums run over k along the rows of A and along
 *      +-----------+ +-----------+        WIDTH rows of B: in both, neighbours in k are
 *    M | --> A     | | ooo   C   |        neighbours in memory. Row j of B gives column j
 *      | -->       | | ooo       |        of C.
 *      +-----------+ +-----------+
 *
 * NDRange: (N / WIDTH) x (M / ROWS), each at least 1; dimension 0 goes over the columns. Any M, N and
 * K from 1 up: the last work-item of each dimension also computes the columns and rows that are left
 * over.
 *
 * The lanes of all vectors are WIDTH neighbours in k. Each element has its own sum, a vector whose
 * lanes are added at the end. ROWS, UNROLL, DK, HALF and MNK are explained in NN.cl.
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
#ifndef ROWS
#define ROWS 1
#endif
#ifndef UNROLL
#define UNROLL 1
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
#ifdef DK
#define CHUNK (WIDTH * DK) /* elements of k from one barrier to the next */
#else
#define CHUNK K
#endif
#ifdef MNK
#define ORDERS uint M, uint N, uint K, uint lda, uint ldb, uint ldc
#else
#define ORDERS uint n
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
VECTOR column(__global const STORED *p, uint ld)
{
#if WIDTH == 4
    return (VECTOR)(LOAD(0, p), LOAD(ld, p), LOAD(2 * ld, p), LOAD(3 * ld, p));
#else
    return (VECTOR)(LOAD(0, p), LOAD(ld, p));
#endif
}

__kernel void gemm(__global const STORED *restrict A, __global const STORED *restrict B,
                   __global STORED *restrict C, REAL alpha, REAL beta, ORDERS)
{
#ifndef MNK
    const uint M = n, N = n, K = n, lda = n, ldb = n, ldc = n;
#endif
    const size_t i = ROWS * get_global_id(1), j = WIDTH * get_global_id(0);
    /* False only if an order is less than the tile's side. */
    const bool whole = j + WIDTH <= N && i + ROWS <= M;
    __global const STORED *Ai = A + i * lda, *Bj = B + j * ldb;

    VECTOR sums[ROWS][WIDTH], totals[ROWS];
    #pragma unroll
    for (uint r = 0; r < ROWS; r++) { /* Mesa's compilers for Mali abort at an initializer */
        totals[r] = (VECTOR)(0);
        #pragma unroll
        for (uint c = 0; c < WIDTH; c++)
            sums[r][c] = (VECTOR)(0);
    }
    for (size_t start = 0; start < K; start += CHUNK) {
        const size_t end = min(start + CHUNK, (size_t)K);
        size_t k = start;
        if (whole) {
            for (; k + UNROLL * WIDTH <= end; k += UNROLL * WIDTH) {
                #pragma unroll
                for (uint v = 0; v < UNROLL * WIDTH; v += WIDTH) {
                    VECTOR a[ROWS];
                    #pragma unroll
                    for (uint r = 0; r < ROWS; r++)
                        a[r] = VLOAD(0, Ai + r * lda + k + v);
                    #pragma unroll
                    for (uint c = 0; c < WIDTH; c++) {
                        const VECTOR b = VLOAD(0, Bj + c * ldb + k + v);
                        #pragma unroll
                        for (uint r = 0; r < ROWS; r++)
                            sums[r][c] += a[r] * b;
                    }
                }
            }
            for (; k < end; k++) {
                const VECTOR b = column(Bj + k, ldb);
                #pragma unroll
                for (uint r = 0; r < ROWS; r++)
                    totals[r] += LOAD(r * lda + k, Ai) * b;
            }
        }
#ifdef DK
        barrier(CLK_LOCAL_MEM_FENCE);
#endif
    }
    if (whole) {
        #pragma unroll
        for (uint r = 0; r < ROWS; r++) {
            __global STORED *c = C + (i + r) * ldc + j;
            totals[r] += lane_sums(sums[r]);
            VSTORE(alpha * totals[r] + beta * VLOAD(0, c), 0, c);
        }
    }

    /* What is left over at the right and at the bottom, one element at a time. */
    const size_t i_end = get_global_id(1) + 1 == get_global_size(1) ? M : i + ROWS;
    const size_t j_end = get_global_id(0) + 1 == get_global_size(0) ? N : j + WIDTH;
    for (size_t row = i; row < i_end; row++) {
        for (size_t col = whole && row < i + ROWS ? j + WIDTH : j; col < j_end; col++) {
            REAL one = 0;
            for (size_t k = 0; k < K; k++)
                one += LOAD(row * lda + k, A) * LOAD(col * ldb + k, B);
            STORE(alpha * one + beta * LOAD(row * ldc + col, C), row * ldc + col, C);
        }
    }
}
