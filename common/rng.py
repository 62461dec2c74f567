"""glibc's rand() as array code: the same numbers with every C library, on every machine.

The samples that this suite re-creates seed with srand() and draw with rand(). glibc's default
generator (TYPE_3) is the additive feedback generator r[i] = r[i-3] + r[i-31] mod 2^32, which gives
r[i] >> 1. It is linear, so a stretch that starts n draws ahead has a start state that is a matrix
times the present one. That is how many stretches ("lanes") are drawn side by side, a row at a time.
"""

import numpy as np

RAND_MAX = 2**31 - 1

_DEGREE = 31  # words of state
_SHORT_LAG = 3  # r[i] needs r[i - 3], so three rows can be made in one array operation
_DISCARDED = 310  # srand() throws away ten times the state
_MASK = 2**32 - 1
# What moves a state by one word; its powers wrap at 2^32, as the generator does.
_ONE_AHEAD = np.eye(_DEGREE, k=1, dtype=np.uint32)
_ONE_AHEAD[-1, [0, _DEGREE - _SHORT_LAG]] = 1


def rand(seed, count):
    """Return the first `count` values of rand() after srand(`seed`): uint32, 0 to RAND_MAX.

    `seed` is taken modulo 2^32, as C's `unsigned int` is; 0 means 1, as in glibc.
    """
    return _sequence(_start_state(seed), _DISCARDED + count)[_DISCARDED:] >> np.uint32(1)


def _start_state(seed):
    """Return the 31 words r[3] .. r[33] that srand(seed) leaves, oldest first."""
    word = (seed & _MASK) or 1
    word -= (word >> 31) << 32  # glibc keeps the seed in a signed int
    words = [word]
    for _ in range(_DEGREE - 1):
        words.append(16807 * words[-1] % RAND_MAX)  # Lehmer's generator
    return np.array([w & _MASK for w in words[3:] + words[:3]], np.uint32)


def _sequence(state, count):
    """Return `count` words that follow the 31 words of `state`."""
    # As many lanes as steps, give or take: both the loop and its start-up stay short.
    lanes = 1 << max(0, count.bit_length() // 2 - 1)
    steps = -(-count // lanes)
    steps += -steps % _SHORT_LAG

    starts = state[:, np.newaxis]
    ahead = np.linalg.matrix_power(_ONE_AHEAD, steps)
    while starts.shape[1] < lanes:
        starts = np.hstack([starts, ahead @ starts])
        ahead = ahead @ ahead

    rows = np.empty((_DEGREE + steps, lanes), np.uint32)
    rows[:_DEGREE] = starts
    for i in range(_DEGREE, _DEGREE + steps, _SHORT_LAG):
        np.add(rows[i - 3 : i], rows[i - 31 : i - 28], out=rows[i : i + 3])
    return rows[_DEGREE:].T.ravel()[:count]
