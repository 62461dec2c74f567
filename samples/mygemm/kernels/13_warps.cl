/* C = alpha * A * B + beta * C, row-major: element (i, j) of a matrix is at [i * ld + j].
 *
 *       TSN            8 x 4 lanes           WPTN         A work-group computes a tile of C, each
 *   +----+----+       +--+--+--+--+     +------+------+   of its warps a part of it, each of the 32
 *   |warp|warp|       |  |  |  |  |     |4 x 4 |4 x 4 |   lanes of a warp pieces of 4 x 4 all over
 *   |    |    |       +--+--+--+--+     +------+------+   the part: WPTM x WPTN elements in all.
 *   +----+----+ TSM   |  |  |  |  |            .
 *   |    |    |       +--+--+--+--+     WPTM   .          At each k a lane reads WPTM elements of A
 *   |    |    |            ...          +------+------+   and WPTN of B, four at a time. The same
 *   +----+----+       +--+--+--+--+     |4 x 4 |4 x 4 |   pieces of neighbour lanes are neighbours:
 *    tile of C        a warp's part     +------+------+   a warp reads 8 vectors of A and 4 of B
 *                                       what a lane has   that follow each other, no bank twice.
 *
 * A is transposed on its way into local memory, as in 10. There are two tiles of A and of B, as in
 * 09. Tiles of C are computed in the order
 *
 *     0  3  6  9       down BAND rows of tiles (here 3) before the next column begins: work-groups
 *     1  4  7  10      that run at the same time read few rows of A and few columns of B, and those
 *     2  5  8  11      stay in the cache.
 *
 * If C has few tiles, two parameters give more work-items. A work-group has SLICES times as many
 * work-items: each slice takes other steps of TSK from K, with tiles of its own, and at the end they
 * add up their sums. SPLITS work-groups share a tile of C: each takes a part of K and stores its
 * sums, which add.cl adds up, always in the same order. All tiles may be shared, or only the last
 * ones, which would otherwise leave most of the device idle.
 *
 * NDRange: one dimension, for each tile of C, whole or not, a work-group of SLICES * TSM/WPTM *
 * TSN/WPTN work-items, and SPLITS for each of the last tiles, which are shared. 4 must divide WPTM,
 * WPTN and TSK, 8 * WPTM the rows TSM, 4 * WPTN the columns TSN, the work-items of a slice TSK *
 * TSM / 4 and TSK * TSN / 4, and TSN / 4 and TSK the work-items of a slice. WIDTH_A may be 4 where
 * 4 divides K and lda, WIDTH_N where it divides N, ldb and ldc.
 *
 * The idea: shapes that save what limits the device. A GPU may start 128 multiplications in a clock
 * and read 32 elements of local memory: the more elements a lane computes, and the more square its
 * part is, the fewer it reads per product, as long as the sums stay in registers.
 *
 * The cost it removes: more local reads. For each k a lane issues (WPTM + WPTN) / 4 of them for
 * WPTM * WPTN multiplications: with 16 and 8, 6 for 128, where 10 has 10 for 64. */

#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
#ifdef cl_khr_fp16
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#endif

#ifndef REAL
#define REAL float
#endif
#ifndef TSM
#define TSM 64 /* rows of a tile of C */
#endif
#ifndef TSN
#define TSN 64 /* columns of a tile of C */
#endif
#ifndef TSK
#define TSK 8 /* depth of the tiles of A and B */
#endif
#ifndef WPTM
#define WPTM 8 /* rows of C for each work-item */
#endif
#ifndef WPTN
#define WPTN 8 /* columns of C for each work-item */
#endif
#ifndef SLICES
#define SLICES 1 /* work-items that share the k's of an element of C */
#endif
#ifndef BAND
#define BAND 8 /* rows of tiles that are computed together */
#endif
#ifndef SPLITS
#define SPLITS 1 /* work-groups that share the k's of a tile of C */
#endif
#ifndef WIDTH_A
#define WIDTH_A 1 /* elements of an access to A, 1 or 4; and to B and C */
#endif
#ifndef WIDTH_N
#define WIDTH_N 1
#endif
#ifndef OF_BATCH
#define OF_BATCH(matrix) /* with --batch, selects this product: batch.cl */
#endif

