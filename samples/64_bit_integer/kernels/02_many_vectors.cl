/* The sum of an image's pixels and the sum of their squares: a work-item adds up many vectors, and a
 * work-group its work-items.
 *
 *   vectors     | 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | rest     64 pixels each, row after row
 *   interleaved   a   b   c   a   b   c   a   b   a        work-items a, b, c; for GPUs, which combine
 *                                                          the reads of neighbouring work-items
 *   contiguous    a   a   a   b   b   b   c   c   a        for CPUs: each core reads its own range,
 *                                                          which suits its prefetcher
 *
 * NDRange: one dimension, any number of work-items; for work_group in work-groups of 1, 2, 4, ...
 * WORK_GROUP. `contiguous` (0 or 1) chooses the access pattern. `count` may be any number of pixels
 * from 1 to 2^32 - 1; the first work-item adds up the rest, which is less than a vector. `pixels`
 * must begin at a multiple of 64 bytes. `sums` (squares, pixels) must be 0 before.
 *
 *   many_vectors   An addition in a register is cheap, an atomic addition accesses memory. So a
 *                  work-item first adds up all of its vectors: a stretch of them in lanes of 16 and
 *                  32 bits, the stretches in 64-bit integers. The cost is two atomic additions per
 *                  work-item, and a GPU needs thousands of work-items.
 *   work_group     Local memory is fast, and the work-items of a group can wait for each other. They
 *                  add up their sums there, as a tree, which leaves one pair of atomic additions
 *                  for each work-group:
 *
 *                    scratch     | a | b | c | d | e | f | g | h |
 *                                |a+e|b+f|c+g|d+h|              half as many work-items each time
 *                                | . | . |
 *                                | s |
 */
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable

#ifndef WORK_GROUP
#define WORK_GROUP 256 /* work-items in a work-group, at most */
#endif

/* The longest stretch that the lanes of sum_stretch can add up, in vectors of 64 pixels. A half of a
 * lane of `pixels` gains 2 * 255 by each: 128 * 510 = 65280 < 2^16. A lane of `squares` and
 * one of `more_squares` gain 2 * 255 * 255 each. All lanes together have 16 * 128 * 4 * 255 * 255
 * < 2^30 at most: no uint overflows. */
#define STRETCH 128

uint sum_of_lanes(uint16 v)
{
    const uint8 v8 = v.lo + v.hi;
    const uint4 v4 = v8.lo + v8.hi;
    const uint2 v2 = v4.lo + v4.hi;
    return v2.x + v2.y;
}

/* Return (sum of the squares, sum) of the vectors at, at + step, ... before `end`, STRETCH of them
 * at most. A lane holds four pixels. They are added two at a time, as halves of 16 bits, and squared
 * one by one: the masks show the compiler that the factors are small, so on x86 it can use a fast
 * instruction. There are two vectors of squares, so that one addition need not wait for the other.
 * The vectors are read through a pointer: some compilers split vload16 of uchar into 16 loads of a
 * byte. */
uint2 sum_stretch(__global const uint16 *vectors, uint at, uint step, uint end)
{
    const uint stop = min(end, at + STRETCH * step);
    uint16 pixels = 0, squares = 0, more_squares = 0;
    for (; at < stop; at += step) {
        const uint16 four = vectors[at];
        const uint16 even = four & 0x00ff00ffu, odd = (four >> 8u) & 0x00ff00ffu;
        pixels += even;
        pixels += odd;
        const uint16 p0 = four & 0xffu, p1 = odd & 0xffu, p2 = even >> 16u, p3 = four >> 24u;
        squares += p0 * p0;
        squares += p2 * p2;
        more_squares += p1 * p1;
        more_squares += p3 * p3;
    }
    return (uint2)(sum_of_lanes(squares + more_squares),
                   sum_of_lanes((pixels & 0xffffu) + (pixels >> 16u)));
}

/* Return the same two sums of the last pixels, fewer than a vector. */
uint2 sum_rest(__global const uchar *pixels, uint count)
{
    uint2 sums = 0;
    for (uint i = count / 64 * 64; i < count; i++)
        sums += (uint2)(pixels[i] * pixels[i], pixels[i]);
    return sums;
}

/* Return (sum of the squares, sum) of all that this work-item adds up. */
ulong2 sum_of_work_item(__global const uchar *pixels, uint count, uint contiguous)
{
    /* Its vectors are start, start + step, ... before end. */
    const uint items = get_global_size(0), item = get_global_id(0);
    const uint all = count / 64, each = (all + items - 1) / items;
    const uint start = contiguous ? min(item * each, all) : item;
    const uint end = contiguous ? min(start + each, all) : all;
    const uint step = contiguous ? 1 : items;
    __global const uint16 *vectors = (__global const uint16 *)pixels;

    ulong2 sums_here = 0;
    for (uint at = start; at < end; at += STRETCH * step)
        sums_here += convert_ulong2(sum_stretch(vectors, at, step, end));
    if (item == 0)
        sums_here += convert_ulong2(sum_rest(pixels, count));
    return sums_here;
}

__kernel void many_vectors(__global const uchar *restrict pixels, uint count, uint contiguous,
                           __global ulong *sums)
{
    const ulong2 sums_here = sum_of_work_item(pixels, count, contiguous);
    atom_add(&sums[0], sums_here.x);
    atom_add(&sums[1], sums_here.y);
}

__kernel void work_group(__global const uchar *restrict pixels, uint count, uint contiguous,
                         __global ulong *sums)
{
    __local ulong2 scratch[WORK_GROUP];
    const uint local_item = get_local_id(0);
    scratch[local_item] = sum_of_work_item(pixels, count, contiguous);
    for (uint half_size = get_local_size(0) / 2; half_size > 0; half_size /= 2) {
        /* What is read below was written by another work-item. */
        barrier(CLK_LOCAL_MEM_FENCE);
        if (local_item < half_size)
            scratch[local_item] += scratch[local_item + half_size];
    }
    if (local_item == 0) {
        atom_add(&sums[0], scratch[0].x);
        atom_add(&sums[1], scratch[0].y);
    }
}
