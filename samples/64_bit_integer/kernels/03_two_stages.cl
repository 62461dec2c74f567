/* The sum of an image's pixels and the sum of their squares: no atomics, no 64-bit integers.
 *
 *   vectors     | 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | rest     16 pixels each, row after row; 64 if a
 *                                                          CPU reads contiguously
 *   interleaved   a   b   c   a   b   c   a   b   a        work-items a, b, c; for GPUs, which combine
 *                                                          the reads of neighbouring work-items
 *   contiguous    a   a   a   b   b   b   c   c   a        for CPUs: each core reads its own range,
 *                                                          which suits its prefetcher
 *
 *   stage 1, here        work-group 0 -> sums[0]   work-group 1 -> sums[1]   ...
 *   stage 2, the host    adds up the rows of `sums`
 *
 * NDRange: one dimension, any number of work-items in work-groups of 1, 2, 4, ... WORK_GROUP.
 * `contiguous` (0 or 1) chooses the access pattern. `count` may be any number of pixels from 1 to
 * 2^32 - 1; the first work-item adds up the rest, which is less than a vector. `pixels` must begin at
 * a multiple of 64 bytes. `sums` has a row per work-group: the low and the high word of the sum of the
 * squares, then of the sum of the pixels. It need not be 0 before.
 *
 * The idea: a work-group that writes to its own place needs no atomics. It leaves its sums in a row of
 * `sums`, and the host adds up the rows, at most 16 for each compute unit: less work than a second
 * launch. An embedded profile may lack 64-bit integers altogether, so a sum is a pair of 32-bit
 * words and the carry is added by hand.
 *
 * The sums of a stretch are single words: it is too short for them to overflow. A vector of sums would
 * take a register for each of its elements on a GPU that has no vector registers, such as a Mali
 * from Bifrost on. There a work-item has 64 registers, or 32 if as many work-items as possible run. */

#ifndef WORK_GROUP
#define WORK_GROUP 256 /* work-items in a work-group, at most */
#endif

/* GROUP_X, if defined, is the size of the work-groups of each launch. A compiler that knows it may give
 * a work-item more registers: a Mali-T860 has 16 for each in groups of 64, but 8 if a group may be
 * larger. */
#ifdef GROUP_X
#define GROUP __attribute__((reqd_work_group_size(GROUP_X, 1, 1)))
#else
#define GROUP
#endif

/* Two sums as (low word, high word, low word, high word). */
uint4 widen(uint2 sums)
{
    return (uint4)(sums.x, 0, sums.y, 0);
}

uint4 plus(uint4 a, uint4 b)
{
    uint4 sum = a + b;
    /* A low word that wrapped is smaller than what was added to it. */
    sum.y += sum.x < b.x;
    sum.w += sum.z < b.z;
    return sum;
}

/* The longest stretch that sum_apart can add up, in vectors. A half of `pairs` gains 4 * 2 * 255 by
 * each: 32 * 2040 = 65280 < 2^16. `squares` stays below 32 * 16 * 255 * 255 < 2^26. */
#define APART 32

/* Add four pixels to `pairs`, two sums in halves of 16 bits, and their squares to `squares`. They are
 * squared one by one: the masks show the compiler that the factors are small. DP4A is defined for
 * NVIDIA's GPUs that multiply four pairs of bytes, and add the products, in one instruction. There
 * `pairs` is a single sum. Without it the arithmetic takes longer than the memory accesses. */
#ifdef DP4A
#define SUM_OF(pairs) (pairs)
void add_four(uint four, uint *pairs, uint *squares)
{
    __asm("dp4a.u32.u32 %0, %1, %2, %0;" : "+r"(*pairs) : "r"(four), "r"(0x01010101));
    __asm("dp4a.u32.u32 %0, %1, %1, %0;" : "+r"(*squares) : "r"(four));
}
#else
#define SUM_OF(pairs) (((pairs) & 0xffffu) + ((pairs) >> 16u))
void add_four(uint four, uint *pairs, uint *squares)
{
    const uint even = four & 0x00ff00ffu, odd = (four >> 8u) & 0x00ff00ffu;
    const uint p0 = four & 0xffu, p1 = odd & 0xffu, p2 = even >> 16u, p3 = four >> 24u;
    *pairs += even + odd;
    *squares += p0 * p0;
    *squares += p1 * p1;
    *squares += p2 * p2;
    *squares += p3 * p3;
}
#endif

