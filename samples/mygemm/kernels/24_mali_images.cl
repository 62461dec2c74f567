/* C = alpha * A * B + beta * C, float32, row-major: element (i, j) of a matrix is at [i * ld + j].
 *
 *                 LANES * N0 / 4 pixels
 *             +----+----+----+----+     Both matrices are copied into images. Pixel (x, k) of the one
 *           K |bbbb|bbbb|bbbb|bbbb|     has elements 4x to 4x + 3 of row k of B, pixel (y, k) of the
 *             |bbbb|bbbb|bbbb|bbbb|     other elements 4y to 4y + 3 of column k of A: A is transposed.
 *             +----+----+----+----+
 *       K     +----+----+----+----+
 *     +----+  |oooo|    |oooo|    |     A work-item computes M0 x N0 elements of C, as mali.cl
 *  M0 |aa  |  |oooo|    |oooo|    |     describes. At each k it reads M0 / 4 pixels of A, and N0 / 4
 *     |aa  |  |oooo|    |oooo|    |     of B, LANES pixels apart.
 *     +----+  +----+----+----+----+
 *
 * Both images are CL_RGBA, CL_FLOAT and at least ceil(K / UNROLL) * UNROLL high; `a_image` is at least
 * ceil(M / M0) * M0 / 4 pixels wide, `b_image` ceil(N / (LANES * N0)) * LANES * N0 / 4. NDRanges:
 * pack_a and pack_b (the pixels of their image), and gemm as in mali.cl.
 *
 * The idea: no addresses. All reads in the loop are of pixels, and the texture unit computes their
 * addresses from two coordinates. The loop waits for that unit only. From the Valhall generation on, it
 * reads 4 to 8 pixels while the load/store unit reads one vector.
 *
 * The cost it removes: the messages to the load/store unit. With tiles of 4 x 4, there are two
 * messages for 16 multiply-adds: then arithmetic limits a Valhall GPU, not loads. A Bifrost GPU
 * reads only two pixels at a time, and gains as much from tiles of 4 x 8 in 23. */

#define ARGUMENTS(access) MATRICES, access image2d_t a_image, access image2d_t b_image

/* Copy four neighbours of column k of A into a pixel. */
__kernel void pack_a(ARGUMENTS(__write_only))
{
    const int y = get_global_id(0), k = get_global_id(1);
    if (y >= UP(M, M0) / 4 || k >= UP(K, UNROLL))
        return;
    write_imagef(a_image, (int2)(y, k), of_column(A, lda, M, K, 4 * y, k));
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

    VEC sums[M0 * PIECES_N];
#pragma unroll
    for (int m = 0; m < M0; m++)
#pragma unroll
        for (int n = 0; n < PIECES_N; n++)
            sums[m * PIECES_N + n] = 0;

    for (int k0 = 0; k0 < K; k0 += UNROLL) {
#pragma unroll
        for (int k = 0; k < UNROLL; k++) {
            VEC rows[PIECES_M];
#pragma unroll
            for (int m = 0; m < PIECES_M; m++)
                rows[m] = read_imagef(a_image, (int2)(i / 4 + m, k0 + k));
#pragma unroll
            for (int n = 0; n < PIECES_N; n++) {
                const VEC columns = read_imagef(b_image, (int2)(x + n * LANES, k0 + k));
#pragma unroll
                for (int m = 0; m < PIECES_M; m++) {
                    sums[4 * m * PIECES_N + n] += rows[m].s0 * columns;
                    sums[(4 * m + 1) * PIECES_N + n] += rows[m].s1 * columns;
                    sums[(4 * m + 2) * PIECES_N + n] += rows[m].s2 * columns;
                    sums[(4 * m + 3) * PIECES_N + n] += rows[m].s3 * columns;
                }
            }
        }
    }
    update(C, ldc, sums, M, N, i, 4 * x, alpha, beta);
}
