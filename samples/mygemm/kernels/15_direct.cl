/* C = alpha * A * B + beta * C as 15_warpgroups.cl computes it, for small problems: one launch, no
 * panels in global memory. Compiled before that file, which then has no gemm() of its own.
 *
 *   a warpgroup    slab n + 1              slab n
 *                +-----------+  split  +--------------+  multiply  +--------------------+
 *     64 lines X | registers | ------> |  registers   | ---------> | a sum for each X   |
 *     32 or 64 Y | registers | ------> | local memory | ---------> | and Y, registers   |
 *                +-----------+         +--------------+            +--------------------+
 *
 * The unit multiplies 64 lines X by 32 or 64 lines Y: X are rows of A, and Y columns of B. With SWAPPED
 * X are 64 columns of B, Y 32 rows of A, and the sums are the transpose of a tile: if C has at most 32
 * rows, half of 64 would not exist.
 *
 * NDRange: one dimension, a work-group of SLICES warpgroups for each tile of C of TSM x TSN, whole or
 * not, and SPLITS of them for those that are shared, as in 13.
 *
 * The idea: as many work-items as possible if C is small. Each warpgroup of a work-group takes every
 * SLICES-th slab, at its own pace, and they add up their sums at the end: while one waits for its
 * products or for memory, the others split.
 *
 * The cost it removes: a launch, and a write to and a read from global memory. The parts of X, which
 * no other warpgroup needs, do not even go through local memory. But lines are split again for each
 * tile, which costs more if C has many tiles.
 *
 * The order of k: four lanes share a line of a slab. Of a row of A each loads 4 k's, and the 4 k's
 * that are 16 further, so that they read 64 contiguous bytes at once. Columns of B are loaded in the
 * order that follows from this. The unit gets the 16 k's of a step as the lanes hold those of X; of
 * Y, a lane has the 8 on one side of the bar, in one of the two steps of a slab:
 *
 *   place in a step   0  1  2  3  4  5   6  7  | 8  9  10 11 12 13  14 15
 *   k                 0  1  4  5  8  9  12 13  | 2  3   6  7 10 11  14 15
 *   lane              0  0  1  1  2  2   3  3  | 0  0   1  1  2  2   3  3
 *
 * With SWAPPED, where rows of A are Y:
 *
 *   place in a step   0  1  2  3  4  5   6  7  | 8  9  10 11 12 13  14 15
 *   k                 0  1  2  3 16 17  18 19  | 4  5   6  7 20 21  22 23
 *   lane              0  0  1  1  2  2   3  3  | 0  0   1  1  2  2   3  3
 *
 * Lines have an exponent for each slab, so each slab has its own sum. If a line does not fit,
 * float32 multiplications compute the slab. */

#if DIRECT
#define STRIPS (UNIT_COLUMNS / 8 / 4)      /* of 8 lines Y, which a warp splits */
#define ROWS_A (SWAPPED ? STRIPS : 2)      /* of A, of which a work-item splits 8 k's */
#define COLUMNS_B (SWAPPED ? 2 : STRIPS)   /* and columns of B */
#define WIDE (WIDTH_N < 4 ? 1 : COLUMNS_B) /* columns of B that it loads at once */
#define SUMS_EACH (UNIT_COLUMNS / 2)       /* of a work-item */
#if WIDE == 1
typedef float columns;
#else
typedef float2 columns;
#endif

/* Load 4 elements of a row of A. All but the first `left` ones do not exist, and are 0: existing ones
 * are loaded in their place, so no load is under a branch, and all of them are in flight at once. With
 * WIDTH_A 4, 4 divides K and so `left`: all four exist, or none does, and the last four are loaded. */
float4 load_4(__global const float *from, const int left)
{
    const int4 k = (int4)(0, 1, 2, 3), at = WIDTH_A < 4 ? min(k, left - 1) : k + min(0, left - 4);
    const float4 x = WIDTH_A < 4 ? (float4)(from[at.s0], from[at.s1], from[at.s2], from[at.s3])
                                 : *(__global const float4 *)(from + at.s0);
    return k < left ? x : 0;
}

