/* C = alpha * A * B + beta * C as 15_warpgroups.cl computes it, for small problems: one launch, no
 * panels in global memory. Compiled before that file, which then has no gemm() of its own.
 *
 *   a warpgroup    slab n + 1              slab n
 *                +-----------+  split  +--------------+  multiply  +--------------------+
 *                | registers | ------> | local memory | ---------> | 64 x TSN sums, in  |
 *                +-----------+         +--------------+            | registers          |
 *                                                                  +--------------------+
 *
 * NDRange: one dimension, a work-group of SLICES warpgroups for each tile of C of 64 x TSN, whole or
 * not, and SPLITS of them for those that are shared, as in 13.
 *
 * The idea: as many work-items as possible, where C is small. The warpgroups of a work-group take every
 * SLICES-th slab, each at its own pace, and add up their sums at the end: while one waits for its
 * products or for memory, the others split.
 *
 * The cost it removes: a launch, and a way to global memory and back. Each tile splits its lines
 * again, which costs more where C has many tiles.
 *
 * Lines have an exponent in each slab, so a slab is a sum of its own. If a line of it does not fit,
 * float32 multiplications compute the slab. */

#ifndef SLICES
#define SLICES 4 /* warpgroups */
#endif

#if DIRECT
#define WARPS 4
#define STRIPS (STAGE / LINE / 8 / WARPS) /* of 8 lines, that a warp splits: first those of A */
#define OF_A(s) ((s)*WARPS < TSM / 8)
#define STEP(s) (OF_A(s) ? 1 : (size_t)ldb)

/* Load a chunk of which the first `left` elements exist, for the others 0. All loads are in flight at
 * once, since none is under a branch: in place of what does not exist others are loaded. */
void load_some(float4 *x, __global const float *from, const size_t step, const int left,
               const int aligned)
{
    const long last = min(left - 1, 7); /* it may be negative */
    if (aligned) {
        x[0] = *(__global const float4 *)(from + min(0L, last - 3));
        x[1] = *(__global const float4 *)(from + min(4L, last - 3));
    } else {
        x[0] = (float4)(from[min(0L, last) * step], from[min(1L, last) * step],
                        from[min(2L, last) * step], from[min(3L, last) * step]);
        x[1] = (float4)(from[min(4L, last) * step], from[min(5L, last) * step],
                        from[min(6L, last) * step], from[min(7L, last) * step]);
    }
    x[0] = (int4)(0, 1, 2, 3) < left ? x[0] : 0;
    x[1] = (int4)(4, 5, 6, 7) < left ? x[1] : 0;
}

