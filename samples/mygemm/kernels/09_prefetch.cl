/* C = alpha * A * B + beta * C, row-major: element (i, j) of a matrix is at [i * ld + j].
 * A is given transposed, as K x M: element (i, k) of A is at [k * lda + i].
 *
 *   step            0         1         2         3        Tiles and vectors as in 07, but local
 *                                                          memory holds two tiles of A and two of B,
 *   registers   fetch 1   fetch 2   fetch 3   -            one after the other. In a step a work-item
 *   tile 0      use       put 2     use       -            - fetches its part of the next tiles from
 *   tile 1      put 1     use       put 3     use            global memory into registers,
 *                                                          - multiplies with the present tiles,
 *                                                          - puts the registers into the other tiles.
 *
 * NDRange: (N / WPTN, M / WPTM) work-items in work-groups of TSN/WPTN x TSM/WPTM. The
 * constraints, and the host's copies of the matrices, are those of 07.
 *
 * The idea: a load from global memory takes hundreds of cycles, but a work-item waits only when it
 * uses the value. In between it computes a whole tile.
 *
 * The cost it removes: waiting for global memory in each step, and one of the two barriers: no
 * work-item writes what others still read. It needs twice the local memory, and registers. */

#ifndef REAL /* the defaults; build options must define all of these, or none */
#define REAL float
#define TSM 128 /* rows of a tile of C */
#define TSN 128 /* columns of a tile of C */
#define TSK 16 /* depth of the tiles of A and B */
#define WPTM 8 /* rows of C for each work-item */
#define WPTN 8 /* columns of C for each work-item */
#define WIDTH 4 /* elements of a vector */
#endif
#define COLUMNS (TSN / WPTN) /* of work-items in a work-group */
#define ROWS (TSM / WPTM)
#define ITEMS (COLUMNS * ROWS)
#define VECS_M (TSM / WIDTH) /* vectors in a row of the tile of A, and of the tile of B */
#define VECS_N (TSN / WIDTH)
#define FETCH_A (TSK * VECS_M / ITEMS) /* vectors that a work-item fetches of a tile of A, of B */
#define FETCH_B (TSK * VECS_N / ITEMS)

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#if WIDTH == 1
#define VEC REAL
#else
#define VEC JOIN(REAL, WIDTH)
#endif

/* Fetch this work-item's vectors of the tiles that start at row k0 of A and B. */
void fetch(VEC *a, VEC *b, __global const REAL *A, const int lda, __global const REAL *B,
           const int ldb, const int k0, const int item)
{
#pragma unroll
    for (int f = 0; f < FETCH_A; f++) {
        const int v = item + f * ITEMS, k = k0 + v / VECS_M, at = v % VECS_M;
        a[f] = *(__global const VEC *)&A[k * (size_t)lda + at * WIDTH];
    }
#pragma unroll
    for (int f = 0; f < FETCH_B; f++) {
        const int v = item + f * ITEMS, k = k0 + v / VECS_N, at = v % VECS_N;
        b[f] = *(__global const VEC *)&B[k * (size_t)ldb + at * WIDTH];
    }
}

/* Put them into the tiles, which are TSK rows of vectors, one after the other. */
void put(__local VEC *a_tile, __local VEC *b_tile, const VEC *a, const VEC *b, const int item)
{
#pragma unroll
    for (int f = 0; f < FETCH_A; f++)
        a_tile[item + f * ITEMS] = a[f];
#pragma unroll
    for (int f = 0; f < FETCH_B; f++)
        b_tile[item + f * ITEMS] = b[f];
}

__kernel void gemm(const int M, const int N, const int K, const REAL alpha,
                   __global const REAL *restrict A, const int lda,
                   __global const REAL *restrict B, const int ldb, const REAL beta,
                   __global REAL *restrict C, const int ldc)
{
#ifdef OF_BATCH /* with --batch: the matrices of this product, see batch.cl */
    OF_BATCH(A); OF_BATCH(B); OF_BATCH(C);
#endif
    __local VEC a_tile[2][TSK * VECS_M], b_tile[2][TSK * VECS_N];
    const int x = get_local_id(0), y = get_local_id(1), item = y * COLUMNS + x;
    const int i0 = get_group_id(1) * TSM, j0 = get_group_id(0) * TSN;

    VEC sums[WPTM][WPTN / WIDTH];
#pragma unroll
    for (int m = 0; m < WPTM; m++)
#pragma unroll
        for (int n = 0; n < WPTN / WIDTH; n++)
            sums[m][n] = 0;

    VEC a_next[FETCH_A], b_next[FETCH_B];
    fetch(a_next, b_next, A + i0, lda, B + j0, ldb, 0, item);
    put(a_tile[0], b_tile[0], a_next, b_next, item);
    barrier(CLK_LOCAL_MEM_FENCE); /* the others' elements are read below */

    for (int k0 = 0; k0 < K; k0 += TSK) {
        const int now = k0 / TSK % 2;
        const int more = k0 + TSK < K;
        if (more)
            fetch(a_next, b_next, A + i0, lda, B + j0, ldb, k0 + TSK, item);

        /* Fully unrolled: a compiler that runs the work-items of a group one after the other, as
         * PoCL's does, would otherwise switch between them at each k and keep their sums in memory. */
#pragma unroll
        for (int k = 0; k < TSK; k++) {
            __local const REAL *a_row = (__local const REAL *)&a_tile[now][k * VECS_M];
            VEC b[WPTN / WIDTH];
#pragma unroll
            for (int n = 0; n < WPTN / WIDTH; n++)
                b[n] = b_tile[now][k * VECS_N + x + n * COLUMNS];
#pragma unroll
            for (int m = 0; m < WPTM; m++) {
                const REAL a = a_row[y + m * ROWS];
#pragma unroll
                for (int n = 0; n < WPTN / WIDTH; n++)
                    sums[m][n] += a * b[n];
            }
        }

        if (more)
            put(a_tile[1 - now], b_tile[1 - now], a_next, b_next, item);
        /* All have used the present tiles, and all have put the next ones. */
        barrier(CLK_LOCAL_MEM_FENCE);
    }

    /* Where beta is 0, C is not read. */
#pragma unroll
    for (int m = 0; m < WPTM; m++) {
        __global REAL *row = &C[(i0 + y + m * ROWS) * (size_t)ldc + j0];
#pragma unroll
        for (int n = 0; n < WPTN / WIDTH; n++) {
            __global VEC *c = (__global VEC *)&row[(x + n * COLUMNS) * WIDTH];
            *c = beta == 0 ? alpha * sums[m][n] : alpha * sums[m][n] + beta * *c;
        }
    }
}
