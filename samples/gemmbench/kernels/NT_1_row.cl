/* C = alpha * A * B^T + beta * C, row-major, B stored transposed ("NT"); 1 row by WIDTH columns of C
 * per work-item:
 *
 *                          n              element (row, column) of a matrix is at
 *                    +-----------+        [row * n + column]
 *                  n | --> B     |
 *                    | -->       |        The sums run over k along a row of A and along WIDTH
 *            n       | -->       |        rows of B: in both, neighbours in k are neighbours in
 *                    +-----------+        memory. Row j of B makes column j of C.
 *      +-----------+ +-----------+
 *    n | --> A     | | ooo   C   |
 *      +-----------+ +-----------+
 *
 * NDRange: (n / WIDTH) x n, each at least 1; dimension 0 goes over the columns. Any order from 1 up:
 * the last work-item of each row also makes the columns that are left over.
 *
 * The lanes of all vectors are WIDTH neighbours in k. Each column has a sum of its own, a vector
 * whose lanes are added at the end. UNROLL, DK and HALF are explained in NN_1_row.cl.
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
#define CHUNK n
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
                   __global STORED *restrict C, REAL alpha, REAL beta, uint n)
{
    const uint i = get_global_id(1), j = WIDTH * get_global_id(0);
    const bool whole = j + WIDTH <= n; /* false only if n is less than WIDTH */
    __global const STORED *Ai = A + (size_t)i * n, *Bj = B + (size_t)j * n;

    VECTOR sums[WIDTH], total = (VECTOR)(0);
    #pragma unroll
    for (uint c = 0; c < WIDTH; c++) /* Mesa's compilers for Mali abort at an initializer */
        sums[c] = (VECTOR)(0);
    for (size_t start = 0; start < n; start += CHUNK) {
        const size_t end = min(start + CHUNK, (size_t)n);
        size_t k = start;
        if (whole) {
            for (; k + UNROLL * WIDTH <= end; k += UNROLL * WIDTH) {
                #pragma unroll
                for (uint v = 0; v < UNROLL * WIDTH; v += WIDTH) {
                    const VECTOR a = VLOAD(0, Ai + k + v);
                    #pragma unroll
                    for (uint c = 0; c < WIDTH; c++)
                        sums[c] += a * VLOAD(0, Bj + c * n + k + v);
                }
            }
            for (; k < end; k++)
                total += LOAD(k, Ai) * column(Bj + k, n);
        }
#ifdef DK
        barrier(CLK_LOCAL_MEM_FENCE);
#endif
    }
    __global STORED *Ci = C + (size_t)i * n;
    if (whole) {
        total += lane_sums(sums);
        VSTORE(alpha * total + beta * VLOAD(0, Ci + j), 0, Ci + j);
    }

    /* The columns that are left over, one element at a time. */
    if (get_global_id(0) + 1 == get_global_size(0)) {
        for (uint col = whole ? j + WIDTH : j; col < n; col++) {
            REAL one = 0;
            for (size_t k = 0; k < n; k++)
                one += LOAD(k, Ai) * LOAD((size_t)col * n + k, B);
            STORE(alpha * one + beta * LOAD(col, Ci), col, Ci);
        }
    }
}