__kernel __attribute__((reqd_work_group_size(128 * SLICES, 1, 1)))
void gemm(const int M, const int N, const int K, const float alpha,
          __global const float *restrict A, const int lda,
          __global const float *restrict B, const int ldb, const float beta,
          __global float *restrict C, const int ldc OF_PARTS)
{
    OF_BATCH(A); OF_BATCH(B); OF_BATCH(C);
    __local uint4 ring[2 * SLICES * STAGE] __attribute__((aligned(1024))); /* 2 for each slice */
    __local float scales[2 * SLICES][TSM + TSN];
    __local int unfit[2 * SLICES]; /* for each, the last n for which a line does not fit */
    EMULATED
    const int item = get_local_id(0) % 128, slice = get_local_id(0) / 128;
    const int lane = item % 32, warp = item / 32;

    /* The tile of C, and the slabs of it that are this work-group's. */
    const int tiles_m = (M + TSM - 1) / TSM, tiles_n = (N + TSN - 1) / TSN;
    int tile = get_group_id(0), begin = 0, end = (K + SLAB - 1) / SLAB;
#if SPLITS > 1
    OF_BATCH(parts);
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
    const int i = i0 + warp * 16 + lane / 4, j = j0 + lane % 4 * 2;

    /* What this work-item splits: a line in each strip, and of a slab a chunk. Lines that do not exist
     * are replaced by the last one; what comes of them is not stored. Slabs are taken from the last
     * one, which may not be whole, to the first one. Those before `begin` are not used. */
#define FIRST_K(n) (max(end - 1 - (n)*SLICES - slice, begin) * SLAB)
    const int count = (end - begin + SLICES - 1) / SLICES, chunk = lane / 8;
    const int place = chunk ^ lane % 8;
    __global const float *from[STRIPS];
    float4 x[STRIPS][2];
#pragma unroll
    for (int s = 0; s < STRIPS; s++) {
        const int line = (OF_A(s) ? i0 : j0 - TSM) + (s * WARPS + warp) * 8 + lane % 8;
        from[s] = OF_A(s) ? A + min(line, M - 1) * (size_t)lda + chunk * 8
                          : B + min(line, N - 1) + chunk * 8 * (size_t)ldb;
        if (count > 0)
            load_some(x[s], from[s] + FIRST_K(0) * STEP(s), STEP(s), K - FIRST_K(0) - chunk * 8,
                      OF_A(s) && WIDTH_A == 4);
    }
    if (item < 2)
        unfit[2 * slice + item] = -1;
    barrier(CLK_LOCAL_MEM_FENCE); /* they are -1 before any work-item sets them */

    float high[TSN / 2], low[TSN / 2], sums[TSN / 2];
#pragma unroll
    for (int s = 0; s < TSN / 2; s++)
        sums[s] = 0;
    for (int n = 0; n < count; n++) {
        const int stage = 2 * slice + n % 2, k = FIRST_K(n);
#pragma unroll
        for (int s = 0; s < STRIPS; s++) {
            uint4 range = widened(0, x[s]);
            range.lo = max(range.lo, shuffle_xor(range.lo, 8)); /* the line's other chunks */
            range.lo = max(range.lo, shuffle_xor(range.lo, 16));
            if (!OF_A(s)) {
                range.hi |= shuffle_xor(range.hi, 8);
                range.hi |= shuffle_xor(range.hi, 16);
            }
            const int2 e = exponent_of(range, K, LOWEST_DIRECT, HIGHEST_DIRECT);
            const uint8 both = parts_of(x[s], as_float((127 + TOP - e.s1) << 23));
            const int line = (s * WARPS + warp) * 8 + lane % 8;
            __local uint4 *to = ring + stage * STAGE + line * LINE;
            to[place] = both.lo;
            to[place ^ 4] = both.hi;
            scales[stage][line] =
                as_float(((127 + e.s1 - TOP) << 23) + (!OF_A(s) && range.s2 ? LOST : 0));
            if (!e.s0)
                unfit[stage] = n;
        }
        if (n + 1 < count) {
#pragma unroll
            for (int s = 0; s < STRIPS; s++)
                load(x[s], from[s] + FIRST_K(n + 1) * STEP(s), STEP(s), 8,
                     OF_A(s) && WIDTH_A == 4);
        }
        show_writes();
        sync_warpgroup(slice); /* the slab is there, and all have used the one before */

        const matrix a = MATRIX(ring, stage * STAGE), b = MATRIX(ring, stage * STAGE + TSM * LINE);
        BEGIN_PRODUCTS; /* 2: 16 k's further; 4: the small part */
        MULTIPLY(low, a, b + 4, 0);
        MULTIPLY(low, a + 4, b, 1);
        MULTIPLY(high, a, b, 0);
        MULTIPLY(low, a + 2, b + 6, 1);
        MULTIPLY(low, a + 6, b + 2, 1);
        MULTIPLY(high, a + 2, b + 2, 1);
        END_PRODUCTS;
        AWAIT_PRODUCTS(high, low);
        if (end - 1 - n * SLICES - slice >= begin) {
            if (unfit[stage] == n) {
                plain_sums(sums, M, N, min(SLAB, K - k), A + k, lda, B + k * (size_t)ldb, ldb, i, j);
            } else {
                __local const float *rows = &scales[stage][warp * 16 + lane / 4];
                __local const float2 *columns =
                    (__local const float2 *)&scales[stage][TSM + lane % 4 * 2];
#pragma unroll
                for (int s = 0; s < TSN / 2; s++) {
                    const float2 both = columns[s / 4 * 4];
                    sums[s] += (high[s] + low[s] * (1 / SMALL_SCALE)) *
                               ((s % 2 ? both.s1 : both.s0) * rows[s / 2 % 2 * 8]);
                }
            }
        }
    }

#if SLICES > 1
    /* The first slice adds up the sums, in the memory of the slabs. */
    __local float *others = (__local float *)ring;
    barrier(CLK_LOCAL_MEM_FENCE); /* all have used what is overwritten */
#pragma unroll
    for (int s = 0; s < TSN / 2; s++)
        if (slice > 0)
            others[((slice - 1) * (TSN / 2) + s) * 128 + item] = sums[s];
    barrier(CLK_LOCAL_MEM_FENCE); /* the first slice reads what the others put there */
    if (slice > 0)
        return;
#pragma unroll
    for (int s = 0; s < TSN / 2 * (SLICES - 1); s++)
        sums[s % (TSN / 2)] += others[s * 128 + item];
#endif

    __global float *to = C; /* or a part that begins where its tile is in C */
    size_t ld = ldc;
    float times = alpha, plus = beta;
#if SPLITS > 1
    if (get_group_id(0) >= whole) {
        ld = TSN;
        to = parts + (size_t)part * (TSM * TSN) - i0 * ld - j0;
        times = 1;
        plus = 0;
    }
#endif
    const int at_once = j0 + TSN <= N && ld % 2 == 0;
#pragma unroll
    for (int s = 0; s < TSN / 2; s += 2)
        if (i + s / 2 % 2 * 8 < M)
            store(&to[(i + s / 2 % 2 * 8) * ld + j + s / 4 * 8], (float2)(sums[s], sums[s + 1]),
                  at_once, N - j - s / 4 * 8, times, plus);
}
#endif
