/* For kernel 12: a work-group that has finished its share of C takes over work from another. Compiled
 * before 12_packed.cl.
 *
 * Cores are seldom equally fast, and some have other work to do. So with STEAL a work-group that is
 * done looks for the one from which taking over rows saves the most time, and takes over its last rows
 * ("work stealing": R. Blumofe and C. Leiserson, 1999). While all cores are equally fast, this costs
 * almost nothing: until something is taken over, each element is packed as often as without it.
 *
 *     The passes over a share of C:
 *
 *                  pass 1    pass 2    pass 3    pass 4      A pass goes over the rows of the share
 *                +---------+---------+---------+---------+   with one block of B, in steps. The owner
 *         step 0 | owner   | owner   | owner   | owner   |   counts each step before it begins it.
 *         step 1 | owner   | owner   | owner   | owner   |
 *                +---------+---------+---------+---------+   Here another group took over steps 2 and
 *         step 2 | owner   | thief   | thief   | thief   |   3 during pass 2, before the owner had
 *         step 3 | owner   | thief   | thief   | thief   |   begun them, and for all later passes.
 *                +---------+---------+---------+---------+
 *
 * What is taken over can be taken over again, and a share that no group has begun is taken over as a
 * whole. No work-group depends on another that has not begun, so they need not run at the same time.
 * Tiles of C and blocks of K stay what they are, so results do not depend on who computes them.
 *
 * Each work-group has a Group in global memory. Its state is pass << 16 | step << 8 | end: the number
 * of its pass, the next step, and the end of its steps. A thief lowers the end by atomic_cmpxchg(),
 * which fails if the owner has gone on since the thief looked. Before a launch all bytes are 255: the
 * share has not begun. As in last.cl, launches that may overlap have groups of their own. */

#ifndef IN_PLACE
typedef struct { /* rows i0 .. i1 - 1 of columns j0 .. j1 - 1; it may be empty */
    int i0, i1, j0, j1;
    int k0; /* of its first block of columns: the sums over smaller k's are in C already */
} Block;

/* C has `across` shares in a row, each `tall` x `wide`. A pass takes a block of B, `depth` x `breadth`. */
typedef struct {
    int M, N, K, across, tall, wide, depth, breadth;
} Division;

/* Return the share of C that a work-group has at first. */
Block share_of(int number, const Division *of)
{
    const int i0 = min(of->M, number / of->across * of->tall), j0 = number % of->across * of->wide;
    return (Block){i0, min(of->M, i0 + of->tall), j0, min(of->N, j0 + of->wide), 0};
}

#if STEAL
#define STEPS 200           /* in a pass, at most: a state has 8 bits for their number */
#define CLOSED 65535        /* a pass with this number is not shared: a state has 16 bits for it */
#define PACKING (2 * WIDTH) /* rows that are multiplied in the time in which a block of B is packed */
#define LOOKS (1 << 16)     /* of a thief at states, at most, while no step can be taken over */

typedef struct {
    int state;
    int i0, i1, j0, j1, k0; /* the Block that was left when the pass began */
} Group;

/* Groups are accessed by atomic operations alone: others may read what is written. */
#define READ(x) atomic_or(&(x), 0)
#define WRITE(x, value) atomic_xchg(&(x), value)

#define PASS_OF(state) ((uint)(state) >> 16)
#define STEP_OF(state) ((state) >> 8 & 255)
#define END_OF(state) ((state) & 255)

/* Begin the share of a group; return 0 if somebody else did. */
int begin_share(volatile __global Group *group)
{
    return atomic_cmpxchg(&group->state, -1, 0) == -1;
}

/* Return the height of a step: how many of the `rows` it has. */
int height_of(int rows)
{
    return max(MR, share(rows, STEPS, MR));
}

/* Let others see the next pass of this group, and what is left to do for it. Return the height of its
 * steps. */
