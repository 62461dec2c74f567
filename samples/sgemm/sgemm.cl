/* C = alpha * A * B + beta * C, float32, row-major:
 *
 *                          N                     element (row, column) of a matrix
 *                   +-------------+              with n columns is at [row * n + column]
 *                   |   |         |
 *                 K |   | B       |              A: M x K    B: K x N    C: M x N
 *                   |   |         |
 *          K        +---v---------+              The sum over k runs along a row of A,
 *     +---------+   +-------------+              where neighbours are neighbours in memory,
 *     |         |   |             |              and down a column of B, where they are
 *   M |---------> A |---o         | C            N floats apart.
 *     |         |   |             |
 *     +---------+   +-------------+
 *
 * NDRange: dimension 0 goes over the columns of C, dimension 1 over its rows. It is rounded up to
 * whole work-groups, so work-items outside of C return at once. M, N and K may be any number from
 * 1 up: what is left over after the vector loops is done element by element.
 *
 * One idea after the other; each kernel has the same arguments:
 *
 *   sgemm_dot4     1 x 1 element of C per work-item, 4 products at a time
 *   sgemm_row4     1 x 4 elements: B is read along its rows
 *   sgemm_tile4x4  4 x 4 elements: what was read is used four times
 *
 * GROUP_X and GROUP_Y, if defined, are the sides of the work-groups in which the last two kernels
 * will be launched. A compiler that knows them may give a work-item more registers: a Mali-T860 has
 * 16 for each in groups of 64, but 8 where a group may be larger.
 */

#ifdef GROUP_X
#define GROUP __attribute__((reqd_work_group_size(GROUP_X, GROUP_Y, 1)))
#else
#define GROUP
#endif

/* Where 4 divides N and K, each row of the matrices begins on a multiple of 16 bytes, and vectors can
 * be read through pointers to float4, in one load each: vload4 promises no such alignment, and some
 * compilers make four loads of it. Not so Intel's for CPUs, which is known by an extension of its own:
 * it makes longer vectors out of work-items, and those best where it sees vload4. */
#ifdef cl_intel_vec_len_hint
#define ALIGNED(N, K) 0
#else
#define ALIGNED(N, K) ((N) % 4 == 0 && (K) % 4 == 0)
#endif

/* The last columns and rows, where no whole vector fits: rows x columns elements of C from here.
 * Not static: OpenCL C 1.1, which older boards have, does not know the word. */
void edge(int rows, int columns, int N, int K, float alpha, __global const float *A,
          __global const float *B, float beta, __global float *C)
{
    for (int r = 0; r < rows; r++) {
        for (int c = 0; c < columns; c++) {
            float sum = 0.0f;
            for (int k = 0; k < K; k++)
                sum += A[(size_t)r * K + k] * B[(size_t)k * N + c];
            C[(size_t)r * N + c] = alpha * sum + beta * C[(size_t)r * N + c];
        }
    }
}

/* One element of C per work-item, as a dot product of float4 vectors. Four products in one
 * instruction fill the 128-bit registers of a Mali-T600, but only the row of A comes as one load:
 * the four floats of B lie in four rows, and so in four cache lines. */
__kernel void sgemm_dot4(int M, int N, int K, float alpha, __global const float *restrict A,
                         __global const float *restrict B, float beta, __global float *restrict C)
{
    const int i = get_global_id(1), j = get_global_id(0);
    if (i >= M || j >= N)
        return;
    A += (size_t)i * K;
    B += j;

    float4 sum4 = (float4)(0.0f);
    int k = 0;
    for (; k + 4 <= K; k += 4) {
        const float4 a = vload4(0, A + k);
        const float4 b = (float4)(B[(size_t)k * N], B[(size_t)(k + 1) * N],
                                  B[(size_t)(k + 2) * N], B[(size_t)(k + 3) * N]);
        sum4 += a * b;
    }
    float sum = sum4.x + sum4.y + sum4.z + sum4.w;
    for (; k < K; k++)
        sum += A[k] * B[(size_t)k * N];

    C += (size_t)i * N + j;
    *C = alpha * sum + beta * *C;
}

/* Four neighbours in a row of C per work-item: i, 4j .. 4j+3. The four products of one k need one
 * float of A and four neighbours of B, which are one vector: no gather, and no sum over lanes at the
 * end, since each lane is an element of C. */
