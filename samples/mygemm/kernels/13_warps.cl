/* C = alpha * A * B + beta * C, row-major: element (i, j) of a matrix is at [i * ld + j].
 *
 *       TSN            8 x 4 lanes           WPTN         A work-group computes a tile of C, each
 *   +----+----+       +--+--+--+--+     +------+------+   of its warps a part of it, each of the 32
 *   |warp|warp|       |  |  |  |  |     |4 x 4 |4 x 4 |   lanes of a warp pieces of 4 x 4 all over
 *   |    |    |       +--+--+--+--+     +------+------+   the part: WPTM x WPTN elements in all.
 *   +----+----+ TSM   |  |  |  |  |            .
 *   |    |    |       +--+--+--+--+     WPTM   .          At each k a lane reads WPTM elements of A
 *   |    |    |            ...          +------+------+   and WPTN of B, four at a time. The same
 *   +----+----+       +--+--+--+--+     |4 x 4 |4 x 4 |   pieces of neighbour lanes are neighbours:
 *    tile of C        a warp's part     +------+------+   a warp reads 8 vectors of A and 4 of B
 *                                       what a lane has   that follow each other, no bank twice.
 *
 * A is transposed on its way into local memory, as in 10. There are two tiles of A and of B, as in
 * 09. Tiles of C are computed in the order
 *
 *     0  3  6  9       down BAND rows of tiles (here 3) before the next column begins: work-groups
 *     1  4  7  10      that run at the same time read few rows of A and few columns of B, and those
 *     2  5  8  11      stay in the cache.
 *
 * If C has few tiles, two parameters give more work-items. A work-group has SLICES times as many
 * work-items: each slice takes other steps of TSK from K, with tiles of its own, and at the end they
 * add up their sums. Until then they need not wait for each other: see SYNC_SLICE. SPLITS work-groups
 * share a tile of C: each takes a part of K and stores its sums. The one that comes last adds up all of
 * them, or add.cl does, always in the same order: see parts.cl. All tiles may be shared, or only the
 * last ones, which would otherwise leave most of the device idle. It is compiled after last.cl,
 * parts.cl and rows.cl, which says how C is stored.
 *
 * NDRange: one dimension, for each tile of C, whole or not, a work-group of SLICES * TSM/WPTM *
 * TSN/WPTN work-items, and SPLITS for each of the last tiles, which are shared. WPTM, WPTN and TSK are
 * multiples of 4, TSM of 8 * WPTM, TSN of 4 * WPTN. TSK * TSM / 4 and TSK * TSN / 4 are multiples of the
 * work-items of a slice, and those of TSN / 4 and of TSK. There are at most 15 slices.
 * WIDTH_A may be 4 where 4 divides K and lda, WIDTH_N where it divides N, ldb and ldc. NARROW is the
 * smaller of N and 4.
 *
 * EARLY 1: a step begins with the loads for the next one. Otherwise NVIDIA's compiler moves a load
 * down, towards the use of its value. The value then occupies a register for a shorter time, and more
 * work-groups may fit on a compute unit. But less time remains to hide the latency of the load. With
 * EARLY 1 one branch is around all loads of a step. If there are many, the compiler leaves them there.
 *
 * The idea: shapes that save local reads, which limit the device. A GPU may start 128 multiplications
 * per clock but read only 32 elements of local memory. The more elements a lane computes, and the
 * more square its part is, the fewer it reads per product, as long as the sums stay in registers.
 *
 * The cost it removes: local reads. For each k a lane issues (WPTM + WPTN) / 4 of them for
 * WPTM * WPTN multiplications: with 16 and 8, 6 for 128. Kernel 10 issues 10 for 64. */

#ifndef TSM /* the defaults; build options must define all of these, or none */
#define REAL float
#define TSM 64 /* rows of a tile of C */
#define TSN 64 /* columns of a tile of C */
#define TSK 8 /* depth of the tiles of A and B */
#define WPTM 8 /* rows of C for each work-item */
#define WPTN 8 /* columns of C for each work-item */
#define SLICES 1 /* work-items that share the k's of an element of C */
#define BAND 8 /* rows of tiles that are computed together */
#define SPLITS 1 /* work-groups that share the k's of a tile of C */
#define LAST_ADDS 0 /* 1: the last of them adds up the parts, see parts.cl */
#define WIDTH_A 1 /* elements of an access to A, 1 or 4 */
#define WIDTH_N 1 /* and to B and C */
#define NARROW 4 /* columns of B, at most 4: a load reads no more */
#define EARLY 1 /* 1: a step begins with the loads for the next one */
#endif
#ifndef OF_BATCH
#define OF_BATCH(matrix) /* with --batch, selects this product: batch.cl */
#endif

