"""What is said of times taken in rounds."""

from common import interleaved


def test_kernels_that_do_not_overlap_are_named():
    made = {name: interleaved.Launches(20, queues)
            for name, queues in (("a", 2), ("b", 1), ("c", 2), ("d", 2), ("numpy", 1))}
    assert interleaved.remarks(made, {"numpy"})[1:] == [
        "Launches of a, c and d overlap: they are in 2 command queues, each with a C of its own.",
        "Launches of b and numpy run back to back.",
    ]
    one = {"a": interleaved.Launches(1, 1), "numpy": interleaved.Launches(1, 1)}
    assert interleaved.remarks(one, {"numpy"}) == []
    del made["b"]
    assert interleaved.remarks(made, {"numpy"})[1:] == [
        "Launches of kernels overlap: they are in 2 command queues, each with a C of its own.",
        "Calls of numpy run back to back.",
    ]
