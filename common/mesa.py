"""What Mesa's compiler for Mali GPUs says of each kernel that it builds: a static model.

Mesa says it on stderr and stdout, and only of what it compiles: not of what is in its shader cache.
Of each kernel it makes two programs. The second one, for launches without an offset, counts.
"""

import ctypes
import os
import re

_KERNEL = re.compile(r"\b__wrapped_(\w+)")
_STATISTICS = re.compile(r"\bshader: (\d+ inst.*)")
_FIGURE = re.compile(r"([\d.:]+) ([a-z: ]+)")
# Midgard's, Bifrost's and Valhall's names, and those of Mesa 25. Cycles are by unit; a loop counts
# once. `threads` is the occupancy: 2 is full on Bifrost and Valhall.
_NAMES = {
    "inst": "instructions", "instrs": "instructions", "cycles": "cycles", "arith": "arithmetic",
    "fma": "fma", "cvt": "convert", "sfu": "special", "ldst": "load_store", "ls": "load_store",
    "t": "texture", "threads": "threads", "registers": "registers", "registers used": "registers",
    "code size": "bytes", "loops": "loops",
}
UNITS = ("arithmetic", "fma", "convert", "special", "load_store", "texture")


def listen():
    """Let Mesa speak; call it before a driver is loaded."""
    for name in ("BIFROST_MESA_DEBUG", "MIDGARD_MESA_DEBUG"):
        os.environ[name] = "shaderdb,shaders"
    if "MESA_SHADER_CACHE_DIR" not in os.environ:  # who sets it takes care of what is in there
        os.environ["MESA_SHADER_CACHE_DISABLE"] = "true"
    # Some of it comes on stdout: line by line (_IOLBF), to stay in order with stderr.
    libc = ctypes.CDLL(None)
    libc.setvbuf(ctypes.c_void_p.in_dll(libc, "stdout"), None, 1, 0)


def kernels(said):
    """Return {kernel: (figures, disassembly)} of what was said during a build."""
    found, name, start, lines = {}, None, 0, said.splitlines()
    for number, line in enumerate(lines):
        if kernel := _KERNEL.search(line):
            name = kernel[1]
        elif name and (statistics := _STATISTICS.search(line)):
            found[name] = _figures(statistics[1]), _disassembly(lines[start:number])
            start = number + 1
    return found


def error(said):
    """Return the error that Mesa reported, or None: it may report one and still return success."""
    return next((line for line in said.splitlines() if line.startswith("MESA: error")), None)


def _figures(text):
    figures = {"by": "Mesa"}
    for value, name in _FIGURE.findall(text):
        if name == "spills:fills":
            figures["spills"], figures["fills"] = map(int, value.split(":"))
        elif name == "quadwords":
            figures["bytes"] = 16 * int(value)
        elif name in _NAMES:
            figures[_NAMES[name]] = float(value) if "." in value else int(value)
    return figures


def _disassembly(lines):
    """Return the last part of a listing: before it, Mesa shows what it compiled step by step."""
    starts = [number for number, line in enumerate(lines) if line == "clause_0:"]  # Bifrost
    starts = starts or [n + 1 for n, line in enumerate(lines) if line.startswith("}")] or [0]
    return "\n".join(lines[starts[-1] :]) + "\n"


def binds(figures):
    """Return the unit of UNITS that takes the most cycles, or None where Mesa does not say."""
    cycles = {unit: figures.get(unit) for unit in UNITS}
    known = {unit: n for unit, n in cycles.items() if isinstance(n, (int, float))}
    return max(known, key=known.get, default=None) if any(known.values()) else None


def texts(figures):
    """Return the figures that count most as words for a person."""
    named = ("instructions", "registers", "threads", "spills", "fills", "cycles")
    shown = [f"{figures[name]} {name}" for name in named if name in figures]
    shown = ["1 thread" if text == "1 threads" else text for text in shown]
    shown = [f"{text} (whole kernel)" if text.endswith("cycles") else text for text in shown]
    return [*shown, *([f"most of {unit}"] if (unit := binds(figures)) else [])]