#define FRONT (WIDTH_N == 4) /* the first step may be shorter, not the last one */
#define STEP (TSK * SLICES) /* k's of a step of the work-group */
#define LANES 32
#define LANES_M 8
#define LANES_N (LANES / LANES_M)
#define WARPS_M (TSM / (LANES_M * WPTM)) /* warps above each other */
#define ITEMS (TSM / WPTM * (TSN / WPTN)) /* of a slice */
#define PIECES_M (WPTM / 4)
#define PIECES_N (WPTN / 4)
#define VECS_K (TSK / 4) /* vectors in a row of a tile of A as it is fetched */
#define VECS_M (TSM / 4 + 1) /* as it is kept; the last one is unused, against bank conflicts */
#define VECS_N (TSN / 4)
#define FETCH_A (VECS_K * TSM / ITEMS) /* vectors that a work-item fetches of a tile of A, of B */
#define FETCH_B (TSK * VECS_N / ITEMS)
#define TILES (TSK * (VECS_M + VECS_N)) /* vectors of a tile of A and one of B */
#define SUMS ((SLICES - 1) * PIECES_N * ITEMS) /* vectors that the slices pass on at a time */
#define VECTORS (2 * SLICES * TILES > SUMS ? 2 * SLICES * TILES : SUMS)

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define VEC JOIN(REAL, 4)

/* Element n of vector f that a work-item fetches. Of A: its row in the tile, and the k of the first
 * one. Of B: its column, and where in a row of the tile column j is kept. Single elements follow
 * from work-item to work-item, so that a warp reads contiguous elements. For the same reason
 * columns 0, 4, 8 and 12 of each 16 are kept side by side: one lane stores them, its neighbours
 * store those between them. */
#if WIDTH_A == 4
#define ROW(f, n) ((item + (f)*ITEMS) / VECS_K)
#define K_A (item % VECS_K * 4)
#else
#define ROW(f, n) (item / TSK + (4 * (f) + (n)) * (ITEMS / TSK))
#define K_A (item % TSK)
#endif
#if WIDTH_N == 4
#define COLUMN(n) (item % VECS_N * 4 + (n))
#else
#define COLUMN(n) (item % VECS_N + (n)*VECS_N)
#define PLACE(j) ((j) / 16 * 16 + (j) % 4 * 4 + (j) / 4 % 4)
#endif

/* Load a vector of A, or one of B, from k on. An element that does not exist is not skipped by a
 * branch: another is loaded and replaced by 0. A compiler may move a load under a branch down to where
 * its value is used, and then nothing hides its latency. With FRONT only the first step of a
 * work-group has such k's, those before `begin`, and gemm() replaces them, so that later steps compare
 * nothing. With single elements of B this was slower on an H200; there it is the last step. */
VEC load_a(__global const REAL *const *rows, const int k, const int begin, const int end)
{
    const int at = FRONT ? max(k, begin) : min(k, end - WIDTH_A);
#if WIDTH_A == 4
    const VEC v = *(__global const VEC *)&rows[0][at];
#else
    const VEC v = (VEC)(rows[0][at], rows[1][at], rows[2][at], rows[3][at]);
#endif
    return FRONT || k < end ? v : (VEC)(0);
}
VEC load_b(__global const REAL *B, const int ldb, const int k, const int begin, const int end,
           const int4 columns)
{
    __global const REAL *row = B + (FRONT ? max(k, begin) : min(k, end - 1)) * (size_t)ldb;
#if WIDTH_N == 4
    const VEC v = *(__global const VEC *)&row[columns.s0];
#else
    const VEC v = (VEC)(row[columns.s0], row[columns.s1], row[columns.s2], row[columns.s3]);
#endif
    return FRONT || k < end ? v : (VEC)(0);
}

/* Store this work-item's vectors in the tiles, those of A transposed. */
void put(__local VEC *tiles, const VEC *a, const VEC *b, const int item)
{
    __local REAL *as = (__local REAL *)tiles, *bs = (__local REAL *)&tiles[TSK * VECS_M];
#pragma unroll
    for (int f = 0; f < FETCH_A; f++) {
#if WIDTH_A == 4
        __local REAL *to = (__local REAL *)&tiles[K_A * VECS_M] + ROW(f, 0);
        to[0] = a[f].s0;
        to[4 * VECS_M] = a[f].s1;
        to[8 * VECS_M] = a[f].s2;
        to[12 * VECS_M] = a[f].s3;
#else
        as[K_A * 4 * VECS_M + ROW(f, 0)] = a[f].s0;
        as[K_A * 4 * VECS_M + ROW(f, 1)] = a[f].s1;
        as[K_A * 4 * VECS_M + ROW(f, 2)] = a[f].s2;
        as[K_A * 4 * VECS_M + ROW(f, 3)] = a[f].s3;
#endif
    }
#pragma unroll
    for (int f = 0; f < FETCH_B; f++) {
#if WIDTH_N == 4
        tiles[TSK * VECS_M + item + f * ITEMS] = b[f];
#else
        __local REAL *to = bs + (item / VECS_N + f * (ITEMS / VECS_N)) * TSN;
        const int j = item % VECS_N;
        to[PLACE(j)] = b[f].s0;
        to[PLACE(j + VECS_N)] = b[f].s1;
        to[PLACE(j + 2 * VECS_N)] = b[f].s2;
        to[PLACE(j + 3 * VECS_N)] = b[f].s3;
#endif
    }
}

