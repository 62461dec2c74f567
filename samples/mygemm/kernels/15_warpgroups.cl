/* C = alpha * A * B + beta * C in float32, row-major: element (i, j) is at [i * ld + j], from
 * float16 parts as in 14, with the matrix units of NVIDIA's Hopper, which read them from local
 * memory.
 *
 *   a work-group            local memory: a ring of STAGES             warpgroups 1 and 2
 *   +--------------+  copy  +---------+---------+---------+  multiply  +---------------------+
 *   | warpgroup 0  | -----> | slab 3  | slab 1  | slab 2  | ---------> | 64 rows of the tile |
 *   +--------------+        +---------+---------+---------+            +---------------------+
 *        ^                                    |   "empty"              | 64 rows             |
 *        +------------------------------------+   "full" ->            +---------------------+
 *
 *   slab    32 k's of 128 rows of A, and of TSN columns of B: see 15_split.cl
 *
 * NDRange: one dimension, as many work-groups of 384 as the device has compute units. Each computes
 * tiles of C one after the other, of 128 x TSN, whole or not. For DIRECT see 15_direct.cl.
 *
 * The idea: one instruction asynchronously multiplies 64 x 16 by 16 x TSN numbers, and reads both
 * from local memory. One warpgroup only keeps the ring full: one of its work-items starts copies of
 * 16 KiB. A warpgroup waits at the barrier of one stage; the others continue. The copying warpgroup
 * gives registers to the other two, for 64 rows x TSN columns of sums each.
 *
 * The error: as in 14. The unit truncates, so it sums up at most KC products; ordinary additions add
 * up these sums. Each of them is scaled for its column in these KC, and at the end for its row. If
 * a range is too wide, the scale is NaN, or the exponent UNFIT. Elements that are not finite at the
 * end are computed again by float32 multiplications: those of lines with Inf or NaN, of columns with
 * elements of 2^96 or more, and all if K < 8.
 *
 * The cost it removes: the reads of local memory into registers in 14 (ldmatrix), and its barriers.
 *
 * K may be shared, as in 13, for the last tiles, which are fewer than the work-groups. add.cl adds up
 * their sums; with DIRECT the last work-group of a tile may do so, see parts.cl.
 *
 * Needs: NVIDIA's compiler, compute capability 9.0, and before it last.cl, parts.cl, rows.cl, nvidia.cl,
 * hopper.cl, store.cl, 15_split.cl and 15_direct.cl. */

#if !DIRECT
#define SLOTS (STAGES + 1) /* for scales, each of TSN */
#define DEPTH (KC / SLAB)  /* slabs of a sum */

/* What a work-group computes at a time: a tile of C, or a part of it. */
typedef struct {
    int i0, j0;     /* its first row and column of C */
    int begin, end; /* its slabs */
    int part;       /* its place among parts, or -1 */
} job;

/* How many jobs there are, and how many tiles are not shared: whole rounds of all work-groups. */
int2 jobs_of(const int M, const int N)
{
    const int tiles = (M + TSM - 1) / TSM * ((N + TSN - 1) / TSN);
#if SPLITS > 1
    const int groups = get_num_groups(0), shared = tiles > groups ? tiles % groups : tiles;
#else
    const int shared = 0;
#endif
    return (int2)(tiles + (SPLITS - 1) * shared, tiles - shared);
}

job job_of(const int number, const int M, const int N, const int K)
{
    job it = {0, 0, 0, (K + SLAB - 1) / SLAB, -1};
    int tile = number;
#if SPLITS > 1
    const int2 jobs = jobs_of(M, N);
    if (number >= jobs.s1) {
        const int shared = (jobs.s0 - jobs.s1) / SPLITS;
        const int depth = ((it.end + DEPTH - 1) / DEPTH + SPLITS - 1) / SPLITS * DEPTH;
        it.part = number - jobs.s1;
        tile = jobs.s1 + it.part % shared;
        it.begin = min(it.part / shared * depth, it.end);
        it.end = min(it.begin + depth, it.end);
    }
#endif
    const int tiles_m = (M + TSM - 1) / TSM, tiles_n = (N + TSN - 1) / TSN;
    const int first = tile / (BAND * tiles_n) * BAND, band = min(BAND, tiles_m - first);
    const int within = tile - first * tiles_n;
    it.i0 = (first + within % band) * TSM;
    it.j0 = within / band * TSN;
    return it;
}

