/* Parts of float32 numbers for 15_warpgroups.cl; compiled after store.cl, before 15_direct.cl and that
 * file. Big and small parts of 16 bits, as in 14, in the order in which warpgroups read them.
 *
 *   work    | panels of A | panels of B | e of each row of A | scale of each column of B and KC |
 *   panel   | k = 0 .. 31 of all lines | k = 32 .. 63 of all lines | ...       slabs
 *   slab    | line 0 | line 1 | ...                                            128 bytes each
 *   line    | big, chunks 0 .. 3 of 8 k's | small, chunks 0 .. 3 |             16 bytes each
 *
 * Chunk c of line l lies at c ^ l % 8, where the matrix units read it without bank conflicts.
 * Panels have zeros where a tile extends beyond C.
 *
 * NDRange: one dimension. A work-group of 256 has 256 / ROW_ITEMS rows of A, or 256 / COLUMN_ITEMS
 * columns of B and KC k's. A row has one exponent, a column has one for each KC: so B is read once,
 * and neighbouring work-items read neighbouring elements.
 *
 * The matrix unit truncates. On an H200 a sum of 128 products of one sign comes out too small by 3 or 4
 * units of 2^-23 of the sum, and one of products of both signs by half of that. For every 128 products
 * the scales of B, or those of A with SWAPPED, compensate for 3 units: LOST(n) for the n-th KC. With KC
 * 32 or 64 that is not a whole number for each. So of four KCs in a row some get one unit more than
 * others, and every four are alike. Of these lines, those whose elements all have at most 11 bits, such
 * as small whole numbers, are left as they are: their sums are exact. */

#ifndef KC /* the defaults; build options must define all of these, or none */
#define KC 256 /* k's that the unit sums up: 32, 64, 128 or 256 */
#define TSM 128 /* rows of a tile of C: 128, or 64 with DIRECT, or 32 with SWAPPED */
#define TSN 128 /* columns of a tile of C: 64 or 128; 32 or 64 with DIRECT; 64 with SWAPPED */
#define STAGES 4 /* slabs in local memory */
#define SLICES 1 /* warpgroups of a work-group with DIRECT */
#define BAND 8 /* rows of tiles that are computed together, as in 13 */
#define SPLITS 1 /* work-groups that share the k's of a tile of C, as in 13 */
#define DIRECT 0 /* 1: gemm() splits what it reads, see 15_direct.cl; there is no split() */
#define SWAPPED 0 /* 1, with DIRECT only: A and B change places in the matrix units */
#define ROW_ITEMS 256 /* work-items that share a row of A: 4 to 256, a power of 2 */
#define KEPT_A 4 /* chunks of a row of A that a work-item keeps in registers: 1 to KEPT */
#define WIDTH_A 1 /* elements of an access along a row of A: 4 where 4 divides K and lda, else 1 */
#define WIDTH_N 1 /* elements of an access along a row of B: 4 where 4 divides N, ldb and ldc, else 1 */
#endif

#define SLAB 32                          /* depth of a slab */
#define LINE 8                           /* uint4 of a line in a slab */
#define STAGE ((TSM + TSN) * LINE)       /* uint4 of a slab of a tile */
#define COLUMN_ITEMS (KC > 128 ? 8 : 4)  /* work-items that share a column of B */
#define KEPT_B (KC / 8 / COLUMN_ITEMS)   /* chunks of a column that a work-item has */
#define KEPT 4                           /* the most that KEPT_A and KEPT_B may be */

#define LOWEST_A (TOP - 127) /* exponents of lines: 2^127 is the largest power of 2 */
#define LOWEST_B (-66)       /* sums are multiplied by 2^-80 .. 2^81, and stay in range */
#define HIGHEST_B 95
#define LOST(n) (((n) % 4 + 1) * KC * 3 / 128 - (n) % 4 * KC * 3 / 128) /* see above */

/* Where the parts of a problem lie: panels, exponents, scales. */
typedef struct {
    __global uint4 *a, *b;
    __global int *e_a;
    __global float *scale_b;
    int lines_a, lines_b, slabs; /* M and N in whole tiles, K in whole slabs */
} layout;

layout layout_of(const int M, const int N, const int K, __global uint4 *work)
{
    layout at;
    at.lines_a = (M + TSM - 1) / TSM * TSM;
    at.lines_b = (N + TSN - 1) / TSN * TSN;
    at.slabs = (K + SLAB - 1) / SLAB;
    at.a = work;
    at.b = at.a + (size_t)at.slabs * at.lines_a * LINE;
    at.e_a = (__global int *)(at.b + (size_t)at.slabs * at.lines_b * LINE);
    at.scale_b = (__global float *)(at.e_a + at.lines_a);
    return at;
}

