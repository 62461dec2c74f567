/* C = alpha * A * B + beta * C, float32, row-major:
 *
 *                          N                     element (row, column) of a matrix
 *                   +-------------+              with n columns is at [row * n + column]
 *                   |   |         |
 *                 K |   | B       |              A: M x K    B: K x N    C: M x N
 *                   |   |         |
 *          K        +---v---------+              The sum over k runs along a row of A,
 *     +---------+   +-------------+              whose elements are contiguous in memory,
 *     |         |   |             |              and down a column of B, where they are
 *   M |---------> A |---o         | C            N floats apart.
 *     |         |   |             |
 *     +---------+   +-------------+
 *
 * NDRange: dimension 0 goes over the columns of C, dimension 1 over its rows. It is rounded up to
 * whole work-groups; work-items outside of C return at once. M, N and K may be any number from 1 up:
 * elements after the last whole vector are computed one by one.
 *
 * Each kernel adds one idea; all have the same arguments:
 *
 *   sgemm_dot4     1 x 1 element of C per work-item, 4 products at a time
 *   sgemm_row4     1 x 4 elements: B is read along its rows
 *   sgemm_tile4x4  4 x 4 elements: each vector of B is used four times
 *
 * GROUP_X and GROUP_Y, if defined, are the work-group size of the last two kernels. A compiler that
 * knows it may give a work-item more registers: on a Mali-T860 a work-item has 16 in work-groups of
 * 64, but only 8 if work-groups may be larger.
 *
 * FEW_REGISTERS, if defined, keeps a compiler from loading all eight vectors of a step of
 * sgemm_tile4x4 at once: they and the four sums do not fit in the 16 registers of a Mali-T860. The
 * second half of B's vectors is loaded after the first half has been used. By the specification the
 * fence in between orders accesses to local memory only, of which there are none, so it costs nothing.
 * But Mesa's compiler for Mali moves no load across it.
 */

#ifdef GROUP_X
#define GROUP __attribute__((reqd_work_group_size(GROUP_X, GROUP_Y, 1)))
#else
#define GROUP
#endif

#ifdef FEW_REGISTERS
#define HALFWAY() mem_fence(CLK_LOCAL_MEM_FENCE)
#else
#define HALFWAY()
#endif

/* If 4 divides N and K, each row begins at a multiple of 16 bytes, and FLOAT4 can read a vector in
 * one load. vload4 works at any multiple of 4 bytes, so some compilers split it into four loads.
 * Intel's compiler for CPUs (cl_intel_vec_len_hint) does better with vload4: it vectorises over
 * work-items. */
#define FLOAT4(p) (*(__global const float4 *)(p))
#ifdef cl_intel_vec_len_hint
#define ALIGNED(N, K) 0
#else
#define ALIGNED(N, K) ((N) % 4 == 0 && (K) % 4 == 0)
#endif

/* C = alpha * sum + beta * C, for one element or four. If beta is 0, C is not read: it may contain
 * anything, even NaN. */
void store(float sum, float alpha, float beta, __global float *C)
{
    *C = beta == 0.0f ? alpha * sum : alpha * sum + beta * *C;
}

void store4(float4 sum, float alpha, float beta, __global float *C)
{
    vstore4(beta == 0.0f ? alpha * sum : alpha * sum + beta * vload4(0, C), 0, C);
}

/* The last rows and columns, where no whole vector fits: `rows` x `columns` elements of C.
 * Not static: OpenCL C 1.1, on older boards, has no static functions. */
void edge(int rows, int columns, int N, int K, float alpha, __global const float *A,
          __global const float *B, float beta, __global float *C)
{
    for (int r = 0; r < rows; r++) {
        for (int c = 0; c < columns; c++) {
            float sum = 0.0f;
            for (int k = 0; k < K; k++)
                sum += A[(size_t)r * K + k] * B[(size_t)k * N + c];
            store(sum, alpha, beta, &C[(size_t)r * N + c]);
        }
    }
}

/* One element of C per work-item, as a dot product of float4 vectors. Four products in one
 * instruction fill the 128-bit registers of a Mali-T600. But only A is read with one load: the four
 * floats of B are in four rows, and so in four cache lines. */
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

    store(sum, alpha, beta, &C[(size_t)i * N + j]);
}

/* Four neighbours in a row of C per work-item: row i, columns 4j .. 4j+3. The four products of one k
 * need one float of A and four neighbours of B, which are one vector. There is no gather, and no sum
 * over lanes at the end, since each lane is an element of C. */
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
    if (ALIGNED(N, K)) { /* A and B advance: the loop multiplies no addresses */
        for (int k = 0; k < K; k += 4, A += 4) {
            const float4 a = FLOAT4(A);
            sum += a.x * FLOAT4(B), B += N;
            sum += a.y * FLOAT4(B), B += N;
            sum += a.z * FLOAT4(B), B += N;
            sum += a.w * FLOAT4(B), B += N;
        }
    } else {
        for (int k = 0; k < K; k++)
            sum += A[k] * vload4(0, B + (size_t)k * N);
    }

    store4(sum, alpha, beta, C);
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
        for (int k = 0; k < K; k += 4, A += 4) {
            const float4 a0 = FLOAT4(A), a1 = FLOAT4(A + K);
            const float4 a2 = FLOAT4(A + 2 * (size_t)K), a3 = FLOAT4(A + 3 * (size_t)K);
            float4 b = FLOAT4(B);
            sum0 += a0.x * b, sum1 += a1.x * b, sum2 += a2.x * b, sum3 += a3.x * b, B += N;
            b = FLOAT4(B);
            sum0 += a0.y * b, sum1 += a1.y * b, sum2 += a2.y * b, sum3 += a3.y * b, B += N;
            HALFWAY();
            b = FLOAT4(B);
            sum0 += a0.z * b, sum1 += a1.z * b, sum2 += a2.z * b, sum3 += a3.z * b, B += N;
            b = FLOAT4(B);
            sum0 += a0.w * b, sum1 += a1.w * b, sum2 += a2.w * b, sum3 += a3.w * b, B += N;
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

    store4(sum0, alpha, beta, C), C += N;
    store4(sum1, alpha, beta, C), C += N;
    store4(sum2, alpha, beta, C), C += N;
    store4(sum3, alpha, beta, C);
}