#define STEP (TSK * SLICES) /* k's of a step of the work-group */
#define LANES 32
#define LANES_M 8
#define LANES_N (LANES / LANES_M)
#define WARPS_M (TSM / (LANES_M * WPTM)) /* warps above each other */
#define ITEMS (TSM / WPTM * (TSN / WPTN)) /* of a slice */
#define PIECES_M (WPTM / 4)
#define PIECES_N (WPTN / 4)
#define VECS_K (TSK / 4) /* vectors in a row of a tile of A as it is fetched */
#define VECS_M (TSM / 4 + 1) /* as it is kept; the last one is unused, against bank conflicts */
#define VECS_N (TSN / 4)
#define FETCH_A (VECS_K * TSM / ITEMS) /* vectors of a tile of A that a work-item loads */
#define FETCH_B (TSK * VECS_N / ITEMS) /* of B */
#define TILES (TSK * (VECS_M + VECS_N)) /* vectors of a tile of A and one of B */
#define SUMS ((SLICES - 1) * PIECES_N * ITEMS) /* vectors that the slices pass on of a row */
#define STRIDE (LANES_N * WPTN + 8) /* elements of a row on its way to C; 8 are unused, as above */
#define ROWS (ITEMS / LANES_N * STRIDE / 4) /* vectors of 8 such rows of each warp, if WPTN > 4 */
#define LEAST (SUMS > ROWS ? SUMS : ROWS)
#define VECTORS (2 * SLICES * TILES > LEAST ? 2 * SLICES * TILES : LEAST)

/* A barrier for the work-items of a slice, which are whole warps. OpenCL has none for a part of a
 * work-group. NVIDIA's PTX has 16 barriers for any number of warps; barrier() is number 0. Tiles of 16
 * columns are limited by memory, and faster where slices read neighbouring elements of A together. */
#if SLICES > 1 && TSN >= 32 && defined(cl_nv_pragma_unroll)
#define SYNC_SLICE __asm volatile("bar.sync %0, %1;" ::"r"(slice + 1), "n"(ITEMS) : "memory")
#else
#define SYNC_SLICE barrier(CLK_LOCAL_MEM_FENCE)
#endif

/* The loads of a work-item from A: vector f is of row ROW_A(f, 0), from column K_A of the slice's tile
 * on. Where WIDTH_A is 1 it consists of elements of four rows, which are a vector of the transposed
 * tile: neighbour work-items load neighbours in these rows. */
#if WIDTH_A == 4
#define ROW_A(f, n) (item / VECS_K + (f) * (ITEMS / VECS_K))
#define K_A (item % VECS_K * 4)
#define LOAD_A(from, k) (*(__global const VEC *)&(from)[0][k])
#else
#define ROW_A(f, n) (item / TSK * 4 + (f) * (4 * ITEMS / TSK) + (n))
#define K_A (item % TSK)
#define LOAD_A(from, k) (VEC)((from)[0][k], (from)[1][k], (from)[2][k], (from)[3][k])
#endif

/* The loads from B: vector f is of row ROW_B(f) of the slice's tile, from column COLUMN on. Where
 * WIDTH_N is 1, it may extend beyond the row. The elements there exist, in the gap or in the next row:
 * the last row of B is loaded only in the first step. Their products are in sums that are not stored.
 * If B has one column, they may be in rows that do not exist: see NARROW. */
#define COLUMN (item % VECS_N * 4)
#define ROW_B(f) (item / VECS_N + (f) * DEEP)
#define DEEP (ITEMS / VECS_N) /* rows that are loaded side by side */
#if WIDTH_N == 4
#define LOAD_B(from) (*(__global const VEC *)(from))
#else
#define NTH(e) ((e) < NARROW ? (e) : 0)
#define LOAD_B(from) (VEC)((from)[0], (from)[NTH(1)], (from)[NTH(2)], (from)[NTH(3)])
#endif

