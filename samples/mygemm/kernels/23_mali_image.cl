/* C = alpha * A * B + beta * C, float32, row-major: element (i, j) of a matrix is at [i * ld + j].
 *
 *                 LANES * N0 / 4 pixels
 *             +----+----+----+----+     B is copied into an image: pixel (x, k) has elements 4x to
 *           K |bbbb|bbbb|bbbb|bbbb|     4x + 3 of its row k. A is packed as in 22, in panels of M0
 *             |bbbb|bbbb|bbbb|bbbb|     rows, column after column.
 *             +----+----+----+----+
 *       K     +----+----+----+----+
 *     +----+  |oooo|    |oooo|    |     A work-item computes M0 x N0 elements of C, as mali.cl
 *  M0 |vvvv|  |oooo|    |oooo|    |     describes. At each k it reads M0 / 4 vectors of its panel
 *     |vvvv|  |oooo|    |oooo|    |     of A, and N0 / 4 pixels of B, LANES pixels apart.
 *     +----+  +----+----+----+----+
 *
 * `work` holds A with M rounded up to M0 and K to UNROLL. `b_image` is CL_RGBA, CL_FLOAT, at least
 * ceil(N / (LANES * N0)) * LANES * N0 / 4 pixels wide and ceil(K / UNROLL) * UNROLL high. NDRanges:
 * pack_a (ceil(K / UNROLL) * UNROLL, ceil(M / M0)), pack_b (the pixels of `b_image`), and gemm as in
 * mali.cl.
 *
 * The idea: a GPU has a second path to memory. Images are read through the texture unit, which has
 * its own cache, computes the address from two coordinates, and on a Mali reads 2 to 8 pixels while
 * the load/store unit reads one vector. With A through one and B through the other, both are busy.
 *
 * The cost it removes: half of the messages to the load/store unit, which took as long as the
 * arithmetic or longer. CPUs gain nothing: they have no texture unit, and each read of an image is a
 * function call. */

#define ARGUMENTS(access) MATRICES, __global VEC *restrict work, access image2d_t b_image

/* Copy the M0 elements of column k that a panel of A has. Neighbours read neighbours. */
__kernel void pack_a(ARGUMENTS(__read_only))
{
    const int k = get_global_id(0), panel = get_global_id(1), depth = UP(K, UNROLL);
    if (k >= depth || panel * M0 >= M)
        return;
    work += (panel * (size_t)depth + k) * PIECES_M;
    for (int m = 0; m < M0; m += 4)
        work[m / 4] = of_column(A, lda, M, K, panel * M0 + m, k);
}

/* Copy four neighbours of row k of B into a pixel. */
__kernel void pack_b(ARGUMENTS(__write_only))
{
    const int x = get_global_id(0), k = get_global_id(1);
    if (x >= UP(N, PANEL) / 4 || k >= UP(K, UNROLL))
        return;
    write_imagef(b_image, (int2)(x, k), of_row(B, ldb, N, K, 4 * x, k));
}

__kernel GROUP void gemm(ARGUMENTS(__read_only))
{
    const int i = get_global_id(1) * M0;
    const int x = get_group_id(0) * (PANEL / 4) + get_local_id(0); /* of the first vector */
    if (i >= M || x >= UP(N, 4) / 4)
        return;
    __global const VEC *a = work + get_global_id(1) * (size_t)UP(K, UNROLL) * PIECES_M;

    VEC sums[M0 * PIECES_N];
#pragma unroll
    for (int m = 0; m < M0; m++)
#pragma unroll
        for (int n = 0; n < PIECES_N; n++)
            sums[m * PIECES_N + n] = 0;

    for (int k0 = 0; k0 < K; k0 += UNROLL) {
#pragma unroll
        for (int k = 0; k < UNROLL; k++)
#pragma unroll
            for (int n = 0; n < PIECES_N; n++) {
                const VEC columns = read_imagef(b_image, (int2)(x + n * LANES, k0 + k));
#pragma unroll
                for (int m = 0; m < PIECES_M; m++) {
                    const VEC rows = a[k * PIECES_M + m];
                    sums[4 * m * PIECES_N + n] += rows.s0 * columns;
                    sums[(4 * m + 1) * PIECES_N + n] += rows.s1 * columns;
                    sums[(4 * m + 2) * PIECES_N + n] += rows.s2 * columns;
                    sums[(4 * m + 3) * PIECES_N + n] += rows.s3 * columns;
                }
            }
        a += UNROLL * PIECES_M;
    }
    update(C, ldc, sums, M, N, i, 4 * x, alpha, beta);
}
