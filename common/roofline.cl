/* The two ceilings of a device: how fast it multiplies and adds, and how fast it reads.
 *
 *   GFLOPS ^
 *          |        /-------------- multiply_add     A kernel that does little with what it reads is
 *          |       /                                 below the slope, one that does much is below
 *          |      /                                  the flat part. GEMM does 2 * M * N * K
 *          |     / read_all                          operations with M * K + K * N + M * N elements.
 *          +----------------------->
 *               operations / byte
 *
 * NDRange of both: one dimension, any number of work-items. */

#ifndef REAL
#define REAL float
#define VEC float4 /* a vector of REAL, or REAL itself */
#endif
#ifndef OP
#define OP fma /* or mad, which may be faster where fma is emulated */
#endif

/* 10 * 2 * rounds operations for each element of VEC in each work-item: 10 independent chains. Each
 * converges to y / (1 - x), so `sums`, a vector for each work-item, is 10 times that. Chains are
 * single variables: some compilers keep an array in memory. */
__kernel void multiply_add(const int rounds, const REAL x, const REAL y, __global VEC *sums)
{
    const VEC by = x, plus = y;
    VEC a = 0, b = 1, c = 2, d = 3, e = 4, f = 5, g = 6, h = 7, i = 8, j = 9;
    for (int round = 0; round < rounds; round++) {
        a = OP(a, by, plus);
        b = OP(b, by, plus);
        c = OP(c, by, plus);
        d = OP(d, by, plus);
        e = OP(e, by, plus);
        f = OP(f, by, plus);
        g = OP(g, by, plus);
        h = OP(h, by, plus);
        i = OP(i, by, plus);
        j = OP(j, by, plus);
    }
    sums[get_global_id(0)] = a + b + c + d + e + f + g + h + i + j;
}

/* Read `each` vectors (a multiple of 8) in each work-item, `passes` times over: as one stretch if
 * `contiguous` is 1 (CPUs), else side by side with all others (GPUs). `x` is 1, but the compiler does
 * not know that, so it cannot remove a pass. `sums` gets a vector for each work-item. */
__kernel void read_all(const int each, const int contiguous, const int passes, const REAL x,
                       __global const VEC *restrict from, __global VEC *sums)
{
    const size_t items = get_global_size(0), item = get_global_id(0);
    const size_t step = contiguous ? 1 : items;
    from += contiguous ? item * each : item;
    const VEC by = x;

    VEC a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0;
    for (int pass = 0; pass < passes; pass++) {
        __global const VEC *at = from;
        for (int v = 0; v < each; v += 8, at += 8 * step) {
            a = OP(a, by, at[0]);
            b = OP(b, by, at[step]);
            c = OP(c, by, at[2 * step]);
            d = OP(d, by, at[3 * step]);
            e = OP(e, by, at[4 * step]);
            f = OP(f, by, at[5 * step]);
            g = OP(g, by, at[6 * step]);
            h = OP(h, by, at[7 * step]);
        }
    }
    sums[item] = a + b + c + d + e + f + g + h;
}