/* Add the 16 pixels of a vector. */
void add_vector(uint4 sixteen, uint *pairs, uint *squares)
{
    add_four(sixteen.x, pairs, squares);
    add_four(sixteen.y, pairs, squares);
    add_four(sixteen.z, pairs, squares);
    add_four(sixteen.w, pairs, squares);
}

/* Return (sum of the squares, sum) of the vectors at, at + step, ... before `end`, APART of them at
 * most. They are read through a pointer, 16 bytes at a time: vload4 promises no alignment, and some
 * compilers split it into four loads. With DP4A four loads are in flight at a time. On a Mali these
 * registers would limit the number of work-items. */
uint2 sum_apart(__global const uint4 *vectors, uint at, uint step, uint end)
{
    const uint stop = end - at > APART * step ? at + APART * step : end;
    uint pairs = 0, squares = 0;
#ifdef DP4A
    for (; stop - at > 3 * step && at < stop; at += 4 * step) {
        const uint4 a = vectors[at], b = vectors[at + step];
        const uint4 c = vectors[at + 2 * step], d = vectors[at + 3 * step];
        add_vector(a, &pairs, &squares);
        add_vector(b, &pairs, &squares);
        add_vector(c, &pairs, &squares);
        add_vector(d, &pairs, &squares);
    }
#endif
    for (; at < stop; at += step)
        add_vector(vectors[at], &pairs, &squares);
    return (uint2)(squares, SUM_OF(pairs));
}

/* CPU is defined for CPUs, which have vector registers and can prefetch. Their drivers use Clang,
 * whose vectors may be longer than OpenCL's. The prefetch is Clang's as well: OpenCL's does nothing
 * with PoCL.
 * While a core adds up, few loads are in flight, and its own prefetcher stops at the end of a page,
 * every 4096 bytes. So the L2 cache, which can wait for more lines than the L1, is asked for what
 * follows two pages later, and the L1 for what is near. AMD is the family of a CPU of that vendor,
 * or 0 if it is not known.
 * On a Zen 5, family 26, it was faster to ask the L1 alone, and on a Zen 4 not to ask at all. */
#if defined(CPU) && defined(__clang__)
#define VECTOR_REGISTERS
typedef uchar uchar32 __attribute__((ext_vector_type(32)));
typedef ushort ushort32 __attribute__((ext_vector_type(32)));
#define INTO_L1 3 /* __builtin_prefetch calls it locality */
#define INTO_L2 2
#define PREFETCH(vector, bytes, where) \
    __builtin_prefetch((const void *)((uintptr_t)(vector) + (bytes)), 0, where)

void prefetch_after(__global const uint16 *vector)
{
#ifndef AMD
    PREFETCH(vector, 2048, INTO_L1);
    PREFETCH(vector, 8192, INTO_L2);
#elif AMD >= 26
    PREFETCH(vector, 8192, INTO_L1);
#endif
}

/* Return the sum of a vector's elements. */
uint total(uint16 v)
{
    const uint8 v8 = v.lo + v.hi;
    const uint4 v4 = v8.lo + v8.hi;
    return v4.x + v4.y + v4.z + v4.w;
}

/* An instruction that multiplies and adds takes several cycles. The next one adds to another sum, and
 * need not wait for it. */
#define SUMS 4