/* Start to copy a slab of a tile to a stage, and with the first slab of KC the scales of its columns
 * to `slot`. Scales are used before the first slab after theirs is freed. When a slab is filled,
 * the one STAGES before it is free: at most STAGES other slots are in use. */
void fill(__local uint4 *stage, __local float *slot, __local ulong *full, const layout at,
          const job it, const int slab)
{
    const int fresh = slab % DEPTH == 0, bytes = 16 * STAGE;
    arrive_expecting(full, fresh ? bytes + 4 * TSN : bytes);
    if (fresh)
        copy_bulk(slot, at.scale_b + (size_t)(slab / DEPTH) * at.lines_b + it.j0, 4 * TSN, full);
    copy_bulk(stage, at.a + ((size_t)slab * at.lines_a + it.i0) * LINE, 16 * TSM * LINE, full);
    copy_bulk(stage + TSM * LINE, at.b + ((size_t)slab * at.lines_b + it.j0) * LINE,
              16 * TSN * LINE, full);
}

__kernel __attribute__((reqd_work_group_size(384, 1, 1)))
void gemm(const int M, const int N, const int K, const float alpha,
          __global const float *restrict A, const int lda,
          __global const float *restrict B, const int ldb, const float beta,
          __global float *restrict C, const int ldc, __global uint4 *restrict work PARTS_ARGUMENT)
{
    OF_BATCH(A); OF_BATCH(B); OF_BATCH(C); OF_BATCH(work);
#if SPLITS > 1
    OF_BATCH_PARTS
#endif
    __local uint4 ring[STAGES * STAGE] __attribute__((aligned(1024)));
    __local float scales[SLOTS * TSN] __attribute__((aligned(128)));
    __local ulong full[STAGES], empty[STAGES];
    const layout at = layout_of(M, N, K, work);
    const int item = get_local_id(0), warpgroup = item / 128, jobs = jobs_of(M, N).s0;
    if (item == 0) {
        for (int s = 0; s < STAGES; s++) {
            init_barrier(&full[s], 1);
            init_barrier(&empty[s], 2);
        }
        show_barriers();
    }
    barrier(CLK_LOCAL_MEM_FENCE); /* no work-item uses the barriers before they exist */

    /* All run through the same jobs and slabs, each at its own pace. */
    int stage = 0, slot = 0;
    uint phase = 0;
    if (warpgroup == 0) {
        FEWER_REGISTERS;
        if (item == 0)
            for (int n = get_group_id(0); n < jobs; n += get_num_groups(0)) {
                const job it = job_of(n, M, N, K);
                for (int slab = it.begin; slab < it.end; slab++) {
                    if (slab % DEPTH == 0)
                        slot = slot + 1 == SLOTS ? 0 : slot + 1;
                    await(&empty[stage], phase ^ 1);
                    fill(ring + stage * STAGE, scales + slot * TSN, &full[stage], at, it, slab);
                    stage = stage + 1 == STAGES ? 0 : stage + 1;
                    phase ^= stage == 0;
                }
            }
        return;
    }
    MORE_REGISTERS;
    const int half_of_tile = warpgroup - 1, elected = item % 128 == 0, lane = item % 32;
    float high[TSN / 2], low[TSN / 2], sums[TSN / 2];
    for (int n = get_group_id(0); n < jobs; n += get_num_groups(0)) {
        const job it = job_of(n, M, N, K);
        const int i = it.i0 + half_of_tile * 64 + item % 128 / 32 * 16 + lane / 4;
        const int j = it.j0 + lane % 4 * 2;
        const int e[2] = {at.e_a[i], at.e_a[i + 8]};
#pragma unroll
        for (int s = 0; s < TSN / 2; s++)
            sums[s] = 0;
        for (int slab = it.begin; slab < it.end;) {
            const int begin = slab, end = min(slab + DEPTH, it.end);
            int before = 0; /* the stage before */
            slot = slot + 1 == SLOTS ? 0 : slot + 1;
            for (; slab < end; slab++) {
                /* Nothing, except in tests, where no other warpgroup fills the ring. */
                EMULATED_COPY(fill(ring + stage * STAGE, scales + slot * TSN, &full[stage], at,
                                   it, slab));
                await(&full[stage], phase);
                const matrix a = MATRIX(ring, stage * STAGE + half_of_tile * 64 * LINE);
                const matrix b = MATRIX(ring, stage * STAGE + TSM * LINE);
                const int add = slab > begin;
                BEGIN_PRODUCTS; /* A matrix counts in 16 bytes. 2: 16 k's further; 4: the small part. */
                MULTIPLY(low, a, b + 4, add);
                MULTIPLY(low, a + 4, b, 1);
                MULTIPLY(high, a, b, add);
                MULTIPLY(low, a + 2, b + 6, 1);
                MULTIPLY(low, a + 6, b + 2, 1);
                MULTIPLY(high, a + 2, b + 2, 1);
                END_PRODUCTS;
                if (elected && add)
                    arrive(&empty[before]);
                before = stage;
                stage = stage + 1 == STAGES ? 0 : stage + 1;
                phase ^= stage == 0;
            }
            AWAIT_PRODUCTS(high, low);
            if (elected)
                arrive(&empty[before]);
            __local const float2 *scale =
                (__local const float2 *)(scales + slot * TSN + lane % 4 * 2);
#pragma unroll
            for (int s = 0; s < TSN / 2; s++) {
                const float2 both = scale[s / 4 * 4];
                sums[s] += (high[s] + low[s] * (1 / SMALL_SCALE)) * (s % 2 ? both.s1 : both.s0);
            }
        }

        /* Elements that did not fit are NaN, those beyond the range of float32 Inf. */
        int fits = e[0] != UNFIT && e[1] != UNFIT;
#pragma unroll
        for (int s = 0; s < TSN / 2; s++)
            fits &= (as_uint(sums[s]) & 0x7f800000) != 0x7f800000;
        if (!fits) {
#pragma unroll
            for (int s = 0; s < TSN / 2; s++)
                sums[s] = 0;
            plain_sums(sums, M, N, min(it.end * SLAB, K) - it.begin * SLAB, A + it.begin * SLAB,
                       lda, B + it.begin * SLAB * (size_t)ldb, ldb, i, j);
        }

        target to = {C, ldc, alpha, beta};
#if SPLITS > 1
        if (it.part >= 0)
            to = part_of(parts + it.part * (size_t)(TSM * TSN), TSN, it.i0, it.j0);
#endif
        const int at_once = it.j0 + TSN <= N && to.ld % 2 == 0;
#pragma unroll
        for (int m = 0; m < 2; m++)
            if (i + 8 * m < M)
#pragma unroll
                for (int n = 0; n < TSN / 8; n++) {
                    float2 v = (float2)(sums[4 * n + 2 * m], sums[4 * n + 2 * m + 1]);
                    const size_t element = (i + 8 * m) * to.ld + j + 8 * n;
                    v = scaled(v, (int2)(fits ? e[m] : 0));
                    if (at_once)
                        store_two(to, element, v);
                    else if (j + 8 * n < N)
                        store_one(to, element, v.s0);
                    if (!at_once && j + 8 * n + 1 < N)
                        store_one(to, element + 1, v.s1);
                }
    }
}
#endif
