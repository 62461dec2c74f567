"""common.sizes.py: what is said where a device has too little memory."""

from types import SimpleNamespace

import numpy as np
import pytest

from common.errors import UsageError
from common.gemm import Problem
from common.sizes import Size, buffer_bytes, require_matrices, require_room

LIMITS = SimpleNamespace(max_mem_alloc_size=100, global_mem_size=250)


@pytest.mark.parametrize(("need", "message"), [
    ({"A": 10, "B": 101}, "it: B takes 101 B, but the device allocates at most 100 B at once: go"),
    ({"A": 90, "B": 90, "C": 90}, "it: A, B, C take 270 B together, but the device has 250 B: go"),
    ({"A": 100, "B": 100, "C": 50}, None),
])
def test_one_buffer_or_all(need, message):
    if message is None:
        return require_room("it", need, LIMITS, "go")
    with pytest.raises(UsageError) as caught:
        require_room("it", need, LIMITS, "go")
    assert str(caught.value) == message


SIZE = Size(3, 5, 7)


def test_the_bytes_of_matrices_with_gaps_in_a_batch():
    def of(kind):
        return list(buffer_bytes(Problem(SIZE, np.dtype(kind), 8, 6, 9, batch=2)).values())

    assert of(np.float32) == [2 * 4 * 3 * 8, 2 * 4 * 7 * 6, 2 * 4 * 3 * 9]
    assert of(np.int8) == [2 * 3 * 8, 2 * 7 * 6, 2 * 4 * 3 * 9]  # C is of int32


@pytest.mark.parametrize(("leading", "batch", "todo"), [
    ((7, 5, 5), 1, "choose a smaller size"),
    ((7, 5, 5), 2, "choose a smaller size or --batch"),
    ((8, 5, 5), 1, "choose a smaller size, or smaller leading dimensions"),
    ((7, 5, 6), 2, "choose a smaller size or --batch, or smaller leading dimensions"),
])
def test_what_makes_matrices_smaller(leading, batch, todo):
    problem = Problem(SIZE, np.dtype(np.float32), *leading, batch)
    with pytest.raises(UsageError) as caught:
        require_matrices(problem, LIMITS)
    assert str(caught.value).endswith(f": {todo}")
    enough = SimpleNamespace(max_mem_alloc_size=600, global_mem_size=1000)
    require_matrices(problem, enough)
    with pytest.raises(UsageError, match="parts takes 601 B, but the device allocates at most 600"):
        require_matrices(problem, enough, {"parts": 601})
