/* For kernels 13 to 15: where a tile of C is stored, and how, if rows of C are not aligned. Compiled
 * after parts.cl, before their files.
 *
 *   sums, in a warp's lanes        `rows`, in local memory                 C
 *   8 rows, each of which     ->   | row 0: 0 1 2 .. width-1 |  ->  lane 0 1 2 ..  31
 *   several lanes share            | row 1: ...              |      lane 0 1 2 ..  31   next row
 *
 * Rows that are not aligned cannot be stored in vectors. If each lane stored its own elements one by
 * one, a warp would write to 8 rows at a time, in pieces that are smaller than what memory takes at a
 * time. So the warp puts 8 rows of its sums in local memory first. Then its lanes store contiguous
 * elements: 32 of a row, or of several rows that are shorter. */

/* The target of a tile: element (i, j) of C is stored in c[i * ld + j], as alpha * v + beta * c. Where
 * beta is 0, C is not read. */
typedef struct {
    __global REAL *c;
    size_t ld;
    REAL alpha, beta;
} target;

/* The target of a tile that is shared: a part, as in 13, with rows of `ld` elements. The tile begins at
 * (i0, j0), so element (0, 0) would be before the part. C does not define such a pointer, even if only
 * elements of the part are accessed. In a flat address space it works, and NVIDIA's is flat. */
target part_of(__global REAL *part, const int ld, const int i0, const int j0)
{
    const target it = {part - i0 * (long)ld - j0, ld, 1, 0};
    return it;
}

/* Store the elements of a vector one by one: those among the first `left` from c on. Kernel 13 does so
 * where a warp has rows of 16 elements. */
void store_few(__global REAL *c, const VEC sum, const int left, const REAL alpha, const REAL beta)
{
    const VEC v = alpha * sum;
    if (left > 0)
        c[0] = beta == 0 ? v.s0 : v.s0 + beta * c[0];
    if (left > 1)
        c[1] = beta == 0 ? v.s1 : v.s1 + beta * c[1];
    if (left > 2)
        c[2] = beta == 0 ? v.s2 : v.s2 + beta * c[2];
    if (left > 3)
        c[3] = beta == 0 ? v.s3 : v.s3 + beta * c[3];
}

/* Store 8 rows of `width` elements, a multiple of 4, which lie `stride` apart in `rows`, `down` apart
 * in C, from element (i, j) on: those that exist in a matrix of M x N. All 32 lanes of a warp call
 * this, when `rows` is written; before it is written again, they wait. Lane l stores the elements
 * l, l + 32, ... of the 8 rows. 8 elements of a lane are read before the first of them is needed. */
void store_rows(const target to, __local const REAL *rows, const int width, const int stride,
                const int M, const int N, const int i, const int j, const int down)
{
    const int lane = get_local_id(0) % 32;
#define ROW(n) (((n)*32 + lane) / width)
#define COLUMN(n) (((n)*32 + lane) % width)
#define EXISTS(n) ((n) < width / 4 && ROW(n) * down < M - i && COLUMN(n) < N - j)
#define IN_C(n) to.c[(i + ROW(n) * down) * to.ld + j + COLUMN(n)]
#pragma unroll
    for (int first = 0; first < width / 4; first += 8) {
        REAL values[8];
#pragma unroll
        for (int n = 0; n < 8; n++)
            if (first + n < width / 4)
                values[n] = to.alpha * rows[ROW(first + n) * stride + COLUMN(first + n)];
        if (to.beta != 0)
#pragma unroll
            for (int n = 0; n < 8; n++)
                if (EXISTS(first + n))
                    values[n] += to.beta * IN_C(first + n);
#pragma unroll
        for (int n = 0; n < 8; n++)
            if (EXISTS(first + n))
                IN_C(first + n) = values[n];
    }
#undef ROW
#undef COLUMN
#undef EXISTS
#undef IN_C
}
