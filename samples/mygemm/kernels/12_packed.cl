/* C = alpha * A * B + beta * C, row-major: element (i, j) of a matrix is at [i * ld + j].
 *
 * For CPUs. A work-group is a single work-item: it computes a block of C on one core, and copies
 * the parts of A and B that it needs into panels, in the order in which they are read.
 *
 *                               NC columns
 *                       NR      NR      NR      NR
 *                    +-------+-------+-------+-------+     KC x NC of B are packed in the L2 cache,
 *                 KC |>>>>>>>|>>>>>>>|>>>>>>>|>>>>>>>|     as panels of NR columns: a row of a panel
 *                    |>>>>>>>|>>>>>>>|>>>>>>>|>>>>>>>|     follows the one before.
 *          KC        +-------+-------+-------+-------+
 *     +----------+   +-------+-------+-------+-------+     MR x KC of A are packed in the L1 cache.
 *  MR |>>>>>>>>>>|   |       | o o o |       |       |
 *     |>>>>>>>>>>|   |       | o o o |       |       |     MR x NR sums of C are in registers, as
 *     +----------+   +-------+-------+-------+-------+     vectors of WIDTH, NR / WIDTH in a row.
 *     |          |   |       |       |       |       |
 *
 * If C is too small for all cores, SPLITS work-groups compute each share of C together: each takes
 * some of the k's, and stores its sums in `parts`. The one that comes last adds them up.
 *
 * With STEAL a work-group that has finished its share of C takes over work from another: see
 * 12_steal.cl.
 *
 * NDRange: work-groups of (1, 1). Dimension 0 goes over the columns of C, dimension 1 over its rows,
 * with SPLITS groups for each share of them; there may be any number of shares. Each product of a
 * large batch has one group. WIDTH must divide NR and KC, and NR must divide NC. M, N and K may be any
 * number from 1 up: panels are filled up beyond the matrices, and the results outside of C are not
 * written.
 *
 * The idea: data that is reused soonest is nearest (BLIS: F. Van Zee and R. van de Geijn, 2015).
 * The innermost loop, the micro-kernel, reads MR elements of A and NR of B and multiplies each by
 * each; C is not accessed before kc such steps. The panel of A is then multiplied by the next panel
 * of B, and the block of B by the next panel of A. A CPU has no special local memory: it is ordinary
 * memory, and stays in the caches if it is small. It is compiled after vector.cl; last.cl, which tells
 * a work-group whether it is the last; 12_tile.cl, which has the micro-kernel; 12_in_place.cl, which
 * takes its place for a batch of small products; and 12_steal.cl.
 *
 * The cost it removes: read from B itself, the rows of a panel are ldb elements apart, each in a
 * page of its own and, where ldb is a power of two, all in the same few lines of the cache. An
 * element is copied once and then read for every panel of A. Each group makes its own copies: a
 * separate launch would leave the panels in the caches of other cores, or in none. */

#ifndef IN_PLACE
#define AHEAD 8             /* rows of B from one that is packed to one that is fetched */
#define STRIDE (KC + WIDTH) /* of a panel of A: its rows are not a power of two apart */

/* A tile begins `columns` before the end of a share. Return how many of the vectors in its rows are
 * computed: all, or all but the last. */
int vectors_for(int columns)
{
    return columns > NR - WIDTH ? VECTORS : VECTORS - 1;
}

/* Copy kc rows of B, `columns` wide, into panels, row by row: down a panel, each step would be in
 * another page. With NR = 2 for this picture:
 *
 *     0  1 | 2  3
 *     4  5 | 6  7    is stored as panel 0: 0 1 4 5 8 9, and panel 1: 2 3 6 7 10 11
 *     8  9 |10 11
 *
 * The last vectors of the first `whole` rows continue into the rows after them: those columns of
 * the panel are not in C. The last vectors of the other rows are filled up with zeros. A vector that
 * is not computed is not packed. */
void pack_B(int kc, int columns, int whole, __global const REAL *B, int ldb,
            SPACE VEC (*panels)[KC][VECTORS])
{
    for (int k = 0; k < kc; k++)
        for (int p = 0; p * NR < columns; p++)
            for (int v = 0; v < vectors_for(columns - p * NR); v++) {
                const int j = p * NR + v * WIDTH;
                PREFETCH_READ(B + (k + AHEAD) * (size_t)ldb + j);
                panels[p][k][v] = load(B + k * (size_t)ldb + j, k < whole ? WIDTH : columns - j);
            }
}

/* Copy MR rows of A, kc deep. They stay rows: the micro-kernel takes single elements from them, and
 * those of a column need not lie together. Rows that are missing below `rows` repeat the last row.
 * The last vectors of the first `whole` rows continue into the rows after them, as in pack_B: the
 * micro-kernel does not read those elements. */
