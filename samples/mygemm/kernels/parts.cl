/* For kernels 13 to 15: work-groups that share a tile of C. Compiled after last.cl, before their files.
 *
 *   parts | part 0 of the first shared tile | part 1 | ... | part 0 of the next one | ...
 *   part  | the first vector of sums of each work-item | the second one of each | ...
 *
 * With LAST_ADDS, 1 only if SPLITS is above 1, each of the SPLITS work-groups stores its sums. The one
 * that comes last adds up those of all, its own among them, in the order of the parts: every run gives
 * the same bits. This takes less time than a launch of add.cl. But one work-group then reads all parts
 * of a tile, which takes long if they have many sums. So without LAST_ADDS a part is a tile, row-major, and
 * add.cl adds up the parts. */

#ifndef REAL /* kernels 14 and 15 are for float only */
#define REAL float
#endif
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define VEC JOIN(REAL, 4)

#if LAST_ADDS
#define PARTS_ARGUMENT , volatile __global VEC *parts, volatile __global int *counters
#define OF_BATCH_PARTS OF_BATCH(parts); OF_BATCH(counters);
#ifdef WPTM /* vectors of sums of a work-item: in 13, */
#define OWN (WPTM * WPTN / 4)
#elif defined(KC) /* in 15, */
#define OWN (TSM * TSN / 512)
#else /* and in 14 */
#define OWN (WARP_M * WARP_N / 128)
#endif

/* Store part number `part` of `shared` tiles: the `sums` of those of the `items` work-items that have
 * some. Return 1 in the work-group that comes last, whose `sums` are now those of all parts, and 0 in
 * the others. All work-items call this, since it has barriers. It is inlined, or else `sums` could not
 * stay in registers. */
__attribute__((always_inline)) int
add_parts(VEC *sums, const int items, const int item, const int has_sums, volatile __global VEC *parts,
          volatile __global int *counters, const int part, const int shared, __local int *before)
{
    const int tile = part % shared;
    volatile __global VEC *own = parts + tile * (size_t)(SPLITS * OWN * items) + item;
#define OF_PART(s, n) own[((s) * OWN + (n)) * items]
    if (has_sums)
#pragma unroll
        for (int n = 0; n < OWN; n++)
            OF_PART(part / shared, n) = sums[n];
    if (!is_last(&counters[tile], SPLITS, before))
        return 0;
    if (has_sums) {
#pragma unroll
        for (int n = 0; n < OWN; n++)
            sums[n] = 0;
#if OWN >= 16 && TSN < 64 /* tiles like 64x32 of 13: no registers are left for more loads in flight */
#pragma unroll 1
#endif
        for (int s = 0; s < SPLITS; s++)
#pragma unroll
            for (int n = 0; n < OWN; n++)
                sums[n] += OF_PART(s, n);
    }
    return 1;
}
#elif SPLITS > 1
#define PARTS_ARGUMENT , __global REAL *restrict parts
#define OF_BATCH_PARTS OF_BATCH(parts);
#else
#define PARTS_ARGUMENT
#endif
