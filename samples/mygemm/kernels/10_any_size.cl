/* C = alpha * A * B + beta * C, row-major: element (i, j) of a matrix is at [i * ld + j].
 *
 *                   N
 *             +----+----+--:            Tiles, vectors and two stages as in 09. At the right and the
 *             |    |    |  :            lower edge of C a tile extends beyond C, and at the end of K
 *           K +----+----+--:            the tiles of A and B do. Elements outside are not loaded: the
 *             |    |    |  :            tile has zeros there, which add nothing to any sum. They are
 *             :....:....:..:            not stored either.
 *      K
 *   +---+---: +----+----+--:            A is read as it is, along its rows, and transposed on its way
 *   |   |   : | C  |    |  :            into local memory: the WIDTH elements of a vector go one below
 * M +---+---: +----+----+--:            the other, into rows of TSM elements as in 07, and PAD more.
 *   |   |   : |    |    |  :
 *   :...:...: :....:....:..:
 *
 * NDRange: for each tile of C, whole ones or not, a work-group of TSN/WPTN x TSM/WPTM work-items.
 * TSM is a multiple of WPTM, TSN of WPTN; WPTN and TSK are multiples of WIDTH (1, 2, 4, 8, 16); TSK *
 * TSM and TSK * TSN of WIDTH times the work-items of a group. M, N and K may be any number. A, B and
 * C must start on a whole vector; if a leading dimension is not a multiple of WIDTH, elements are
 * accessed one by one.
 *
 * The idea: edges are rare. If loads and stores test for them, the products in between need no test.
 *
 * The cost it removes: the copies. 02 to 09 need padded matrices, and 05 to 09 a transposed A: up to
 * four further kernels that read and write M * K, K * N and M * N elements. */

#ifndef REAL /* the defaults; build options must define all of these, or none */
#define REAL float
#define TSM 128 /* rows of a tile of C */
#define TSN 128 /* columns of a tile of C */
#define TSK 16 /* depth of the tiles of A and B */
#define WPTM 8 /* rows of C for each work-item */
#define WPTN 8 /* columns of C for each work-item */
#define WIDTH 4 /* elements of a vector */
#define PAD 2 /* unused elements at the end of a row of the tile of A, against bank conflicts */
#endif
#define COLUMNS (TSN / WPTN) /* of work-items in a work-group */
#define ROWS (TSM / WPTM)
#define ITEMS (COLUMNS * ROWS)
#define VECS_K (TSK / WIDTH) /* vectors in a row of a tile of A as it is loaded, and of B */
#define VECS_N (TSN / WIDTH)
#define FETCH_A (VECS_K * TSM / ITEMS) /* vectors that a work-item fetches of a tile of A, of B */
#define FETCH_B (TSK * VECS_N / ITEMS)

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#if WIDTH == 1
#define VEC REAL
#else
#define VEC JOIN(REAL, WIDTH)
#endif

/* A vector and its elements. */
typedef union {
    VEC all;
    REAL each[WIDTH];
} vector;

/* Load elements at, at + 1, ... of a row that ends before `end`; 0 for those that do not exist. */
VEC load(__global const REAL *row, const int at, const int end, const int aligned)
{
    if (aligned && at + WIDTH <= end)
        return *(__global const VEC *)&row[at];
    vector v;
#pragma unroll
    for (int w = 0; w < WIDTH; w++)
        v.each[w] = at + w < end ? row[at + w] : 0;
    return v.all;
}

/* Fetch this work-item's vectors of the tiles that start at k0. `rows` and `columns` say how much of
 * A and B is left, from the tile's first row and column. */
void fetch(VEC *a, VEC *b, __global const REAL *A, const int lda, const int rows,
           __global const REAL *B, const int ldb, const int columns, const int K, const int k0,
           const int item)
{
#pragma unroll
    for (int f = 0; f < FETCH_A; f++) {
        const int v = item + f * ITEMS, row = v / VECS_K, k = k0 + v % VECS_K * WIDTH;
        a[f] = load(A + row * (size_t)lda, k, row < rows ? K : 0, lda % WIDTH == 0);
    }
#pragma unroll
    for (int f = 0; f < FETCH_B; f++) {
        const int v = item + f * ITEMS, k = k0 + v / VECS_N, column = v % VECS_N * WIDTH;
        b[f] = load(B + k * (size_t)ldb, column, k < K ? columns : 0, ldb % WIDTH == 0);
    }
}

