/* Instructions of NVIDIA's Hopper GPUs as functions, for 15_warpgroups.cl; it is compiled between
 * nvidia.cl and that file. A warpgroup is 128 work-items: four consecutive warps.
 *
 * NVIDIA's OpenCL compiles for sm_90. The matrix unit of a warpgroup is a part of sm_90a, which no
 * build option selects. So its instructions follow //@, in a comment of PTX. The program's binary is
 * PTX as well: common/ptx.py converts these comments to instructions, and sets the target. */

/* A barrier in local memory. A phase of it ends with the last of `count` arrivals and the last of
 * the bytes that are expected; the next phase begins. Phases are counted modulo 2. */
void init_barrier(__local ulong *barrier, uint count)
{
    __asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(PLACE(barrier)), "r"(count)
                   : "memory");
}
/* Make new barriers visible to the other work-items and to the unit that copies. */
void show_barriers(void)
{
    __asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async.shared::cta;" ::
                       : "memory");
}
void arrive(__local ulong *barrier)
{
    __asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(PLACE(barrier)) : "memory");
}
void arrive_expecting(__local ulong *barrier, uint bytes)
{
    __asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(PLACE(barrier)),
                   "r"(bytes)
                   : "memory");
}
/* Wait for the end of a phase. The phase before the first one has ended already. */
void await(__local ulong *barrier, uint phase)
{
    __asm volatile("{\n.reg .pred over;\nagain:\n"
                   "mbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1;\n"
                   "@!over bra again;\n}" ::"r"(PLACE(barrier)),
                   "r"(phase)
                   : "memory");
}

/* Make what this work-item wrote to local memory visible to the matrix units, before a barrier. */
void show_writes(void) { __asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
/* A barrier for the work-items of one warpgroup, the n-th. */
void sync_warpgroup(int n)
{
    __asm volatile("bar.sync %0, 128;" ::"r"(n + 1) : "memory"); /* barrier() uses barrier 0 */
}

/* Start to copy `bytes` to local memory. They arrive at the barrier. */
void copy_bulk(__local void *to, __global const void *from, uint bytes, __local ulong *barrier)
{
    __asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], "
                   "%2, [%3];" ::"r"(PLACE(to)),
                   "l"(from), "r"(bytes), "r"(PLACE(barrier))
                   : "memory");
}

/* The unit's descriptor of a matrix in local memory, with rows of 128 bytes. In row r, chunk c of 16
 * bytes is at c ^ r % 8, which avoids bank conflicts. Row 0 begins at ring[at], a multiple of 1024
 * bytes from the begin of the ring. One more is 16 bytes further along the rows. */
typedef ulong matrix;
#define MATRIX(ring, at) \
    ((matrix)((PLACE(&(ring)[at]) & 0x3ffff) >> 4) | 1UL << 16 | 64UL << 32 | 1UL << 62)

#define UNIT_COLUMNS (SWAPPED ? TSM : TSN) /* of an instruction, which has 64 rows */

/* sums = a * b + sums, or + 0 if `add` is 0: 64 rows of a and UNIT_COLUMNS columns of b, 16 deep.
 * Work-item 32 * w + 4 * r + c has in sums[4 * n ..] columns 8 * n + 2 * c and the next one, of row
 * 16 * w + r and then of row 16 * w + r + 8. `sums` are UNIT_COLUMNS / 2 registers, not to be used
 * before AWAIT_PRODUCTS. */
#define FOUR(sums, n) "+f"(sums[n]), "+f"(sums[n + 1]), "+f"(sums[n + 2]), "+f"(sums[n + 3])
#define SIXTEEN(sums, n) FOUR(sums, n), FOUR(sums, n + 4), FOUR(sums, n + 8), FOUR(sums, n + 12)
#define REGISTERS_32 \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define REGISTERS_64 \
    REGISTERS_32 ", %16, %17, %18, %19, %20, %21, %22, %23, " \
                 "%24, %25, %26, %27, %28, %29, %30, %31"
#define REGISTERS_128 \
    REGISTERS_64 ", %32, %33, %34, %35, %36, %37, %38, %39, " \
                 "%40, %41, %42, %43, %44, %45, %46, %47, " \
                 "%48, %49, %50, %51, %52, %53, %54, %55, " \
                 "%56, %57, %58, %59, %60, %61, %62, %63"
#if UNIT_COLUMNS == 32
#define ALL(sums) SIXTEEN(sums, 0)
#define SUMS "m64n32k16.f32.f16.f16 {" REGISTERS_32 "}, "
#define MATRICES "%16, %17" /* the operands behind the sums: of MULTIPLY, */
#define ADD "%18"
#define ROWS "{%16, %17, %18, %19}, %20" /* and of MULTIPLY_ROWS */
#define ADD_ROWS "%21"
#elif UNIT_COLUMNS == 64
#define ALL(sums) SIXTEEN(sums, 0), SIXTEEN(sums, 16)
#define SUMS "m64n64k16.f32.f16.f16 {" REGISTERS_64 "}, "
#define MATRICES "%32, %33"
#define ADD "%34"
#define ROWS "{%32, %33, %34, %35}, %36"
#define ADD_ROWS "%37"
#else
#define ALL(sums) SIXTEEN(sums, 0), SIXTEEN(sums, 16), SIXTEEN(sums, 32), SIXTEEN(sums, 48)
#define SUMS "m64n128k16.f32.f16.f16 {" REGISTERS_128 "}, "
#define MATRICES "%64, %65"
#define ADD "%66"
#endif
#define MULTIPLY(sums, a, b, add) \
    __asm volatile("//@ { .reg .pred p; setp.ne.b32 p, " ADD ", 0;\n" \
                   "//@ wgmma.mma_async.sync.aligned." SUMS MATRICES ", p, 1, 1, 0, 0; }" \
                   : ALL(sums) : "l"(a), "l"(b), "r"(add))
/* The same with a in registers: work-item 32 * w + 4 * r + c has in `a` elements 2 * c and the next
 * one of row 16 * w + r, then of row 16 * w + r + 8; and in both rows those that are 8 further. */
#define MULTIPLY_ROWS(sums, a, b, add) \
    __asm volatile("//@ { .reg .pred p; setp.ne.b32 p, " ADD_ROWS ", 0;\n" \
                   "//@ wgmma.mma_async.sync.aligned." SUMS ROWS ", p, 1, 1, 0; }" \
                   : ALL(sums) : "r"((a).s0), "r"((a).s1), "r"((a).s2), "r"((a).s3), "l"(b), "r"(add))
/* Before the first product of a group; and after its last one. END_PRODUCTS leaves only this group in
 * flight: the groups before it have read their inputs. */
#define BEGIN_PRODUCTS __asm volatile("//@ wgmma.fence.sync.aligned;" ::: "memory")
#define END_PRODUCTS \
    __asm volatile("//@ wgmma.commit_group.sync.aligned;\n//@ wgmma.wait_group.sync.aligned 1;" :: \
                       : "memory")
#define AWAIT_PRODUCTS(high, low) \
    __asm volatile("//@ wgmma.wait_group.sync.aligned 0;" : ALL(high), ALL(low)::"memory")

/* For a warpgroup that releases registers, and one that takes them: each of 384 work-items begins with
 * 168. */
#define FEWER_REGISTERS __asm volatile("//@ setmaxnreg.dec.sync.aligned.u32 24;")
#define MORE_REGISTERS __asm volatile("//@ setmaxnreg.inc.sync.aligned.u32 240;")
#define EMULATED_COPY(call) /* by the work-item that waits, if nothing copies in the background */
