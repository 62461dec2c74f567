// The features of a driver that the samples use, in kernels that a working compiler builds at once.
// The results are whole numbers: they are exact, or wrong.
//
// NDRange: one dimension of whole work-groups of SIDE work-items; for add() a second one of 1.
//
// -D SIDE=n          work-items in a work-group
// -D WITH_DOUBLE=1   the device has cl_khr_fp64
// -D WITH_ATOMICS=1  the device has cl_khr_int64_base_atomics

// out[i] = a[i] * a[i] + a[i], sixteen elements a work-item.
kernel void fma_float(global const float *a, global float *out)
{
    const size_t i = get_global_id(0);
    const float16 x = vload16(i, a);
    vstore16(fma(x, x, x), i, out);
}

#if WITH_DOUBLE
#pragma OPENCL EXTENSION cl_khr_fp64 : enable

kernel void fma_double(global const double *a, global double *out)
{
    const size_t i = get_global_id(0);
    const double8 x = vload8(i, a);
    vstore8(fma(x, x, x), i, out);
}
#endif

// Each work-group reverses its part of `a`. One step of the loop reads what another work-item wrote
// to local memory, so that a missing barrier shows.
kernel void reverse(global const float *a, global float *out)
{
    local float tile[SIDE];
    const size_t me = get_local_id(0);
    float mine = a[get_global_id(0)];
    for (int step = 0; step < 3; step++) {
        tile[me] = mine;
        barrier(CLK_LOCAL_MEM_FENCE);
        mine = tile[SIDE - 1 - me];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    out[get_global_id(0)] = mine;
}

// x[i] += n, in two dimensions of the NDRange.
kernel void add(global uint *x, const uint n)
{
    x[get_global_id(1) * get_global_size(0) + get_global_id(0)] += n;
}

#if WITH_ATOMICS
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable

// Every work-item adds 2^31 + its number, so that the sum needs more than 32 bits.
kernel void add_up(global ulong *sum)
{
    atom_add(sum, (ulong)0x80000000u + get_global_id(0));
}
#endif
