/* A tile of C for kernel 12: MR x NR sums in registers. Compiled after vector.cl and last.cl, before
 * 12_in_place.cl and 12_packed.cl, which say where A and B are: in panels, or where they were. */

#ifndef MR /* the defaults; build options must define all of these, or none */
#define MR 6 /* rows of a tile of C: MR * NR / WIDTH sums must leave registers for A and B */
#define NR 16 /* columns of a tile of C, and of a panel of B */
#define KC 128 /* depth of the panels, at most: MR * KC elements fit in a part of the L1 cache */
#define NC 48 /* columns of the block of B, at most: KC * NC elements fit in the L2 cache */
#define GLOBAL 0 /* 1: panels in global memory */
#define SPLITS 1 /* work-groups that share the k's of an element of C */
#endif
#define VECTORS (NR / WIDTH) /* in a row of a tile */

/* The micro-kernel takes UNROLL steps between two jumps; with 8, PoCL kept the sums in memory. Each
 * step fetches LINES cache lines of what is needed soon, PACE bytes behind those of the step before:
 * of rows of A that are packed next or, in place, of a tile's share of the next A and B by turns. */
#ifdef IN_PLACE
#define UNROLL 2
#define TILES (SIZE_M / MR * (SIZE_N / NR))
#define PACE (((STRIDE_A > STRIDE_B ? STRIDE_A : STRIDE_B) - 1) / (TILES * SIZE_K) + 1)
#define LINES ((2 * PACE + 63) / 64)
#else
#define UNROLL 4
#define PACE sizeof(REAL)
#define LINES 1
#endif

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

/* Where results go. With SPLITS another work-group reads them, so they are volatile: see last.cl. */
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

/* sums = A * B for a panel of each: MR * vectors sums, kc steps. The loops over i and v are fully
 * unrolled, so that each c is a register. The loop over k takes UNROLL steps at a time: its
 * additions and jumps compete with fma for the CPU's ports. `soon` is the address of the first of
 * 1 + more rows, a power of two, `apart` bytes from each other, that are needed next: each of these
 * steps fetches a cache line of one of them. */
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
#pragma unroll
            for (int n = 0; n < LINES; n++)
                PREFETCH_READ(soon + (k + u & more) * apart + (k + u) * PACE + n * 64);
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