__kernel GROUP
void sgemm_row4(int M, int N, int K, float alpha, __global const float *restrict A,
                __global const float *restrict B, float beta, __global float *restrict C)
{
    const int i = get_global_id(1), j = 4 * get_global_id(0);
    if (i >= M || j >= N)
        return;
    A += (size_t)i * K;
    B += j;
    C += (size_t)i * N + j;
    if (N - j < 4) {
        edge(1, N - j, N, K, alpha, A, B, beta, C);
        return;
    }

    float4 sum = (float4)(0.0f);
    if (ALIGNED(N, K)) { /* pointers advance: no address is multiplied anew in the loop */
        for (int k = 0; k < K; k += 4) {
            const float4 a = *(__global const float4 *)A;
            A += 4;
            sum += a.x * *(__global const float4 *)B, B += N;
            sum += a.y * *(__global const float4 *)B, B += N;
            sum += a.z * *(__global const float4 *)B, B += N;
            sum += a.w * *(__global const float4 *)B, B += N;
        }
    } else {
        for (int k = 0; k < K; k++)
            sum += A[k] * vload4(0, B + (size_t)k * N);
    }

    vstore4(alpha * sum + beta * vload4(0, C), 0, C);
}

/* A tile of 4 x 4 elements of C per work-item: rows 4i .. 4i+3, columns 4j .. 4j+3. Each vector of
 * B now serves four rows: 16 products for 4 + 4 floats read, where sgemm_row4 reads 1 + 4 for 4
 * products and sgemm_dot4 reads 8. */
__kernel GROUP
void sgemm_tile4x4(int M, int N, int K, float alpha, __global const float *restrict A,
                   __global const float *restrict B, float beta, __global float *restrict C)
{
    const int i = 4 * get_global_id(1), j = 4 * get_global_id(0);
    if (i >= M || j >= N)
        return;
    A += (size_t)i * K;
    B += j;
    C += (size_t)i * N + j;
    if (M - i < 4 || N - j < 4) {
        edge(min(4, M - i), min(4, N - j), N, K, alpha, A, B, beta, C);
        return;
    }

    float4 sum0 = (float4)(0.0f), sum1 = sum0, sum2 = sum0, sum3 = sum0;
    if (ALIGNED(N, K)) {
        for (int k = 0; k < K; k += 4) {
            const float4 a0 = *(__global const float4 *)A;
            const float4 a1 = *(__global const float4 *)(A + K);
            const float4 a2 = *(__global const float4 *)(A + 2 * K);
            const float4 a3 = *(__global const float4 *)(A + 3 * K);
            A += 4;
            const float4 b0 = *(__global const float4 *)B;
            sum0 += a0.x * b0, sum1 += a1.x * b0, sum2 += a2.x * b0, sum3 += a3.x * b0, B += N;
            const float4 b1 = *(__global const float4 *)B;
            sum0 += a0.y * b1, sum1 += a1.y * b1, sum2 += a2.y * b1, sum3 += a3.y * b1, B += N;
            const float4 b2 = *(__global const float4 *)B;
            sum0 += a0.z * b2, sum1 += a1.z * b2, sum2 += a2.z * b2, sum3 += a3.z * b2, B += N;
            const float4 b3 = *(__global const float4 *)B;
            sum0 += a0.w * b3, sum1 += a1.w * b3, sum2 += a2.w * b3, sum3 += a3.w * b3, B += N;
        }
    } else {
        __global const float *A1 = A + K, *A2 = A1 + K, *A3 = A2 + K;
        for (int k = 0; k < K; k++) {
            const float4 b = vload4(0, B + (size_t)k * N);
            sum0 += A[k] * b;
            sum1 += A1[k] * b;
            sum2 += A2[k] * b;
            sum3 += A3[k] * b;
        }
    }

    __global float *C1 = C + N, *C2 = C1 + N, *C3 = C2 + N;
    vstore4(alpha * sum0 + beta * vload4(0, C), 0, C);
    vstore4(alpha * sum1 + beta * vload4(0, C1), 0, C1);
    vstore4(alpha * sum2 + beta * vload4(0, C2), 0, C2);
    vstore4(alpha * sum3 + beta * vload4(0, C3), 0, C3);
}
