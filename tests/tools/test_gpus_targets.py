"""The kernels for Mali, built by Mesa's compiler, meet their targets: the last step of `make mali`.

A target limits the cycles per multiply-add of the hot loop, or per pixel, and for some kernels the
instructions. No kernel may spill.
"""

import os
from typing import NamedTuple

import pytest

from common import manifest
from tools import gpus

WANTED = os.environ.get("GPUS", "").split(",")
BIFROST_OR_VALHALL = ("mali-g52", "mali-g57", "mali-g610")
T860 = "mali-t860"


class Target(NamedTuple):
    """The most that a kernel may take on each GPU: cycles, and instructions, or None for any."""

    sample: str
    options: str
    variant: str
    most: dict
    threads: int = 1


TARGETS = (
    Target("mygemm", "--kernel 21", "21_mali_registers",
           dict.fromkeys(BIFROST_OR_VALHALL, (0.13, 2.5))),
    Target("mygemm", "--kernel 21 --M0 3", "21_mali_registers", {T860: (0.23, None)}),
    Target("mygemm", "--kernel 22 --UNROLL 16", "22_mali_packed", {T860: (0.16, None)}),
    Target("mygemm", "--kernel 23", "23_mali_image", {
        "mali-g52": (0.065, 1.6), "mali-g57": (0.065, 1.9), "mali-g610": (0.065, 1.9),
    }, threads=2),
    Target("mygemm", "--kernel 23", "23_mali_image", {T860: (0.28, None)}),
    Target("mygemm", "--kernel 24 --M0 8", "24_mali_images", {"mali-g52": (0.05, None)}),
    Target("mygemm", "--kernel 24", "24_mali_images", {
        "mali-g57": (0.032, None), "mali-g610": (0.016, None),
    }),
    Target("mygemm", "--kernel 25 --precision half", "25_mali_half", {
        "mali-g52": (0.032, None), "mali-g57": (0.016, None), "mali-g610": (0.016, None),
    }),
    Target("mygemm", "--kernel 26 --precision int8", "26_mali_int8", {"mali-g57": (0.016, None)}),
    Target("64_bit_integer", "--kernel two_stages", "two_stages", {
        "mali-g52": (0.14, None), "mali-g57": (0.24, None), "mali-g610": (0.12, None),
    }),
)


@pytest.mark.timeout(gpus.LIMIT)
@pytest.mark.parametrize(
    ("gpu", "target"),
    [pytest.param(gpu, target, id=f"{gpu} {target.options}")
     for target in TARGETS for gpu in target.most],
)
def test_a_kernel_meets_its_target(gpu, target, tmp_path):
    if gpu not in WANTED:
        pytest.skip(reason=f"it takes minutes: make mali, with GPUS that name {gpu}")
    options = tuple(target.options.split())
    found = manifest.read(target.sample)
    result, costs = gpus.build(found, gpu, options, gpus.LIMIT, tmp_path / "kept")
    made = {item.variant: (item.metrics["compiler"], cost) for item, cost in costs if cost}
    assert target.variant in made, result.reason
    figures, cost = made[target.variant]
    cycles, instructions = target.most[gpu]
    print(f"{cost.most:.4f} cycles, {cost.instructions:.2f} instructions, "
          f"{figures['threads']} threads")
    assert cost.most <= cycles
    assert cost.instructions <= (instructions or cost.instructions)
    assert figures["threads"] >= target.threads
    assert not gpus.spilled(figures)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.options)
def test_every_target_names_a_kernel_that_is_there(target):
    names = [path.stem for path in (manifest.ROOT / "samples" / target.sample).rglob("*.cl")]
    assert any(name.endswith(target.variant) for name in names)