void pack_A(int kc, int rows, int whole, __global const REAL *A, int lda,
            SPACE VEC (*panel)[STRIDE / WIDTH])
{
    for (int i = 0; i < MR; i++) {
        const int from = min(i, rows - 1);
        for (int k = 0; k < kc; k += WIDTH)
            panel[i][k / WIDTH] = load(A + from * (size_t)lda + k, from < whole ? WIDTH : kc - k);
    }
}

/* The micro-kernel for a whole tile, and for one whose last vector is not needed. Where a compiler
 * does not inline these, sums is in memory, and all registers are the micro-kernel's. */
void multiply(int kc, SPACE VEC (*A)[STRIDE / WIDTH], SPACE VEC (*B)[VECTORS],
              const size_t soon, const size_t apart, const int more, VEC sums[MR][VECTORS])
{
    micro_kernel(VECTORS, kc, (SPACE const REAL *)A, STRIDE, (SPACE const REAL *)B, NR, soon,
                 apart, more, sums);
}

void multiply_narrow(int kc, SPACE VEC (*A)[STRIDE / WIDTH], SPACE VEC (*B)[VECTORS],
                     const size_t soon, const size_t apart, const int more,
                     VEC sums[MR][VECTORS])
{
    micro_kernel(VECTORS - 1, kc, (SPACE const REAL *)A, STRIDE, (SPACE const REAL *)B, NR, soon,
                 apart, more, sums);
}

/* C = sums + beta * C, for a whole tile. */
void update(VEC sums[MR][VECTORS], REAL beta, RESULT REAL *C, int ldc)
{
    EACH_SUM put(sums[i][v], beta, C + i * (size_t)ldc + v * WIDTH);
}

/* The same for a tile at the edge, of which only rows x columns elements are in this share of C. */
void update_edge(int rows, int columns, VEC sums[MR][VECTORS], REAL beta, RESULT REAL *C,
                 int ldc)
{
    REAL tile[MR][NR];
    EACH_SUM VSTORE(sums[i][v], v, tile[i]);

    for (int i = 0; i < rows; i++) {
        RESULT REAL *c = C + i * (size_t)ldc;
        int j = 0;
        for (; j + WIDTH <= columns; j += WIDTH)
            put(VLOAD(0, &tile[i][j]), beta, c + j);
        for (; j < columns; j++)
            c[j] = beta == 0 ? tile[i][j] : tile[i][j] + beta * c[j];
    }
}

/* C = alpha * A * B + beta * C for rows x columns of a tile, kc deep, from a panel of A and one of B.
 * C is fetched while the micro-kernel runs. For soon, apart and more see fetch() in 12_tile.cl. */
void compute_tile(int rows, int columns, int kc, SPACE VEC (*A)[STRIDE / WIDTH],
                  SPACE VEC (*B)[VECTORS], const size_t soon, const size_t apart, const int more,
                  REAL alpha, REAL beta, RESULT REAL *C, int ldc)
{
    for (int i = 0; i < rows; i++)
        for (int v = 0; v < vectors_for(columns); v++)
            PREFETCH_WRITE(C + i * (size_t)ldc + v * WIDTH);

    VEC sums[MR][VECTORS];
    if (vectors_for(columns) == VECTORS)
        multiply(kc, A, B, soon, apart, more, sums);
    else
        multiply_narrow(kc, A, B, soon, apart, more, sums);
    if (alpha != 1)
        scale_by(alpha, sums);
    if (rows == MR && columns == NR)
        update(sums, beta, C, ldc);
    else
        update_edge(rows, columns, sums, beta, C, ldc);
}

/* The hint says that the vectors are written out already. Without it, Intel's runtime tries to combine
 * work-items into vectors, although a work-group has only one, and takes several times as long to
 * build the kernel: remove the hint and compare (-p intel --kernel 12 --build-only). */
