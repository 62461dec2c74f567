/* For kernels 14 and 15: how two elements of C are scaled and stored. Compiled before their files. */

/* Return v * 2^e. A single factor 2^e might exceed the range of float32; two factors do not. */
float2 scaled(const float2 v, const int2 e)
{
    return v * as_float2((e / 2 + 127) << 23) * as_float2((e - e / 2 + 127) << 23);
}

/* The target of a tile: element (i, j) of C is stored in c[i * ld + j], as alpha * v + beta * c. */
typedef struct {
    __global float *c;
    size_t ld;
    float alpha, beta;
} target;

/* The target of a tile that is shared: a part, as in 13. The tile begins at (i0, j0). */
target part_of(__global float *parts, const int part, const int i0, const int j0)
{
    const target it = {parts + ((long)part * TSM - i0) * TSN - j0, TSN, 1, 0};
    return it;
}

/* Store two elements from c[at] on: at once, or as many as are `left` in the row. Where beta is 0, C
 * is not read. */
void store(const target to, const size_t at, const float2 v, const int at_once, const int left)
{
    __global float *c = &to.c[at];
    __global float2 *both = (__global float2 *)c;
    if (at_once)
        *both = to.beta == 0 ? to.alpha * v : to.alpha * v + to.beta * *both;
    else if (left > 0)
        c[0] = to.beta == 0 ? to.alpha * v.s0 : to.alpha * v.s0 + to.beta * c[0];
    if (!at_once && left > 1)
        c[1] = to.beta == 0 ? to.alpha * v.s1 : to.alpha * v.s1 + to.beta * c[1];
}
