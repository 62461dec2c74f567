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
 * NDRange: work-groups of (1, 1). Dimension 0 goes over the columns of C, dimension 1 over its rows,
 * with SPLITS groups for each share of them; there may be any number of shares. Small products of a
 * batch have one group. WIDTH must divide NR and KC, and NR must divide NC. M, N and K may be any
 * number from 1 up: panels are filled up beyond the matrices, and the results outside of C are not
 * written.
 *
 * The idea: data that is reused soonest is nearest (BLIS: F. Van Zee and R. van de Geijn, 2015).
 * The innermost loop, the micro-kernel, reads MR elements of A and NR of B and multiplies each by
 * each; C is not accessed before kc such steps. The panel of A is then multiplied by the next panel
 * of B, and the block of B by the next panel of A. A CPU has no special local memory: it is ordinary
 * memory, and stays in the caches if it is small. It is compiled after vector.cl, and last.cl, which
 * tells a work-group whether it is the last.
 *
 * The cost it removes: read from B itself, the rows of a panel are ldb elements apart, each in a
 * page of its own and, where ldb is a power of two, all in the same few lines of the cache. An
 * element is copied once and then read for every panel of A. Each group makes its own copies: a
 * separate launch would leave the panels in the caches of other cores, or in none. */

#ifndef MR /* the defaults; build options must define all of these, or none */
#define MR 6 /* rows of a tile of C: MR * NR / WIDTH sums must leave registers for A and B */
#define NR 16 /* columns of a tile of C, and of a panel of B */
#define KC 128 /* depth of the panels, at most: MR * KC elements fit in a part of the L1 cache */
#define NC 48 /* columns of the block of B, at most: KC * NC elements fit in the L2 cache */
#define GLOBAL 0 /* 1: panels in global memory */
#define SPLITS 1 /* work-groups that share the k's of an element of C */
#endif
#define VECTORS (NR / WIDTH) /* in a row of a tile */
#define UNROLL 4             /* steps between two jumps: with 8, PoCL kept the sums in memory */
#define AHEAD 8              /* rows of B from one that is packed to one that is fetched */
#define STRIDE (KC + WIDTH)  /* of a panel of A: its rows are not a power of two apart */

/* PREFETCH is defined for CPUs, which have one address space: fetch the cache line at p, to be read
 * or written soon. It need not be in a matrix. Older compilers, such as clang 9, refuse the
 * pointer. */
#if defined(PREFETCH) && __clang_major__ >= 14
#define PREFETCH_READ(p) __builtin_prefetch((const void *)(size_t)(p), 0)
#define PREFETCH_WRITE(p) __builtin_prefetch((const void *)(size_t)(p), 1)
#else
#define PREFETCH_READ(p)
#define PREFETCH_WRITE(p)
#endif

/* Inlined wherever it is called, where the number of vectors is a constant. Without `inline`: some
 * compilers make a call of that, to a function that is not there. */
#define INLINE __attribute__((always_inline))

/* IN_PLACE is defined for a batch of small products, whose tiles divide C: A and B fit in a
 * cache and are not packed. The micro-kernel gets the first element and the row stride of each.
 * SIZE_M to SIZE_LDC are then defined as well. With GLOBAL the panels are in global memory, where a
 * driver has less local memory than a CPU has L2 cache. */
#if defined(IN_PLACE) || GLOBAL
#define SPACE __global
#else
#define SPACE __local
#endif
#ifdef IN_PLACE
#define PANEL_A A + i * (size_t)lda, lda
#define PANEL_B B + j, ldb
#define PREFETCH_SOON(k)
#define UNIT NR /* of a share's columns: each has whole tiles only, as C has */
#define IN_C(side, left) (side)
#define INLINE_IN_PLACE INLINE /* a tile has few rows: its sums never leave the registers */
#else
#define PANEL_A (SPACE const REAL *)a_panel, STRIDE
#define PANEL_B (SPACE const REAL *)b_panels[p], NR
#define PREFETCH_SOON(k) PREFETCH_READ(soon + ((k) & more) * (size_t)soon_ld + (k))
#define UNIT WIDTH
#define IN_C(side, left) min(side, left) /* rows or columns of a tile that C has */
#define INLINE_IN_PLACE
#endif

/* STREAM is defined for a batch whose C is larger than a cache: its vectors, if they are aligned,
 * bypass the caches, so that their lines are not read before they are written. */
#define BYPASS 0
#if defined(STREAM) && defined(__has_builtin)
#if __has_builtin(__builtin_nontemporal_store)
#undef BYPASS
#define BYPASS 1
#endif
#endif

/* Where results go. With SPLITS another work-group reads them, so they are volatile: see last.cl. */
#if SPLITS > 1
#define RESULT volatile __global
#else
#define RESULT __global
#endif

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

/* Fetch a share of the next product's matrix while the tiles from row i on are computed: each
 * matrix begins in its own page, and a CPU does not guess which. For a row of C, `per_row` bytes are
 * fetched. */
