/* Copies a matrix into one with more rows and columns, or back into one with fewer.
 *
 *      P x Q                R x S
 *   +---------+          +---------+--+       `from` is a matrix of P x Q elements, `to` one of R x S,
 *   |         |          |         | 0|       both row-major. Elements that `from` lacks are 0. Nothing
 *   |  from   |  ---->   |         | 0|       is written outside of R x S, whatever ld_to is.
 *   |         |          +---------+--+
 *   +---------+          | 0 0 0 0 0 0|
 *                        +------------+
 *
 * NDRange: (S, R) work-items, rounded up to whole work-groups of any size. Dimension 2, if there is
 * one, goes over the matrices of a batch, which are contiguous. */

#ifndef REAL
#define REAL float
#endif

__kernel void pad(const int P, const int Q, __global const REAL *restrict from, const int ld_from,
                  const int R, const int S, __global REAL *restrict to, const int ld_to)
{
    const int j = get_global_id(0), i = get_global_id(1);
    from += get_group_id(2) * (size_t)P * ld_from;
    to += get_group_id(2) * (size_t)R * ld_to;
    if (i < R && j < S)
        to[i * (size_t)ld_to + j] = i < P && j < Q ? from[i * (size_t)ld_from + j] : 0;
}
