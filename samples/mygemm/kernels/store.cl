/* For kernels 14 and 15: how numbers are split into parts, and how two elements of C are scaled and
 * stored. Compiled after nvidia.cl, before split.cl and before 15_split.cl. */

#define TOP 14 /* largest elements are scaled to 2^TOP .. 2^(TOP + 1) */
#define SMALL_SCALE 2048.0f
#define UNFIT 1000 /* in place of an exponent */
#define LOWEST_DIRECT (-48) /* exponents of lines that gemm() splits: it multiplies sums by 2^-124 */
#define HIGHEST_DIRECT 76   /* .. 2^124, the product of two scales, which stays in range */
/* The most exponents that a line which fits may span. Two float16 hold 26 with an error that is small
 * for K = 1, and log2 K more, since the bound of the error grows with K. The exponents of tf32 are those
 * of float32, but the smallest product must be at least 2^-102, so that no bit of it is lost. */
#if PART_BITS == 16
#define SPAN(K) (26 + 31 - (int)clz((uint)(K)))
#else
#define SPAN(K) 65
#endif

/* Return 4 elements of a line, which are `step` apart; 0 for all but the first `left` ones. */
float4 some(__global const float *from, const size_t step, const int left)
{
    return (float4)(left > 0 ? from[0] : 0, left > 1 ? from[step] : 0,
                    left > 2 ? from[2 * step] : 0, left > 3 ? from[3 * step] : 0);
}

/* Return the parts of a chunk, scaled: big and small. */
uint8 parts_of(const float4 *x, const float scale)
{
#if PART_BITS == 16
    const float4 v = x[0] * scale, w = x[1] * scale;
    const uint4 big = (uint4)(narrow(v.lo), narrow(v.hi), narrow(w.lo), narrow(w.hi));
    const float4 r = (v - (float4)(widen(big.s0), widen(big.s1))) * SMALL_SCALE;
    const float4 s = (w - (float4)(widen(big.s2), widen(big.s3))) * SMALL_SCALE;
    const uint4 small = (uint4)(narrow(r.lo), narrow(r.hi), narrow(s.lo), narrow(s.hi));
#else
    /* To the nearest with 10 bits of fraction; the unit ignores the 13 bits below them. */
    const float4 v = x[0] * scale;
    const uint4 big = (as_uint4(v) + 0x1000) & 0xffffe000;
    const uint4 small = as_uint4((v - as_float4(big)) * SMALL_SCALE) + 0x1000;
#endif
    return (uint8)(big, small);
}

/* Return v * 2^e. A single factor 2^e might exceed the range of float32; two factors do not. */
float2 scaled(const float2 v, const int2 e)
{
    return v * as_float2((e / 2 + 127) << 23) * as_float2((e - e / 2 + 127) << 23);
}

/* Store two elements from c[at] on. */
void store_two(const target to, const size_t at, const float2 v)
{
    __global float2 *c = (__global float2 *)&to.c[at];
    *c = to.beta == 0 ? to.alpha * v : to.alpha * v + to.beta * *c;
}
/* Store one. */
void store_one(const target to, const size_t at, const float v)
{
    to.c[at] = to.beta == 0 ? to.alpha * v : to.alpha * v + to.beta * to.c[at];
}