/* Store alpha * sum + beta * c to the elements of a row of C that exist: `left` from here on.
 * Where beta is 0, C is not read. */
void store(__global REAL *c, const VEC sum, const int left, const REAL alpha, const REAL beta)
{
    const VEC v = alpha * sum;
#if WIDTH_N == 4
    if (left > 0) {
        __global VEC *whole = (__global VEC *)c;
        *whole = beta == 0 ? v : v + beta * *whole;
    }
#else
    if (left > 0)
        c[0] = beta == 0 ? v.s0 : v.s0 + beta * c[0];
    if (left > 4)
        c[4] = beta == 0 ? v.s1 : v.s1 + beta * c[4];
    if (left > 8)
        c[8] = beta == 0 ? v.s2 : v.s2 + beta * c[8];
    if (left > 12)
        c[12] = beta == 0 ? v.s3 : v.s3 + beta * c[12];
#endif
}

__kernel __attribute__((reqd_work_group_size(SLICES * ITEMS, 1, 1)))
void gemm(const int M, const int N, const int K, const REAL alpha,
          __global const REAL *restrict A, const int lda,
          __global const REAL *restrict B, const int ldb, const REAL beta,
          __global REAL *restrict C, const int ldc
#if SPLITS > 1
          , __global REAL *restrict parts
#endif
          )
{
    OF_BATCH(A); OF_BATCH(B); OF_BATCH(C);
    __local VEC tiles[VECTORS];
    const int item = get_local_id(0) % ITEMS, slice = get_local_id(0) / ITEMS;

    /* The tile of C, and the k's of it that are this work-group's. */
    const int tiles_m = (M + TSM - 1) / TSM, tiles_n = (N + TSN - 1) / TSN;
    int tile = get_group_id(0), begin = 0, end = K;
#if SPLITS > 1
    OF_BATCH(parts);
    const int shared = ((int)get_num_groups(0) - tiles_m * tiles_n) / (SPLITS - 1);
    const int whole = tiles_m * tiles_n - shared, part = max(0, tile - whole);
    if (tile >= whole) {
        const long all = (K + STEP - 1) / STEP, split = part / shared;
        tile = whole + part % shared;
        begin = (int)(all * split / SPLITS) * STEP;
        end = min(K, (int)(all * (split + 1) / SPLITS) * STEP);
    }
#endif
    const int first = tile / (BAND * tiles_n) * BAND, band = min(BAND, tiles_m - first);
    const int within = tile - first * tiles_n;
    const int i0 = (first + within % band) * TSM, j0 = within / band * TSN;

    /* The lane's first vectors in the rows of the tiles. Lanes n and n ^ 1 need the same one of A,
     * lanes n and n ^ 2 of B: so an NVIDIA GPU serves twice as many lanes at a time. */
    const int lane = item % LANES, warp = item / LANES;
    const int at_m = warp % WARPS_M * (LANES_M * PIECES_M) + lane / 2 % LANES_M;
    const int at_n = warp / WARPS_M * (LANES_N * PIECES_N) + lane % 2 + lane / (2 * LANES_M) * 2;

    /* What it fetches: rows of A and, of rows of B, columns. Those that do not exist are replaced
     * by the last one; their results are not stored. */
    __global const REAL *rows[FETCH_A][4 / WIDTH_A];
#pragma unroll
    for (int f = 0; f < FETCH_A; f++)
#pragma unroll
        for (int n = 0; n < 4 / WIDTH_A; n++)
            rows[f][n] = A + min(i0 + ROW(f, n), M - 1) * (size_t)lda;
    const int4 columns =
        min(j0 + (int4)(COLUMN(0), COLUMN(1), COLUMN(2), COLUMN(3)), N - WIDTH_N);
    const int k_a = slice * TSK + K_A, k_b = slice * TSK + item / VECS_N;

#define FETCH(a, b, k0)                                                         \
    _Pragma("unroll") for (int f = 0; f < FETCH_A; f++) a[f] =                  \
        load_a(rows[f], (k0) + k_a, begin, K);                                  \
    _Pragma("unroll") for (int f = 0; f < FETCH_B; f++) b[f] =                  \
        load_b(B, ldb, (k0) + k_b + f * (ITEMS / VECS_N), begin, K, columns);

    VEC sums[WPTM][PIECES_N];
#pragma unroll
    for (int m = 0; m < WPTM; m++)
#pragma unroll
        for (int n = 0; n < PIECES_N; n++)
            sums[m][n] = 0;

    __local VEC *now = tiles + slice * (2 * TILES), *next = now + TILES;
    VEC a_next[FETCH_A], b_next[FETCH_B];

#if FRONT
    const int k_first = end - max(1, (end - begin + STEP - 1) / STEP) * STEP, k_last = end - STEP;
#else
    const int k_first = begin, k_last = end;
#endif
    FETCH(a_next, b_next, k_first)
#if FRONT
#pragma unroll
    for (int f = 0; f < FETCH_A; f++)
        a_next[f] = k_first + k_a < begin ? (VEC)(0) : a_next[f];
#pragma unroll
    for (int f = 0; f < FETCH_B; f++)
        b_next[f] = k_first + k_b + f * (ITEMS / VECS_N) < begin ? (VEC)(0) : b_next[f];
#endif
    put(now, a_next, b_next, item);

    for (int k0 = k_first; k0 < end; k0 += STEP) {
        FETCH(a_next, b_next, FRONT ? min(k0 + STEP, k_last) : k0 + STEP) /* the last one is unused */
        /* All have put what is read below, and used what is overwritten below. */
        barrier(CLK_LOCAL_MEM_FENCE);
        __local const VEC *a_tile = now + at_m, *b_tile = now + TSK * VECS_M + at_n;

        /* Fully unrolled, so that the compiler can read the vectors of the next k while it
         * multiplies those of this one. */
#pragma unroll
        for (int k = 0; k < TSK; k++) {
            VEC a[PIECES_M], b[PIECES_N];
#pragma unroll
            for (int m = 0; m < PIECES_M; m++)
                a[m] = a_tile[k * VECS_M + m * LANES_M];
#pragma unroll
            for (int n = 0; n < PIECES_N; n++)
                b[n] = b_tile[k * VECS_N + n * LANES_N];
#pragma unroll
            for (int m = 0; m < PIECES_M; m++)
#pragma unroll
                for (int n = 0; n < PIECES_N; n++) {
                    sums[4 * m][n] += a[m].s0 * b[n];
                    sums[4 * m + 1][n] += a[m].s1 * b[n];
                    sums[4 * m + 2][n] += a[m].s2 * b[n];
                    sums[4 * m + 3][n] += a[m].s3 * b[n];
                }
        }

        put(next, a_next, b_next, item);
        __local VEC *used = now;
        now = next;
        next = used;
    }

#if SLICES > 1
    /* The first slice adds up the sums, a row of them at a time, in the memory of the tiles. */
#pragma unroll
    for (int m = 0; m < WPTM; m++) {
        barrier(CLK_LOCAL_MEM_FENCE); /* all have used what is overwritten */
#pragma unroll
        for (int n = 0; n < PIECES_N; n++)
            if (slice > 0)
                tiles[((slice - 1) * PIECES_N + n) * ITEMS + item] = sums[m][n];
        barrier(CLK_LOCAL_MEM_FENCE); /* the first slice reads what the others put there */
#pragma unroll
        for (int s = 0; s < SLICES - 1; s++)
#pragma unroll
            for (int n = 0; n < PIECES_N; n++)
                if (slice == 0)
                    sums[m][n] += tiles[(s * PIECES_N + n) * ITEMS + item];
    }
    if (slice > 0)
        return;
#endif

#pragma unroll
    for (int m = 0; m < WPTM; m++) {
        const int i = i0 + (at_m + m / 4 * LANES_M) * 4 + m % 4;
        if (i < M) {
#pragma unroll
            for (int n = 0; n < PIECES_N; n++) {
#if WIDTH_N == 4
                const int j = j0 + (at_n + n * LANES_N) * 4;
#else
                const int j = j0 + at_n / 4 * 16 + at_n % 4 + n * LANES_N * 4;
#endif
#if SPLITS > 1
                __global REAL *to = &parts[(size_t)part * (TSM * TSN) + (i - i0) * TSN + j - j0];
                if (tile >= whole)
                    store(to, sums[m][n], N - j, 1, 0);
                else
#endif
                    store(&C[i * (size_t)ldc + j], sums[m][n], N - j, alpha, beta);
            }
        }
    }
}
