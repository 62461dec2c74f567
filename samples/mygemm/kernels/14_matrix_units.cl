/* C = alpha * A * B + beta * C in float32, row-major: element (i, j) is at [i * ld + j], with
 * matrix units, which multiply numbers with 11 significand bits.
 *
 *   float32     |s|exponent|    23 bits of fraction    |
 *                          \____________/\____________/
 *   two float16      2^e * (     big      +  small / 2^11 )      11 bits each
 *
 *   A * B  =  big * big  +  (small * big + big * small) / 2^11  +  small * small / 2^22
 *            one product            two products              omitted: below 2^-22 of the first
 *
 * A float16 has 5 bits of exponent, a float32 8. So each row of A and each column of B, a "line"
 * below, is scaled by the power of 2 that brings its largest element to 2^14 .. 2^15, and C is
 * scaled back. Both are exact. split() does it, and stores the parts in the order in which gemm()
 * reads them, with zeros where a tile extends beyond C:
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
 * A chunk is what 16 bytes of a part hold: 8 elements of a line. A slab is 4 chunks of k of all lines, a
 * strip 8 lines of a slab. (With PART_BITS 32 a chunk has 4 elements, and a slab 16 k's.)
 *
 * With DIRECT there is no split() and no `work`. Each work-group loads slabs of A and B itself, splits
 * them on their way into local memory, and scales each slab by its own powers of 2. A line is then
 * split once for each tile that needs it, not once in all. But one launch is enough, and no parts are
 * written to global memory: this is faster if A, B or C is small, or C has few tiles. Sums over
 * slabs are not scaled, so they overflow where those of any float32 kernel do. The product of two scales
 * must be a float32 as well, so lines fit only if their elements are from 2^-74 / K to 2^77, or 0 (with
 * PART_BITS 32 from 2^-113).
 *
 * NDRange: one dimension. split(): SPLIT_ITEMS work-items for each strip of A, then for each of B.
 * gemm(): for each tile of C of TSM x TSN, whole or not, a warp of 32 work-items for each WARP_M x
 * WARP_N of it. WARP_M is a multiple of 16, WARP_N of 8, TSM of WARP_M, TSN of WARP_N. The number of
 * work-items must divide 4 * TSM and 4 * TSN.
 *
 * The idea: the matrix units compute three products faster than other units compute one.
 *
 * The error: big and small keep 22 or 23 bits of 24. The unit truncates sums instead of rounding
 * them, and these errors add up over K: so it sums up two steps of 16, ordinary additions the rest.
 * An element below 2^-28 of the largest one of its line loses bits. This is accepted as long as the
 * error is at most half of the bound of a float32 sum of K products: down to 2^-26 / K. A line
 * with smaller elements other than 0, or with Inf or NaN, does not fit; none fits if K < 8. Its tiles
 * are computed by float32 multiplications. With PART_BITS 32 parts are tf32, which has 11 bits and the
 * exponent of float32: lines fit down to 2^-65, but the unit takes twice as long.
 *
 * The cost it removes: multiplications. The unit only needs its operands: cp.async copies panels
 * asynchronously, ldmatrix loads four matrices at a time, and nothing is converted or transposed.
 * K may be shared, as in 13. If all tiles are shared, each part of a line has its own exponent.
 *
 * Needs: NVIDIA's compiler and compute capability 8.0 or more. It is compiled after six files. last.cl
 * and parts.cl are for work-groups that share a tile, rows.cl stores C. nvidia.cl has cp.async,
 * ldmatrix, mma, shuffles and conversions as functions, and PART_BITS, the size of a part. store.cl and
 * split.cl have the parts, their layout in memory, and split(). They also define STAGES, the number of
 * slabs in local memory: one is multiplied while the others are loaded. With DIRECT there are 2. */

#ifndef WARP_M /* the defaults; build options must define all of these, or none */
#define WARP_M 32 /* rows of C for a warp */
#define WARP_N 64 /* columns of C for a warp */
#define BAND 8    /* rows of tiles that are computed together, as in 13 */
#endif

