/* C = alpha * A * B + beta * C, row-major; ROWS rows by WIDTH columns of C per work-item, here with
 * ROWS = 2. B is stored as it is ("NN") or, with -DTRANS_B, transposed ("NT"):
 *
 *           NN              N                    NT              K
 *                     +-----------+                        +-----------+   element (row, column)
 *                   K | |||   B   |                      N | --> B     |   of a matrix with the
 *                     | vvv       |                        | -->       |   leading dimension ld
 *             K       |           |                K       | -->       |   is at
 *       +-----------+ +-----------+          +-----------+ +-----------+   [row * ld + column]
 *     M | --> A     | | ooo   C   |        M | --> A     | | ooo   C   |
 *       | -->       | | ooo       |          | -->       | | ooo       |
 *       +-----------+ +-----------+          +-----------+ +-----------+
 *
 * NDRange: (N / WIDTH) x (M / ROWS), each at least 1; dimension 0 goes over the columns. Any M, N
 * and K from 1 up: the last work-item of each dimension also computes the columns and rows that are
 * left over.
 *
 * NN  The sums run over k along the rows of A, and down WIDTH columns of B, whose rows lie ldb
 *     elements apart. The lanes of a sum are WIDTH columns of C. A vector of A holds WIDTH
 *     neighbours in k; each of its elements is multiplied by a vector of B, so no lanes need adding
 *     at the end. Products are added in pairs before they go to the sum, so it waits for half as
 *     many additions.
 * NT  The sums run over k along the rows of A and along WIDTH rows of B: in both, neighbours in k
 *     are neighbours in memory. Row j of B gives column j of C. The lanes of all vectors are WIDTH
 *     neighbours in k. Each element of C has its own vector, whose lanes are added at the end.
 *
 * ROWS     with 2, a vector of B is used for two rows of A: in NN at WIDTH 4, 8 vector products for
 *          6 loads; with 1, 4 products for 5 loads.
 * UNROLL   vectors of A per step: with 2, half as many comparisons and branches, and loads that are
 *          independent of each other.
 * DK       if defined, the work-items of a group meet at a barrier after every DK vectors of k. The
 *          result does not need it. It keeps them together, so that a vector of B that one of them
 *          has loaded is still in the cache for the others. The number of chunks depends on K
 *          alone, so all work-items reach the same barriers.
 * NO_TAIL  with DK: wrong on purpose, the mistake of the kernels whose validation failed in the GEMMbench
 *          paper. The last chunk of DK vectors does not stop at K. It continues beyond the row
 *          of A into the next one, and after the last row into other memory; so it does in B.
 *
 *              row i of A      |<------- K ------->|<- the next row ->
 *              chunks          |<------ whole chunks ------->|      K = 96: 32 products too many
 *
 * HALF     if defined, the matrices are of half; alpha, beta and the sums are float. cl_khr_fp16 is
 *          not needed.
 * MNK      if defined, the kernel takes M, N, K and the leading dimensions. Otherwise the matrices
 *          are square, of order n.
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
#ifdef NO_TAIL
#define END_OF(chunk) (chunk)
#else
#define END_OF(chunk) min(chunk, (size_t)K)
#endif
#ifdef TRANS_B
#define AT_B(k, j) ((j) * ldb + (k))
#else
#define AT_B(k, j) ((k) * ldb + (j))
#endif
#ifdef MNK
#define ORDERS uint M, uint N, uint K, uint lda, uint ldb, uint ldc
#else
#define ORDERS uint n
#endif

/* An element or a vector of C. Where beta is 0, C is not read: it may contain anything, even NaN. */
#define RESULT(sum, c) (beta == 0 ? alpha * (sum) : alpha * (sum) + beta * (c))

/* The elements of B for one k and WIDTH columns of C, the first at p. */
VECTOR row_of_B(__global const STORED *p, uint ldb)
{
#ifndef TRANS_B
    return VLOAD(0, p);
#elif WIDTH == 4
    return (VECTOR)(LOAD(0, p), LOAD(ldb, p), LOAD(2 * ldb, p), LOAD(3 * ldb, p));
#else
    return (VECTOR)(LOAD(0, p), LOAD(ldb, p));
#endif
}

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

