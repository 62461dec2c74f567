/* Wrong on purpose: the mistake of the kernels whose validation failed in the GEMMbench paper.
 *
 * C = alpha * A * B^T + beta * C, row-major, B stored transposed ("NT"). NDRange: (n / WIDTH) x n; a
 * work-item computes 1 row by WIDTH columns of C, and WIDTH must divide n.
 *
 * The loop over k runs in whole chunks of DK vectors and does not stop at n. If the chunk does not
 * divide n, the last one continues beyond the row: into the next row of A and of B, and after the
 * last row into other memory.
 *
 *     row i of A      |<------- n ------->|<- the next row ->
 *     chunks          |<------ whole chunks ------->|         n = 96: 32 products too many
 *
 * With DK = 2, as in the unrolled kernels, a chunk is 8 floats. All orders of the paper are multiples
 * of 8, so the mistake did not show there.
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

__kernel void gemm(__global const REAL *restrict A, __global const REAL *restrict B,
                   __global REAL *restrict C, REAL alpha, REAL beta, uint n)
{
    const size_t i = get_global_id(1), j = WIDTH * get_global_id(0);
    VECTOR sums[WIDTH];
    for (uint c = 0; c < WIDTH; c++)
        sums[c] = (VECTOR)(0);
    for (size_t k = 0; k < n;) {
        for (uint vector = 0; vector < DK; vector++, k += WIDTH) {
            const VECTOR a = VLOAD(0, A + i * n + k);
            for (uint c = 0; c < WIDTH; c++)
                sums[c] += a * VLOAD(0, B + (j + c) * n + k);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    for (uint c = 0; c < WIDTH; c++) {
        REAL sum = sums[c].x + sums[c].y;
#if WIDTH == 4
        sum = sum + sums[c].z + sums[c].w;
#endif
        __global REAL *element = C + i * n + j + c;
        *element = alpha * sum + beta * *element;
    }
}
