/* Do 64-bit atomic additions work? Every work-item adds ADDEND to one sum, so the host knows the
 * correct result. ADDEND fills the low word: nearly every addition carries into the high word. A
 * driver may list the extension and still lose additions or carries, or fail to build this file.
 *
 * NDRange: one dimension, any number of work-items. `sum` must be 0 before. */
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable

#define ADDEND 0x1ffffffffUL

__kernel void probe_atomics(__global ulong *sum)
{
    atom_add(sum, ADDEND);
}
