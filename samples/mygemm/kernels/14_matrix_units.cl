/* C = alpha * A * B + beta * C in float32, row-major: element (i, j) is at [i * ld + j]; made by
 * matrix units, which multiply numbers of half the bits.
 *
 *   float32     |s|exponent|    23 bits of fraction    |
 *                          \____________/\____________/
 *   two float16      2^e * (     big      +  small / 2^11 )      11 bits each
 *
 *   A * B  =  big * big  +  (small * big + big * small) / 2^11  +  small * small / 2^22
 *            one product            two products              not made: below 2^-22 of the first
 *
 * A float16 has 5 bits of exponent, a float32 8. So each row of A and each column of B, a "line"
 * below, is scaled by the power of 2 that brings its largest element to 2^14 .. 2^15, and C is
 * scaled back. Both are exact. split() does it, and leaves the parts in the order in which gemm()
 * wants them, with zeros where a tile hangs over:
 *
 *   work    | panels of A | panels of B | e of each row of A | e of each column of B |
 *
 *   panels  a slab for 4 chunks of k   in it a strip for 8 lines   in it 16 bytes of each line
 *           +---------------+          +--------------+            +----------------+
 *           | k = 0 .. 31   |          | lines 0 .. 7 |            | big, chunk 0   |  8 x 16 bytes
 *           | k = 32 .. 63  |          | lines 8 ..   |            |      ...       |  are a matrix
 *           |      ...      |          |      ...     |            | small, chunk 3 |  of ldmatrix
 *           +---------------+          +--------------+            +----------------+
 *
 * NDRange: one dimension. split(): SPLIT_ITEMS work-items for each strip of A, then for each of B.
 * gemm(): for each tile of C of TSM x TSN, whole or not, a warp of 32 work-items for each WARP_M x
 * WARP_N of it. 16 must divide WARP_M, 8 WARP_N, WARP_M TSM, WARP_N TSN, and the number of
 * work-items 8 * TSM and 8 * TSN.
 *
 * The idea: three products by a unit that is many times as fast.
 *
 * The error: big and small keep 22 or 23 bits of 24. The unit truncates sums where it should round
 * them, which adds up over K: it sums up two steps of 16, ordinary additions the rest. An element
 * below 2^-28 of the largest one of its line loses bits. That is accepted as long as it costs no
 * more than a quarter of the bound of a float32 sum of K products: down to 2^-26 / K. A line with
 * smaller elements (beside 0), or with Inf or NaN, does not fit, nor does any if K < 8: its tiles
 * are made by plain multiplications. With PART_BITS 32 parts are tf32, which has 11 bits and the
 * exponent of float32: lines fit down to 2^-100, but the unit takes twice as long.
 *
 * The cost it removes: multiplications. What is left is to feed the unit: cp.async copies panels
 * meanwhile, ldmatrix hands a warp four matrices at a time, and nothing is converted or turned.
 * K may be shared, as in 13. Where all tiles are, each part of a line has an exponent of its own.
 *
 * Needs: NVIDIA's compiler, compute capability 8.0 or more, and nvidia.cl before it: cp.async,
 * ldmatrix, mma and conversions as functions; PART_BITS, of a part in memory; and STAGES, slabs in
 * local memory: one is multiplied, the others are under way. */

#ifndef TSM
#define TSM 64 /* rows of a tile of C */
#endif
#ifndef TSN
#define TSN 128 /* columns of a tile of C */
#endif
#ifndef WARP_M
#define WARP_M 32 /* rows of C for a warp */
#endif
#ifndef WARP_N
#define WARP_N 64 /* columns of C for a warp */
#endif
#ifndef BAND
#define BAND 8 /* rows of tiles that are made together, as in 13 */
#endif
#ifndef SPLITS
#define SPLITS 1 /* work-groups that share the k's of a tile of C, as in 13 */
#endif
#ifndef PARTS
#define PARTS 1 /* of a line, each with an exponent: SPLITS where all tiles are shared, or 1 */
#endif
#ifndef SPLIT_ITEMS
#define SPLIT_ITEMS 256 /* of a work-group of split() */
#endif