/* Load a chunk of a row of A, or one of a column of B. */
void load_a(float4 *x, __global const float *from)
{
    x[0] = ((__global const float4 *)from)[0];
    x[1] = ((__global const float4 *)from)[1];
}
void load_b(float4 *x, __global const float *from, const size_t ldb)
{
    x[0] = (float4)(from[0], from[ldb], from[2 * ldb], from[3 * ldb]);
    from += 4 * ldb;
    x[1] = (float4)(from[0], from[ldb], from[2 * ldb], from[3 * ldb]);
}

/* Load a chunk of which the first `left` elements exist; the others are 0. */
void load(float4 *x, __global const float *from, const size_t step, const int left,
          const int aligned)
{
    if (aligned && left >= 8)
        load_a(x, from);
    else {
        x[0] = some(from, step, left);
        x[1] = some(from + 4 * step, step, left - 4);
    }
}

/* Return `range`, widened to a chunk: the bits of the largest absolute value; the bits of the
 * smallest one except 0, doubled and negated; and the low bits that `big` cannot hold, which are 0 if
 * `big` is exact. The bits of absolute values have the same order as the values. NaN is ignored: its
 * products are NaN whether the line fits or not. */
uint4 widened(uint4 range, const float4 *x)
{
    const float4 most = fmax(fabs(x[0]), fabs(x[1]));
    const uint4 all = as_uint4(x[0]) | as_uint4(x[1]);
    const uint4 negated = max(as_uint4(x[0]) * -2, as_uint4(x[1]) * -2);
    const uint2 least = max(negated.lo, negated.hi);
    range.s0 = max(range.s0, as_uint(fmax(fmax(most.s0, most.s1), fmax(most.s2, most.s3))));
    range.s1 = max(range.s1, max(least.s0, least.s1));
    range.s2 |= (all.s0 | all.s1 | all.s2 | all.s3) & 0x1fff;
    return range;
}

/* Return whether a line fits, and the exponent of its largest element, or `lowest` if that is larger.
 * The exponent of Inf and NaN is 128. All elements below 2^-126 count as the smallest subnormal. */
int2 exponent_of(const uint4 range, const int K, const int lowest, const int highest)
{
    const uint smallest = (0 - range.s1) / 2;
    const int least = smallest >> 23 ? (int)(smallest >> 23) - 127 : -149;
    const int most = max((int)(range.s0 >> 23) - 127, lowest);
    const int span = K < 8 ? -1 : SPAN(K);
    return (int2)(most <= highest && (range.s0 == 0 ? K >= 8 : most - least <= span), most);
}

/* Where a work-item's sum s is in C: so many rows and columns after its first one. With SWAPPED the
 * unit gives the transpose. Its rows r and r + 8 are then neighbouring columns of C, which are loaded
 * and stored together. */
#define AFTER(s) ((s) / 4 * 8 + (s) % 2)
#if SWAPPED
#define ROW_OF(s) AFTER(s)
#define COLUMN_OF(s) ((s) / 2 % 2)
#else
#define ROW_OF(s) ((s) / 2 % 2 * 8)
#define COLUMN_OF(s) AFTER(s)
#endif

/* Add up a work-item's elements of a tile by float32 multiplications, from row i and column j on.
 * Beyond the edge of C, the last row and column are read. */
void plain_sums(float *sums, const int M, const int N, const int K, __global const float *A,
                const int lda, __global const float *B, const int ldb, const int i, const int j)
{
    for (int k = 0; k < K; k++, A++, B += ldb)
#pragma unroll
        for (int s = 0; s < UNIT_COLUMNS / 2; s++)
            sums[s] += A[min(i + ROW_OF(s), M - 1) * (size_t)lda] * B[min(j + COLUMN_OF(s), N - 1)];
}

#if !DIRECT
/* Store the parts of a chunk: the big one at to[place], the small one where chunk + 4 lies. */
void store_parts(__global uint4 *to, const int place, const float4 *x, const float scale)
{
    const uint8 both = parts_of(x, scale);
    to[place] = both.lo;
    to[place ^ 4] = both.hi;
}