__kernel __attribute__((reqd_work_group_size(1, 1, 1), vec_type_hint(VEC)))
void gemm(const int M, const int N, const int K, const REAL alpha, __global const REAL *restrict A,
          const int lda, __global const REAL *restrict B, const int ldb, const REAL beta,
          __global REAL *restrict C, const int ldc
#if GLOBAL
          , __global VEC (*restrict work)[VECTORS * KC * NC / NR + MR * STRIDE / WIDTH]
#endif
#if SPLITS > 1
          , RESULT REAL *parts /* SPLITS matrices of M x N */
#endif
#if SPLITS > 1 || STEAL
          , volatile __global int *counters
#endif
          )
{
    OF_BATCH(A); OF_BATCH(B); OF_BATCH(C);
#if GLOBAL /* each group has panels of its own */
    OF_BATCH(work);
    __global VEC *const panels = work[get_group_id(1) * get_num_groups(0) + get_group_id(0)];
    __global VEC (*const b_panels)[KC][VECTORS] = (__global VEC (*)[KC][VECTORS])panels;
    __global VEC (*const a_panel)[STRIDE / WIDTH] =
        (__global VEC (*)[STRIDE / WIDTH])(panels + VECTORS * KC * NC / NR);
#else
    __local VEC b_panels[NC / NR][KC][VECTORS], a_panel[MR][STRIDE / WIDTH];
#endif

    /* This group's share of C, and the steps of its loops. Blocks are of equal size: with
     * K = KC + 1, the second would otherwise update C for a single k. */
    const int down = get_group_id(1) / SPLITS, groups_down = get_num_groups(1) / SPLITS;
    const int across = get_num_groups(0), number = down * across + get_group_id(0);
    const int tall = share(M, groups_down, MR), wide = share(N, across, WIDTH);
    const int length = share(K, SPLITS, WIDTH);
    const Division of = {M, N, K, across, tall, wide, share(length, (length + KC - 1) / KC, WIDTH),
                         share(wide, (wide + NC - 1) / NC, NR)};
    Block own = share_of(number, &of);

    /* Its share of K: begin .. end - 1, which may be empty. With SPLITS the results go to a part;
     * alpha and beta come in when the parts are added up. */
    const int split = get_group_id(1) % SPLITS;
    const int begin = min(K, split * length), end = min(K, begin + length);
#if SPLITS > 1
    OF_BATCH(parts); OF_BATCH(counters);
    __local int before;
    RESULT REAL *const to = parts + split * (size_t)M * N;
    const int ld = N;
    const REAL of_product = 1, of_before = 0;
#else
    RESULT REAL *const to = C;
    const int ld = ldc;
    const REAL of_product = alpha, of_before = beta;
#endif

    own.k0 = begin;
#if STEAL
    OF_BATCH(counters);
    const int count = across * groups_down;
    volatile __global Group *const groups = (volatile __global Group *)counters;
    for (int found = begin_share(&groups[number]) || steal(groups, count, &of, &own); found;
         found = steal(groups, count, &of, &own))
#endif
        for (int jb = own.j0; jb < own.j1 && own.i0 < own.i1; jb += of.breadth) {
            const int jb1 = min(own.j1, jb + of.breadth);
            for (int k0 = own.k0; k0 == begin || k0 < end; k0 += of.depth) {
                /* Once at least: a part without k's is zeros. */
                const int kc = min(of.depth, end - k0);
                /* From the second block on, partial sums are there. */
                const REAL scale = k0 == begin ? of_before : 1;
                const Block left = {own.i0, own.i1, jb, own.j1, k0};
                const int height = begin_pass(&groups[number], left);
                pack_B(kc, jb1 - jb, whole_rows(K - k0, jb1 - jb, NR, ldb),
                       B + k0 * (size_t)ldb + jb, ldb, b_panels);

                /* Each micro-kernel of a panel of A fetches as many rows of the next one: 1 + more. */
                const size_t apart = lda * sizeof(REAL);
                int more = 0;
                while ((more + 1) * (jb1 - jb) < MR * NR && more < 15)
                    more = 2 * more + 1;

                int i = own.i0 - MR;
                while ((i = next_rows(&groups[number], i, height, &own)) < own.i1) {
                    const int rows = min(MR, own.i1 - i);
                    __global const REAL *next = i + MR < own.i1 ? A + (i + MR) * (size_t)lda + k0
                                                            : A + own.i0 * (size_t)lda + k0 + of.depth;
                    pack_A(kc, rows, whole_rows(M - i, kc, WIDTH, lda), A + i * (size_t)lda + k0, lda,
                           a_panel);

                    for (int p = 0, j = jb; j < jb1; p++, j += NR)
                        compute_tile(rows, min(NR, jb1 - j), kc, a_panel, b_panels[p],
                                     (size_t)next + p * (more + 1) * apart, apart, more,
                                     of_product, scale, to + i * (size_t)ld + j, ld);
                }
            }
            own.k0 = begin; /* the next columns need all k's, also those of a thief */
        }
#if STEAL
    leave(counters, count);
#endif

#if SPLITS > 1
    /* The last work-group of a share adds up its parts, always in the same order. */
    const int last = is_last(&counters[number], SPLITS, &before);
    for (int i = own.i0; last && i < own.i1; i++)
        for (int j = own.j0; j < own.j1; j++) {
            RESULT REAL *part = parts + i * (size_t)N + j;
            REAL sum = 0;
            for (int s = 0; s < SPLITS; s++)
                sum += part[s * (size_t)M * N];
            __global REAL *c = C + i * (size_t)ldc + j;
            *c = beta == 0 ? alpha * sum : alpha * sum + beta * *c;
        }
#endif
}
#endif
