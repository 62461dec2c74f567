/* C = alpha * sum + beta * C, row-major, in the tiles of C that several work-groups share:
 * launched after kernels 13 to 15, unless the last work-group of a tile adds up its parts, see parts.cl.
 *
 *   parts | part 0 of each of the last tiles, TSM x TSN elements, row-major | part 1 | ...
 *
 * `shared` tiles, the last ones in the order of 13, have SPLITS parts each. The order in which
 * they are added up depends only on SPLITS: every run gives the same bits.
 *
 * NDRange: one dimension, ADDERS work-items for each 4 consecutive elements in a row of a part, in
 * work-groups of ITEMS. Each adds up every ADDERS-th part; a tree then adds up their sums. The first
 * arguments are those of gemm(). */

#ifndef REAL /* the defaults; build options must define all of these, or none */
#define REAL float
#define TSM 64 /* rows of a tile of C */
#define TSN 64 /* columns of a tile of C */
#define BAND 8 /* rows of tiles that are computed together */
#define SPLITS 2 /* parts of a tile */
#define ADDERS 1 /* work-items that share the parts, a power of 2 */
#define ITEMS 256 /* of a work-group */
#endif

#define VECS (ITEMS / ADDERS)   /* vectors that a work-group adds up */
#define TILE (TSM * TSN / 4)    /* vectors of a part */
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define VEC JOIN(REAL, 4)

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1)))
void add(const int M, const int N, const int K, const REAL alpha, __global const REAL *restrict A,
         const int lda, __global const REAL *restrict B, const int ldb, const REAL beta,
         __global REAL *restrict C, const int ldc, __global const VEC *restrict parts,
         const int shared)
{
#ifdef OF_BATCH /* with --batch: the matrices of this product, see batch.cl */
    OF_BATCH(C); OF_BATCH(parts);
#endif
    __local VEC sums[ITEMS];
    const int item = get_local_id(0), adder = item / VECS;
    const long at = get_group_id(0) * (long)VECS + item % VECS, all = shared * (long)TILE;
    VEC sum = 0;
    if (at < all)
#pragma unroll 4
        for (int s = adder; s < SPLITS; s += ADDERS)
            sum += parts[s * all + at];
    sums[item] = sum;
    for (int half_size = ADDERS / 2; half_size > 0; half_size /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE); /* the sums of others are read below */
        if (adder < half_size)
            sums[item] = sum = sum + sums[item + half_size * VECS];
    }

    if (adder > 0 || at >= all) /* beyond the last tile, `band` may be 0: some CPUs trap at % 0 */
        return;

    /* Its place in C: the tile, and the element in it. */
    const int tiles_m = (M + TSM - 1) / TSM, tiles_n = (N + TSN - 1) / TSN;
    const int tile = tiles_m * tiles_n - shared + (int)(at / TILE), v = at % TILE;
    const int first = tile / (BAND * tiles_n) * BAND, band = min(BAND, tiles_m - first);
    const int within = tile - first * tiles_n;
    const int i = (first + within % band) * TSM + v / (TSN / 4);
    const int j = within / band * TSN + v % (TSN / 4) * 4;
    if (i >= M)
        return;
    __global REAL *c = &C[i * (size_t)ldc + j];
    const REAL s[4] = {alpha * sum.s0, alpha * sum.s1, alpha * sum.s2, alpha * sum.s3};
    for (int n = 0; n < min(4, N - j); n++)
        c[n] = beta == 0 ? s[n] : s[n] + beta * c[n];
}