__kernel __attribute__((reqd_work_group_size(256, 1, 1)))
void split(const int M, const int N, const int K, const float alpha,
           __global const float *restrict A, const int lda,
           __global const float *restrict B, const int ldb, const float beta,
           __global float *restrict C, const int ldc, __global uint4 *restrict work PARTS_ARGUMENT)
{
    OF_BATCH(A); OF_BATCH(B); OF_BATCH(work);
    __local uint4 ranges[256];
    const layout at = layout_of(M, N, K, work);
    const int item = get_local_id(0), group = get_group_id(0);

    /* This work-item's line, and which one it is of the work-items that share it. Neighbours take
     * neighbouring chunks of a row of A, or neighbouring columns of B. */
    const int groups_a = at.lines_a / (256 / ROW_ITEMS), of_a = group < groups_a;
    const int sharers = of_a ? ROW_ITEMS : COLUMN_ITEMS, lines = 256 / sharers;
    const int eights = lines / 8, warp = item / 32; /* of columns */
    const int in_group = of_a ? item / ROW_ITEMS : warp % eights * 8 + item % 8;
    const int sharer = of_a ? item % ROW_ITEMS : warp / eights * 4 + item % 32 / 8;
    const int along = of_a ? group : (group - groups_a) % (at.lines_b / lines);
    const int part = of_a ? 0 : (group - groups_a) / (at.lines_b / lines);
    const int line = along * lines + in_group;

    /* Its chunks: all of the row, or those of KC. */
    const int first = part * (KC / 8) + sharer;
    const int end = of_a ? 4 * at.slabs : min((part + 1) * (KC / 8), 4 * at.slabs);
    const size_t step = of_a ? 1 : ldb;
    const size_t stride = LINE * (size_t)(of_a ? at.lines_a : at.lines_b); /* of slabs */
    __global const float *from = of_a ? A + line * (size_t)lda : B + line;
    __global uint4 *to = (of_a ? at.a : at.b) + line * (size_t)LINE;
    const int depth = line < (of_a ? M : N) ? K : 0, aligned = of_a && lda % 4 == 0;
    /* If no element is missing, all loads are in flight at once. */
    const int count = of_a ? KEPT_A : KEPT_B;
    const int whole = depth >= 8 * (first + (count - 1) * sharers + 1);
    float4 kept[2 * KEPT], x[2];
#pragma unroll
    for (int n = 0; n < 2 * KEPT; n++)
        kept[n] = 0;
    if (whole && aligned)
#pragma unroll
        for (int n = 0; n < KEPT_A; n++)
            load_a(kept + 2 * n, from + (first + n * ROW_ITEMS) * 8);
    else if (whole && !of_a)
#pragma unroll
        for (int n = 0; n < KEPT_B; n++)
            load_b(kept + 2 * n, from + (first + n * COLUMN_ITEMS) * 8 * step, step);
    else
#pragma unroll
        for (int n = 0; n < KEPT; n++) {
            const int c = first + n * sharers;
            if (n < count)
                load(kept + 2 * n, from + c * 8 * step, step, depth - c * 8, aligned);
        }
    uint4 range = 0;
#pragma unroll
    for (int n = 0; n < KEPT; n++)
        range = widened(range, kept + 2 * n);
    for (int c = first + count * sharers; c < end; c += sharers) {
        load(x, from + c * 8 * step, step, depth - c * 8, aligned);
        range = widened(range, x);
    }
    const int slot = sharer * lines + in_group;
    ranges[slot] = range;
    for (int half_size = sharers / 2; half_size > 0; half_size /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE); /* the ranges of others are read below */
        if (sharer < half_size)
            ranges[slot] = range = max(range, ranges[slot + half_size * lines]);
    }
    barrier(CLK_LOCAL_MEM_FENCE); /* the range of the line, which the first one found */
    range = ranges[in_group];

    const int2 e = exponent_of(range, K, of_a ? LOWEST_A : LOWEST_B, of_a ? 127 : HIGHEST_B);
    const int fits = e.s0, most = e.s1;
    if (sharer == 0 && of_a)
        at.e_a[line] = fits ? most - TOP : UNFIT;
    if (sharer == 0 && !of_a)
        at.scale_b[part * (size_t)at.lines_b + line] =
            fits ? as_float(((127 + most - TOP) << 23) + (range.s2 ? LOST(part) : 0)) : NAN;
    const float scale = as_float((127 + TOP - most) << 23);
#pragma unroll
    for (int n = 0; n < KEPT; n++) {
        const int c = first + n * sharers;
        if (n < count && c < end)
            store_parts(to + c / 4 * stride, c % 4 ^ line % 8, kept + 2 * n, scale);
    }
    for (int c = first + count * sharers; c < end; c += sharers) {
        load(x, from + c * 8 * step, step, depth - c * 8, aligned);
        store_parts(to + c / 4 * stride, c % 4 ^ line % 8, x, scale);
    }
}
#endif