void fetch_next(size_t matrix, size_t per_row, int i)
{
    for (size_t line = matrix + per_row * i; line < matrix + per_row * (i + MR); line += 64)
        PREFETCH_READ(line);
}

/* Go over the vectors of a tile. The loops are unrolled, so that each vector is a register. */
#define EACH_SUM                                                                                   \
    _Pragma("unroll") for (int i = 0; i < MR; i++)                                                 \
    _Pragma("unroll") for (int v = 0; v < VECTORS; v++)

/* A step of the micro-kernel: c += a column of A times a row of B, its first `vectors` vectors. */
INLINE void add_products(const int vectors, SPACE const REAL *A, const int lda,
                         SPACE const REAL *B, VEC c[MR][VECTORS])
{
    VEC b[VECTORS];
#pragma unroll
    for (int v = 0; v < VECTORS; v++)
        if (v < vectors)
            b[v] = VLOAD(v, B);
#pragma unroll
    for (int i = 0; i < MR; i++) {
        const VEC a = A[i * lda]; /* the same element in all lanes */
#pragma unroll
        for (int v = 0; v < VECTORS; v++)
            if (v < vectors)
                c[i][v] = fma(a, b[v], c[i][v]);
    }
}

/* sums = A * B for a panel of each: MR * vectors sums, kc steps. The loops over i and v are fully
 * unrolled, so that each c is a register. The loop over k takes UNROLL steps at a time: its
 * additions and jumps compete with fma for the CPU's ports. `soon` are 1 + more rows of A that will
 * be packed next, a power of two: each of these steps fetches a cache line of one of them. */
INLINE void micro_kernel(const int vectors, int kc, SPACE const REAL *A, const int lda,
                         SPACE const REAL *B, const int ldb, __global const REAL *soon,
                         const int soon_ld, const int more, VEC sums[MR][VECTORS])
{
    VEC c[MR][VECTORS];
    EACH_SUM c[i][v] = 0;

    int k = 0;
    for (; k + UNROLL <= kc; k += UNROLL)
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            PREFETCH_SOON(k + u);
            add_products(vectors, A + k + u, lda, B + (k + u) * ldb, c);
        }
    for (; k < kc; k++)
        add_products(vectors, A + k, lda, B + k * ldb, c);

    EACH_SUM sums[i][v] = c[i][v];
}

/* The micro-kernel for a whole tile, and for one whose last vector is not needed. Where a compiler
 * does not inline these, sums is in memory, and all registers are the micro-kernel's. */
INLINE_IN_PLACE void multiply(int kc, SPACE const REAL *A, const int lda, SPACE const REAL *B,
                              const int ldb, __global const REAL *soon, const int soon_ld,
                              const int more, VEC sums[MR][VECTORS])
{
    micro_kernel(VECTORS, kc, A, lda, B, ldb, soon, soon_ld, more, sums);
}

void multiply_narrow(int kc, SPACE const REAL *A, const int lda, SPACE const REAL *B,
                     const int ldb, __global const REAL *soon, const int soon_ld, const int more,
                     VEC sums[MR][VECTORS])
{
    micro_kernel(VECTORS - 1, kc, A, lda, B, ldb, soon, soon_ld, more, sums);
}

/* C = product + beta * C, for a vector of C. PoCL 3.1 makes pieces of a vstore. */
void put(VEC product, REAL beta, RESULT REAL *c)
{
    RESULT UNALIGNED *to = (RESULT UNALIGNED *)c;
    if (beta != 0)
        product += beta * *to;
    *to = product;
}

/* sums = alpha * sums. */
INLINE void scale_by(REAL alpha, VEC sums[MR][VECTORS])
{
    EACH_SUM sums[i][v] *= alpha;
}