__kernel void gemm(__global const STORED *restrict A, __global const STORED *restrict B,
                   __global STORED *restrict C, REAL alpha, REAL beta, ORDERS)
{
#ifndef MNK
    const uint M = n, N = n, K = n, lda = n, ldb = n, ldc = n;
#endif
    const size_t i = ROWS * get_global_id(1), j = WIDTH * get_global_id(0);
    /* False only if an order is less than the tile's side. */
    const bool whole = j + WIDTH <= N && i + ROWS <= M;
    __global const STORED *Ai = A + i * lda, *Bj = B + AT_B(0, j);

    VECTOR sums[ROWS], lanes[ROWS][WIDTH]; /* the second for NT only */
    #pragma unroll
    for (uint r = 0; r < ROWS; r++) { /* Mesa's compilers for Mali abort at an initializer */
        sums[r] = (VECTOR)(0);
        #pragma unroll
        for (uint c = 0; c < WIDTH; c++)
            lanes[r][c] = (VECTOR)(0);
    }
    for (size_t start = 0; start < K; start += CHUNK) {
        const size_t end = END_OF(start + CHUNK);
        size_t k = start;
        if (whole) {
            for (; k + UNROLL * WIDTH <= end; k += UNROLL * WIDTH) {
                #pragma unroll
                for (uint v = 0; v < UNROLL * WIDTH; v += WIDTH) {
#ifdef TRANS_B
                    VECTOR a[ROWS];
                    #pragma unroll
                    for (uint r = 0; r < ROWS; r++)
                        a[r] = VLOAD(0, Ai + r * lda + k + v);
                    #pragma unroll
                    for (uint c = 0; c < WIDTH; c++) {
                        const VECTOR b = VLOAD(0, Bj + c * ldb + k + v);
                        #pragma unroll
                        for (uint r = 0; r < ROWS; r++)
                            lanes[r][c] += a[r] * b;
                    }
#else
                    const VECTOR b0 = VLOAD(0, Bj + (k + v) * ldb);
                    const VECTOR b1 = VLOAD(0, Bj + (k + v + 1) * ldb);
#if WIDTH == 4
                    const VECTOR b2 = VLOAD(0, Bj + (k + v + 2) * ldb);
                    const VECTOR b3 = VLOAD(0, Bj + (k + v + 3) * ldb);
#endif
                    #pragma unroll
                    for (uint r = 0; r < ROWS; r++) {
                        const VECTOR a = VLOAD(0, Ai + r * lda + k + v);
                        sums[r] += a.x * b0 + a.y * b1;
#if WIDTH == 4
                        sums[r] += a.z * b2 + a.w * b3;
#endif
                    }
#endif
                }
            }
            for (; k < end; k++) {
                const VECTOR b = row_of_B(Bj + AT_B(k, 0), ldb);
                #pragma unroll
                for (uint r = 0; r < ROWS; r++)
                    sums[r] += LOAD(r * lda + k, Ai) * b;
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
#ifdef TRANS_B
            sums[r] += lane_sums(lanes[r]);
#endif
            VSTORE(RESULT(sums[r], VLOAD(0, c)), 0, c);
        }
    }

    /* What is left over at the right and at the bottom, one element at a time. */
    const size_t i_end = get_global_id(1) + 1 == get_global_size(1) ? M : i + ROWS;
    const size_t j_end = get_global_id(0) + 1 == get_global_size(0) ? N : j + WIDTH;
    for (size_t row = i; row < i_end; row++) {
        for (size_t col = whole && row < i + ROWS ? j + WIDTH : j; col < j_end; col++) {
            REAL one = 0;
            for (size_t k = 0; k < K; k++)
                one += LOAD(row * lda + k, A) * LOAD(AT_B(k, col), B);
            STORE(RESULT(one, LOAD(row * ldc + col, C)), row * ldc + col, C);
        }
    }
}
