/* What samples/mygemm/kernels/15_warpgroups.cl takes from hopper.cl, in plain OpenCL C: to be
 * compiled before it, behind emulated.cl. Nothing is under way: a work-item that waits for a slab
 * copies it, and none waits for another one. That needs an OpenCL that runs work-items one after the
 * other where no barrier is. */

void init_barrier(__local ulong *barrier, uint count) {}
void show_barriers(void) {}
void show_writes(void) {}
void sync_warpgroup(int n) { barrier(CLK_LOCAL_MEM_FENCE); }
void arrive(__local ulong *barrier) {}
void arrive_expecting(__local ulong *barrier, uint bytes) {}
void await(__local ulong *barrier, uint phase) {}
void copy_bulk(__local void *to, __global const void *from, uint bytes, __local ulong *barrier)
{
    for (uint n = 0; n < bytes / 16; n++)
        ((__local uint4 *)to)[n] = ((__global const uint4 *)from)[n];
}
#define EMULATED_COPY(call) call

#define UNIT_COLUMNS (SWAPPED ? TSM : TSN)
typedef int matrix;
#define MATRIX(ring, at) (at)
void emulated_multiply(float *sums, __local const uint4 *ring, matrix a, matrix b, int add)
{
    const int item = get_local_id(0) % 128, lane = item % 32;
    for (int s = 0; s < UNIT_COLUMNS / 2; s++) {
        const int row = a / 8 + item / 32 * 16 + lane / 4 + s / 2 % 2 * 8;
        const int column = b / 8 + s / 4 * 8 + lane % 4 * 2 + s % 2;
        float sum = add ? sums[s] : 0;
        for (int c = 0; c < 2; c++) {
            const uint4 x = ring[row * 8 + ((a + c) % 8 ^ row % 8)];
            const uint4 y = ring[column * 8 + ((b + c) % 8 ^ column % 8)];
            if (!any(x != 0) || !any(y != 0))
                continue; /* beyond an edge: many are */
            for (int w = 0; w < 4; w++)
                sum += dot(widen(word(x, w)), widen(word(y, w)));
        }
        sums[s] = sum;
    }
}
void emulated_multiply_rows(__local uint4 *exchange, float *sums, const uint4 a,
                            __local const uint4 *ring, matrix b, int add)
{
    const int item = get_local_id(0), lane = item % 32, quad = item - lane % 4;
    exchange[item] = a;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int s = 0; s < UNIT_COLUMNS / 2; s++) {
        const int column = b / 8 + s / 4 * 8 + lane % 4 * 2 + s % 2, row = s / 2 % 2;
        const uint4 y = ring[column * 8 + (b % 8 ^ column % 8)];
        const uint4 z = ring[column * 8 + ((b + 1) % 8 ^ column % 8)];
        float sum = add ? sums[s] : 0;
        for (int w = 0; w < 4; w++) {
            const uint4 x = exchange[quad + w];
            sum += dot(widen(word(x, row)), widen(word(y, w)));
            sum += dot(widen(word(x, row + 2)), widen(word(z, w)));
        }
        sums[s] = sum;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}
#define MULTIPLY_ROWS(sums, a, b, add) emulated_multiply_rows(exchange, sums, a, ring, b, add)
#define MULTIPLY(sums, a, b, add) emulated_multiply(sums, ring, a, b, add)
#define BEGIN_PRODUCTS
#define END_PRODUCTS
#define AWAIT_PRODUCTS(high, low)
#define FEWER_REGISTERS
#define MORE_REGISTERS
