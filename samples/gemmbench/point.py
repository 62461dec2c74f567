"""A point, a kernel at one size: options, matrices between guards, reference, the table printed."""

from dataclasses import replace
from statistics import median
from typing import NamedTuple

import metadata
import numpy as np

from common import bounds, gemm, hard, rng
from common.arguments import a_path, positive
from common.machine import state
from common.matrices import Matrix
from common.text import figures, milliseconds

# Elements between the rows for kernels that take lda, ldb and ldc. Odd, so that a kernel that
# mixes the three up, or with an order, is wrong.
_GAPS = (3, 5, 7)
_WHOLE = (2, -3)  # alpha and beta of integer data


class Inputs(NamedTuple):
    """alpha and beta as numpy scalars, and the matrices as M x K, K x N and M x N arrays.

    A kernel that takes A or B transposed gets the same memory, read as K x M or as N x K.
    """

    alpha: object
    beta: object
    A: np.ndarray
    B: np.ndarray
    C: np.ndarray

    def stored(self, meta):
        """Return A, B and C as the kernel gets them."""
        A, B = ((matrix.reshape(matrix.shape[::-1]) if trans == "T" else matrix)
                for matrix, trans in ((self.A, meta.transA), (self.B, meta.transB)))
        return A, B, self.C

    def multiplied(self, meta):
        """Return A, B and C as they are multiplied: M x K, K x N and M x N."""
        A, B, C = self.stored(meta)
        return A.T if meta.transA == "T" else A, B.T if meta.transB == "T" else B, C

    def scalars(self):
        """Return alpha and beta as texts, by their names."""
        form = "({0.real:.6g} {0.imag:+.6g}i)" if self.alpha.dtype.kind == "c" else "{:.6g}"
        return {"alpha": form.format(self.alpha), "beta": form.format(self.beta)}


def add_options(parser):
    """Add the options that say which kernels are run, at which size, and how they are checked."""
    add = parser.add_argument
    add("-f", "--file", metavar="NAME", default="SGEMM_NN_1x1.json",
        help="kernels: a name, A,B, 'SGEMM_*' or all (default %(default)s)")
    add("-n", "--size", type=gemm.parse_size, default="256", metavar="N",
        help="order; MxNxK or @resnet50.fc for kernels that take it (default %(default)s)")
    add("-lws", "--local-size", dest="lws", type=metadata.parse_local_size, metavar="J,I",
        help="columns,rows of a work-group (default 0,0: the driver chooses)")
    add("--kernels", type=a_path, metavar="DIR", default=metadata.KERNELS,
        help="folder of the kernels (default: the one beside run.py)")
    add("--data", choices=["drawn", "integer", *hard.HARD], default="drawn",
        help="integer: exact results; scaled, cancelling: ill-conditioned")
    add("-eps", "--eps", type=positive, metavar="E",
        help="tolerance of all elements (default: a bound for each element)")


def draw(size, meta, seed, data):
    """Return the Inputs of a Size for a kernel.

    After srand(seed) alpha and beta are drawn, then for each element index an element of A, of B
    and of C, all from [-0.5, 0.5]; those of an element that does not exist are thrown away. Of a
    complex type each number takes two draws. With `data` integer they are whole numbers from -4 to
    4; for scaled and cancelling, common/hard.py changes the matrices. Raises UsageError where
    integer data would need rounding.
    """
    parts = 2 if meta.dtype.kind == "c" else 1
    draws = rng.rand(seed, (2 + 3 * gemm.longest(size)) * parts)
    values = gemm.whole(draws, np.float64) if data == "integer" else draws / rng.RAND_MAX - 0.5
    if parts == 2:
        values = values.view(np.complex128)
    alpha, beta = map(meta.scalar.type, _WHOLE if data == "integer" else values[:2])
    gemm.require_exact(data, size, alpha, [beta], meta.dtype)
    drawn = Inputs(alpha, beta, *gemm.deal(values[2:].astype(meta.dtype), size))
    A, B, C = hard.made(data, seed, *drawn.multiplied(meta))
    A, B = (A.T if meta.transA == "T" else A), (B.T if meta.transB == "T" else B)
    return drawn._replace(A=A.reshape(drawn.A.shape), B=B.reshape(drawn.B.shape), C=C)


def flop(size, dtype):
    """Return the floating-point operations of one GEMM, and how they are counted."""
    M, N, K = size
    if dtype.kind == "c":  # a product is 6 operations, a sum 2
        return 8 * M * N * K + 14 * M * N, "8*M*N*K + 14*M*N"
    return size.flop(), gemm.FLOP_CONVENTION


def reference(inputs, meta, data, nearest=False, eps=None):
    """Return the Reference of common/bounds.py, in which all bounds are `eps`, if it is given.

    `nearest` tells whether the device rounds to nearest.
    """
    A, B, C = inputs.multiplied(meta)
    right = bounds.reference(inputs.alpha, A, B, inputs.beta, C, data, nearest, meta.sums)
    if eps is None:
        return right
    return replace(right, bound=np.full_like(right.bound, eps), spread=None,
                   rule=f"at most {eps:g} for every element")


