/* For kernels 12, 16 and 17: vectors of WIDTH elements, at any address. Compiled before their files. */

#ifndef REAL /* the defaults; build options must define all of these, or none */
#define REAL float
#define WIDTH 4 /* elements of a vector; on a CPU as many as a register has */
#endif
#ifndef OF_BATCH
#define OF_BATCH(matrix) /* with --batch, selects this product: batch.cl */
#endif

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#if WIDTH == 1
#define VEC REAL
#define VLOAD(n, from) (from)[n]
#define VSTORE(vector, n, to) ((to)[n] = (vector))
#else
#define VEC JOIN(REAL, WIDTH)
#define VLOAD JOIN(vload, WIDTH)
#define VSTORE JOIN(vstore, WIDTH)
#endif

typedef VEC __attribute__((aligned(sizeof(REAL)))) UNALIGNED; /* a vector at any address, in place */

/* Return the vector at `from`. Where only `count` elements are left there, zeros follow them. */
VEC load(__global const REAL *from, int count)
{
    if (count >= WIDTH)
        return VLOAD(0, from);
    REAL filled[WIDTH];
    for (int n = 0; n < WIDTH; n++)
        filled[n] = n < count ? from[n] : 0;
    return VLOAD(0, filled);
}

/* Divide `total` into `parts`, as evenly as whole units allow; return the size of the largest. */
int share(int total, int parts, int unit)
{
    return (total + parts * unit - 1) / (parts * unit) * unit;
}

/* `rows` rows are left from here to the end of a matrix, and `count` elements of each are wanted.
 * Return how many of the rows can be read in whole units: the last unit may continue into the rows
 * after it, which the last rows do not have. */
int whole_rows(int rows, int count, int unit, int ld)
{
    const int beyond = share(count, 1, unit) - count;
    return rows - (beyond + ld - 1) / ld;
}
