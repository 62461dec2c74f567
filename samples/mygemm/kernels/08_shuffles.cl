/* C = alpha * A * B + beta * C, row-major: element (i, j) of a matrix is at [i * ld + j].
 * A is given transposed, as K x M: element (i, k) of A is at [k * lda + i].
 *
 *   lane of the sub-group     0   1   2   3   4   5   6   7        Tiles and vectors as in 07. Lanes
 *                           +---+---+---+---+---+---+---+---+      are work-items that run in step.
 *   reads from the tile     | a0| a1| a2| a3| a0| a1| a2| a3|      Those with the same y need the
 *                           +---+---+---+---+---+---+---+---+      same WPTM elements a: here 4.
 *                             |   |   |   |   |   |   |   |
 *   gets by 4 shuffles        a0..a3 in each, from the first       Each of WPTM neighbours reads one
 *                             four, and from the last four         element and passes it on.
 *
 * NDRange: (N / WPTN, M / WPTM) work-items in work-groups of TSN/WPTN x TSM/WPTM. The
 * constraints are those of 07, and WPTM, a power of 2, must divide TSN / WPTN and the number of lanes
 * of a sub-group. WPTM neighbours in dimension 0 must be neighbouring lanes. OpenCL does not
 * guarantee this: the probe below tests it.
 *
 * The idea: a neighbour's register is nearer than local memory.
 *
 * The cost it removes: local reads of A fall from WPTM to 1 for each k, but WPTM shuffles are added.
 * This gains nothing if one read of local memory serves all lanes that need the same element, as
 * here, and shuffles use the same unit: at order 4096 on an H200 this kernel has half the speed of 07.
 *
 * Needs: cl_khr_subgroup_shuffle, cl_intel_subgroups or NVIDIA's compiler. No OpenCL version has
 * shuffles in its core. */

#ifndef REAL /* the defaults; build options must define all of these, or none */
#define REAL float
#define SHUFFLE 1 /* 1: cl_khr_subgroup_shuffle, 2: cl_intel_subgroups, 3: NVIDIA's instruction */
#define TSM 128 /* rows of a tile of C */
#define TSN 128 /* columns of a tile of C */
#define TSK 16 /* depth of the tiles of A and B */
#define WPTM 8 /* rows of C for each work-item */
#define WPTN 8 /* columns of C for each work-item */
#define WIDTH 4 /* elements of a vector */
#endif
#define COLUMNS (TSN / WPTN) /* of work-items in a work-group */
#define ROWS (TSM / WPTM)
#define ITEMS (COLUMNS * ROWS)
#define VECS_M (TSM / WIDTH) /* vectors in a row of the tile of A, and of the tile of B */
#define VECS_N (TSN / WIDTH)

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#if WIDTH == 1
#define VEC REAL
#else
#define VEC JOIN(REAL, WIDTH)
#endif

/* lane(): this work-item's number in its sub-group. shuffle(value, from): the value of lane `from`. */
#if SHUFFLE == 3
/* NVIDIA's driver has no extension for it, but its compiler accepts inline PTX. */
uint lane(void)
{
    return (get_local_id(1) * COLUMNS + get_local_id(0)) % 32;
}
REAL shuffle(REAL value, uint from)
{
    union {
        REAL real;
        uint words[(sizeof(REAL) + 3) / 4]; /* the instruction passes 32 bits */
    } both;
    both.words[0] = 0;
    both.real = value;
#pragma unroll
    for (int w = 0; w < (sizeof(REAL) + 3) / 4; w++) {
        uint got;
        __asm volatile("shfl.sync.idx.b32 %0, %1, %2, 31, 0xffffffff;"
                       : "=r"(got) : "r"(both.words[w]), "r"(from));
        both.words[w] = got;
    }
    return both.real;
}
#else
#if SHUFFLE == 1
#pragma OPENCL EXTENSION cl_khr_subgroups : enable
#pragma OPENCL EXTENSION cl_khr_subgroup_shuffle : enable
#define shuffle sub_group_shuffle
#else
#pragma OPENCL EXTENSION cl_intel_subgroups : enable
#define shuffle intel_sub_group_shuffle
#endif
#define lane get_sub_group_local_id
#endif