class Operands:
    """A, B and C on the device. Rows have gaps between them if the kernel takes lda, ldb, ldc."""

    def __init__(self, queue, meta, inputs):
        self._values = inputs.stored(meta)
        gaps = _GAPS if meta.shape == "mnk" else (0, 0, 0)
        self.matrices = [
            Matrix(queue, *values.shape, meta.dtype, values.shape[1] + gap)
            for values, gap in zip(self._values, gaps)
        ]

    def fill(self, around=None):
        """Write the matrices; around each lies what `around` has for its name, or NaN.

        Returns the seconds that the copies of the matrices took.
        """
        return sum(matrix.write(values, (around or {}).get(name))
                   for name, matrix, values in zip("ABC", self.matrices, self._values))

    def touched(self, launch, first):
        """Return texts on what a kernel did outside of its matrices.

        `launch()` runs the kernel again; `first` is C of its first run, which had NaN around the
        matrices: a value from there spoils the result, as a rule.
        """
        *inputs, C = self.matrices
        intact = all(matrix.intact() for matrix in self.matrices) and all(
            matrix.read().tobytes() == values.tobytes()
            for matrix, values in zip(inputs, self._values))

        def run(around):
            self.fill(around)
            launch()
            return C.read()

        wrote = None if intact else "the kernel wrote outside of C"
        return [*filter(None, [wrote, read_outside(run, first, C.dtype)])]


def read_outside(run, first, dtype):
    """Return what shows that values from outside of the matrices went into the result, or None.

    A kernel may drop a NaN: fmax(NaN, x) is x. So it runs again amid large numbers, once positive
    and once negative, and must give the bits of `first`. `run(around)` runs it with the values of
    `around` (by A, B, C) around its matrices, NaN where it names none, and returns C.
    """
    number = 3e4 if dtype == np.float16 else 1e30  # larger than any result of ours

    def changes(alike, *arounds):
        return any(run(around).tobytes() != alike.tobytes() for around in arounds)

    if not changes(first, *(dict.fromkeys("ABC", n) for n in (number, -number))):
        return None
    if changes(first, {}):
        return "two runs give different results: work-items race"
    ones = dict.fromkeys("ABC", 1.0)
    alike = run(ones)
    guilty = [name for name in "ABC"
              if changes(alike, {**ones, name: number}, {**ones, name: -number})]
    return f"the result depends on what lies outside of {' and '.join(guilty) or 'the matrices'}"


def say(what, *texts):
    """Print lines of the table of a point."""
    for text in texts:
        print(f"  {what:<13} {text}", flush=True)


def say_task(args, meta, drawn, total, local):
    """Print what a kernel is to compute, in an NDRange of `total` and of `local` work-items."""
    print(f"\n{meta.name}")
    say("computes", meta.computes())
    say("origin", ", ".join(f"{what} {name or 'unset'}" for what, name in meta.origin.items()))
    groups = f"work-groups of {local[0]} x {local[1]}" if local else "work-groups by the driver"
    say("size", f"{args.size}, NDRange {total[0]} x {total[1]}, {groups}")
    scalars = ", ".join(f"{name} {text}" for name, text in drawn.scalars().items())
    kind = {"integer": "whole numbers", "drawn": "in [-0.5, 0.5]", **hard.HARD}[args.data]
    say("inputs", f"{scalars}, {kind}, seed {args.seed}")


def say_measured(args, found, gflop, build_s, upload_s, download_s):
    """Print the measurements, and what the machine did meanwhile."""
    times, before = found.times, found.machine["before"]
    medians = ", ".join(f"{name} {milliseconds(median(getattr(times, f'{name}_s')))}"
                        for name in ("queued", "wait", "run", "host"))
    with_copies = gflop / (median(times.seconds()) + upload_s + download_s)
    say("machine", state.line(before))
    loose = "not pinned, see --pin" if before["clocks_hz"] else "not pinned"
    where = "their maximum" if args.pin == "max" else f"{args.pin} MHz"
    say("clocks", f"pinned to {where}" if args.pin else loose)
    say("throttled", *found.machine["throttled"])
    say("times", f"{medians} (medians); build {milliseconds(build_s)}")
    if args.verbose:
        say("run times", " ".join(map(milliseconds, times.run_s)))
    say("GFLOPS", times.statistics_line(gflop, "parts" if args.duration else "runs"))
    for line in found.sustained:
        print(f"  {line}")
    say("transfers", f"not counted above, timed once: {milliseconds(upload_s)} to the device, "
        f"{milliseconds(download_s)} back; with them {figures(with_copies)} GFLOPS")
    say("energy", *found.energy or ["not measured, see --energy"])


def say_check(check, rule, outside, guards):
    """Print how right the result is, and what touched() found."""
    say("tolerance", rule)
    for text in outside:
        print(f"OUTSIDE: {text}")
    if not outside:
        say("outside", f"no out-of-bounds access found, with --guards {guards}")
    print(check.line("MATCH", "MISMATCH"), flush=True)