/* C = sums + beta * C, for a whole tile. */
INLINE_IN_PLACE void update(VEC sums[MR][VECTORS], REAL beta, RESULT REAL *C, int ldc)
{
#if BYPASS
    if (beta == 0 && ldc % WIDTH == 0 && (size_t)C % sizeof(VEC) == 0) {
        __global VEC *const to = (__global VEC *)C;
        EACH_SUM __builtin_nontemporal_store(sums[i][v], to + i * (ldc / WIDTH) + v);
        return;
    }
#endif
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

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void gemm(const int M, const int N, const int K, const REAL alpha, __global const REAL *restrict A,
          const int lda, __global const REAL *restrict B, const int ldb, const REAL beta,
          __global REAL *restrict C, const int ldc
#if GLOBAL
          , __global VEC (*restrict work)[VECTORS * KC * NC / NR + MR * STRIDE / WIDTH]
#endif
#if SPLITS > 1
          , RESULT REAL *parts, volatile __global int *counters /* SPLITS matrices of M x N */
#endif
          )
{
#ifdef IN_PLACE /* all sizes are known here, so little else than the products is computed */
#define M SIZE_M
#define N SIZE_N
#define K SIZE_K
#define lda SIZE_LDA
#define ldb SIZE_LDB
#define ldc SIZE_LDC
#endif
    OF_BATCH(A); OF_BATCH(B); OF_BATCH(C);
#if GLOBAL /* each group has panels of its own */
    OF_BATCH(work);
    __global VEC *const panels = work[get_group_id(1) * get_num_groups(0) + get_group_id(0)];
    __global VEC (*const b_panels)[KC][VECTORS] = (__global VEC (*)[KC][VECTORS])panels;
    __global VEC (*const a_panel)[STRIDE / WIDTH] =
        (__global VEC (*)[STRIDE / WIDTH])(panels + VECTORS * KC * NC / NR);
#elif !defined(IN_PLACE)
    __local VEC b_panels[NC / NR][KC][VECTORS], a_panel[MR][STRIDE / WIDTH];
#endif

    /* This group's share of C: rows i0 .. i1 - 1, columns j0 .. j1 - 1. It may be empty. */
    const int down = get_group_id(1) / SPLITS, groups_down = get_num_groups(1) / SPLITS;
    const int height = share(M, groups_down, MR), width = share(N, get_num_groups(0), UNIT);
    const int i0 = down * height, i1 = min(M, i0 + height);
    const int j0 = get_group_id(0) * width, j1 = min(N, j0 + width);

    /* Its share of K: begin .. end - 1, which may be empty. With SPLITS the results go to a part;
     * alpha and beta come in when the parts are added up. */
    const int split = get_group_id(1) % SPLITS, length = share(K, SPLITS, WIDTH);
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

    /* Blocks of equal size: with K = KC + 1, the second would otherwise update C for a single k. */
    const int depth = share(length, (length + KC - 1) / KC, WIDTH);
    const int breadth = share(width, (width + NC - 1) / NC, NR);

    for (int jb = j0; jb < j1; jb += breadth) {
        const int jb1 = min(j1, jb + breadth);
        for (int k0 = begin; k0 == begin || k0 < end; k0 += depth) {
            /* Once at least: a part without k's is zeros. */
            const int kc = min(depth, end - k0);
            /* From the second block on, partial sums are there. */
            const REAL scale = k0 == begin ? of_before : 1;
#ifndef IN_PLACE
            pack_B(kc, jb1 - jb, whole_rows(K - k0, jb1 - jb, NR, ldb),
                   B + k0 * (size_t)ldb + jb, ldb, b_panels);
#endif

            /* Each micro-kernel of a panel of A fetches as many rows of the next one. */
            int soon_rows = 1;
            while (soon_rows * (jb1 - jb) < MR * NR && soon_rows < 16)
                soon_rows *= 2;

            for (int i = i0; i < i1; i += MR) {
                const int rows = IN_C(MR, i1 - i);
                __global const REAL *next = i + MR < i1 ? A + (i + MR) * (size_t)lda + k0
                                                        : A + i0 * (size_t)lda + k0 + depth;
#ifdef IN_PLACE
                fetch_next((size_t)A + STRIDE_A, (STRIDE_A + M - 1) / M, i);
                fetch_next((size_t)B + STRIDE_B, (STRIDE_B + M - 1) / M, i);
#else
                pack_A(kc, rows, whole_rows(M - i, kc, WIDTH, lda), A + i * (size_t)lda + k0, lda,
                       a_panel);
#endif

                for (int p = 0, j = jb; j < jb1; p++, j += NR) {
                    const int columns = IN_C(NR, jb1 - j);
                    RESULT REAL *c = to + i * (size_t)ld + j;
                    __global const REAL *soon = next + p * soon_rows * (size_t)lda;
                    if (!BYPASS || scale != 0)
                        for (int r = 0; r < rows; r++)
                            for (int v = 0; v < vectors_for(columns); v++)
                                PREFETCH_WRITE(c + r * (size_t)ld + v * WIDTH);

                    VEC sums[MR][VECTORS];
                    if (vectors_for(columns) == VECTORS)
                        multiply(kc, PANEL_A, PANEL_B, soon, lda, soon_rows - 1, sums);
                    else
                        multiply_narrow(kc, PANEL_A, PANEL_B, soon, lda, soon_rows - 1, sums);
                    if (of_product != 1)
                        scale_by(of_product, sums);
                    if (rows == MR && columns == NR)
                        update(sums, scale, c, ld);
                    else
                        update_edge(rows, columns, sums, scale, c, ld);
                }
            }
        }
    }

#if SPLITS > 1
    /* The last work-group of a share adds up its parts, always in the same order. */
    const int number = down * get_num_groups(0) + get_group_id(0);
    const int last = is_last(&counters[number], SPLITS, &before);
    for (int i = i0; last && i < i1; i++)
        for (int j = j0; j < j1; j++) {
            RESULT REAL *part = parts + i * (size_t)N + j;
            REAL sum = 0;
            for (int s = 0; s < SPLITS; s++)
                sum += part[s * (size_t)M * N];
            __global REAL *c = C + i * (size_t)ldc + j;
            *c = beta == 0 ? alpha * sum : alpha * sum + beta * *c;
        }
#endif
}
