"""What Mesa says of kernels on stderr, as its versions 25 and 26 write it."""

import os

import pytest

from common import mesa

BIFROST = """\
Unknown DRM_IOCTL_PANFROST_GET_PARAM 43
shader: MESA_SHADER_KERNEL
decl_function __wrapped_one () (entrypoint)
clause_0:
    *FMA.f32 r0, r1, r2, r3
MESA_SHADER_KERNEL shader: 9 instrs, 9.000000 cycles, 1.000000 arith, 9.000000 ldst, 2 threads
shader: MESA_SHADER_KERNEL
impl __wrapped_one {
}
clause_0:
    *NOP t0
clause_0:
    *FMA.f32 r4, r5, r6, r7
MESA_SHADER_KERNEL shader: 8 instrs, 7 tuples, 5 clauses, 12.000000 cycles, 10.250000 arith, \
0.000000 t, 12.000000 ldst, 0.000000 v, 0 preloads, 1 threads, 3376 code size, 2 loops, \
3:4 spills:fills, 0 spill cost, 24 registers used, 12 uniforms used
"""
VALHALL = """\
impl __wrapped_two {
}
   FMA.f32 r5, u10, r5^, 0x0.neg
   NOP.end
CL shader: 321 instrs, 13.000000 cycles, 0.312500 fma, 6.781250 cvt, 13.000000 sfu, 0.000000 v, \
0.000000 t, 12.000000 ls, 2688 code size, 1 threads, 2 loops, 0:0 spills:fills
"""
MIDGARD = """\
MESA: info: shader: MESA_SHADER_KERNEL
impl __wrapped_three {
}
FMUL.f32 R6, U2.xxxx, R6
CL shader: 92 inst, 54 bundles, 8 registers, 2 threads, 80 quadwords, 2 loops, 0:0 spills:fills
"""


def test_the_second_program_of_each_kernel_counts():
    found = mesa.kernels(BIFROST + VALHALL + MIDGARD)
    assert list(found) == ["one", "two", "three"]
    assert found["one"] == ({
        "by": "Mesa", "instructions": 8, "cycles": 12.0, "arithmetic": 10.25, "texture": 0.0,
        "load_store": 12.0, "threads": 1, "bytes": 3376, "loops": 2, "spills": 3, "fills": 4,
        "registers": 24,
    }, "clause_0:\n    *FMA.f32 r4, r5, r6, r7\n")
    figures, listing = found["two"]
    assert (figures["special"], figures["load_store"], figures["threads"]) == (13.0, 12.0, 1)
    assert listing == "   FMA.f32 r5, u10, r5^, 0x0.neg\n   NOP.end\n"
    figures, _ = found["three"]
    assert (figures["instructions"], figures["registers"], figures["bytes"]) == (92, 8, 1280)


@pytest.mark.parametrize(
    ("said", "unit"), [(BIFROST, "load_store"), (VALHALL, "special"), (MIDGARD, None)]
)
def test_the_unit_with_the_most_cycles_binds(said, unit):
    ((figures, _),) = mesa.kernels(said).values()
    assert mesa.binds(figures) == unit


def test_an_error_may_stand_anywhere():
    assert mesa.error(BIFROST) is None
    assert (
        mesa.error(BIFROST + "MESA: error: out of registers\n") == "MESA: error: out of registers"
    )


@pytest.mark.parametrize("kept", [None, "/somewhere"])
def test_a_cache_is_not_used_unless_somebody_takes_care_of_it(monkeypatch, kept):
    for name in ("BIFROST_MESA_DEBUG", "MIDGARD_MESA_DEBUG", "MESA_SHADER_CACHE_DISABLE"):
        monkeypatch.setenv(name, "")  # taken back after the test
    monkeypatch.setenv("MESA_SHADER_CACHE_DIR", kept or "")
    if kept is None:
        monkeypatch.delenv("MESA_SHADER_CACHE_DIR")
    mesa.listen()
    assert "shaderdb" in os.environ["BIFROST_MESA_DEBUG"]
    assert os.environ["MESA_SHADER_CACHE_DISABLE"] == ("" if kept else "true")
