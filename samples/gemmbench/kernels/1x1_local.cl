/* C = alpha * A * B + beta * C, float32, row-major, B as it is ("NN" in 1x1.cl); rows of A through
 * local memory.
 *
 * NDRange: n x n, a work-item per element of C, in work-groups of any shape with at most ROOM
 * rows; dimension 0 goes over the columns. Any order from 1 up.
 *
 * The work-items of a row of the group need the same row of A. They load it together, a chunk at
 * a time, into local memory, and each reads all of it there. The result needs both barriers: no
 * work-item may read before all have written, and none may overwrite what another still reads.
 */

#ifndef ROOM
#define ROOM 1024 /* floats of local memory: the chunks of all rows of a group */
#endif

__kernel void gemm(__global const float *restrict A, __global const float *restrict B,
                   __global float *restrict C, float alpha, float beta, uint n)
{
    __local float room[ROOM];
    const size_t j = get_global_id(0), i = get_global_id(1);
    const uint columns = get_local_size(0), column = get_local_id(0);
    const uint rows = get_local_size(1); /* Mesa's compiler for G52 hangs at a division of size_t */
    if (rows > ROOM)
        return; /* no room for a single element of each row */
    const uint length = ROOM / rows; /* of a chunk */
    __local float *chunk = room + get_local_id(1) * length;

    float sum = 0;
    for (size_t start = 0; start < n; start += length) {
        const uint count = min((size_t)length, n - start);
        for (uint k = column; k < count; k += columns)
            chunk[k] = A[i * n + start + k];
        barrier(CLK_LOCAL_MEM_FENCE); /* the chunk is complete */
        for (uint k = 0; k < count; k++)
            sum += chunk[k] * B[(start + k) * n + j];
        barrier(CLK_LOCAL_MEM_FENCE); /* no work-item needs it any more */
    }
    /* Where beta is 0, C is not read: it may contain anything, even NaN. */
    C[i * n + j] = beta == 0 ? alpha * sum : alpha * sum + beta * C[i * n + j];
}
