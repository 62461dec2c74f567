/* Copies a matrix with its rows and columns exchanged, and pads it.
 *
 *      P x Q                R x S
 *   +----------+          +-------+--+       `from` is a matrix of P x Q elements, `to` one of R x S
 *   | 1  2  3  |          | 1  4  | 0|       with R >= Q and S >= P, both row-major. Elements that
 *   | 4  5  6  |  ---->   | 2  5  | 0|       `from` lacks are 0.
 *   +----------+          | 3  6  | 0|
 *                         +-------+--+
 *
 * NDRange: (S, R) work-items, rounded up to whole work-groups of TILE x TILE. A work-group reads a
 * tile along the rows of `from` and writes it along the rows of `to`: both accesses are coalesced. In
 * between, the tile is in local memory, in rows that are one element longer, so that the elements of a
 * column are in different banks. Dimension 2, if there is one, goes over the matrices of a batch,
 * which are contiguous. */

#ifndef REAL /* the defaults; build options must define all of these, or none */
#define REAL float
#define TILE 16
#endif

__kernel void transpose(const int P, const int Q, __global const REAL *restrict from,
                        const int ld_from, const int R, const int S, __global REAL *restrict to,
                        const int ld_to)
{
    __local REAL tile[TILE][TILE + 1];
    from += get_group_id(2) * (size_t)P * ld_from;
    to += get_group_id(2) * (size_t)R * ld_to;
    const int x = get_local_id(0), y = get_local_id(1);
    const int i0 = get_group_id(1) * TILE, j0 = get_group_id(0) * TILE; /* in `to` */

    const int row = j0 + y, column = i0 + x; /* in `from` */
    tile[y][x] = row < P && column < Q ? from[row * (size_t)ld_from + column] : 0;
    barrier(CLK_LOCAL_MEM_FENCE); /* the others' elements are read below */
    if (i0 + y < R && j0 + x < S)
        to[(i0 + y) * (size_t)ld_to + j0 + x] = tile[x][y];
}
