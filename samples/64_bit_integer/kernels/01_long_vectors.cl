/* The sum of an image's pixels and the sum of their squares, as the SDK's sample computes them.
 *
 *   pixels   | p0 p1 .. p7 | p8 .. p15 | ...      one byte each, row after row, `count` of them
 *            work-item 0    work-item 1  ...      8 pixels each, fewer for the last
 *                  \             |
 *                   +--- atom_add --> sums[0]     sum of p * p
 *                   +--- atom_add --> sums[1]     sum of p
 *
 * NDRange: one dimension, count / 8 work-items rounded up to whole work-groups. `count` may be any
 * number from 1 to 2^32 - 1. `sums` must be 0 before. `contiguous` has no effect here: a work-item
 * reads one vector only.
 *
 * The idea: vectors of 128 bits, the width of a Mali-T600's registers, and integers of 64 bits.
 * 255 * 255 = 65025 fits in 16 bits, so eight squares fit in one ushort8. The cost: two atomic
 * additions per 8 pixels, all on the same 16 bytes, so the accesses of the work-items are serialised. */
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable

__kernel void long_vectors(__global const uchar *restrict pixels, uint count, uint contiguous,
                           __global ulong *sums)
{
    const size_t item = get_global_id(0);
    if (item > (count - 1) / 8) /* the last work-group may reach past the image */
        return;
    const uint first = 8 * (uint)item;

    ushort8 p = 0;
    if (count - first >= 8) {
        p = convert_ushort8(vload8(0, pixels + first));
    } else {
        /* The last pixels, fewer than a vector, one by one; the other lanes stay 0. */
        ushort lanes[8] = {0, 0, 0, 0, 0, 0, 0, 0};
        for (uint i = 0; i < count - first; i++)
            lanes[i] = pixels[first + i];
        p = vload8(0, lanes);
    }
    const ulong8 square8 = convert_ulong8(p * p);
    const ulong8 sum8 = convert_ulong8(p);

    /* Halve each vector until one number is left. */
    const ulong4 square4 = square8.lo + square8.hi, sum4 = sum8.lo + sum8.hi;
    const ulong2 square2 = square4.lo + square4.hi, sum2 = sum4.lo + sum4.hi;
    atom_add(&sums[0], square2.lo + square2.hi);
    atom_add(&sums[1], sum2.lo + sum2.hi);
}
