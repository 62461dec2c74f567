"""common.sizes.py: what is said where a device has too little memory."""

from types import SimpleNamespace

import pytest

from common.errors import UsageError
from common.sizes import require_room

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
