/* The sum of an image's pixels and the sum of their squares: no atomics, no 64-bit integers.
 *
 *   vectors     | 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | rest     32 pixels each, row after row
 *   interleaved   a   b   c   a   b   c   a   b   a        work-items a, b, c; for GPUs: neighbours
 *                                                          read neighbours at the same time
 *   contiguous    a   a   a   b   b   b   c   c   a        for CPUs: each core has a stretch of its
 *                                                          own, which its prefetcher can follow
 *
 *   stage 1, here        work-group 0 -> sums[0]   work-group 1 -> sums[1]   ...
 *   stage 2, the host    adds up the rows of `sums`
 *
 * NDRange: one dimension, any number of work-items in work-groups of 1, 2, 4, ... WORK_GROUP. Each
 * walks over its vectors; `contiguous` (0 or 1) chooses the walk. `count` may be any number of pixels
 * from 1 to 2^32 - 1; what no whole vector covers is the first work-item's.
 * `pixels` must lie on a multiple of 32 bytes. `sums` has a row per work-group: the low and the high
 * word of the sum of the squares, then of the sum of the pixels. Nothing has to be 0 before.
 *
 * The idea: who writes to a place of its own needs no atomics. A group leaves its sums in a row of
 * its own, and the host adds up the rows: a few hundred numbers at most, less work than a second
 * launch. An embedded profile may lack 64-bit integers altogether, so a sum is a pair of 32-bit
 * words and the carry is added by hand. */

#ifndef WORK_GROUP
#define WORK_GROUP 256 /* work-items in a work-group, at most */
#endif

/* Two sums as (low word, high word, low word, high word). */
uint4 widen(uint2 sums)
{
    return (uint4)(sums.x, 0, sums.y, 0);
}

uint4 plus(uint4 a, uint4 b)
{
    uint4 sum = a + b;
    /* A low word that wrapped is smaller than what was added to it. */
    sum.y += sum.x < b.x;
    sum.w += sum.z < b.z;
    return sum;
}

/* The longest stretch that 16-bit lanes can add up, in vectors of 32 pixels; a lane takes two pixels
 * of each vector. `pixels` gains 2 * 255 at most: 128 * 510 = 65280 < 2^16. `high`, the high bytes of
 * two squares, gains 2 * 254. The low bytes of the squares would gain 510 as well, so that their sum
 * fits: it is what `wrapped`, the sum of the squares modulo 2^16, has beyond 256 * high. The sum over
 * all lanes is 32 * 128 * 255 * 255 < 2^28 at most: it fits a uint. */
#define STRETCH 128

uint sum_of_lanes(uint16 v)
{
    const uint8 v8 = v.lo + v.hi;
    const uint4 v4 = v8.lo + v8.hi;
    const uint2 v2 = v4.lo + v4.hi;
    return v2.x + v2.y;
}

/* Return (sum of the squares, sum) of the vectors at, at + step, ... before `end`, STRETCH of them
 * at most. A lane of 16 bits holds two pixels, and a square fits it. The vectors are read through a
 * pointer and not by vload16 on uchar, which some compilers turn into 16 loads of a byte. */
uint2 sum_stretch(__global const ushort16 *vectors, uint at, uint step, uint end)
{
    const ushort16 low_byte = (ushort16)(0xff), byte = (ushort16)(8);
    const uint stop = min(end, at + STRETCH * step);
    ushort16 pixels = 0, wrapped = 0, high = 0;
    for (; at < stop; at += step) {
        const ushort16 two = vectors[at];
        const ushort16 p = two & low_byte, q = two >> byte;
        const ushort16 pp = p * p, qq = q * q;
        pixels += p + q;
        wrapped += pp + qq;
        high += (pp >> byte) + (qq >> byte);
    }
    const ushort16 low = wrapped - (high << byte);
    return (uint2)(sum_of_lanes((convert_uint16(high) << 8) + convert_uint16(low)),
                   sum_of_lanes(convert_uint16(pixels)));
}

/* Return the same two sums of the last pixels, fewer than a vector. */
uint2 sum_rest(__global const uchar *pixels, uint count)
{
    uint2 sums = 0;
    for (uint i = count / 32 * 32; i < count; i++)
        sums += (uint2)(pixels[i] * pixels[i], pixels[i]);
    return sums;
}

__kernel void two_stages(__global const uchar *restrict pixels, uint count, uint contiguous,
                         __global uint4 *sums)
{
    /* The vectors of this work-item: start, start + step, ... before end. */
    const uint items = get_global_size(0), item = get_global_id(0);
    const uint all = count / 32, each = (all + items - 1) / items;
    const uint start = contiguous ? min(item * each, all) : item;
    const uint end = contiguous ? min(start + each, all) : all;
    const uint step = contiguous ? 1 : items;
    __global const ushort16 *vectors = (__global const ushort16 *)pixels;

    uint4 sums_here = 0;
    for (uint at = start; at < end; at += STRETCH * step)
        sums_here = plus(sums_here, widen(sum_stretch(vectors, at, step, end)));
    if (item == 0)
        sums_here = plus(sums_here, widen(sum_rest(pixels, count)));

    __local uint4 scratch[WORK_GROUP];
    const uint local_item = get_local_id(0);
    scratch[local_item] = sums_here;
    for (uint half_size = get_local_size(0) / 2; half_size > 0; half_size /= 2) {
        /* What is read below was written by another work-item. */
        barrier(CLK_LOCAL_MEM_FENCE);
        if (local_item < half_size)
            scratch[local_item] = plus(scratch[local_item], scratch[local_item + half_size]);
    }
    if (local_item == 0)
        sums[get_group_id(0)] = scratch[0];
}
