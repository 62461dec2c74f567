"""What a multiply-add costs in a kernel's hot loop on a Mali GPU, from Mesa's disassembly.

The hot loop is the one with the most multiply-adds of those within which no other loop has any. How
many instructions Mesa takes for a cycle of a unit follows from its own figures of the whole kernel.
"""

import math
import re
from collections import Counter
from typing import NamedTuple

from common.mesa import UNITS

_MEMORY = ("load_store", "texture")
_MULTIPLY_ADDS, _PRODUCTS = "multiply-adds", "products"  # of floats; of integers
# Mesa has no cycles for Midgard: two words of arithmetic, or one access, in each.
_MIDGARD = {"arithmetic": 0.5, "load_store": 1.0, "texture": 1.0}


class Cost(NamedTuple):
    """What a multiply-add of the hot loop takes; of integers where the kernel has no others."""

    count: int  # in a pass through the loop
    instructions: float
    cycles: dict  # by unit

    @property
    def binds(self):
        """The unit that takes the most cycles."""
        return max(self.cycles, key=self.cycles.get)

    @property
    def most(self):
        """The cycles of that unit."""
        return self.cycles[self.binds]

    @property
    def memory_over_arithmetic(self):
        """The cycles of load/store, or of texture, over those of arithmetic."""
        memory = max(self.cycles[unit] for unit in _MEMORY)
        others = max((n for unit, n in self.cycles.items() if unit not in _MEMORY), default=0)
        return memory / others if others else math.inf


def cost(text, figures):
    """Return the Cost of a kernel, by its disassembly and Mesa's figures; None without a loop."""
    bifrost, valhall = "arithmetic" in figures, "fma" in figures
    parse = _bifrost if bifrost else _valhall if valhall else _midgard
    steps, loops = parse(text.split("\n"))
    total = sum(steps, Counter())
    known = [unit for unit in UNITS if figures.get(unit) and total[unit]]
    rates = {unit: figures[unit] / total[unit] for unit in known} or _MIDGARD
    for kind in (_MULTIPLY_ADDS, _PRODUCTS):
        found = {(a, b): n for a, b in loops if (n := sum(steps[a:b], Counter()))[kind]}
        inner = [n for (a, b), n in found.items()
                 if not any((a, b) != (c, d) and a <= c and d <= b for c, d in found)]
        if inner:
            hot = max(inner, key=lambda n: n[kind])
            cycles = {unit: hot[unit] * rate / hot[kind] for unit, rate in rates.items()}
            cycles = {unit: cycles.get(unit, 0) for unit in (*cycles, *_MEMORY)}
            return Cost(hot[kind], hot["instructions"] / hot[kind], cycles)
    return None


def _step(*units, instructions=1):
    return Counter(units) + Counter(instructions=instructions)


def _multiplies(op):
    """Return the Counter of what an instruction of Bifrost or Valhall multiplies."""
    if op.startswith("FMA."):
        return Counter({_MULTIPLY_ADDS: 2 if ".v2f16" in op else 1})
    if op.startswith(("IMUL", "IDP")):
        lanes = re.search(r"\.v([24])", op)
        return Counter({_PRODUCTS: int(lanes[1]) if lanes else 1})
    return Counter()


# Bifrost: a tuple has an operation for each of two units; an access is one of the second.

_BIFROST = re.compile(r"\s+([*+])(\S+)")
_CLAUSE = re.compile(r"clause_(\d+)")
_ACCESS = re.compile(r"(LOAD|STORE|ATOM|LD_|ST_|ACMPXCHG|AXCHG)|(TEX|VAR_TEX)")


def _bifrost(lines):
    """Return (Counters of tuples, [(first, end)] of loops)."""
    steps, loops, clauses, first = [], [], {}, ""
    for line in lines:
        clause = _CLAUSE.search(line)
        if clause and line.startswith("clause"):
            clauses[clause[1]] = len(steps)
        elif not (found := _BIFROST.match(line)):
            continue
        elif found[1] == "*":
            first = found[2]
        else:
            second = found[2]
            access = _ACCESS.match(second)
            units = [_MEMORY[access[1] is None]] if access else []
            if not access or first != "NOP":
                units.append("arithmetic")
            both = _step(*units, instructions=(first != "NOP") + (second != "NOP"))
            steps.append(both + _multiplies(first) + _multiplies(second))
            if clause and clause[1] in clauses:
                loops.append((clauses[clause[1]], len(steps)))
    return steps, loops


# Valhall: an instruction a line; the disassembler prints none for some of the special unit.

_VALHALL = (
    (re.compile(r"LOAD|STORE|ATOM|LD_|ST_|LEA_|ACMPXCHG|AXCHG"), "load_store"),
    (re.compile(r"TEX"), "texture"),
    (re.compile(r"FMA|FADD|LDEXP|IDP"), "fma"),
    (re.compile(r"$|IMUL|A?[LR]SHIFT|MUX|POPCOUNT|BITREV|NOT|CLPER|FRCP|FRSQ|FLOG|FEXP\.|\w+_TABLE"
                r"|FSINCOS|FPCLASS|FATAN|CUBE"), "special"),
    (re.compile(""), "convert"),
)


def _valhall(lines):
    """Return (Counters of instructions, [(first, end)] of loops)."""
    steps, loops = [], []
    for line in lines:
        if not line.startswith("   "):
            continue
        op = line.split()[0] if line.strip() else ""
        unit = next(unit for sign, unit in _VALHALL if sign.match(op))
        twice = unit not in _MEMORY and re.search(r"\.[isu]64", op)
        steps.append(_step(*[unit] * (2 if twice else 1)) + _multiplies(op))
        if back := re.search(r"^\s+BRANCH.*offset:(-\d+)", line):
            loops.append((len(steps) + int(back[1]), len(steps)))
    return steps, loops


# Midgard: words between empty lines, of arithmetic on vectors, or of accesses.

_BRANCH = r"(?m)^br\S*(always|uncond\S*) "
_PRODUCT = re.compile(r"(F?)M(?:UL|A)\.\w(32|16|8) \w+\.?([~\w]*)")


def _midgard(lines):
    """Return (Counters of words, [(first, end)] of loops).

    The distances of branches are in bytes of code, which are not shown. So a loop is found by its
    form: a test that jumps over a branch out of the loop; and at its end a branch back.
    """
    lines = [line.strip() for line in lines if not line.startswith(("MESA: info", "uconstants"))]
    words = [word.split("\n") for word in re.split(r"\n\n+", "\n".join(lines).strip("\n"))]
    loops, open_loops, tested = [], [], False
    for number, word in enumerate(words):
        text = "\n".join(word)
        if re.search(_BRANCH + r"-\d+ ->", text) and open_loops:
            loops.append((open_loops.pop(), number + 1))
        elif tested and re.search(_BRANCH + r"\+\d+ ->", text):
            open_loops.append(number - 1)
        tested = re.search(r"(?m)^br\S*cond\.\w+ \+1 ->", text)
    return [_word(word) for word in words], loops


def _word(word):
    if re.match(r"(LD|ST|ATOM)[._A-Z]", word[0]):
        return _step(*["load_store"] * len(word), instructions=len(word))
    if re.match(r"(?i)tex|barrier|txf", word[0]):
        return _step(*["texture"] * len(word), instructions=len(word))
    step = _step("arithmetic", instructions=len(word))
    for line in word:
        if found := _PRODUCT.match(line):
            written = len(found[3].replace("~", "")) or 128 // int(found[2])
            step[_MULTIPLY_ADDS if found[1] else _PRODUCTS] += written
    return step
