/* A plain read, to compare with: every byte once, with as little arithmetic as possible.
 *
 * NDRange, access patterns and buffers are those of 03_two_stages.cl, but vectors have 64 bytes with
 * both patterns, and the last count % 64 bytes are not read. The bytes are added up as 32-bit words, only
 * so that the compiler cannot remove a read. There is no prefetch, so two_stages may be faster. */
#ifndef WORK_GROUP
#define WORK_GROUP 256
#endif

__kernel void read_all(__global const uchar *restrict pixels, uint count, uint contiguous,
                        __global uint4 *sums)
{
    const uint items = get_global_size(0), item = get_global_id(0);
    const uint all = count / 64, each = (all + items - 1) / items;
    const uint start = contiguous ? min(item * each, all) : item;
    const uint end = contiguous ? min(start + each, all) : all;
    const uint step = contiguous ? 1 : items;
    __global const uint16 *vectors = (__global const uint16 *)pixels;

    uint16 sum = 0;
    for (uint at = start; at < end; at += step)
        sum += vectors[at];
    const uint8 sum8 = sum.lo + sum.hi;
    const uint4 sum4 = sum8.lo + sum8.hi;

    __local uint4 scratch[WORK_GROUP];
    scratch[get_local_id(0)] = sum4;
    for (uint half_size = get_local_size(0) / 2; half_size > 0; half_size /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE); /* the sums that are read below are written */
        if (get_local_id(0) < half_size)
            scratch[get_local_id(0)] += scratch[get_local_id(0) + half_size];
    }
    if (get_local_id(0) == 0)
        sums[get_group_id(0)] = scratch[0];
}
