/* C = alpha * A * B + beta * C, row-major: element (i, j) of a matrix is at [i * ld + j].
 *
 * For an A of one row: the product of a vector and a matrix.
 *
 *                                 NC columns
 *                             +-----+-----+-----+
 *                      slice 0|00112233...|     |     A row of C is a sum of rows of B, each times an
 *                             |00112233...|     |     element of A. LANES work-items read NC columns
 *            K         slice 1|00112233...|     |     of UNROLL rows of B together, WIDTH elements
 *     +-------------+         |00112233...|     |     each at a time: neighbours read neighbours.
 *   i | a a a a a a |         +-----+-----+-----+
 *     +-------------+         |o o o|     |     |     SLICES such teams share the rows of B, and add
 *                             +-----+-----+-----+     up their sums at the end, in the same order.
 *
 * If C has few columns, SPLITS work-groups share each NC of them: each group takes a part of K and
 * stores its sums, and the one that comes last adds up those of all.
 *
 * NDRange: work-groups of (LANES, SLICES). Dimension 0 has ceil(N / NC) of them, dimension 1 SPLITS
 * for each row of C. WIDTH * LANES must divide NC. WIDTH_A may be 4 where 4 divides lda and
 * UNROLL. M, N and K may be any number from 1 up. It is compiled after vector.cl, and last.cl,
 * which tells a work-group whether it is the last.
 *
 * The idea: B is read once and along its rows; dot products would read its columns. A CPU
 * keeps the sums of NC columns in its L1 cache and reads long pieces of UNROLL rows side by side, so
 * that a sum is loaded and stored once for UNROLL products. A GPU keeps a sum in a register of each
 * work-item. It needs more work-items than C has columns: the slices of K.
 *
 * The cost it removes: a new page for each element. The elements of a column of B are in different
 * rows. */

#ifndef LANES /* the defaults; build options must define all of these, or none */
#define LANES 32 /* work-items side by side; 1 on a CPU */
#define SLICES 8 /* slices of K in a work-group; 1 on a CPU */
#define NC 128 /* columns of a work-group: their sums fit in the L1 cache, or in registers */
#define UNROLL 8 /* rows of B that are read side by side */
#define SPLITS 1 /* work-groups that share the k's of an element of C */
#define WIDTH_A 1 /* elements of an access to A, 1 or 4 */
#endif

/* Like VLOAD(0, from), but PoCL 3.1 makes pieces of some of several vloads side by side. */
#define LOAD_B(from) (*(__global const UNALIGNED *)(from))
#define FOUR JOIN(REAL, 4)
#define STEP (LANES * WIDTH)  /* columns that the lanes read at a time */
#define VECTORS (NC / STEP)   /* of a work-item */

/* Return how many of a work-item's vectors have all their WIDTH columns. */
int whole_vectors(int columns)
{
    return clamp((columns - WIDTH + STEP) / STEP, 0, VECTORS);
}

/* Load UNROLL elements of a row of A, the same ones in all lanes: each as a vector of its copies. */
void load_a(__global const REAL *A, VEC a[UNROLL])
{
#if WIDTH_A == 4
#pragma unroll
    for (int r = 0; r < UNROLL; r += 4) {
        const FOUR four = *(__global const FOUR *)(A + r);
        a[r] = four.s0;
        a[r + 1] = four.s1;
        a[r + 2] = four.s2;
        a[r + 3] = four.s3;
    }
#else
#pragma unroll
    for (int r = 0; r < UNROLL; r++)
        a[r] = A[r];
#endif
}

/* Add UNROLL rows of B, each times its element of A, to the sums of `columns` columns from B on. The
 * rows are added up before they are added to the sum: it is loaded and stored once for all of them,
 * and where C is narrow, only one addition has to wait for the rows before. */
void add_rows(__global const REAL *A, __global const REAL *B, const int ldb, const int columns,
              VEC sums[VECTORS])
{
    VEC a[UNROLL];
    load_a(A, a);
    const int whole = whole_vectors(columns);
    for (int v = 0; v < whole; v++) {
        VEC sum = a[0] * LOAD_B(B + v * STEP);
#pragma unroll
        for (int r = 1; r < UNROLL; r++)
            sum = fma(a[r], LOAD_B(B + r * (size_t)ldb + v * STEP), sum);
        sums[v] += sum;
    }
    if (WIDTH > 1 && whole < VECTORS && whole * STEP < columns)
        for (int r = 0; r < UNROLL; r++)
            sums[whole] = fma(a[r], load(B + r * (size_t)ldb + whole * STEP, columns - whole * STEP),
                              sums[whole]);
}

/* Add one row of B. */
void add_row(const REAL a, __global const REAL *B, const int columns, VEC sums[VECTORS])
{
    for (int v = 0; v < VECTORS && v * STEP < columns; v++)
        sums[v] = fma((VEC)a, load(B + v * STEP, columns - v * STEP), sums[v]);
}