/* Store what this work-item loaded in a tile, A transposed. */
void put_a(__local VEC *tile, const VEC *a, const int item)
{
#pragma unroll
    for (int f = 0; f < FETCH_A; f++) {
#if WIDTH_A == 4
        __local REAL *to = (__local REAL *)&tile[K_A * VECS_M] + ROW_A(f, 0);
        to[0] = a[f].s0;
        to[4 * VECS_M] = a[f].s1;
        to[8 * VECS_M] = a[f].s2;
        to[12 * VECS_M] = a[f].s3;
#else
        tile[K_A * VECS_M + ROW_A(f, 0) / 4] = a[f];
#endif
    }
}
void put_b(__local VEC *tile, const VEC *b, const int item)
{
#pragma unroll
    for (int f = 0; f < FETCH_B; f++)
        tile[ROW_B(f) * VECS_N + COLUMN / 4] = b[f];
}

/* Add the products of a tile of A and one of B. Fully unrolled, so that the compiler can read the
 * vectors of the next k while it multiplies those of this one. */
void multiply(VEC (*sums)[PIECES_N], __local const VEC *a_tile, __local const VEC *b_tile)
{
#pragma unroll
    for (int k = 0; k < TSK; k++) {
        VEC a[PIECES_M], b[PIECES_N];
#pragma unroll
        for (int m = 0; m < PIECES_M; m++)
            a[m] = a_tile[k * VECS_M + m * LANES_M];
#pragma unroll
        for (int n = 0; n < PIECES_N; n++)
            b[n] = b_tile[k * VECS_N + n * LANES_N];
#pragma unroll
        for (int m = 0; m < PIECES_M; m++)
#pragma unroll
            for (int n = 0; n < PIECES_N; n++) {
                sums[4 * m][n] += a[m].s0 * b[n];
                sums[4 * m + 1][n] += a[m].s1 * b[n];
                sums[4 * m + 2][n] += a[m].s2 * b[n];
                sums[4 * m + 3][n] += a[m].s3 * b[n];
            }
    }
}

/* Store alpha * sum + beta * c. Where beta is 0, C is not read. */
void store(__global VEC *c, const VEC sum, const REAL alpha, const REAL beta)
{
    *c = beta == 0 ? alpha * sum : alpha * sum + beta * *c;
}

