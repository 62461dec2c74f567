/* The sum of an image's pixels and the sum of their squares: a work-item adds up many vectors.
 *
 *   vectors     | 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | rest     32 pixels each, row after row
 *   interleaved   a   b   c   a   b   c   a   b   a        work-items a, b, c; for GPUs: neighbours
 *                                                          read neighbours at the same time
 *   contiguous    a   a   a   b   b   b   c   c   a        for CPUs: each core has a stretch of its
 *                                                          own, which its prefetcher can follow
 *
 * NDRange: one dimension, any number of work-items. Each walks over its
 * vectors; `contiguous` (0 or 1) chooses the walk. `count` may be any number of pixels from 1 to
 * 2^32 - 1; what no whole vector covers is the first work-item's. `pixels` must lie on a multiple
 * of 32 bytes. `sums` (squares, pixels) must be 0 before.
 *
 * The idea: an addition in a register costs next to nothing, an atomic one a journey to the memory.
 * So a work-item first adds up all of its vectors by itself, in 16-bit lanes while they can hold
 * the sums and in 64-bit integers beyond, and only then adds its two sums to those of the others.
 * What it costs: still two atomic additions per work-item, and a GPU wants thousands of those. */
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable

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

__kernel void many_vectors(__global const uchar *restrict pixels, uint count, uint contiguous,
                           __global ulong *sums)
{
    /* The vectors of this work-item: start, start + step, ... before end. */
    const uint items = get_global_size(0), item = get_global_id(0);
    const uint all = count / 32, each = (all + items - 1) / items;
    const uint start = contiguous ? min(item * each, all) : item;
    const uint end = contiguous ? min(start + each, all) : all;
    const uint step = contiguous ? 1 : items;
    __global const ushort16 *vectors = (__global const ushort16 *)pixels;

    ulong2 sums_here = 0;
    for (uint at = start; at < end; at += STRETCH * step)
        sums_here += convert_ulong2(sum_stretch(vectors, at, step, end));
    if (item == 0)
        sums_here += convert_ulong2(sum_rest(pixels, count));

    atom_add(&sums[0], sums_here.x);
    atom_add(&sums[1], sums_here.y);
}
