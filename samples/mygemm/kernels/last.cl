/* For kernels 12 to 17: the work-group that comes last. Compiled before their files.
 *
 * Work-groups that share a tile of C have a counter. Each of them stores its part, then counts
 * itself. Nobody waits: the one that finds all others counted adds up the parts, in an order that
 * depends only on their number. So the result does not depend on which one was last, and the
 * work-groups need not run at the same time.
 *
 * A counter is -1 before a launch: the host fills a new buffer with bytes of 255. The last
 * work-group sets it back, so each launch leaves it as the next one needs it, whatever kernel that
 * is. Launches that may overlap need counters of their own: streams have them, and so have the
 * products of a batch.
 *
 * A launch that is aborted may leave other values in the counters. With these, no work-group would
 * come last, or one too early. If the device is lost, the host continues in another process, with new
 * buffers. Otherwise the check of the next kernel begins with new counters. */

/* In OpenCL C 1.2 a fence orders the accesses of one work-item, and nothing promises what another
 * work-group sees. These work:
 * - NVIDIA: the instruction for the whole device. It covers what the work-item has seen of others
 *   at a barrier.
 * - PoCL's fence is empty, and before 3.0 some of its atomic functions order nothing. So the compiler's
 *   fence is taken. A work-group is one thread.
 * - Elsewhere barrier() and mem_fence() as the specification words them: what precedes is committed
 *   to memory. `volatile` keeps a compiler from holding parts back. */
#ifdef cl_nv_pragma_unroll
#define FENCE() __asm volatile("membar.gl;" ::: "memory")
#elif defined(POCL_DEVICE_ADDRESS_BITS)
#define FENCE() __atomic_thread_fence(__ATOMIC_SEQ_CST)
#else
#define FENCE() mem_fence(CLK_GLOBAL_MEM_FENCE)
#endif

/* Tell whether this work-group is the last of `sharing`. All its work-items call it, after they
 * stored the part. `before` passes the count on to all of them. After the last one's call all parts
 * can be read. */
int is_last(volatile __global int *counter, const int sharing, __local int *before)
{
    barrier(CLK_GLOBAL_MEM_FENCE | CLK_LOCAL_MEM_FENCE); /* all of this part is stored */
    if (get_local_id(0) == 0 && get_local_id(1) == 0) {
        FENCE(); /* the part comes before the count */
        *before = atomic_inc(counter) + 1;
        FENCE(); /* the count comes before the parts of others */
        if (*before == sharing - 1)
            atomic_xchg(counter, -1); /* after the fence, which need not wait for it */
    }
    barrier(CLK_GLOBAL_MEM_FENCE | CLK_LOCAL_MEM_FENCE); /* `before` is read below, parts after */
    return *before == sharing - 1;
}
