/* C = alpha * A * B + beta * C, row-major: element (i, j) of a matrix is at [i * ld + j].
 *
 * For a B of one column: the product of a matrix and a vector.
 *
 *                              j
 *                            +---+
 *                            | b |
 *              K             | b |     LANES work-items read ROWS rows of A together, WIDTH elements
 *     +------------------+   | b |     each at a time: neighbours read neighbours. An element of B is
 *     |                  |   | b |     loaded once for ROWS products.
 *     |0011223300112233..|   +---+
 *     |0011223300112233..|   | o |     Each work-item has a sum of its own for each row, of which
 *     |                  |   | o |     each element of a vector is a part. These parts are added up
 *     +------------------+   +---+     at the end, always in the same order.
 *
 * If C has few rows, SPLITS work-groups share each of them: each group takes a part of K and stores
 * its sums, and the one that comes last adds up those of all. If rows are short, a work-group has
 * several teams of LANES work-items, each with rows of its own.
 *
 * NDRange: work-groups of (LANES, TEAMS). Dimension 0 has SPLITS of them for each column of C,
 * dimension 1 any number: each takes an equal share of the rows, TEAMS * ROWS at a time. LANES must
 * be a power of two. WIDTH_A may be WIDTH where WIDTH divides lda. M, N and K may be any number from
 * 1 up. It is compiled after vector.cl and last.cl, which tells a work-group whether it is the last.
 *
 * With LANES 1 the last vector of a row may begin earlier; elements that were read before count as 0.
 *
 * The idea: a product of a matrix and a vector uses each element of A once, so tiles cannot reuse it.
 * Memory bandwidth is the limit: A must be read once, in long runs, with many loads in flight.
 *
 * The cost it removes: tiles. With a tile of C one column wide, most of a work-group is idle, and
 * packing A for a single use reads and writes it once more. */

#ifndef ROWS /* the defaults; build options must define all of these, or none */
#define ROWS 4 /* rows of A that are read side by side */
#define LANES 32 /* work-items that share a row; 1 on a CPU */
#define TEAMS 1 /* teams of LANES work-items in a work-group, for short rows */
#define SPLITS 1 /* work-groups that share the k's of an element of C */
#define WIDTH_A 1 /* elements of an access to A, 1 or WIDTH */
#endif

#if WIDTH_A == 1
#define LOAD_A(from) VLOAD(0, from)
#else
#define LOAD_A(from) (*(__global const VEC *)(from))
#endif

/* Return the sum of the elements of a vector. CPUs have long ones: PoCL would keep an array of their
 * elements in memory. */
#if WIDTH > 4
REAL total(VEC sums)
{
#if WIDTH == 16
    const JOIN(REAL, 8) eight = sums.lo + sums.hi;
#else
    const JOIN(REAL, 8) eight = sums;
#endif
    const JOIN(REAL, 4) four = eight.lo + eight.hi;
    const JOIN(REAL, 2) two = four.lo + four.hi;
    return two.x + two.y;
}
#else
REAL total(VEC sums)
{
    REAL each[WIDTH];
    VSTORE(sums, 0, each);
    for (int width = WIDTH / 2; width > 0; width /= 2)
        for (int n = 0; n < width; n++)
            each[n] += each[n + width];
    return each[0];
}
#endif

/* On a CPU four vectors of sums are added up together. This takes fewer instructions than one after
 * the other, and for a short row most instructions are of that kind. Neighbours are added, and the
 * results of two vectors form one:
 *
 *     | a0 a1 a2 a3 |  | b0 b1 b2 b3 |  ->  | a0+a1 a2+a3 b0+b1 b2+b3 |  and c, d  ->  | a b c d |
 */
#if LANES == 1 && WIDTH >= 4 && ROWS % 4 == 0
#define IN_FOURS
typedef JOIN(REAL, 4) FOUR;
#if WIDTH == 4
FOUR pairs(FOUR a, FOUR b)
{
    return (FOUR)(a.even, b.even) + (FOUR)(a.odd, b.odd);
}
FOUR narrow(VEC v)
{
    return v;
}
FOUR joined(FOUR v)
{
    return v;
}
#else
typedef JOIN(REAL, 8) EIGHT;
/* The halves of a vector of 8 are joined at the end: those of floats are 16 bytes, and most CPUs move
 * elements faster within 16 bytes. */
