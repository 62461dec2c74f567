/* For kernels 14 and 15: how two elements of C are scaled and stored. Compiled before their files. */

/* Return v * 2^e. One power of 2 might be beyond the range of float32, two are not. */
float2 scaled(const float2 v, const int2 e)
{
    return v * as_float2((e / 2 + 127) << 23) * as_float2((e - e / 2 + 127) << 23);
}

/* Store alpha * v + beta * c to two elements of C: at once, or as many as are `left` in the row.
 * Where beta is 0, C is not read. */
void store(__global float *c, const float2 v, const int at_once, const int left,
           const float alpha, const float beta)
{
    __global float2 *both = (__global float2 *)c;
    if (at_once)
        *both = beta == 0 ? alpha * v : alpha * v + beta * *both;
    else if (left > 0)
        c[0] = beta == 0 ? alpha * v.s0 : alpha * v.s0 + beta * c[0];
    if (!at_once && left > 1)
        c[1] = beta == 0 ? alpha * v.s1 : alpha * v.s1 + beta * c[1];
}