#define ITEMS (TSM / WARP_M * (TSN / WARP_N) * 32)
#define PIECES_M (WARP_M / 16) /* pieces of 16 x 8 elements of C, of which each lane holds 4 */
#define PIECES_N (WARP_N / 8)
#define CHUNK (128 / PART_BITS) /* elements of a part in 16 bytes */
#define SLAB (4 * CHUNK)        /* depth of a slab */
#define PART 32                 /* uint4 of a part of a strip: 4 chunks of 8 lines */
#define STRIP (2 * PART)        /* uint4 of a strip, 8 for each line */
#if SPLITS == 1 && WARP_N > 32
#define LAST(slab) K /* else NVIDIA's compiler, short of registers, spills some */
#else
#define LAST(slab) min((slab)*SLAB, K)
#endif
#define STAGE ((TSM + TSN) * 8) /* uint4 of a slab of a tile */
#define TOP 14 /* largest elements are scaled to 2^TOP .. 2^(TOP + 1) */
#define SMALL_SCALE 2048.0f
#define LOWEST (TOP - 127) /* a line is scaled by 2^127 at most, the largest power of 2 */
#define UNFIT 1000         /* in place of an exponent */
#if PART_BITS == 16
#define RANGE 26 /* from the largest exponent of a line that fits to the smallest, for K = 1 */
#else
#define RANGE 100
#endif

/* Where the parts of a problem lie: panels and exponents. */
typedef struct {
    __global uint4 *a, *b;
    __global int *e_a, *e_b;
    int lines_a, lines_b, slabs; /* M and N in whole tiles, K in whole slabs */
} layout;

layout layout_of(const int M, const int N, const int K, __global uint4 *work, const int part)
{
    layout at;
    at.lines_a = (M + TSM - 1) / TSM * TSM;
    at.lines_b = (N + TSN - 1) / TSN * TSN;
    at.slabs = (K + SLAB - 1) / SLAB;
    at.a = work;
    at.b = at.a + (size_t)at.slabs * at.lines_a * 8;
    at.e_a = (__global int *)(at.b + (size_t)at.slabs * at.lines_b * 8);
    at.e_a += part * (size_t)(at.lines_a + at.lines_b);
    at.e_b = at.e_a + at.lines_a;
    return at;
}

/* Load a chunk of a line, whose elements are `step` apart; 0 for all but the first `left` ones.
 * With `aligned` four that exist are loaded at once. */
void load(float4 *x, __global const float *from, const size_t step, int left, const int aligned)
{
#pragma unroll
    for (int v = 0; v < CHUNK / 4; v++, from += 4 * step, left -= 4)
        if (aligned && left >= 4)
            x[v] = *(__global const float4 *)from;
        else
            x[v] = (float4)(left > 0 ? from[0] : 0, left > 1 ? from[step] : 0,
                            left > 2 ? from[2 * step] : 0, left > 3 ? from[3 * step] : 0);
}

/* Return `range`, widened to the exponents of a chunk: the largest, and the smallest negated. All
 * below -126 count as the smallest that there is. */
int2 widened(int2 range, const float4 *x)
{
#pragma unroll
    for (int n = 0; n < CHUNK; n++) {
        const float v = ((const float *)x)[n];
        const int exponent = (as_int(v) >> 23 & 255) - 127;
        if (v != 0)
            range = max(range, (int2)(exponent, exponent == -127 ? 149 : -exponent));
    }
    return range;
}

/* Store the parts of a chunk. */
void store_parts(__global uint4 *to, const float4 *x, const float scale)
{
#if PART_BITS == 16
    const float4 v = x[0] * scale, w = x[1] * scale;
    const uint4 big = (uint4)(narrow(v.lo), narrow(v.hi), narrow(w.lo), narrow(w.hi));
    const float4 r = (v - (float4)(widen(big.s0), widen(big.s1))) * SMALL_SCALE;
    const float4 s = (w - (float4)(widen(big.s2), widen(big.s3))) * SMALL_SCALE;
    to[PART] = (uint4)(narrow(r.lo), narrow(r.hi), narrow(s.lo), narrow(s.hi));
#else
    /* To the nearest with 10 bits of fraction; the unit ignores the 13 bits below them. */
    const float4 v = x[0] * scale;
    const uint4 big = (as_uint4(v) + 0x1000) & 0xffffe000;
    to[PART] = as_uint4((v - as_float4(big)) * SMALL_SCALE) + 0x1000;
#endif
    to[0] = big;
}