uint total_of(const uint16 *sums)
{
    return total((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

/* What follows defines, with VNNI and without:
 *   struct Sums     the sums of a stretch of lines; a line is one vector of 64 bytes, the size of a
 *                   cache line of most CPUs
 *   TOGETHER        the longest stretch that they hold, in lines
 *   add_line()      add a line; its place in a group of GROUPED chooses the sums that it goes to
 *   totals()        the two sums (sum of the squares, sum) of the stretch
 * An instruction that writes a vector takes one of the core's registers until it retires, and a core
 * looks ahead until all are taken. The fewer such instructions a line needs, the more lines are in
 * flight. */
#define GROUPED 4

/* VNNI is defined for CPUs of x86 that multiply four pairs of bytes and add the products to a word, for
 * all words of a vector in one instruction. But the second factor is signed. So it is p - 128, which is
 * p with its upper bit inverted: p * p = p * (p - 128) + 128 * p. Intel's runtime takes no assembly. */
#if defined(VNNI) && defined(__AVX512BW__)
struct Sums {
    uint16 products[SUMS], pixels[SUMS];
};
#define TOGETHER 1024 /* 1024 * 64 * 255 * 255 < 2^32 */

uint16 plus_products(uint16 sum, uint16 bytes, uint16 factors)
{
    __asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(bytes), "v"(factors));
    return sum;
}

void add_line(struct Sums *sums, uint place, __global const uint16 *line)
{
    const uint16 bytes = *line;
    uint16 *products = sums->products + place % SUMS, *pixels = sums->pixels + place % SUMS;
    *products = plus_products(*products, bytes, bytes ^ 0x80808080u);
    *pixels = plus_products(*pixels, bytes, 0x01010101u);
}

uint2 totals(const struct Sums *sums)
{
    const uint sum = total_of(sums->pixels);
    return (uint2)(total_of(sums->products) + 128u * sum, sum);
}
#else /* without VNNI */

/* Return the squares of the 32 numbers, which are below 2^15, added in pairs: one instruction of x86.
 * PoCL knows its name. Intel's runtime compiles for no CPU at first, so it does not; but it finds the
 * instruction that stands for the multiplication and the addition of neighbours. */
#if defined(__AVX512BW__) && __has_builtin(__builtin_ia32_pmaddwd512)
#define SQUARES_IN_PAIRS
typedef short short32 __attribute__((ext_vector_type(32)));
uint16 squares_in_pairs(ushort32 v)
{
    const short32 numbers = __builtin_astype(v, short32);
    return __builtin_astype(__builtin_ia32_pmaddwd512(numbers, numbers), uint16);
}
#elif defined(__SPIR__)
#define SQUARES_IN_PAIRS
typedef uint uint32 __attribute__((ext_vector_type(32)));
uint16 squares_in_pairs(ushort32 v)
{
    const uint32 numbers = __builtin_convertvector(v, uint32);
    const uint32 squares = numbers * numbers;
    return squares.even + squares.odd;
}
#endif

/* A square of 255 has 16 bits, so a register holds twice as many squares as words of 32 bits: with
 * words the arithmetic takes longer than the memory accesses. They are added up as `words` of two,
 * modulo 2^32, and the upper ones once more as `highs`: a word w = 65536 * high + low counts as
 * high + low = w - 65535 * high. Squares that were added in pairs have no such halves, and `highs`
 * stays 0. `pixels` has sums of 16 bits: a vector for each half of the lines or, beside `highs`, one
 * for both. With a second one the 16 registers of an Armv7 would not suffice. */
#ifdef SQUARES_IN_PAIRS
#define PIXEL_SUMS 2
#else
#define PIXEL_SUMS 1
#endif
struct Sums {
    uint16 words[SUMS], highs;
    ushort32 pixels[PIXEL_SUMS];
};
#define TOGETHER (128 * PIXEL_SUMS) /* 128 * 2 * 255 < 2^16 */

void add_line(struct Sums *sums, uint place, __global const uint16 *line)
{
    __global const uchar32 *halves = (__global const uchar32 *)line;
#pragma unroll
    for (uint i = 0; i < 2; i++) {
        const ushort32 numbers = __builtin_convertvector(halves[i], ushort32);
#ifdef SQUARES_IN_PAIRS
        sums->words[(2 * place + i) % SUMS] += squares_in_pairs(numbers);
#else
        const uint16 two = __builtin_astype(numbers * numbers, uint16);
        sums->words[0] += two;
        sums->highs += two >> 16u;
#endif
        sums->pixels[i % PIXEL_SUMS] += numbers;
    }
}

uint2 totals(const struct Sums *sums)
{
    uint16 sum = 0;
#pragma unroll
    for (uint i = 0; i < PIXEL_SUMS; i++)
        sum += convert_uint16(sums->pixels[i].lo) + convert_uint16(sums->pixels[i].hi);
    return (uint2)(total_of(sums->words) - 65535u * total(sums->highs), total(sum));
}
#endif /* VNNI */

/* Return (sum of the squares, sum) of the vectors at, at + 1, ... before `end`, TOGETHER of them at
 * most. `at` is not beyond `end`. A compiler unrolls a loop with inline assembly only if its number of
 * rounds is a constant: hence the groups. */
uint2 sum_together(__global const uint16 *vectors, uint at, uint end)
{
    __global const uint16 *line = vectors + at, *stop = vectors + end;
    struct Sums sums = {0};
    for (; stop - line >= GROUPED; line += GROUPED) {
#pragma unroll
        for (uint place = 0; place < GROUPED; place++) {
            prefetch_after(line + place);
            add_line(&sums, place, line + place);
        }
    }
    for (; line < stop; line++)
        add_line(&sums, 0, line);
    return totals(&sums);
}
#endif /* VECTOR_REGISTERS */

/* Return the same two sums of the last pixels, from `at` on. */
uint2 sum_rest(__global const uchar *pixels, uint at, uint count)
{
    uint2 sums = 0;
    for (uint i = at; i < count; i++)
        sums += (uint2)(pixels[i] * pixels[i], pixels[i]);
    return sums;
}

__kernel GROUP
void two_stages(__global const uchar *restrict pixels, uint count, uint contiguous,
                __global uint4 *sums)
{
    const uint items = get_global_size(0), item = get_global_id(0);
    uint4 sums_here = 0;
    uint rest = count / 16 * 16;
#ifdef VECTOR_REGISTERS
    if (contiguous) {
        __global const uint16 *vectors = (__global const uint16 *)pixels;
        const uint all = count / 64, each = (all + items - 1) / items;
        const uint end = min(item * each + each, all);
        for (uint at = item * each; at < end; at += TOGETHER) {
            const uint stop = min(at + TOGETHER, end);
            sums_here = plus(sums_here, widen(sum_together(vectors, at, stop)));
        }
        rest = all * 64;
    } else
#endif
    {
        /* The vectors of this work-item: start, start + step, ... before end. */
        __global const uint4 *vectors = (__global const uint4 *)pixels;
        const uint all = count / 16, each = (all + items - 1) / items;
        const uint start = contiguous ? item * each : item, step = contiguous ? 1 : items;
        const uint end = contiguous ? min(start + each, all) : all;
        for (uint at = start; at < end; at += APART * step)
            sums_here = plus(sums_here, widen(sum_apart(vectors, at, step, end)));
    }
    if (item == 0)
        sums_here = plus(sums_here, widen(sum_rest(pixels, rest, count)));

    __local uint4 scratch[WORK_GROUP];
    const uint local_item = get_local_id(0);
    scratch[local_item] = sums_here;
    for (uint half_size = get_local_size(0) / 2; half_size > 0; half_size /= 2) {
        /* What is read below was written by another work-item. */
        barrier(CLK_LOCAL_MEM_FENCE);
        if (local_item < half_size)
            scratch[local_item] = plus(scratch[local_item], scratch[local_item + half_size]);
    }
    if (local_item == 0)
        sums[get_group_id(0)] = scratch[0];
}
