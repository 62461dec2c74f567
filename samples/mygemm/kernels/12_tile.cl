/* A tile of C for kernel 12: MR x NR sums in registers. Compiled after vector.cl and last.cl, before
 * 12_in_place.cl, which reads A and B where the caller put them, and 12_packed.cl, which copies
 * them into panels. */

#ifndef MR /* the defaults; build options must define all of these, or none */
#define MR 6 /* rows of a tile of C: MR * NR / WIDTH sums must leave registers for A and B */
#define NR 16 /* columns of a tile of C, and of a panel of B */
#define KC 128 /* depth of the panels, at most: MR * KC elements fit in a part of the L1 cache */
#define NC 48 /* columns of the block of B, at most: KC * NC elements fit in the L2 cache */
#define GROUPS 1 /* work-groups for each core, at most: for the NDRange */
#define GLOBAL 0 /* 1: panels in global memory */
#define SPLITS 1 /* work-groups that share the k's of an element of C */
#define STEAL 0 /* 1: a work-group that is done takes over work from others */
#endif
#define VECTORS (NR / WIDTH) /* in a row of a tile */

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

/* Where the micro-kernel reads A and B. With GLOBAL the panels are in global memory, where a driver
 * has less local memory than a CPU has L2 cache. */
#if defined(IN_PLACE) || GLOBAL
#define SPACE __global
#else
#define SPACE __local
#endif

/* Where results go. With SPLITS another work-group reads them, so they are volatile: see last.cl.
 * With STEAL a thief reads C only after an atomic operation on the state of its group: 12_steal.cl. */
#if SPLITS > 1
#define RESULT volatile __global
#else
#define RESULT __global
#endif

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

/* In a step of the micro-kernel, fetch a part of what is needed soon.
 *
 * In place: of the next product, in even steps of A, from `soon` on, and in odd ones of B, which is
 * `apart` bytes from there. A tile fetches its share of each.
 * Else: of 1 + more rows of A, a power of two, which are packed next. They are `apart` bytes from each
 * other. Step k fetches the line with the k-th element of row k & more. */
#ifdef IN_PLACE
#define UNROLL 2 /* k is even at the first of two steps: the compiler knows which of A or B to fetch */
#define TILES (SIZE_M / MR * (SIZE_N / NR))
#define SHARE(bytes) (((bytes) + TILES - 1) / TILES)
#define PACE(bytes) ((SHARE(bytes) - 1) / (SIZE_K > 1 ? SIZE_K / 2 : 1) + 1) /* in two steps */
#define FETCH_PART(from, bytes)                                                                    \
    _Pragma("unroll") for (int n = 0; n < PACE(bytes); n += 64)                                    \
        PREFETCH_READ((from) + k / 2 * PACE(bytes) + n)
INLINE void fetch(int k, const size_t soon, const size_t apart, const int more)
{
    if (k % 2 == 0)
        FETCH_PART(soon, STRIDE_A);
    else
        FETCH_PART(soon + apart, STRIDE_B);
}
#else
#define UNROLL 4 /* with 8, PoCL kept the sums in memory */
INLINE void fetch(int k, const size_t soon, const size_t apart, const int more)
{
    PREFETCH_READ(soon + (k & more) * apart + k * sizeof(REAL));
}
#endif

/* sums = A * B for a panel of each: MR * vectors sums, kc steps. The loops over i and v are fully
 * unrolled, so that each c is a register. The loop over k takes UNROLL steps at a time: its
 * additions and jumps compete with fma for the CPU's ports. For the last three arguments see
 * fetch(). */
INLINE void micro_kernel(const int vectors, int kc, SPACE const REAL *A, const int lda,
                         SPACE const REAL *B, const int ldb, const size_t soon,
                         const size_t apart, const int more, VEC sums[MR][VECTORS])
{
    VEC c[MR][VECTORS];
    EACH_SUM c[i][v] = 0;

    int k = 0;
    for (; k + UNROLL <= kc; k += UNROLL)
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            fetch(k + u, soon, apart, more);
            add_products(vectors, A + k + u, lda, B + (k + u) * ldb, c);
        }
    for (; k < kc; k++)
        add_products(vectors, A + k, lda, B + k * ldb, c);

    EACH_SUM sums[i][v] = c[i][v];
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