/* Load the elements that a work-item splits: of a row of A, and of WIDE columns of B. */
void load_row(float4 *x, __global const float *from, const int left)
{
    x[0] = load_4(from, left);
    x[1] = load_4(from + 16, left - 16);
}
void load_columns(float4 x[WIDE][2], __global const float *from, const size_t ldb, const int left)
{
#pragma unroll
    for (int e = 0; e < 8; e++) {
        const int k = e / 2 * 4 + e % 2;
        const columns row = *(__global const columns *)(from + min(k, left - 1) * (long)ldb);
#pragma unroll
        for (int c = 0; c < WIDE; c++)
            ((float *)x[c])[e] = k < left ? ((const float *)&row)[c] : 0;
    }
}

__kernel __attribute__((reqd_work_group_size(128 * SLICES, 1, 1)))
void gemm(const int M, const int N, const int K, const float alpha,
          __global const float *restrict A, const int lda,
          __global const float *restrict B, const int ldb, const float beta,
          __global float *restrict C, const int ldc PARTS_ARGUMENT)
{
    OF_BATCH(A); OF_BATCH(B); OF_BATCH(C);
    __local uint4 ring[2 * SLICES * UNIT_COLUMNS * LINE] __attribute__((aligned(1024)));
    __local float scales[2 * SLICES][UNIT_COLUMNS] __attribute__((aligned(8))); /* 2 a slice */
    __local int unfit[2 * SLICES]; /* for each, the last n for which a line does not fit */
    EMULATED /* nothing, except in tests: see nvidia.cl */
#if LAST_ADDS
    __local int before;
#endif
    const int item = get_local_id(0) % 128, slice = get_local_id(0) / 128;
    const int lane = item % 32, warp = item / 32;

    /* The tile of C, and the slabs of it that are this work-group's. */
    const int tiles_m = (M + TSM - 1) / TSM, tiles_n = (N + TSN - 1) / TSN;
    int tile = get_group_id(0), begin = 0, end = (K + SLAB - 1) / SLAB;
#if SPLITS > 1
    OF_BATCH_PARTS
    const int shared = ((int)get_num_groups(0) - tiles_m * tiles_n) / (SPLITS - 1);
    const int whole = tiles_m * tiles_n - shared, part = max(0, tile - whole);
    if (tile >= whole) {
        const long all = end, split = part / shared;
        tile = whole + part % shared;
        begin = (int)(all * split / SPLITS);
        end = (int)(all * (split + 1) / SPLITS);
    }
#endif
    const int first = tile / (BAND * tiles_n) * BAND, band = min(BAND, tiles_m - first);
    const int within = tile - first * tiles_n;
    const int i0 = (first + within % band) * TSM, j0 = within / band * TSN;
    /* The first lines X and Y of which this work-item has sums, and the first row and column. */
    const int x = warp * 16 + lane / 4 * (SWAPPED ? 2 : 1), y = lane % 4 * 2;
    const int i = i0 + (SWAPPED ? y : x), j = j0 + (SWAPPED ? x : y);

    /* What this work-item splits: of a slab, 8 k's of the two lines X of which it has sums, and of as
     * many lines Y as there are strips. Lines that do not exist are replaced by the last ones; what
     * comes of them is not stored. Where a work-item has two adjacent columns Y, half of the lanes
     * take another chunk, so that no two of eight write to the same bank. FIRST_K: slabs are taken
     * in descending order, since the last one may not be whole, and only the first load tests that.
     * A slice that has none left loads slab `begin`, and does not use it. LOAD loads all of that, of
     * the slab that begins at k; `left_a` and `left_b` elements of a line are left from there. */
#define FIRST_K(n) (max(end - 1 - (n)*SLICES - slice, begin) * SLAB)
#define BESIDE (SWAPPED ? 1 : WIDE) /* lines Y of a work-item that are adjacent */
#define LOADED_A (SWAPPED ? of_y : of_x) /* elements of its rows of A */
#define LOADED_B (SWAPPED ? of_x : of_y)
#define LINE_Y(s) (((s) / BESIDE * 4 + warp) * 8 * BESIDE + lane % 8 * BESIDE + (s) % BESIDE)
#define LOAD(k, left_a, left_b)                                                     \
    {                                                                               \
        _Pragma("unroll") for (int s = 0; s < ROWS_A; s++)                          \
            load_row(LOADED_A[s], rows[s] + (k), left_a);                               \
        _Pragma("unroll") for (int s = 0; s < COLUMNS_B; s += WIDE)                 \
            load_columns(LOADED_B + s, columns_of[s] + (k) * (size_t)ldb, ldb, left_b); \
    }
    const int count = (end - begin + SLICES - 1) / SLICES;
    const int chunk = lane / 8 ^ (BESIDE > 1 ? lane % 8 / 4 : 0);
    const int share_a = SWAPPED ? chunk : lane % 4, share_b = SWAPPED ? lane % 4 : chunk;
    const int k_a = share_a * 4, k_b = share_b / 2 * 16 + share_b % 2 * 2;
    __global const float *rows[ROWS_A], *columns_of[COLUMNS_B];
    float4 of_x[2][2], of_y[STRIPS][2];
#pragma unroll
    for (int s = 0; s < ROWS_A; s++)
        rows[s] = A + min(SWAPPED ? i0 + LINE_Y(s) : i + 8 * s, M - 1) * (size_t)lda + k_a;
#pragma unroll
    for (int s = 0; s < COLUMNS_B; s++)
        columns_of[s] = B + min(SWAPPED ? j + s : j0 + LINE_Y(s), N - WIDE) + k_b * (size_t)ldb;
    if (count > 0) {
        const int k = FIRST_K(0);
        LOAD(k, K - k - k_a, K - k - k_b)
    }
    if (item < 2)
        unfit[2 * slice + item] = -1;
    barrier(CLK_LOCAL_MEM_FENCE); /* they are -1 before any work-item sets them */

    float high[SUMS_EACH], low[SUMS_EACH], sums[SUMS_EACH] __attribute__((aligned(16)));
#pragma unroll
    for (int s = 0; s < SUMS_EACH; s++)
        sums[s] = 0;
    for (int n = 0; n < count; n++) {
        const int stage = 2 * slice + n % 2, k = FIRST_K(n);
        uint8 parts_x[2];
        float scale_x[2];
#pragma unroll
        for (int s = 0; s < 2; s++) {
            uint4 range = widened(0, of_x[s]);
            range.lo = max(range.lo, shuffle_xor(range.lo, 1)); /* the other k's of the line */
            range.lo = max(range.lo, shuffle_xor(range.lo, 2));
            const int2 e = exponent_of(range, K, LOWEST_DIRECT, HIGHEST_DIRECT);
            parts_x[s] = parts_of(of_x[s], as_float((127 + TOP - e.s1) << 23));
            scale_x[s] = as_float((127 + e.s1 - TOP) << 23);
            if (!e.s0)
                unfit[stage] = n;
        }
#pragma unroll
        for (int s = 0; s < STRIPS; s++) {
            uint4 range = widened(0, of_y[s]);
            range.lo = max(range.lo, shuffle_xor(range.lo, 8)); /* the line's other chunks */
            range.lo = max(range.lo, shuffle_xor(range.lo, 16));
            range.hi |= shuffle_xor(range.hi, 8);
            range.hi |= shuffle_xor(range.hi, 16);
            const int2 e = exponent_of(range, K, LOWEST_DIRECT, HIGHEST_DIRECT);
            const uint8 both = parts_of(of_y[s], as_float((127 + TOP - e.s1) << 23));
            const int line = LINE_Y(s), place = chunk ^ line % 8;
            __local uint4 *to = ring + (stage * UNIT_COLUMNS + line) * LINE;
            to[place] = both.lo;
            to[place ^ 4] = both.hi;
            scales[stage][line] =
                as_float(((127 + e.s1 - TOP) << 23) + (range.s2 ? LOST(k / SLAB) : 0));
            if (!e.s0)
                unfit[stage] = n;
        }
        if (n + 1 < count) {
            const int next = FIRST_K(n + 1);
            LOAD(next, SLAB, SLAB) /* all of it exists, which the compiler sees */
        }
        show_writes();
        sync_warpgroup(slice); /* the slab is there, and all have used the one before */

        const matrix lines = MATRIX(ring, stage * UNIT_COLUMNS * LINE);
#define OF_X(v, w) (uint4)(parts_x[0].v, parts_x[1].v, parts_x[0].w, parts_x[1].w)
        BEGIN_PRODUCTS; /* s2 or 2: 16 k's further; s4 or 4: the small part */
        MULTIPLY_ROWS(low, OF_X(s0, s1), lines + 4, 0);
        MULTIPLY_ROWS(low, OF_X(s4, s5), lines, 1);
        MULTIPLY_ROWS(high, OF_X(s0, s1), lines, 0);
        MULTIPLY_ROWS(low, OF_X(s2, s3), lines + 6, 1);
        MULTIPLY_ROWS(low, OF_X(s6, s7), lines + 2, 1);
        MULTIPLY_ROWS(high, OF_X(s2, s3), lines + 2, 1);
        END_PRODUCTS;
        AWAIT_PRODUCTS(high, low);
        if (end - 1 - n * SLICES - slice >= begin) {
            if (unfit[stage] == n) {
                plain_sums(sums, M, N, min(SLAB, K - k), A + k, lda, B + k * (size_t)ldb, ldb, i, j);
            } else {
                __local const float2 *scale = (__local const float2 *)&scales[stage][lane % 4 * 2];
#pragma unroll
                for (int s = 0; s < SUMS_EACH; s++) {
                    const float2 both = scale[s / 4 * 4];
                    sums[s] += (high[s] + low[s] * (1 / SMALL_SCALE)) *
                               ((s % 2 ? both.s1 : both.s0) * scale_x[s / 2 % 2]);
                }
            }
        }
    }

#if SLICES > 1
    /* The first slice adds up the sums, in the memory of the slabs. */
    __local float *others = (__local float *)ring;
    barrier(CLK_LOCAL_MEM_FENCE); /* all have used what is overwritten */
#pragma unroll
    for (int s = 0; s < SUMS_EACH; s++)
        if (slice > 0)
            others[((slice - 1) * SUMS_EACH + s) * 128 + item] = sums[s];
    barrier(CLK_LOCAL_MEM_FENCE); /* the first slice reads what the others put there */
#pragma unroll
    for (int s = 0; s < SUMS_EACH * (SLICES - 1); s++)
        if (slice == 0)
            sums[s % SUMS_EACH] += others[s * 128 + item];
#endif
#if LAST_ADDS
    if (get_group_id(0) >= whole && !add_parts((float4 *)sums, 128, item, slice == 0, parts, counters,
                                               part, shared, &before))
        return;
#endif
    target to = {C, ldc, alpha, beta};
#if SPLITS > 1 && !LAST_ADDS
    if (get_group_id(0) >= whole)
        to = part_of(parts + part * (size_t)(TSM * TSN), TSN, i0, j0);
#endif
    /* A warp has EIGHTS times 8 rows of WIDTH_C columns; a lane has PAIRS times 2 of each 8. */
#define EIGHTS (SWAPPED ? TSM / 8 : 2)
#define PAIRS (SUMS_EACH / 2 / EIGHTS)
#define WIDTH_C (SWAPPED ? 16 : TSN)
#if WIDTH_N < 4
    sync_warpgroup(slice); /* all have used the ring, where each warp now puts 8 rows */
#define STRIDE (WIDTH_C + 8) /* 8 are unused, against bank conflicts */
    __local float *rows_of_c = (__local float *)ring + warp * (8 * STRIDE);
    const int from_i = SWAPPED ? i0 : i0 + warp * 16, from_j = SWAPPED ? j0 + warp * 16 : j0;
#endif
#pragma unroll
    for (int m = 0; m < EIGHTS; m++) {
#pragma unroll
        for (int n = 0; n < PAIRS; n++) {
            /* A sum, and the one in the next column. */
            const int s = SWAPPED ? 4 * m + n : 4 * n + 2 * m, next = SWAPPED ? s + 2 : s + 1;
            const float2 v = (float2)(sums[s], sums[next]);
            const int row = i + ROW_OF(s), column = j + COLUMN_OF(s);
#if WIDTH_N < 4
            const int place = (row - from_i) % 8 * STRIDE + column - from_j;
            if (slice == 0)
                *(__local float2 *)&rows_of_c[place] = v;
#else
            if (row < M && column < N && slice == 0)
                store_two(to, row * to.ld + column, v);
#endif
        }
#if WIDTH_N < 4
        sync_warp();
        if (slice == 0)
            store_rows(to, rows_of_c, WIDTH_C, STRIDE, M, N, from_i + 8 * m, from_j, 1);
        sync_warp(); /* the rows are overwritten */
#endif
    }
}
#endif
