/* Instructions of NVIDIA's GPUs as functions, for kernels 14 and 15. Compiled after rows.cl, before
 * store.cl. A work-item is a lane of a warp of 32. */

#ifndef PART_BITS
#define PART_BITS 16 /* bits of a part of a number: 16 for float16, 32 for tf32 */
#endif
#ifndef OF_BATCH
#define OF_BATCH(matrix) /* with --batch, selects this product: batch.cl */
#endif
#if PART_BITS == 16
#define TYPES "m16n8k16.row.col.f32.f16.f16.f32"
#else
#define TYPES "m16n8k8.row.col.f32.tf32.tf32.f32"
#endif
#define EMULATED /* variables of the emulation of this file, for tests without such a GPU */

#define PLACE(p) ((uint)(ulong)(p)) /* the address in local memory, as in the instructions */
/* Start to copy 16 bytes. COMMIT ends a group of copies; WAIT leaves STAGES - 2 of them in flight. */
void copy(__local uint4 *to, __global const uint4 *from)
{
    __asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(PLACE(to)), "l"(from)
                   : "memory");
}
#define COMMIT __asm volatile("cp.async.commit_group;" ::: "memory")
#define WAIT __asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory")

/* A barrier for the lanes of a warp: what they wrote to local memory before it, all see after it. */
void sync_warp(void) { __asm volatile("bar.warp.sync -1;" ::: "memory"); }

/* Load four matrices of 8 rows of 16 bytes. Lane 8 * n + r says where row r of matrix n is; lane
 * 4 * r + w gets word w of row r of each. */
uint4 ldmatrix(__local const uint4 *row)
{
    uint4 v;
    __asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(v.s0), "=r"(v.s1), "=r"(v.s2), "=r"(v.s3) : "r"(PLACE(row)) : "memory");
    return v;
}

/* Return the v of the lane whose number differs from this one's in the bits of `mask`. */
uint2 shuffle_xor(uint2 v, const int mask)
{
    uint2 w;
    __asm volatile("shfl.sync.bfly.b32 %0, %2, %4, 31, -1;\n\tshfl.sync.bfly.b32 %1, %3, %4, 31, -1;"
                   : "=&r"(w.s0), "=r"(w.s1) : "r"(v.s0), "r"(v.s1), "r"(mask));
    return w;
}

/* Return a * b + c, with 16 rows of A and 8 columns of B, 32 bytes deep. `a` are four matrices: the
 * rows 0 to 7 and 8 to 15 of one chunk, then of the next. `b` are two, one a chunk, of columns.
 * Lane 4 * r + w has columns 2 * w and 2 * w + 1 of row r of c, then of row r + 8. */
float4 mma(uint4 a, uint2 b, float4 c)
{
    float4 d;
    __asm("mma.sync.aligned." TYPES " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
          "{%10, %11, %12, %13};"
          : "=f"(d.s0), "=f"(d.s1), "=f"(d.s2), "=f"(d.s3)
          : "r"(a.s0), "r"(a.s1), "r"(a.s2), "r"(a.s3), "r"(b.s0), "r"(b.s1),
            "f"(c.s0), "f"(c.s1), "f"(c.s2), "f"(c.s3));
    return d;
}
#if PART_BITS == 16
/* Round to the nearest float16, two in a word, and back. */
uint narrow(float2 v)
{
    uint pair;
    __asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(v.s1), "f"(v.s0));
    return pair;
}
float2 widen(uint pair)
{
    float2 v;
    __asm("{ .reg .b16 low, high; mov.b32 {low, high}, %2;"
          " cvt.f32.f16 %0, low; cvt.f32.f16 %1, high; }"
          : "=f"(v.s0), "=f"(v.s1) : "r"(pair));
    return v;
}
#endif
