/* Kernel 12 for a batch of small products, with IN_PLACE: A and B of each fit in a cache, and are
 * read where they are. Compiled after 12_tile.cl, before 12_packed.cl.
 *
 *     work-group 0                    work-group 1
 *     +------+------+--     --+------+------+------+--     A work-group computes PRODUCTS of them, one
 *     |  0   |  1   |   ...   |  P-1 |  P   |  P+1 |       after the other, of BATCH in all. With each
 *     +------+------+--     --+------+------+------+--     it fetches the one that follows it.
 *
 * NDRange: work-groups of (1, 1, 1). Dimension 0 goes over the columns of C, dimension 1 over its
 * rows, dimension 2 over the products, PRODUCTS at a time.
 *
 * The cost it removes: starting a work-group and handling edges take a noticeable part of the time
 * of a small product. All sizes are known when this is compiled, and tiles divide C, so that the sums
 * never leave the registers. The next product is fetched a little in each step over k: all of it at
 * once would keep the loads of A and B waiting. */

#ifdef IN_PLACE

/* STREAM is defined if the matrices C are larger than a cache: their vectors, if they are aligned,
 * bypass the caches, so that their lines are not read before they are written. */
#define BYPASS 0
#if defined(STREAM) && defined(__has_builtin)
#if __has_builtin(__builtin_nontemporal_store)
#undef BYPASS
#define BYPASS 1
#endif
#endif

/* C = sums + beta * C, for a tile. */
INLINE void update(VEC sums[MR][VECTORS], REAL beta, __global REAL *C)
{
#if BYPASS
    if (beta == 0 && SIZE_LDC % WIDTH == 0 && (size_t)C % sizeof(VEC) == 0) {
        __global VEC *const to = (__global VEC *)C;
        EACH_SUM __builtin_nontemporal_store(sums[i][v], to + i * (size_t)(SIZE_LDC / WIDTH) + v);
        return;
    }
#endif
    EACH_SUM put(sums[i][v], beta, C + i * (size_t)SIZE_LDC + v * WIDTH);
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void gemm(const int M, const int N, const int K, const REAL alpha, __global const REAL *restrict A,
          const int lda, __global const REAL *restrict B, const int ldb, const REAL beta,
          __global REAL *restrict C, const int ldc)
{
#define M SIZE_M
#define N SIZE_N
#define K SIZE_K
    /* This group's share of each C: rows i0 .. i1 - 1, columns j0 .. j1 - 1. It may be empty. */
    const int height = share(M, get_num_groups(1), MR), width = share(N, get_num_groups(0), NR);
    const int i0 = get_group_id(1) * height, i1 = min(M, i0 + height);
    const int j0 = get_group_id(0) * width, j1 = min(N, j0 + width);

    const int first = get_group_id(2) * PRODUCTS;
    for (size_t product = first; product < min(BATCH, first + PRODUCTS); product++) {
        __global const REAL *a = PRODUCT(product, A), *b = PRODUCT(product, B);
        __global REAL *c = PRODUCT(product, C);

        for (int i = i0; i < i1; i += MR) {
            for (int j = j0; j < j1; j += NR) {
                __global REAL *tile = c + i * (size_t)SIZE_LDC + j;
                if (!BYPASS || beta != 0)
                    for (int r = 0; r < MR; r++)
                        for (int v = 0; v < VECTORS; v++)
                            PREFETCH_WRITE(tile + r * (size_t)SIZE_LDC + v * WIDTH);

                /* A CPU's prefetcher stops at the end of a page, so it may not fetch the next
                 * product's matrices in time. */
                const int number = i / MR * (N / NR) + j / NR;
                const size_t soon_a = (size_t)a + STRIDE_A + number * SHARE(STRIDE_A);
                const size_t soon_b = (size_t)b + STRIDE_B + number * SHARE(STRIDE_B);

                VEC sums[MR][VECTORS];
                micro_kernel(VECTORS, K, a + i * SIZE_LDA, SIZE_LDA, b + j, SIZE_LDB, soon_a,
                             soon_b - soon_a, 1, sums);
                if (alpha != 1)
                    scale_by(alpha, sums);
                update(sums, beta, tile);
            }
        }
    }
}
#endif