/* Tells the host whether neighbours are neighbouring lanes: `got` has WPTM numbers of work-items, of
 * its neighbours and itself, in order, for each work-item of the one work-group that is launched. */
__kernel void probe(__global REAL *got)
{
    const int item = get_local_id(1) * COLUMNS + get_local_id(0);
    const uint first = lane() / WPTM * WPTM;
    for (int m = 0; m < WPTM; m++)
        got[item * WPTM + m] = shuffle((REAL)(item), first + m);
}

__kernel void gemm(const int M, const int N, const int K, const REAL alpha,
                   __global const REAL *restrict A, const int lda,
                   __global const REAL *restrict B, const int ldb, const REAL beta,
                   __global REAL *restrict C, const int ldc)
{
#ifdef OF_BATCH /* with --batch: the matrices of this product, see batch.cl */
    OF_BATCH(A); OF_BATCH(B); OF_BATCH(C);
#endif
    __local VEC a_tile[TSK][VECS_M], b_tile[TSK][VECS_N];
    const int x = get_local_id(0), y = get_local_id(1), item = y * COLUMNS + x;
    const int i0 = get_group_id(1) * TSM, j0 = get_group_id(0) * TSN;
    const uint first = lane() / WPTM * WPTM; /* of the lanes that pass elements to each other */

    VEC sums[WPTM][WPTN / WIDTH];
#pragma unroll
    for (int m = 0; m < WPTM; m++)
#pragma unroll
        for (int n = 0; n < WPTN / WIDTH; n++)
            sums[m][n] = 0;

    for (int k0 = 0; k0 < K; k0 += TSK) {
        for (int v = item; v < TSK * VECS_M; v += ITEMS) {
            const int k = v / VECS_M, at = v % VECS_M;
            a_tile[k][at] = *(__global const VEC *)&A[(k0 + k) * (size_t)lda + i0 + at * WIDTH];
        }
        for (int v = item; v < TSK * VECS_N; v += ITEMS) {
            const int k = v / VECS_N, at = v % VECS_N;
            b_tile[k][at] = *(__global const VEC *)&B[(k0 + k) * (size_t)ldb + j0 + at * WIDTH];
        }
        barrier(CLK_LOCAL_MEM_FENCE); /* the others' elements are read below */

        /* Fully unrolled: a compiler that runs the work-items of a group one after the other, as
         * PoCL's does, would otherwise switch between them at each k and keep their sums in memory. */
#pragma unroll
        for (int k = 0; k < TSK; k++) {
            __local const REAL *a_row = (__local const REAL *)a_tile[k];
            const REAL mine = a_row[y + (lane() - first) * ROWS];
            VEC b[WPTN / WIDTH];
#pragma unroll
            for (int n = 0; n < WPTN / WIDTH; n++)
                b[n] = b_tile[k][x + n * COLUMNS];
#pragma unroll
            for (int m = 0; m < WPTM; m++) {
                const REAL a = shuffle(mine, first + m);
#pragma unroll
                for (int n = 0; n < WPTN / WIDTH; n++)
                    sums[m][n] += a * b[n];
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE); /* the next step overwrites what the others may still read */
    }

    /* Where beta is 0, C is not read. */
#pragma unroll
    for (int m = 0; m < WPTM; m++) {
        __global REAL *row = &C[(i0 + y + m * ROWS) * (size_t)ldc + j0];
#pragma unroll
        for (int n = 0; n < WPTN / WIDTH; n++) {
            __global VEC *c = (__global VEC *)&row[(x + n * COLUMNS) * WIDTH];
            *c = beta == 0 ? alpha * sums[m][n] : alpha * sums[m][n] + beta * *c;
        }
    }
}