#if SPLITS > 1
#define OF_PARTS , __global float *restrict parts /* as in 13, for add.cl */
#else
#define OF_PARTS
#endif
__kernel __attribute__((reqd_work_group_size(SPLIT_ITEMS, 1, 1)))
void split(const int M, const int N, const int K, const float alpha,
           __global const float *restrict A, const int lda,
           __global const float *restrict B, const int ldb, const float beta,
           __global float *restrict C, const int ldc, __global uint4 *restrict work OF_PARTS)
{
    OF_BATCH(A); OF_BATCH(B); OF_BATCH(work);
    __local int2 ranges[SPLIT_ITEMS];
    const int strips = ((M + TSM - 1) / TSM * TSM + (N + TSN - 1) / TSN * TSN) / 8;
    const int item = get_local_id(0), strip = get_group_id(0) % strips;
    const int part = get_group_id(0) / strips;
    const layout at = layout_of(M, N, K, work, part);

    /* This work-item's line, a row of A or a column of B, and its chunks of this part. Elements of
     * the line are `step` apart, slabs of its panel `stride`. */
    const int depth_of_part = (at.slabs + PARTS - 1) / PARTS * 4, begin = part * depth_of_part;
    const int first = begin + item / 8, end = min(begin + depth_of_part, 4 * at.slabs);
    const int in_a = strip * 8 + item % 8, of_a = in_a < at.lines_a;
    const int line = of_a ? in_a : in_a - at.lines_a;
    const size_t step = of_a ? 1 : ldb, stride = 8 * (size_t)(of_a ? at.lines_a : at.lines_b);
    __global const float *from = of_a ? A + line * (size_t)lda : B + line;
    __global uint4 *to = (of_a ? at.a : at.b) + line / 8 * (size_t)STRIP + line % 8;
    const int depth = line < (of_a ? M : N) ? K : 0;
    const int aligned = of_a && lda % 4 == 0;
    float4 x[CHUNK / 4];

    int2 range = (int2)(LOWEST, -128);
    int c = first;
    for (; c < end; c += SPLIT_ITEMS / 8) {
        load(x, from + c * CHUNK * step, step, depth - c * CHUNK, aligned);
        range = widened(range, x);
    }
    ranges[item] = range;
    for (int half_size = SPLIT_ITEMS / 2; half_size >= 8; half_size /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE); /* the ranges of others are read below */
        if (item < half_size)
            ranges[item] = range = max(range, ranges[item + half_size]);
    }
    barrier(CLK_LOCAL_MEM_FENCE); /* the range of the line, which the first 8 found */
    range = ranges[item % 8];

    /* How far is it from the largest element to the smallest? The exponent of Inf, NaN is 128. */
    const int most = K < 8 ? -1 : RANGE + 31 - (int)clz((uint)K);
    const int fits = range.s0 < 128 && (range.s1 == -128 || range.s0 + range.s1 <= most);
    if (item < 8)
        (of_a ? at.e_a : at.e_b)[line] = fits ? range.s0 - TOP : UNFIT;
    const float scale = as_float((127 + TOP - range.s0) << 23);
    const int last = c - SPLIT_ITEMS / 8; /* which is there already */
    for (c = last; c >= first; c -= SPLIT_ITEMS / 8) {
        if (c < last)
            load(x, from + c * CHUNK * step, step, depth - c * CHUNK, aligned);
        store_parts(to + c / 4 * stride + c % 4 * 8, x, scale);
    }
}

/* Sum up by plain multiplications what a lane has of a tile, from row i and column j on. Beyond the
 * edge of C the last row and column are read. */
void plain_sums(float4 sums[PIECES_M][PIECES_N], const int M, const int N, const int K,
                __global const float *A, const int lda, __global const float *B, const int ldb,
                const int i, const int j)
{
    for (int k = 0; k < K; k++, A++, B += ldb)
#pragma unroll
        for (int e = 0; e < PIECES_M * PIECES_N; e++) {
            const int m = i + e / PIECES_N * 16, n = j + e % PIECES_N * 8;
            const float2 b = (float2)(B[min(n, N - 1)], B[min(n + 1, N - 1)]);
            sums[e / PIECES_N][e % PIECES_N] +=
                (float4)(A[min(m, M - 1) * (size_t)lda] * b,
                         A[min(m + 8, M - 1) * (size_t)lda] * b);
        }
}

