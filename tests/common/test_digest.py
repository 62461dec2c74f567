"""A digest: equal for equal values on every machine, different for anything else."""

import numpy as np

from common.digest import digest


def test_a_digest_knows_values_shapes_and_types_but_one_zero():
    zero = np.zeros((2, 3), np.float32)
    assert digest(zero) == digest(-zero)
    others = [zero.reshape(3, 2), zero.astype(np.float64), zero + 1]
    assert len({digest(a) for a in [zero, *others]}) == 4
    assert digest(zero) == digest(zero.astype(">f4"))


def test_a_digest_takes_whole_numbers():
    sums = np.array([2**63, 1], np.uint64)
    assert digest(sums) == digest(sums.astype(">u8"))
    assert digest(sums) != digest(sums + np.uint64(1))