__kernel __attribute__((reqd_work_group_size(SLICES * ITEMS, 1, 1)))
void gemm(const int M, const int N, const int K, const REAL alpha,
          __global const REAL *restrict A, const int lda,
          __global const REAL *restrict B, const int ldb, const REAL beta,
          __global REAL *restrict C, const int ldc PARTS_ARGUMENT)
{
    OF_BATCH(A); OF_BATCH(B); OF_BATCH(C);
    __local VEC tiles[VECTORS];
#if LAST_ADDS
    __local int before;
#endif
    /* A constant where it can be one, which takes no register. */
    const int slice = SLICES > 1 ? get_local_id(0) / ITEMS : 0;
    const int item = get_local_id(0) - slice * ITEMS;

    /* The tile of C, and the k's of it that are this work-group's. */
    const int tiles_m = (M + TSM - 1) / TSM, tiles_n = (N + TSN - 1) / TSN;
    int tile = get_group_id(0), begin = 0, end = K;
#if SPLITS > 1
    OF_BATCH_PARTS
    const int shared = ((int)get_num_groups(0) - tiles_m * tiles_n) / (SPLITS - 1);
    const int whole = tiles_m * tiles_n - shared, part = max(0, tile - whole);
    if (tile >= whole) {
        const long all = (K + STEP - 1) / STEP, split = part / shared;
        tile = whole + part % shared;
        begin = (int)(all * split / SPLITS) * STEP;
        end = min(K, (int)(all * (split + 1) / SPLITS) * STEP);
    }
#endif
    const int first = tile / (BAND * tiles_n) * BAND, band = min(BAND, tiles_m - first);
    const int within = tile - first * tiles_n;
    const int i0 = (first + within % band) * TSM, j0 = within / band * TSN;

    /* The lane's first vectors in the rows of the tiles. Lanes n and n ^ 1 need the same one of A,
     * lanes n and n ^ 2 of B: so an NVIDIA GPU serves twice as many lanes at a time. */
    const int lane = get_local_id(0) % LANES, warp = item / LANES;
    const int lane_m = lane / 2 % LANES_M, lane_n = lane % 2 + lane / (2 * LANES_M) * 2;
    const int at_m = warp % WARPS_M * (LANES_M * PIECES_M) + lane_m;
    const int at_n = warp / WARPS_M * (LANES_N * PIECES_N) + lane_n;

    /* The last step may be shorter than the others. It is done first, even if it is whole, so that no
     * later step loads the last row of B. Only its loads check bounds. A k from `end` on is replaced
     * by 0. For a row or a column that does not exist, the last one is loaded; its results are not
     * stored. */
    const int whole_steps = (end - begin - 1) / STEP;
    const int rest = begin + whole_steps * STEP + slice * TSK, j = j0 + COLUMN;
    __global const REAL *from_a[FETCH_A][4 / WIDTH_A];
    VEC a_next[FETCH_A], b_next[FETCH_B];
#pragma unroll
    for (int f = 0; f < FETCH_A; f++) {
        const int k = rest + K_A;
#pragma unroll
        for (int n = 0; n < 4 / WIDTH_A; n++)
            from_a[f][n] = A + min(i0 + ROW_A(f, n), M - 1) * (size_t)lda;
        a_next[f] = LOAD_A(from_a[f], min(k, K - WIDTH_A));
        a_next[f] = k < end ? a_next[f] : (VEC)(0);
    }
#pragma unroll
    for (int f = 0; f < FETCH_B; f++) {
        const int k = rest + ROW_B(f);
        __global const REAL *row = B + min(k, K - 1) * (size_t)ldb;
#if WIDTH_N == 4
        b_next[f] = LOAD_B(row + min(j, N - 4));
#else
        b_next[f] = (VEC)(row[min(j, N - 1)], row[min(j + 1, N - 1)], row[min(j + 2, N - 1)],
                          row[min(j + 3, N - 1)]);
#endif
        b_next[f] = k < end ? b_next[f] : (VEC)(0);
    }

    VEC sums[WPTM][PIECES_N];
#pragma unroll
    for (int m = 0; m < WPTM; m++)
#pragma unroll
        for (int n = 0; n < PIECES_N; n++)
            sums[m][n] = 0;

    __local VEC *now = tiles + slice * (2 * TILES), *next = now + TILES;
    put_a(now, a_next, item);
    put_b(now + TSK * VECS_M, b_next, item);

    /* Where this work-item loads next: in the first whole step. If there is none, at the start of its
     * rows of A, and of B. */
#pragma unroll
    for (int f = 0; f < FETCH_A; f++)
#pragma unroll
        for (int n = 0; n < 4 / WIDTH_A; n++)
            from_a[f][n] += whole_steps ? begin + slice * TSK + K_A : 0;
    const size_t from = (begin + slice * TSK + ROW_B(0)) * (size_t)ldb + (j < N ? j : 0);
    __global const REAL *from_b = B + (whole_steps ? from : 0);
    const size_t down = whole_steps ? (size_t)DEEP * ldb : 0; /* from row to row */

    const int last = end - STEP;
    for (int k0 = begin; k0 < end; k0 += STEP) {
        /* The last step has no next one. With EARLY it loads nothing. Otherwise it loads elements that
         * exist, and they are not used. */
        if (!EARLY || k0 < last) {
#pragma unroll
            for (int f = 0; f < FETCH_A; f++)
                a_next[f] = LOAD_A(from_a[f], 0);
#pragma unroll
            for (int f = 0; f < FETCH_B; f++)
                b_next[f] = LOAD_B(from_b + f * down);
        }
        const int ahead = EARLY || k0 + STEP < last ? STEP : 0;
#pragma unroll
        for (int f = 0; f < FETCH_A; f++)
#pragma unroll
            for (int n = 0; n < 4 / WIDTH_A; n++)
                from_a[f][n] += ahead;
        from_b += ahead * (size_t)ldb;

        /* All of the slice have stored the tiles that are read below, and used those that are
         * overwritten. */
        SYNC_SLICE;
        multiply(sums, now + at_m, now + TSK * VECS_M + at_n);

        put_a(next, a_next, item);
        put_b(next + TSK * VECS_M, b_next, item);
        __local VEC *used = now;
        now = next;
        next = used;
    }

#if SLICES > 1
    /* The first slice adds up the sums in the memory of the tiles, as many rows as fit at a time. */
#define AT_ONCE (VECTORS / SUMS < WPTM ? VECTORS / SUMS : WPTM)
#define PASSED(m, s, n) tiles[(((m)-m0) * (SLICES - 1) + (s)) * PIECES_N * ITEMS + (n)*ITEMS + item]
#pragma unroll
    for (int m0 = 0; m0 < WPTM; m0 += AT_ONCE) {
        barrier(CLK_LOCAL_MEM_FENCE); /* all have used the tiles that are overwritten */
#pragma unroll
        for (int m = m0; m < min(m0 + AT_ONCE, WPTM); m++)
#pragma unroll
            for (int n = 0; n < PIECES_N; n++)
                if (slice > 0)
                    PASSED(m, slice - 1, n) = sums[m][n];
        barrier(CLK_LOCAL_MEM_FENCE); /* the first slice reads the others' sums */
#pragma unroll
        for (int m = m0; m < min(m0 + AT_ONCE, WPTM); m++)
#pragma unroll
            for (int s = 0; s < SLICES - 1; s++)
#pragma unroll
                for (int n = 0; n < PIECES_N; n++)
                    if (slice == 0)
                        sums[m][n] += PASSED(m, s, n);
    }
#endif
    int stores = slice == 0;
#if LAST_ADDS
    if (tile >= whole) /* no return: PoCL's compiler confused it with what follows */
        stores &= add_parts(&sums[0][0], ITEMS, item, slice == 0, parts, counters, part, shared,
                            &before);
#endif

    target to = {C, ldc, alpha, beta};
#if SPLITS > 1 && !LAST_ADDS
    if (tile >= whole)
        to = part_of(parts + part * (size_t)(TSM * TSN), TSN, i0, j0);
#endif
#if WIDTH_N == 4
#pragma unroll
    for (int m = 0; m < WPTM; m++) {
        const int i = i0 + (at_m + m / 4 * LANES_M) * 4 + m % 4;
        if (i < M && stores)
#pragma unroll
            for (int n = 0; n < PIECES_N; n++) {
                const int j = j0 + (at_n + n * LANES_N) * 4;
                if (j < N)
                    store((__global VEC *)&to.c[i * to.ld + j], sums[m][n], to.alpha, to.beta);
            }
    }
#else
    const int j_warp = j0 + warp / WARPS_M * (LANES_N * WPTN);
#if WPTN > 4
    __local REAL *rows = (__local REAL *)tiles + warp * (LANES_M * STRIDE);
#pragma unroll
    for (int m = 0; m < WPTM; m++) {
        barrier(CLK_LOCAL_MEM_FENCE); /* all have used what is overwritten */
#pragma unroll
        for (int n = 0; n < PIECES_N; n++)
            if (slice == 0)
                *(__local VEC *)&rows[lane_m * STRIDE + (n * LANES_N + lane_n) * 4] = sums[m][n];
        barrier(CLK_LOCAL_MEM_FENCE); /* the sums of the other lanes are there */
        const int i = i0 + warp % WARPS_M * (LANES_M * WPTM) + m / 4 * (4 * LANES_M) + m % 4;
        if (stores)
            store_rows(to, rows, LANES_N * WPTN, STRIDE, M, N, i, j_warp, 4);
    }
#else
    /* Rows of 16 elements are stored without local memory. */
#pragma unroll
    for (int m = 0; m < WPTM; m++) {
        const int i = i0 + (at_m + m / 4 * LANES_M) * 4 + m % 4, j = j_warp + 4 * lane_n;
        if (i < M && stores)
            store_few(&to.c[i * to.ld + j], sums[m][0], N - j, to.alpha, to.beta);
    }
#endif
#endif
}