#define ITEMS (TSM / WARP_M * (TSN / WARP_N) * 32)
#define PIECES_M (WARP_M / 16) /* pieces of 16 x 8 elements of C, of which each lane holds 4 */
#define PIECES_N (WARP_N / 8)
#if SPLITS == 1 && WARP_N > 32
#define LAST(slab) K /* the same, since a tile has all slabs; with min() NVIDIA's compiler spills */
#else
#define LAST(slab) min((slab)*SLAB, K)
#endif
#define STAGE ((TSM + TSN) * 8) /* uint4 of a slab of a tile */

#if DIRECT
#define WORK_ARGUMENT
/* What a warp splits: strips of A, then strips of B, WIDE at a time. A lane then has WIDE adjacent
 * columns, and one access reads all of them from a row of B. Column c of strip s is at place
 * c ^ (s % WIDE) of the strip, so that lanes do not write to the same bank. SLAB_AT: the last slab,
 * which may not be whole, comes first, then the others in ascending order. LOAD loads a chunk of k's
 * from k on, of which `left` exist, of each line that the lane splits. */
#define WARPS (ITEMS / 32)
#define STRIPS_A (TSM / 8 / WARPS)
#define STRIPS_B (TSN / 8 / WARPS)
#define STRIPS (STRIPS_A + STRIPS_B)
#define WIDE (WIDTH_N < 4 ? 1 : STRIPS_B % 4 == 0 ? 4 : STRIPS_B % 2 == 0 ? 2 : 1)
#define ROW(s) (((s)*WARPS + warp) * 8 + lane % 8)
#define COLUMN(s) ((((s) / WIDE * WARPS + warp) * 8 + lane % 8) * WIDE + (s) % WIDE)
#define PLACE_OF(column) ((column) / 8 * STRIP + ((column) % 8 ^ (column) / 8 % WIDE))
#define SLAB_AT(n) ((n) == 0 ? end - 1 : begin + (n)-1)
#define LOAD(k, left)                                                           \
    {                                                                           \
        _Pragma("unroll") for (int s = 0; s < STRIPS_A; s++)                    \
            load(x[s], from[s] + (k), 1, left, WIDTH_A == 4);                   \
        _Pragma("unroll") for (int s = STRIPS_A; s < STRIPS; s += WIDE)         \
            load_columns(x + s, from[s] + (k) * (size_t)ldb, ldb, left);        \
    }
#define SCALED(v, m) ((v) * (float4)(of_row[2 * (m)] * of_columns, of_row[2 * (m) + 1] * of_columns))

#if WIDE == 4
typedef float4 columns;
#elif WIDE == 2
typedef float2 columns;
#else
typedef float columns;
#endif
/* Load a chunk of each of WIDE columns; 0 for all but the first `left` elements. */
void load_columns(float4 x[WIDE][CHUNK / 4], __global const float *from, const size_t ldb,
                  const int left)
{
#pragma unroll
    for (int k = 0; k < CHUNK; k++) {
        const columns row = left > k ? *(__global const columns *)(from + k * ldb) : 0;
#pragma unroll
        for (int c = 0; c < WIDE; c++)
            ((float *)x[c])[k] = ((const float *)&row)[c];
    }
}
#else
#define WORK_ARGUMENT , __global uint4 *restrict work
#define SCALED(v, m) (v) /* at the end, by the scale of the whole line */
#endif