/* Store them in the tiles, the vectors of A transposed. */
void put(__local REAL (*a_tile)[TSM + PAD], __local VEC *b_tile, const VEC *a, const VEC *b,
         const int item)
{
#pragma unroll
    for (int f = 0; f < FETCH_A; f++) {
        const int v = item + f * ITEMS, row = v / VECS_K, k = v % VECS_K * WIDTH;
        vector turned;
        turned.all = a[f];
#pragma unroll
        for (int w = 0; w < WIDTH; w++)
            a_tile[k + w][row] = turned.each[w];
    }
#pragma unroll
    for (int f = 0; f < FETCH_B; f++)
        b_tile[item + f * ITEMS] = b[f];
}

/* Store alpha * sum + beta * c to the elements of a row of C that exist: `left` from here on. Where
 * beta is 0, C is not read. */
void store(__global REAL *c, const VEC sum, const int left, const int aligned, const REAL alpha,
           const REAL beta)
{
    vector v;
    v.all = alpha * sum;
    if (aligned && left >= WIDTH) {
        __global VEC *whole = (__global VEC *)c;
        *whole = beta == 0 ? v.all : v.all + beta * *whole;
        return;
    }
#pragma unroll
    for (int w = 0; w < WIDTH; w++)
        if (w < left)
            c[w] = beta == 0 ? v.each[w] : v.each[w] + beta * c[w];
}

__kernel void gemm(const int M, const int N, const int K, const REAL alpha,
                   __global const REAL *restrict A, const int lda,
                   __global const REAL *restrict B, const int ldb, const REAL beta,
                   __global REAL *restrict C, const int ldc)
{
#ifdef OF_BATCH /* with --batch: the matrices of this product, see batch.cl */
    OF_BATCH(A); OF_BATCH(B); OF_BATCH(C);
#endif
    __local REAL a_tile[2][TSK][TSM + PAD];
    __local VEC b_tile[2][TSK * VECS_N];
    const int x = get_local_id(0), y = get_local_id(1), item = y * COLUMNS + x;
    const int i0 = get_group_id(1) * TSM, j0 = get_group_id(0) * TSN;
    A += i0 * (size_t)lda;
    B += j0;

    VEC sums[WPTM][WPTN / WIDTH];
#pragma unroll
    for (int m = 0; m < WPTM; m++)
#pragma unroll
        for (int n = 0; n < WPTN / WIDTH; n++)
            sums[m][n] = 0;

    VEC a_next[FETCH_A], b_next[FETCH_B];
    fetch(a_next, b_next, A, lda, M - i0, B, ldb, N - j0, K, 0, item);
    put(a_tile[0], b_tile[0], a_next, b_next, item);
    barrier(CLK_LOCAL_MEM_FENCE); /* the others' elements are read below */

    for (int k0 = 0; k0 < K; k0 += TSK) {
        const int now = k0 / TSK % 2;
        const int more = k0 + TSK < K;
        if (more)
            fetch(a_next, b_next, A, lda, M - i0, B, ldb, N - j0, K, k0 + TSK, item);

        /* Fully unrolled: a compiler that runs the work-items of a group one after the other, as
         * PoCL's does, would otherwise switch between them at each k and keep their sums in memory. */
#pragma unroll
        for (int k = 0; k < TSK; k++) {
            VEC b[WPTN / WIDTH];
#pragma unroll
            for (int n = 0; n < WPTN / WIDTH; n++)
                b[n] = b_tile[now][k * VECS_N + x + n * COLUMNS];
#pragma unroll
            for (int m = 0; m < WPTM; m++) {
                const REAL a = a_tile[now][k][y + m * ROWS];
#pragma unroll
                for (int n = 0; n < WPTN / WIDTH; n++)
                    sums[m][n] += a * b[n];
            }
        }

        if (more)
            put(a_tile[1 - now], b_tile[1 - now], a_next, b_next, item);
        /* All have used the present tiles, and all have put the next ones. */
        barrier(CLK_LOCAL_MEM_FENCE);
    }

#pragma unroll
    for (int m = 0; m < WPTM; m++) {
        const int i = i0 + y + m * ROWS;
        if (i >= M)
            break;
#pragma unroll
        for (int n = 0; n < WPTN / WIDTH; n++) {
            const int j = j0 + (x + n * COLUMNS) * WIDTH;
            store(&C[i * (size_t)ldc + j], sums[m][n], N - j, ldc % WIDTH == 0, alpha, beta);
        }
    }
}