EIGHT pairs(EIGHT a, EIGHT b)
{
    return (EIGHT)(a.s02, b.s02, a.s46, b.s46) + (EIGHT)(a.s13, b.s13, a.s57, b.s57);
}
EIGHT narrow(VEC v)
{
#if WIDTH == 16
    return v.lo + v.hi;
#else
    return v;
#endif
}
FOUR joined(EIGHT v)
{
    return v.lo + v.hi;
}
#endif
#endif

/* Add to each of `found` the sum of the elements of its vector. */
void add_totals(REAL found[ROWS], const VEC sums[ROWS])
{
#ifdef IN_FOURS
#pragma unroll
    for (int r = 0; r < ROWS; r += 4) {
        const VEC *of = sums + r;
        const FOUR four = joined(pairs(pairs(narrow(of[0]), narrow(of[1])),
                                       pairs(narrow(of[2]), narrow(of[3]))));
        vstore4(vload4(0, found + r) + four, 0, found + r);
    }
#else
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        found[r] += total(sums[r]);
#endif
}

/* Return WIDTH elements of a column of B. */
VEC column(__global const REAL *B, const int ldb)
{
    if (ldb == 1)
        return VLOAD(0, B);
    REAL each[WIDTH];
    for (int n = 0; n < WIDTH; n++)
        each[n] = B[n * (size_t)ldb];
    return VLOAD(0, each);
}

/* Add up the sums of a team for its ROWS rows, in a tree: the first `lanes` have some. Lane 0 gets
 * what they make together. */
void add_lanes(__local REAL (*of_lanes)[LANES], REAL sums[ROWS], const int lane, int lanes)
{
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        of_lanes[r][lane] = sums[r];
    for (lanes /= 2; lanes > 0; lanes /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE); /* what is added was written by another work-item */
        if (lane < lanes)
            for (int r = 0; r < ROWS; r++)
                of_lanes[r][lane] += of_lanes[r][lane + lanes];
    }
    if (lane == 0)
        for (int r = 0; r < ROWS; r++)
            sums[r] = of_lanes[r][0];
    barrier(CLK_LOCAL_MEM_FENCE); /* these have been read before the next ones come */
}

/* C = alpha * sum + beta * C for `count` rows of a column, at most ROWS. */
void update(REAL alpha, const REAL sums[ROWS], REAL beta, __global REAL *C, int ldc, int count)
{
#ifdef IN_FOURS
    if (count >= ROWS && ldc == 1 && beta == 0) {
#pragma unroll
        for (int r = 0; r < ROWS; r += 4)
            vstore4(alpha * vload4(0, sums + r), 0, C + r);
        return;
    }
#endif
    for (int r = 0; r < min(ROWS, count); r++) {
        __global REAL *c = C + r * (size_t)ldc;
        *c = beta == 0 ? alpha * sums[r] : alpha * sums[r] + beta * *c;
    }
}