/* C = alpha * sum + beta * C for one vector, of which only `count` elements are in C. */
void update(REAL alpha, VEC sum, REAL beta, __global REAL *C, int count)
{
    if (WIDTH > 1 && count >= WIDTH) {
        VSTORE(beta == 0 ? alpha * sum : alpha * sum + beta * VLOAD(0, C), 0, C);
        return;
    }
    REAL each[WIDTH];
    VSTORE(alpha * sum, 0, each);
    for (int n = 0; n < min(count, WIDTH); n++)
        C[n] = beta == 0 ? each[n] : each[n] + beta * C[n];
}

/* Add up the sums of all slices, one after the other: slice 0 gets them. */
void add_slices(__local VEC (*of_slices)[VECTORS][LANES], VEC sums[VECTORS], const int lane,
                const int slice)
{
    for (int v = 0; v < VECTORS; v++)
        of_slices[slice][v][lane] = sums[v];
    barrier(CLK_LOCAL_MEM_FENCE); /* all slices have written their sums */
    if (slice == 0)
        for (int s = 1; s < SLICES; s++)
            for (int v = 0; v < VECTORS; v++)
                sums[v] += of_slices[s][v][lane];
}

__kernel __attribute__((reqd_work_group_size(LANES, SLICES, 1)))
void gemm(const int M, const int N, const int K, REAL alpha, __global const REAL *restrict A,
          const int lda, __global const REAL *restrict B, const int ldb, REAL beta,
          __global REAL *restrict C, int ldc
#if SPLITS > 1
          , volatile __global VEC *parts, volatile __global int *counters
#endif
          )
{
    OF_BATCH(A); OF_BATCH(B); OF_BATCH(C);
    const int lane = get_local_id(0), slice = get_local_id(1);
    const int i = get_group_id(1) / SPLITS, split = get_group_id(1) % SPLITS;
#if SLICES > 1
    __local VEC of_slices[SLICES][VECTORS][LANES];
#define ADD_SLICES(sums) add_slices(of_slices, sums, lane, slice)
#else
#define ADD_SLICES(sums) /* a slice has all of K */
#endif
#if SPLITS > 1
    OF_BATCH(parts); OF_BATCH(counters);
    __local int before;
#endif

    /* The k's of this work-group: begin .. end - 1. */
    const int units = (K + UNROLL - 1) / UNROLL;
    const int begin = (int)((long)units * split / SPLITS) * UNROLL;
    const int end = min(K, (int)((long)units * (split + 1) / SPLITS) * UNROLL);

    /* This work-item's vectors begin at column j; it may have none. */
    const int j = get_group_id(0) * NC + lane * WIDTH, columns = min(N - j, NC - lane * WIDTH);
    VEC sums[VECTORS];
    for (int v = 0; v < VECTORS; v++)
        sums[v] = 0;

    /* The last vector of a row may go on in the rows behind it, of which it needs so many: what it
     * reads there comes into sums that nobody stores. */
    const int filled = WIDTH > 1 ? (columns + STEP - 1) / STEP * STEP : columns;
    const int behind = WIDTH > 1 ? (filled - columns + ldb - 1) / ldb : 0;

    A += i * (size_t)lda;
    B += j;
    for (int k = begin + slice * UNROLL; k + UNROLL <= end; k += SLICES * UNROLL)
        add_rows(A + k, B + k * (size_t)ldb, ldb, k + UNROLL + behind <= K ? filled : columns, sums);
    for (int k = end / UNROLL * UNROLL + slice; k < end; k += SLICES) /* the rest of K */
        add_row(A[k], B + k * (size_t)ldb, columns, sums);

    ADD_SLICES(sums);
#if SPLITS > 1
    const int tile = i * get_num_groups(0) + get_group_id(0);
    volatile __global VEC *of_tile = parts + tile * (size_t)(SPLITS * VECTORS * LANES) + lane;
    if (slice == 0)
        for (int v = 0; v < VECTORS; v++)
            of_tile[(split * VECTORS + v) * LANES] = sums[v];
    /* The others add up nothing, and return behind the barrier: PoCL 3.1 adds up wrong sums behind
     * one that only the last work-group reaches. */
    const int adding = is_last(&counters[tile], SPLITS, &before) ? SPLITS : 0;
    for (int v = 0; v < VECTORS; v++)
        sums[v] = 0;
#pragma unroll 4
    for (int s = slice; s < adding; s += SLICES)
        for (int v = 0; v < VECTORS; v++)
            sums[v] += of_tile[(s * VECTORS + v) * LANES];
    ADD_SLICES(sums);
    if (adding == 0)
        return;
#endif
    if (slice > 0)
        return;
    C += i * (size_t)ldc + j;
    for (int v = 0; v < VECTORS && v * STEP < columns; v++)
        update(alpha, sums[v], beta, C + v * STEP, columns - v * STEP);
}
