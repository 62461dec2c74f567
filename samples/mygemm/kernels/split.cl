/* For 14_matrix_units.cl: functions that split a float32 into two parts; and split(), which splits A
 * and B in a launch before gemm(). That file, compiled after this one, describes the parts, their order,
 * and what a line, a chunk, a slab and a strip are. */

#ifndef TSM /* the defaults; build options must define all of these, or none */
#define TSM 64 /* rows of a tile of C */
#define TSN 128 /* columns of a tile of C */
#define STAGES 4 /* slabs in local memory */
#define SPLITS 1 /* work-groups that share the k's of a tile of C, as in 13 */
#define DIRECT 0 /* 1: gemm() splits what it reads, there is no split() */
#define PARTS 1 /* of a line, each with an exponent: SPLITS where all tiles are shared, or 1 */
#define KEPT 1 /* chunks of a line that a work-item of split() keeps in registers */
#define SPLIT_ITEMS 256 /* of a work-group of split() */
#define WIDTH_A 1 /* elements of an access along a row of A: 4 where 4 divides K and lda, else 1 */
#define WIDTH_N 1 /* and along a row of B: 4 where 4 divides N, ldb and ldc, else 1 */
#endif

#define CHUNK (128 / PART_BITS) /* elements of a part in 16 bytes */
#define SLAB (4 * CHUNK)        /* depth of a slab */
#define PART 32                 /* uint4 of a part of a strip: 4 chunks of 8 lines */
#define STRIP (2 * PART)        /* uint4 of a strip, 8 for each line */
#define LOWEST (TOP - 127) /* a line is scaled by 2^127 at most, the largest power of 2 */
#define SHARE(slabs, part, parts) ((int)((long)(slabs) * (part) / (parts))) /* slabs before it */

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
            x[v] = some(from, step, left);
}

/* Return `range`, widened to a chunk: the bits of the largest element, without its sign, and those
 * of the smallest one except 0, subtracted from 2^32. */
uint2 widened(uint2 range, const float4 *x)
{
#pragma unroll
    for (int n = 0; n < CHUNK; n++) {
        const uint bits = as_uint(((const float *)x)[n]) & 0x7fffffff;
        range = max(range, (uint2)(bits, -bits));
    }
    return range;
}

/* Return the e for which a line of that range is scaled by 2^-e, and whether it fits. The largest
 * element's exponent must be at most `highest`, and counts as `lowest` if it is less. The exponent of
 * Inf and NaN is 128. Exponents below -126 count as the smallest. */
int2 exponent_of(const uint2 range, const int K, const int lowest, const int highest)
{
    const int most = K < 8 ? -1 : SPAN(K);
    const int largest = max((int)(range.s0 >> 23) - 127, lowest);
    const int smallest = range.s1 == 0 ? largest : (int)(-range.s1 >> 23) - 127;
    const int fits = largest <= highest && largest - (smallest == -127 ? -149 : smallest) <= most;
    return (int2)(largest - TOP, fits);
}

#if !DIRECT
#define AT_ONCE (SPLIT_ITEMS / 8) /* chunks of a line */
void store_parts(__global uint4 *to, const size_t stride, const int c, const uint8 both)
{
    to[c / 4 * stride + c % 4 * 8] = both.lo;
    to[c / 4 * stride + c % 4 * 8 + PART] = both.hi;
}

__kernel __attribute__((reqd_work_group_size(SPLIT_ITEMS, 1, 1)))
void split(const int M, const int N, const int K, const float alpha,
           __global const float *restrict A, const int lda,
           __global const float *restrict B, const int ldb, const float beta,
           __global float *restrict C, const int ldc, __global uint4 *restrict work PARTS_ARGUMENT)
{
    OF_BATCH(A); OF_BATCH(B); OF_BATCH(work);
    __local uint2 ranges[SPLIT_ITEMS];
    const int strips = ((M + TSM - 1) / TSM * TSM + (N + TSN - 1) / TSN * TSN) / 8;
    const int item = get_local_id(0), strip = get_group_id(0) % strips;
    const int part = get_group_id(0) / strips;
    const layout at = layout_of(M, N, K, work, part);

    /* This work-item's line, a row of A or a column of B, and its chunks of this part. Elements of
     * the line are `step` apart, slabs of its panel `stride`. */
    const int first = SHARE(at.slabs, part, PARTS) * 4 + item / 8;
    const int end = SHARE(at.slabs, part + 1, PARTS) * 4;
    const int in_a = strip * 8 + item % 8, of_a = in_a < at.lines_a;
    const int line = of_a ? in_a : in_a - at.lines_a;
    const size_t step = of_a ? 1 : ldb, stride = 8 * (size_t)(of_a ? at.lines_a : at.lines_b);
    __global const float *from = of_a ? A + line * (size_t)lda : B + line;
    __global uint4 *to = (of_a ? at.a : at.b) + line / 8 * (size_t)STRIP + line % 8;
    const int depth = line < (of_a ? M : N) ? K : 0;
    const int aligned = of_a && lda % 4 == 0;
    float4 x[KEPT][CHUNK / 4], y[CHUNK / 4];

    /* The first chunks are kept, with all loads in flight at once. The others are loaded twice. */
    uint2 range = 0;
#pragma unroll
    for (int n = 0; n < KEPT; n++) {
        const int c = first + n * AT_ONCE;
        load(x[n], from + c * CHUNK * step, step, c < end ? depth - c * CHUNK : 0, aligned);
    }
#pragma unroll
    for (int n = 0; n < KEPT; n++)
        range = widened(range, x[n]);
    for (int c = first + KEPT * AT_ONCE; c < end; c += AT_ONCE) {
        load(y, from + c * CHUNK * step, step, depth - c * CHUNK, aligned);
        range = widened(range, y);
    }
    ranges[item] = range;
    for (int half_size = SPLIT_ITEMS / 2; half_size >= 8; half_size /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE); /* the ranges of others are read below */
        if (item < half_size)
            ranges[item] = range = max(range, ranges[item + half_size]);
    }
    barrier(CLK_LOCAL_MEM_FENCE); /* the range of the line, which the first 8 found */
    range = ranges[item % 8];

    const int2 e = exponent_of(range, K, LOWEST, 127);
    if (item < 8)
        (of_a ? at.e_a : at.e_b)[line] = e.s1 ? e.s0 : UNFIT;
    const float scale = as_float((127 - e.s0) << 23);
#pragma unroll
    for (int n = 0; n < KEPT; n++)
        if (first + n * AT_ONCE < end)
            store_parts(to, stride, first + n * AT_ONCE, parts_of(x[n], scale));
    for (int c = first + KEPT * AT_ONCE; c < end; c += AT_ONCE) {
        load(y, from + c * CHUNK * step, step, depth - c * CHUNK, aligned);
        store_parts(to, stride, c, parts_of(y, scale));
    }
}
#endif
