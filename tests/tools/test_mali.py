"""The hot loop in Mesa's disassembly, and what a multiply-add of it costs."""

import math

import pytest

from tools import mali

# A loop around two: the first has no multiply-add, the second has one with a load for each.
BIFROST = """\
clause_0:
    *NOP t0
    +IADD.s32 t1, r0, r1
clause_5:
    *IMUL.i32 t0, r0, r1
    +JUMP t1, clause_5
clause_7:
    *FMA.f32 r0:t0, r1, r2, r0
    +LOAD.i128 t1, r34, t1, @r33
    *FMA.v2f16 r0:t0, r1, r2, r0
    +NOP t1
    *NOP t0
    +TEXC t1, r0, r1
    *NOP t0
    +BRANCHZ.i16.eq t1, t1.h0, clause_7
    *NOP t0
    +JUMP t1, clause_0
"""
VALHALL = """\
   IADD.s32 r0, r0, r1

   FMA.f32 r0, r1, r2, r0
   LOAD.i128.unsigned.slot0 @r0, r4, offset:0
   SHADDX.s64 r4, r4, r5, shift:0x0
   IMUL.i32 r4, r4, r5
   
   BRANCHZ.eq.reconverge 0x0, offset:-6
   NOP.end
"""
MIDGARD = """\

MOV.i32 R0.x, TMP0.x, R1.x
brx.reserved.cond.false +1 -> ldst

br.uncond.always +20 -> alu/4

LD.128 R7.xyzw, R0.u64.x
LD.128 R8.xyzw, R0.u64.x

FMUL.f32 TMP0.xy~~, R0.zzzz, R7
FADD.f32 R6, TMP0, R6
uconstants 0x2, 0x0, 0x0, 0x0

br.uncond.always -12 -> ldst
"""


def test_bifrost():
    figures = {"arithmetic": 6 / 24, "load_store": 1.0, "texture": 0.5}
    cost = mali.cost(BIFROST, figures)
    assert (cost.count, cost.instructions) == (3, 5 / 3)
    assert cost.cycles == pytest.approx(
        {"arithmetic": 3 / 24 / 3, "load_store": 1 / 3, "texture": 0.5 / 3}
    )
    assert (cost.binds, cost.most) == ("load_store", 1 / 3)
    assert cost.memory_over_arithmetic == pytest.approx(8)


def test_a_loop_without_a_cycle_of_arithmetic():
    cost = mali.cost(BIFROST, {"arithmetic": 0.0, "load_store": 1.0})
    assert cost.memory_over_arithmetic == math.inf
    assert cost.binds == "load_store"


def test_valhall_has_an_instruction_that_is_not_printed():
    # IADD, SHADDX twice, BRANCHZ, NOP; IMUL and the one without a name.
    figures = {"fma": 1 / 32, "convert": 5 / 32, "special": 2 / 8, "load_store": 1.0}
    cost = mali.cost(VALHALL, figures)
    assert (cost.count, cost.instructions) == (1, 6)
    assert cost.cycles == pytest.approx(
        {"fma": 1 / 32, "convert": 3 / 32, "special": 2 / 8, "load_store": 1.0, "texture": 0}
    )


def test_midgard_has_cycles_of_its_own():
    cost = mali.cost(MIDGARD, {"instructions": 9})
    assert (cost.count, cost.binds) == (2, "arithmetic")
    assert cost.cycles == {"arithmetic": 1.0, "load_store": 1.0, "texture": 0}


def test_products_of_integers_count_where_there_is_nothing_else():
    text = VALHALL.replace("FMA.f32", "IDP.v4s8")
    assert mali.cost(text, {"fma": 1 / 32, "special": 1 / 4, "load_store": 1.0}).count == 5
    midgard = mali.cost(MIDGARD.replace("FMUL.f32 TMP0.xy~~", "MUL.i32 R5.yzw"), {})
    assert (midgard.count, midgard.cycles["load_store"]) == (3, 2 / 3)
    assert mali.cost("   NOP.end\n", {"fma": 0.0}) is None