/* Compute a lane's elements of a tile by float32 multiplications, from row i and column j on.
 * Beyond the edge of C the last row and column are read. */
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
          __global float *restrict C, const int ldc WORK_ARGUMENT PARTS_ARGUMENT)
{
    OF_BATCH(A); OF_BATCH(B); OF_BATCH(C);
    __local uint4 stages[STAGES * STAGE] __attribute__((aligned(128)));
    EMULATED /* nothing, except in tests: see nvidia.cl */
#if LAST_ADDS
    __local int before;
#endif
    const int item = get_local_id(0), lane = item % 32, warp = item / 32;

    /* The tile of C, and the slabs of it that are this work-group's. */
    const int tiles_m = (M + TSM - 1) / TSM, tiles_n = (N + TSN - 1) / TSN;
    int tile = get_group_id(0), begin = 0, end = (K + SLAB - 1) / SLAB, split = 0;
#if SPLITS > 1
    OF_BATCH_PARTS
    const int shared = ((int)get_num_groups(0) - tiles_m * tiles_n) / (SPLITS - 1);
    const int whole = tiles_m * tiles_n - shared, part = max(0, tile - whole);
    if (tile >= whole) {
        tile = whole + part % shared;
        split = part / shared;
        begin = SHARE(end, split, SPLITS);
        end = SHARE(end, split + 1, SPLITS);
    }
#endif
    const int first = tile / (BAND * tiles_n) * BAND, band = min(BAND, tiles_m - first);
    const int within = tile - first * tiles_n;
    const int i0 = (first + within % band) * TSM, j0 = within / band * TSN;

    /* The part of this warp, and of this lane: 2 x 2 elements in each piece. */
    const int warp_m = warp % (TSM / WARP_M) * WARP_M, warp_n = warp / (TSM / WARP_M) * WARP_N;
    const int i = i0 + warp_m + lane / 4, j = j0 + warp_n + lane % 4 * 2;
    float4 sums[PIECES_M][PIECES_N];
#pragma unroll
    for (int e = 0; e < PIECES_M * PIECES_N; e++)
        sums[e / PIECES_N][e % PIECES_N] = 0;

#if DIRECT
    /* Strips of A, then of B, that this warp splits: the lane has a chunk of one line of each. Lines
     * that do not exist are replaced by the last ones; what comes of them is not stored. */
    __local float scales[2][TSM + TSN] __attribute__((aligned(8)));
    __local int unfit[2]; /* for each stage, the last slab in which a line does not fit */
    __global const float *from[STRIPS];
    float4 x[STRIPS][CHUNK / 4];
    const int slabs = end - begin, my_k = lane / 8 * CHUNK;
#pragma unroll
    for (int s = 0; s < STRIPS; s++) {
        from[s] = s < STRIPS_A ? A + min(i0 + ROW(s), M - 1) * (size_t)lda + my_k
                               : B + min(j0 + COLUMN(s - STRIPS_A), N - WIDE) + my_k * (size_t)ldb;
    }
    if (item < 2)
        unfit[item] = -1;
    barrier(CLK_LOCAL_MEM_FENCE); /* they are -1 before any work-item sets them */

#else
    __local int unfit;
    OF_BATCH(work);
    const layout at = layout_of(M, N, K, work, PARTS > 1 ? split : 0);

    /* If a line does not fit, float32 multiplications compute the tile, and no slab follows. */
    if (item == 0)
        unfit = 0;
    barrier(CLK_LOCAL_MEM_FENCE); /* it is 0 before any work-item sets it */
    for (int n = item; n < TSM + TSN; n += ITEMS)
        if ((n < TSM ? at.e_a[i0 + n] : at.e_b[j0 + n - TSM]) == UNFIT)
            unfit = 1;
    barrier(CLK_LOCAL_MEM_FENCE); /* every work-item that sets it has done so */
    const int fits = !unfit, slabs = fits ? end - begin : 0;
    if (!fits)
        plain_sums(sums, M, N, LAST(end) - begin * SLAB, A + begin * SLAB, lda,
                   B + begin * SLAB * (size_t)ldb, ldb, i, j);

    /* At any time all stages but one are being copied. */
    const size_t step_a = at.lines_a * (size_t)8, step_b = at.lines_b * (size_t)8;
    __global const uint4 *a = at.a + begin * step_a + i0 * (size_t)8 + item;
    __global const uint4 *b = at.b + begin * step_b + j0 * (size_t)8 + item;
#pragma unroll
    for (int s = 0; s < STAGES - 1; s++) {
        if (s < slabs)
            copy_slab(stages + s * STAGE + item, a + s * step_a, b + s * step_b);
        COMMIT;
    }
#endif

    /* The rows whose addresses this lane gives to ldmatrix. A: two strips of one chunk, two of the
     * next. B: two chunks of the big part, two of the small one. */
    const int row_a = warp_m * 8 + lane / 8 % 2 * STRIP + lane / 16 * 8 + lane % 8;
    const int row_b = (TSM + warp_n) * 8 + lane / 16 * PART + lane / 8 % 2 * 8;
#if DIRECT
#define COLUMN_OF(n) (lane % 8 ^ (warp_n / 8 + (n)) % WIDE)
#else
#define COLUMN_OF(n) (lane % 8)
#endif
    /* With DIRECT one more round, slab -1, only fills the first stage. */
    int now = DIRECT, next = STAGES - 1 - DIRECT;
    for (int slab = -DIRECT; slab < slabs; slab++) {
        const int ahead = slab + STAGES - 1;
#if DIRECT
        const int k = SLAB_AT(ahead) * SLAB;
        if (ahead == 0 && slabs > 0)
            LOAD(k, K - k - my_k)
        else if (ahead < slabs)
            LOAD(k, CHUNK)
#else
        WAIT;
        /* All copies of this slab are complete, and all have used the stage that is filled next. */
        barrier(CLK_LOCAL_MEM_FENCE);
        if (ahead < slabs)
            copy_slab(stages + next * STAGE + item, a + ahead * step_a, b + ahead * step_b);
        COMMIT;
#endif
        /* If a line of a slab does not fit, float32 multiplications compute the slab. */
#if DIRECT
        if (slab >= 0 && unfit[now] == slab) {
            const int at = SLAB_AT(slab) * SLAB;
            plain_sums(sums, M, N, min(SLAB, K - at), A + at, lda, B + at * (size_t)ldb, ldb, i, j);
        } else
#endif
        if (slab >= 0) {
            __local const uint4 *from_a = stages + now * STAGE + row_a;
            __local const uint4 *from_b = stages + now * STAGE + row_b;
            uint4 big[2][PIECES_M], small[2][PIECES_M];
#pragma unroll
            for (int m = 0; m < 2 * PIECES_M; m++) {
                big[m % 2][m / 2] = ldmatrix(from_a + m / 2 * 2 * STRIP + m % 2 * 16);
                small[m % 2][m / 2] = ldmatrix(from_a + m / 2 * 2 * STRIP + m % 2 * 16 + PART);
            }
#if DIRECT
            __local const float *scale = scales[now];
            float of_row[2 * PIECES_M];
#pragma unroll
            for (int m = 0; m < 2 * PIECES_M; m++)
                of_row[m] = scale[warp_m + m * 8 + lane / 4];
            scale += TSM + warp_n + lane % 4 * 2;
#endif
#pragma unroll
            for (int n = 0; n < PIECES_N; n++) {
#if DIRECT
                const float2 of_columns = *(__local const float2 *)(scale + n * 8);
#endif
                const uint4 b0 = ldmatrix(from_b + n * STRIP + COLUMN_OF(n));
                const uint4 b1 = ldmatrix(from_b + n * STRIP + COLUMN_OF(n) + 16);
#pragma unroll
                for (int m = 0; m < PIECES_M; m++) {
                    float4 high = mma(big[0][m], b0.lo, 0), low = mma(small[0][m], b0.lo, 0);
                    high = mma(big[1][m], b1.lo, high);
                    low = mma(big[0][m], b0.hi, low);
                    low = mma(small[1][m], b1.lo, low);
                    low = mma(big[1][m], b1.hi, low);
                    sums[m][n] += SCALED(high + low * (1 / SMALL_SCALE), m);
                }
            }
        }
#if DIRECT
        if (ahead < slabs) {
            int fits = 1;
#pragma unroll
            for (int s = 0; s < STRIPS; s++) {
                uint2 range = widened(0, x[s]);
                range = max(range, shuffle_xor(range, 8)); /* the other chunks of the line */
                range = max(range, shuffle_xor(range, 16));
                const int2 e = exponent_of(range, K, LOWEST_DIRECT, HIGHEST_DIRECT);
                const uint8 both = parts_of(x[s], as_float((127 - e.s0) << 23));
                const int row = ROW(s), column = COLUMN(s - STRIPS_A), of_a = s < STRIPS_A;
                const int place = of_a ? row / 8 * STRIP + row % 8 : TSM * 8 + PLACE_OF(column);
                __local uint4 *to = stages + next * STAGE + place + lane / 8 * 8;
                to[0] = both.lo;
                to[PART] = both.hi;
                scales[next][of_a ? row : TSM + column] = as_float((127 + e.s0) << 23);
                fits &= e.s1;
            }
            if (!fits)
                unfit[next] = ahead;
        }
        barrier(CLK_LOCAL_MEM_FENCE); /* the next slab is complete, and all have used this one */
#endif
        now = now + 1 == STAGES ? 0 : now + 1;
        next = next + 1 == STAGES ? 0 : next + 1;
    }

    int e_a[2 * PIECES_M] = {0};
    int2 e_b[PIECES_N] = {0};
#if !DIRECT
    /* Scale back, by the exponents of the rows and the columns. Plain sums are not scaled. */
#pragma unroll
    for (int m = 0; m < 2 * PIECES_M; m++)
        e_a[m] = fits ? at.e_a[i + 8 * m] : 0;
#pragma unroll
    for (int n = 0; n < PIECES_N; n++)
        e_b[n] = fits ? (int2)(at.e_b[j + 8 * n], at.e_b[j + 8 * n + 1]) : (int2)(0);
#endif
    target to = {C, ldc, alpha, beta};
#if LAST_ADDS
    if (tile >= whole) { /* parts may have exponents of their own, so sums are scaled before add_parts() */
#pragma unroll
        for (int e = 0; e < PIECES_M * PIECES_N; e++) {
            const int m = e / PIECES_N, n = e % PIECES_N;
            sums[m][n] = (float4)(scaled(sums[m][n].lo, e_a[2 * m] + e_b[n]),
                                  scaled(sums[m][n].hi, e_a[2 * m + 1] + e_b[n]));
        }
#pragma unroll
        for (int m = 0; m < 2 * PIECES_M; m++)
            e_a[m] = 0;
#pragma unroll
        for (int n = 0; n < PIECES_N; n++)
            e_b[n] = 0;
        if (!add_parts(&sums[0][0], ITEMS, item, 1, parts, counters, part, shared, &before))
            return;
    }
#elif SPLITS > 1
    if (tile >= whole)
        to = part_of(parts + part * (size_t)(TSM * TSN), TSN, i0, j0);
#endif
#if WIDTH_N < 4
#define STRIDE (WARP_N + 8) /* 8 are unused, against bank conflicts */
    barrier(CLK_LOCAL_MEM_FENCE); /* all have used the stages, where each warp now puts 8 rows */
    __local float *rows = (__local float *)stages + warp * (8 * STRIDE);
#endif
#pragma unroll
    for (int m = 0; m < 2 * PIECES_M; m++) {
#pragma unroll
        for (int n = 0; n < PIECES_N; n++) {
            const float2 v = scaled(m % 2 ? sums[m / 2][n].hi : sums[m / 2][n].lo, e_a[m] + e_b[n]);
#if WIDTH_N < 4
            *(__local float2 *)&rows[lane / 4 * STRIDE + lane % 4 * 2 + 8 * n] = v;
#else
            if (i + 8 * m < M && j + 8 * n < N)
                store_two(to, (i + 8 * m) * to.ld + j + 8 * n, v);
#endif
        }
#if WIDTH_N < 4
        sync_warp();
        store_rows(to, rows, WARP_N, STRIDE, M, N, i0 + warp_m + 8 * m, j0 + warp_n, 1);
        sync_warp(); /* the rows are overwritten */
#endif
    }
}
