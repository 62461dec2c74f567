/* C = alpha * A * B + beta * C in half precision with float32 sums, row-major: element (i, j) of a
 * matrix is at [i * ld + j].
 *
 *                  LANES pixels
 *             +----+----+----+----+     Both matrices are copied into images. Pixel (x, q) of the one
 *           2 |bbbb|bbbb|bbbb|bbbb|     has elements 4x to 4x + 3 of row 2q of B, then of row 2q + 1;
 *             |bbbb|bbbb|bbbb|bbbb|     pixel (y, q) of the other has elements 4y to 4y + 3 of column
 *        2    +----+----+----+----+     2q of A, then of column 2q + 1. Two halves are a uint: the
 *      +--+   +----+----+----+----+     first is its low part.
 *      |aa|   |oooo|    |    |    |
 *    4 |aa|   |oooo|    |    |    |     A work-item computes 4 x 4 elements of C, and a
 *      |aa|   |oooo|    |    |    |     work-group is LANES work-items wide. For every two k's a
 *      |aa|   |oooo|    |    |    |     work-item reads a pixel of A and a pixel of B.
 *      +--+   +----+----+----+----+
 *
 * UNROLL must be at least 2, and divide CHAIN. The images are CL_RGBA, CL_UNSIGNED_INT32, and at
 * least ceil(K / UNROLL) * UNROLL / 2 pixels high; `a_image` is at least ceil(M / 4) pixels wide,
 * `b_image` ceil(N / 4). NDRanges: pack_a and pack_b (the pixels of their image), and gemm as in
 * mali.cl. Build options must define REAL as half and SUM as float.
 *
 * The idea: two elements in a register. From Bifrost on, a Mali multiplies and adds two halves in one
 * instruction. But a sum in half precision has 11 bits and is at most 65504. So only CHAIN products
 * are added up in half precision, and these sums in float32. A tile of 4 x 4 leaves registers for
 * both. With CHAIN 0 all arithmetic is in float32: exact products, at half the speed.
 *
 * The cost it removes: half of the memory, half of the messages, since a pixel has two k's, and half
 * of the instructions. */

#ifndef CHAIN
#define CHAIN 64 /* products that are added up in half precision */
#endif

#define DEPTH(K) (((K) + UNROLL - 1) / UNROLL * (UNROLL / 2)) /* pixels above each other */
#if CHAIN
#define PART half4
#define TO_PART
#else
#define PART float4
#define TO_PART convert_float4
#endif

#define ARGUMENTS(access) MATRICES, access image2d_t a_image, access image2d_t b_image

/* Return a pixel: `width` elements from `from` on, `step` elements apart, 4 at most, and as many
 * `next` elements further where `two` says so; 0 for the others. */
uint4 pixel(__global const half *from, const size_t step, const int width, const size_t next,
            const int two)
{
    half e[8];
#pragma unroll
    for (int n = 0; n < 8; n++)
        e[n] = n % 4 < width && (n < 4 || two) ? from[n % 4 * step + n / 4 * next] : (half)0;
    return as_uint4((half8)(e[0], e[1], e[2], e[3], e[4], e[5], e[6], e[7]));
}

/* Copy two neighbours of each of four rows of A. */
__kernel void pack_a(ARGUMENTS(__write_only))
{
    const int y = get_global_id(0), q = get_global_id(1), i = 4 * y, k = 2 * q;
    if (i >= M || q >= DEPTH(K))
        return;
    const int rows = k < K ? M - i : 0;
    write_imageui(a_image, (int2)(y, q), pixel(A + i * (size_t)lda + k, lda, rows, 1, k + 1 < K));
}

/* Copy four neighbours of each of two rows of B. */
__kernel void pack_b(ARGUMENTS(__write_only))
{
    const int x = get_global_id(0), q = get_global_id(1), j = 4 * x, k = 2 * q;
    if (j >= N || q >= DEPTH(K))
        return;
    const int columns = k < K ? N - j : 0;
    write_imageui(b_image, (int2)(x, q), pixel(B + k * (size_t)ldb + j, 1, columns, ldb, k + 1 < K));
}

/* Add the products of a column of the tile of A with a row of that of B. */
#define ADD(sums, column, row)      \
    sums[0] += column.s0 * row;     \
    sums[1] += column.s1 * row;     \
    sums[2] += column.s2 * row;     \
    sums[3] += column.s3 * row

/* Add the products of pixels q to `end` - 1 of a column of each image to `sums`, a PART[4]. */
#define ADD_PIXELS(sums, q, end)                                                       \
    for (; q < end; q += UNROLL / 2) {                                                 \
        _Pragma("unroll") for (int p = 0; p < UNROLL / 2; p++) {                       \
            const half8 a = as_half8(read_imageui(a_image, (int2)(y, q + p)));         \
            const half8 b = as_half8(read_imageui(b_image, (int2)(x, q + p)));         \
            const PART a0 = TO_PART(a.lo), b0 = TO_PART(b.lo);                         \
            ADD(sums, a0, b0);                                                         \
            const PART a1 = TO_PART(a.hi), b1 = TO_PART(b.hi);                         \
            ADD(sums, a1, b1);                                                         \
        }                                                                              \
    }

__kernel GROUP void gemm(ARGUMENTS(__read_only))
{
    const int x = get_global_id(0), y = get_global_id(1);
    if (4 * y >= M || 4 * x >= N)
        return;

    float4 sums[4];
#pragma unroll
    for (int m = 0; m < 4; m++)
        sums[m] = 0;

    int q = 0;
#if CHAIN
    while (q < DEPTH(K)) {
        const int end = min(q + CHAIN / 2, DEPTH(K));
        half4 parts[4];
#pragma unroll
        for (int m = 0; m < 4; m++)
            parts[m] = 0;
        ADD_PIXELS(parts, q, end)
#pragma unroll
        for (int m = 0; m < 4; m++)
            sums[m] += convert_float4(parts[m]);
    }
#else
    ADD_PIXELS(sums, q, DEPTH(K))
#endif

    update(C, ldc, sums, M, N, 4 * y, 4 * x, alpha, beta);
}
