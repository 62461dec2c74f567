/* What samples/mygemm/kernels/14_matrix_units.cl takes from NVIDIA's instruction set, in plain OpenCL
 * C: to be compiled before it, with its parameters. What lanes pass to each other goes through
 * `exchange`. */

#define EMULATED_ITEMS (TSM / WARP_M * (TSN / WARP_N) * 32)
#define EMULATED __local uint4 exchange[2 * EMULATED_ITEMS];
void copy(__local uint4 *to, __global const uint4 *from) { *to = *from; }
#ifndef OF_BATCH
#define OF_BATCH(matrix)
#endif
#define COMMIT
#define WAIT
void sync_warp(void) { barrier(CLK_LOCAL_MEM_FENCE); }
uint word(uint4 v, int n) { return n == 0 ? v.s0 : n == 1 ? v.s1 : n == 2 ? v.s2 : v.s3; }
uint4 emulated_ldmatrix(__local uint4 *exchange, __local const uint4 *row)
{
    const int item = get_local_id(0), lane = item % 32;
    const ulong place = (ulong)(size_t)row;
    exchange[item].lo = (uint2)((uint)place, (uint)(place >> 32));
    barrier(CLK_LOCAL_MEM_FENCE);
    uint words[4];
    for (int n = 0; n < 4; n++) {
        const uint2 at = exchange[item - lane + 8 * n + lane / 4].lo;
        words[n] = ((__local const uint *)(size_t)(at.s0 | (ulong)at.s1 << 32))[lane % 4];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    return (uint4)(words[0], words[1], words[2], words[3]);
}
#if PART_BITS == 16
uint narrow(float2 v)
{
    uint pair;
    vstore_half_rte(v.s0, 0, (half *)&pair);
    vstore_half_rte(v.s1, 1, (half *)&pair);
    return pair;
}
float2 widen(uint pair)
{
    return (float2)(vload_half(0, (const half *)&pair), vload_half(1, (const half *)&pair));
}
float times(uint x, uint y) { return dot(widen(x), widen(y)); }
#else
float times(uint x, uint y) { return as_float(x & 0xffffe000) * as_float(y & 0xffffe000); }
#endif
float4 emulated_mma(__local uint4 *exchange, uint4 a, uint2 b, float4 c)
{
    const int item = get_local_id(0), lane = item % 32, warp = item - lane;
    exchange[item] = a;
    exchange[EMULATED_ITEMS + item].lo = b;
    barrier(CLK_LOCAL_MEM_FENCE);
    float d[4] = {c.s0, c.s1, c.s2, c.s3};
    for (int e = 0; e < 4; e++)
        for (int w = 0; w < 8; w++) {
            const uint4 row = exchange[warp + lane / 4 * 4 + w % 4];
            const uint4 column = exchange[EMULATED_ITEMS + warp + (lane % 4 * 2 + e % 2) * 4 + w % 4];
            d[e] += times(word(row, w / 4 * 2 + e / 2), word(column, w / 4));
        }
    barrier(CLK_LOCAL_MEM_FENCE);
    return (float4)(d[0], d[1], d[2], d[3]);
}
uint2 emulated_shuffle(__local uint4 *exchange, uint2 v, int mask)
{
    const int item = get_local_id(0);
    exchange[item].lo = v;
    barrier(CLK_LOCAL_MEM_FENCE);
    const uint2 other = exchange[item ^ mask].lo;
    barrier(CLK_LOCAL_MEM_FENCE);
    return other;
}
#define shuffle_xor(v, mask) emulated_shuffle(exchange, v, mask)
#define ldmatrix(row) emulated_ldmatrix(exchange, row)
#define mma(a, b, c) emulated_mma(exchange, a, b, c)