/* Return v * 2^e. One power of 2 might be beyond the range of float32, two are not. */
float2 scaled(const float2 v, const int2 e)
{
    return v * as_float2((e / 2 + 127) << 23) * as_float2((e - e / 2 + 127) << 23);
}

/* Store alpha * v + beta * c to two elements of C: at once, or as many as are `left` in the row.
 * Where beta is 0, C is not read. */
void store(__global float *c, const float2 v, const int at_once, const int left,
           const float alpha, const float beta)
{
    __global float2 *both = (__global float2 *)c;
    if (at_once)
        *both = beta == 0 ? alpha * v : alpha * v + beta * *both;
    else if (left > 0)
        c[0] = beta == 0 ? alpha * v.s0 : alpha * v.s0 + beta * c[0];
    if (!at_once && left > 1)
        c[1] = beta == 0 ? alpha * v.s1 : alpha * v.s1 + beta * c[1];
}

/* Start to copy a slab of a tile. */
void copy_slab(__local uint4 *stage, __global const uint4 *a, __global const uint4 *b)
{
#pragma unroll
    for (int n = 0; n < STAGE; n += ITEMS)
        copy(stage + n, n < 8 * TSM ? a + n : b + (n - 8 * TSM));
}

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1)))
void gemm(const int M, const int N, const int K, const float alpha,
          __global const float *restrict A, const int lda,
          __global const float *restrict B, const int ldb, const float beta,
          __global float *restrict C, const int ldc, __global uint4 *restrict work OF_PARTS)
{
    OF_BATCH(A); OF_BATCH(B); OF_BATCH(C); OF_BATCH(work);
    __local uint4 stages[STAGES * STAGE] __attribute__((aligned(128)));
    __local int unfit;
    EMULATED
    const int item = get_local_id(0), lane = item % 32, warp = item / 32;

    /* The tile of C, and the slabs of it that are this work-group's. */
    const int tiles_m = (M + TSM - 1) / TSM, tiles_n = (N + TSN - 1) / TSN;
    int tile = get_group_id(0), begin = 0, end = (K + SLAB - 1) / SLAB, split = 0;
#if SPLITS > 1
    OF_BATCH(parts);
    const int shared = ((int)get_num_groups(0) - tiles_m * tiles_n) / (SPLITS - 1);
    const int whole = tiles_m * tiles_n - shared, part = max(0, tile - whole);
    if (tile >= whole) {
        const int depth = (end + SPLITS - 1) / SPLITS;
        tile = whole + part % shared;
        split = part / shared;
        begin = min(split * depth, end);
        end = min(begin + depth, end);
    }
#endif
    const layout at = layout_of(M, N, K, work, PARTS > 1 ? split : 0);
    const int first = tile / (BAND * tiles_n) * BAND, band = min(BAND, tiles_m - first);
    const int within = tile - first * tiles_n;
    const int i0 = (first + within % band) * TSM, j0 = within / band * TSN;

    /* What this warp makes of it, and this lane: 2 x 2 elements in each piece. */
    const int warp_m = warp % (TSM / WARP_M) * WARP_M, warp_n = warp / (TSM / WARP_M) * WARP_N;
    const int i = i0 + warp_m + lane / 4, j = j0 + warp_n + lane % 4 * 2;
    float4 sums[PIECES_M][PIECES_N];
#pragma unroll
    for (int e = 0; e < PIECES_M * PIECES_N; e++)
        sums[e / PIECES_N][e % PIECES_N] = 0;

    /* A line that does not fit leaves the tile to plain multiplications, and no slab after. */
    if (item == 0)
        unfit = 0;
    barrier(CLK_LOCAL_MEM_FENCE); /* it is 0 before any work-item sets it */
    for (int n = item; n < TSM + TSN; n += ITEMS)
        if ((n < TSM ? at.e_a[i0 + n] : at.e_b[j0 + n - TSM]) == UNFIT)
            unfit = 1;
    barrier(CLK_LOCAL_MEM_FENCE); /* all have set it that do */
    const int fits = !unfit, slabs = fits ? end - begin : 0;
    if (!fits)
        plain_sums(sums, M, N, LAST(end) - begin * SLAB, A + begin * SLAB, lda,
                   B + begin * SLAB * (size_t)ldb, ldb, i, j);

    /* All stages but one are under way at any time. */
    const size_t step_a = at.lines_a * (size_t)8, step_b = at.lines_b * (size_t)8;
    __global const uint4 *a = at.a + begin * step_a + i0 * (size_t)8 + item;
    __global const uint4 *b = at.b + begin * step_b + j0 * (size_t)8 + item;
#pragma unroll
    for (int s = 0; s < STAGES - 1; s++) {
        if (s < slabs)
            copy_slab(stages + s * STAGE + item, a + s * step_a, b + s * step_b);
        COMMIT;
    }

    /* The rows that this lane names to ldmatrix. A: two strips of one chunk, two of the next. B:
     * two chunks of the big part, two of the small one. */
    const int row_a = warp_m * 8 + lane / 8 % 2 * STRIP + lane / 16 * 8 + lane % 8;
    const int row_b = (TSM + warp_n) * 8 + lane / 16 * PART + lane % 16;
    int now = 0, next = STAGES - 1;
    for (int slab = 0; slab < slabs; slab++) {
        WAIT;
        /* All copies of this slab are there, and all have used the stage that is filled next. */
        barrier(CLK_LOCAL_MEM_FENCE);
        const int ahead = slab + STAGES - 1;
        if (ahead < slabs)
            copy_slab(stages + next * STAGE + item, a + ahead * step_a, b + ahead * step_b);
        COMMIT;

        __local const uint4 *from_a = stages + now * STAGE + row_a;
        __local const uint4 *from_b = stages + now * STAGE + row_b;
        uint4 big[2][PIECES_M], small[2][PIECES_M];
#pragma unroll
        for (int m = 0; m < 2 * PIECES_M; m++) {
            big[m % 2][m / 2] = ldmatrix(from_a + m / 2 * 2 * STRIP + m % 2 * 16);
            small[m % 2][m / 2] = ldmatrix(from_a + m / 2 * 2 * STRIP + m % 2 * 16 + PART);
        }
#pragma unroll
        for (int n = 0; n < PIECES_N; n++) {
            const uint4 b0 = ldmatrix(from_b + n * STRIP), b1 = ldmatrix(from_b + n * STRIP + 16);
#pragma unroll
            for (int m = 0; m < PIECES_M; m++) {
                float4 high = mma(big[0][m], b0.lo, 0), low = mma(small[0][m], b0.lo, 0);
                high = mma(big[1][m], b1.lo, high);
                low = mma(big[0][m], b0.hi, low);
                low = mma(small[1][m], b1.lo, low);
                low = mma(big[1][m], b1.hi, low);
                sums[m][n] += high + low * (1 / SMALL_SCALE);
            }
        }
        now = now + 1 == STAGES ? 0 : now + 1;
        next = next + 1 == STAGES ? 0 : next + 1;
    }

    /* Scale back, by the exponents of the rows and the columns. Plain sums are not scaled. */
    int e_a[2 * PIECES_M];
    int2 e_b[PIECES_N];
#pragma unroll
    for (int m = 0; m < 2 * PIECES_M; m++)
        e_a[m] = fits ? at.e_a[i + 8 * m] : 0;
#pragma unroll
    for (int n = 0; n < PIECES_N; n++)
        e_b[n] = fits ? (int2)(at.e_b[j + 8 * n], at.e_b[j + 8 * n + 1]) : (int2)(0);
    __global float *to = C; /* or a part that begins where its tile is in C */
    size_t ld = ldc;
    float times = alpha, plus = beta;
#if SPLITS > 1
    if (tile >= whole) {
        ld = TSN;
        to = parts + (size_t)part * (TSM * TSN) - i0 * ld - j0;
        times = 1;
        plus = 0;
    }
#endif
    const int at_once = j0 + TSN <= N && ld % 2 == 0;
#pragma unroll
    for (int m = 0; m < 2 * PIECES_M; m++)
        if (i + 8 * m < M)
#pragma unroll
            for (int n = 0; n < PIECES_N; n++) {
                const float2 v = m % 2 ? sums[m / 2][n].hi : sums[m / 2][n].lo;
                store(&to[(i + 8 * m) * ld + j + 8 * n], scaled(v, e_a[m] + e_b[n]), at_once,
                      N - j - 8 * n, times, plus);
            }
}