__kernel __attribute__((reqd_work_group_size(LANES, TEAMS, 1)))
void gemm(const int M, const int N, const int K, REAL alpha, __global const REAL *restrict A,
          const int lda, __global const REAL *restrict B, const int ldb, REAL beta,
          __global REAL *restrict C, int ldc
#if SPLITS > 1
          , volatile __global REAL *parts, volatile __global int *counters
#endif
          )
{
    OF_BATCH(A); OF_BATCH(B); OF_BATCH(C);
    const int lane = get_local_id(0), team = get_local_id(1);
    const int j = get_group_id(0) % N, split = get_group_id(0) / N;
#if LANES > 1
    __local REAL of_teams[TEAMS][ROWS][LANES];
#define ADD_LANES(sums, lanes) add_lanes(of_teams[team], sums, lane, lanes)
#else
#define ADD_LANES(sums, lanes) /* a lane has all of a row */
#endif
#if SPLITS > 1
    OF_BATCH(parts); OF_BATCH(counters);
    __local int before;
#endif

    /* The k's of this work-group: begin .. end - 1, and up to `whole` in whole vectors. */
    const int vectors = (K + WIDTH - 1) / WIDTH;
    const int begin = (int)((long)vectors * split / SPLITS) * WIDTH;
    const int end = min(K, (int)((long)vectors * (split + 1) / SPLITS) * WIDTH);
    const int whole = end - end % WIDTH;

    /* This group's share: rows i0 .. i1 - 1. It may be empty. */
    const int units = (M + TEAMS * ROWS - 1) / (TEAMS * ROWS), groups = get_num_groups(1);
    const int height = (units + groups - 1) / groups * (TEAMS * ROWS);
    const int i0 = get_group_id(1) * height, i1 = min(M, i0 + height);
    B += j;

    /* A work-item that has rows to itself takes what is left of them as part of the last WIDTH
     * elements: those that it has read before count as 0. */
    const int overlap = LANES == 1 && whole < end && end - begin > WIDTH;
    REAL last_of_b[WIDTH];
    for (int n = 0; n < WIDTH; n++)
        last_of_b[n] = overlap && end - WIDTH + n >= whole ? B[(end - WIDTH + n) * (size_t)ldb] : 0;
    const VEC b_end = VLOAD(0, last_of_b);

    for (int top = i0; top < i1; top += TEAMS * ROWS) {
        const int i = top + team * ROWS; /* the first row of this team, which may have none */
        __global const REAL *rows[ROWS]; /* rows beyond the end repeat the last one */
        VEC sums[ROWS];
        REAL rest[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            rows[r] = A + min(i + r, M - 1) * (size_t)lda;
            sums[r] = 0;
            rest[r] = 0;
        }

        for (int k = begin + lane * WIDTH; k < whole; k += LANES * WIDTH) {
            const VEC b = column(B + k * (size_t)ldb, ldb);
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                sums[r] = fma(LOAD_A(rows[r] + k), b, sums[r]);
        }
        if (overlap) {
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                sums[r] = fma(VLOAD(0, rows[r] + end - WIDTH), b_end, sums[r]);
        } else
            for (int k = whole + lane; k < end; k += LANES)
                for (int r = 0; r < ROWS; r++)
                    rest[r] = fma(rows[r][k], B[k * (size_t)ldb], rest[r]);
        add_totals(rest, sums);
        REAL all = 0; /* NaN if one of them is NaN, or for Inf - Inf: then the loop below finds none */
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            all += rest[r];
        if (overlap && isnan(all)) /* a NaN may be 0 times an Inf that was read before */
            for (int r = 0; r < ROWS; r++)
                if (isnan(rest[r])) {
                    rest[r] = 0;
                    for (int k = begin; k < end; k++)
                        rest[r] = fma(rows[r][k], B[k * (size_t)ldb], rest[r]);
                }

        ADD_LANES(rest, LANES);
        if (lane == 0)
#if SPLITS > 1
            for (int r = 0; r < min(ROWS, i1 - i); r++)
                parts[((size_t)split * M + i + r) * N + j] = rest[r];
#else
            update(alpha, rest, beta, C + i * (size_t)ldc + j, ldc, i1 - i);
#endif
    }

#if SPLITS > 1
    const int last = is_last(&counters[get_group_id(1) * N + j], SPLITS, &before);
    int adding = LANES; /* lanes that have a part to add */
    while (adding / 2 >= SPLITS)
        adding /= 2;
    for (int top = i0; last && top < i1; top += TEAMS * ROWS) {
        const int i = top + team * ROWS;
        REAL sums[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            volatile __global REAL *of_row = parts + (size_t)min(i + r, i1 - 1) * N + j;
            sums[r] = 0;
            for (int s = lane; s < SPLITS; s += LANES)
                sums[r] += of_row[(size_t)s * M * N];
        }
        ADD_LANES(sums, adding);
        if (lane == 0)
            update(alpha, sums, beta, C + i * (size_t)ldc + j, ldc, i1 - i);
    }
#endif
}