int begin_pass(volatile __global Group *own, Block left)
{
    const int rows = left.i1 - left.i0, height = height_of(rows);
    const uint pass = min(PASS_OF(READ(own->state)) + 1, (uint)CLOSED);
    FENCE(); /* what was stored in C, and all that thieves did, come before these */
    WRITE(own->i0, left.i0);
    WRITE(own->i1, left.i1);
    WRITE(own->j0, left.j0);
    WRITE(own->j1, left.j1);
    WRITE(own->k0, left.k0);
    FENCE(); /* they come before the state */
    WRITE(own->state, pass << 16 | (rows + height - 1) / height);
    return height;
}

/* Return the row MR after i if it is in the same step. Else begin the next step, and return its first
 * row. Set block->i1 to the end of the rows that others have left; return it if no step is left. */
int next_rows(volatile __global Group *own, int i, int height, Block *block)
{
    if ((i + MR - block->i0) % height)
        return i + MR;
    const int state = atomic_add(&own->state, 1 << 8);
    block->i1 = min(block->i1, block->i0 + END_OF(state) * height);
    return min(block->i1, block->i0 + STEP_OF(state) * height);
}

/* Return how many passes a block takes. A half-written one may give a wrong number, but 1 at least. */
long passes_of(Block block, const Division *of)
{
    const long blocks = (block.j1 - block.j0 + of->breadth - 1) / of->breadth;
    return max(1L, blocks * ((of->K + of->depth - 1) / of->depth) - block.k0 / of->depth);
}

/* Take over a block from one of `count` groups. Return 0 if none has enough left.
 *
 * The thief takes half of the rows that are left, less those that are multiplied while it packs B in
 * each pass: so both end at about the same time. Of this pass it takes steps that have not begun, and
 * the owner keeps one.
 *
 * A group may be writing its block while the thief reads it. But then all steps of the pass that the
 * thief saw have begun, or the state is another one by now. Either way nothing is taken over. */
int steal(volatile __global Group *groups, int count, const Division *of, Block *block)
{
    for (int look = 0; look < LOOKS; look += count) {
        long gain = 0;
        int later = 0, from = 0, seen = 0, steps = 0, height = 0;
        for (int g = 0; g < count; g++) {
            volatile __global Group *group = &groups[g];
            const int state = READ(group->state);
            FENCE(); /* the state comes before the block */
            if (state == -1 && begin_share(group)) {
                *block = share_of(g, of);
                return 1;
            }
            if (PASS_OF(state) == CLOSED)
                continue;
            const Block left = {READ(group->i0), READ(group->i1), READ(group->j0), READ(group->j1),
                                READ(group->k0)};
            const int each = height_of(left.i1 - left.i0);
            const long passes = passes_of(left, of);
            const long all = (passes * END_OF(state) - STEP_OF(state)) * each; /* rows */
            const long wanted = (all / passes - PACKING) / 2 / each; /* steps */
            const long part = min(wanted, (long)END_OF(state) - max(1, STEP_OF(state)));
            later |= wanted > 0; /* if not now: the group is in the last step of a pass */
            if (part > 0 && part * each * passes > gain) {
                gain = part * each * passes;
                *block = left;
                from = g, seen = state, steps = part, height = each;
            }
        }
        FENCE(); /* what was read comes before what is taken over */
        if (gain && atomic_cmpxchg(&groups[from].state, seen, seen - steps) == seen) {
            FENCE(); /* what the owner stored in C comes before what the thief adds */
            block->i1 = min(block->i1, block->i0 + END_OF(seen) * height);
            block->i0 += (END_OF(seen) - steps) * height;
            return 1;
        }
        if (!later)
            return 0;
    }
    return 0;
}

/* Leave; the last of `count` groups sets all of them back, for the next launch. */
void leave(volatile __global int *counters, int count)
{
    const int ints = count * (sizeof(Group) / sizeof(int));
    FENCE(); /* all that this group did comes before the count */
    if (atomic_inc(&counters[ints]) + 1 == count - 1)
        for (int n = 0; n <= ints; n++)
            WRITE(counters[n], -1);
}
#else
#define begin_pass(own, left) 0
#define next_rows(own, i, height, block) ((i) + MR)
#endif
#endif
