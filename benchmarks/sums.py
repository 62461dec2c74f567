"""The kernels of 64_bit_integer beside a plain read of the same memory, and beside numpy.

python benchmarks/sums.py                      4096x4096 and 16384x16384
python benchmarks/sums.py --size 2048 --rounds 50

Everything takes turns in one process, round after round, since a shared machine's speed drifts by
a factor of two: only ratios within a round are compared, and their medians reported. A time goes
from the first call to the sums on the host as integers, accumulators reset where there are any.
Exit status 1 where a bar is missed or a sum is wrong.
"""

import argparse
import sys
import time
from functools import partial
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import pyopencl as cl

from common import device, rng
from common.buffers import GuardedBuffer
from common.errors import SampleError
from common.program import build

ROOT = Path(__file__).resolve().parents[1]
KERNELS = ROOT / "samples" / "64_bit_integer" / "kernels"
READ = Path(__file__).with_name("read.cl")
BARS = {"read": 0.95, "numpy": 25, "long_vectors": 60}  # how many times as fast the best must be
RARE = 5  # rounds at most in which long_vectors and numpy take part: they are slow
SPIN = 0.2  # seconds; OpenBLAS's threads spin on for so long and would slow what comes next


# numpy, both sums. Each returns (sum of the squares, sum) as integers, for any image.


def whole_dot(pixels):
    """The plainest: 64-bit copies of the whole image."""
    wide = pixels.astype(np.uint64)
    return int(wide @ wide), int(pixels.sum(dtype=np.uint64))


def whole_square(pixels):
    """The squares in 16 bits."""
    square = pixels.astype(np.uint16)
    square *= square
    return int(square.sum(dtype=np.uint64)), int(pixels.sum(dtype=np.uint64))


def whole_histogram(pixels):
    """How often each value occurs."""
    counts, values = np.bincount(pixels, minlength=256), np.arange(256)
    return int(counts @ values**2), int(counts @ values)


def parts_of_16_bits(pixels, part=65536):
    """Part by part, so that the copies stay in the caches; 65536 * 255^2 fits uint32."""
    squares = total = 0
    for start in range(0, pixels.size, part):
        piece = pixels[start : start + part]
        square = piece.astype(np.uint16)
        square *= square
        squares += int(square.sum(dtype=np.uint32))
        total += int(piece.sum(dtype=np.uint32))
    return squares, total


def parts_by_blas(pixels, part=131072):
    """Part by part as float32 rows of 256: 256 * 255^2 < 2^24, so BLAS is exact."""
    ones = np.ones(256, np.float32)
    squares = total = 0
    for start in range(0, pixels.size, part):
        rows = pixels[start : start + part].astype(np.float32).reshape(-1, 256)
        total += int((rows @ ones).sum(dtype=np.float64))
        rows *= rows
        squares += int((rows @ ones).sum(dtype=np.float64))
    return squares, total


WHOLE = (whole_dot, whole_square, whole_histogram)
PARTS = (parts_of_16_bits, parts_by_blas)


class Kernel:
    """One kernel, ready to run on an image buffer."""

    def __init__(self, queue, path, name, pixels, count, groups, local, contiguous):
        program = build(queue.context, path, {"WORK_GROUP": local})
        self.queue, self.kernel = queue, cl.Kernel(program, name)
        self.total, self.local = (groups * local,), (local,)
        self.adds = name not in ("two_stages", "read_all")  # its sums must be 0 before
        self.sums = GuardedBuffer(queue, (1 if self.adds else groups, 2), np.uint64)
        self.kernel.set_args(pixels.device, np.uint32(count), np.uint32(contiguous),
            self.sums.device)  # fmt: skip

    def __call__(self):
        if self.adds:
            self.sums.write(0)
        cl.enqueue_nd_range_kernel(self.queue, self.kernel, self.total, self.local)
        with self.sums.map(cl.map_flags.READ) as rows:  # the queue is in order: this waits
            squares, total = rows.sum(axis=0).tolist()
        return squares, total


def kernels(queue, pixels, count):
    """Return the function to call, by name, of every kernel and of the plain read."""
    on_cpu = device.type_of(queue.device) == "cpu"
    local = 1 if on_cpu else 256
    groups = queue.device.max_compute_units * (4 if on_cpu else 16)
    make = partial(Kernel, queue, pixels=pixels, count=count)
    walk = {"groups": groups, "local": local, "contiguous": on_cpu}
    found = {"read": make(READ, "read_all", **walk)}
    for path in sorted(KERNELS.glob("[0-9]*.cl")):
        name = path.stem[3:]
        shape = walk
        if name == "long_vectors":  # a work-item for every 8 pixels
            shape = {"groups": count // 8 // 64, "local": 64, "contiguous": False}
        found[name] = make(path, name, **shape)
    return found


def measure(functions, rounds):
    """Return for each function its time in seconds by round; the slow ones skip most rounds."""
    times = {name: {} for name in functions}
    for number in range(rounds):
        for name, function in functions.items():
            form = name.startswith(("whole", "parts"))
            if (form or name == "long_vectors") and number % -(-rounds // RARE):
                continue
            start = time.perf_counter()
            function()
            times[name][number] = time.perf_counter() - start
            if name == "parts_by_blas":
                time.sleep(SPIN)
    return times


def typical(times, name):
    return median(times[name].values())


def ratio(times, fast, slow):
    """Return how many times as fast `fast` is as `slow`: the median over the rounds of both."""
    both = times[fast].keys() & times[slow].keys()
    return median(times[slow][number] / times[fast][number] for number in both)


def compare(queue, side, rounds):
    """Measure and print one size; return whether every bar is reached."""
    count = side * side
    tile = (rng.rand(1, 65537) >> np.uint32(23)).astype(np.uint8)
    image = np.resize(tile, count)
    pixels = GuardedBuffer(queue, (count,), np.uint8)
    pixels.write(image)
    functions = kernels(queue, pixels, count)
    forms = {form.__name__: partial(form, image) for form in (*WHOLE, *PARTS)}
    expected = parts_of_16_bits(image)
    for name, function in {**functions, **forms}.items():
        if name != "read" and (found := function()) != expected:
            print(f"{name} is wrong: {found} instead of {expected}")
            return False

    times = measure(functions | forms, rounds)
    best = min((n for n in functions if n != "read"), key=partial(typical, times))
    print(f"\n{side}x{side}, {rounds} rounds")
    print(f"{'':<20}{'median GB/s':>12}{'best GB/s':>12}{'median of ratios to the read':>31}")
    for name in times:
        rates = count / typical(times, name) / 1e9, count / min(times[name].values()) / 1e9
        print(f"{name:<20}{rates[0]:>12.3g}{rates[1]:>12.3g}{ratio(times, name, 'read'):>31.3f}")

    def fastest(several):
        return min((form.__name__ for form in several), key=partial(typical, times))

    anything, whole = fastest((*WHOLE, *PARTS)), fastest(WHOLE)
    bars = [
        ("read", "read", BARS["read"]),
        (anything, "numpy", BARS["numpy"]),
        (whole, "numpy without parts", None),
        ("long_vectors", "long_vectors", BARS["long_vectors"]),
    ]
    reached = True
    for name, what, bar in bars:
        value = ratio(times, best, name)
        verdict = ""
        if bar is not None:
            verdict = f"bar {bar:g}: {'reached' if value >= bar else 'MISSED'}"
            reached &= value >= bar
        print(f"{best} to {what} ({name}): {value:.3g} times as fast. {verdict}")
    return reached


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-p", "--platform", help="number, or part of the name")
    parser.add_argument("-d", "--device", help="number, or part of the name")
    parser.add_argument("--size", type=int, nargs="+", default=[4096, 16384], metavar="SIDE",
        help="sides of the square images, multiples of 64 (%(default)s)")  # fmt: skip
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    if any(side < 64 or side % 64 or side > 65472 for side in args.size) or args.rounds < 1:
        parser.error("--size: multiples of 64 up to 65472; --rounds: 1 or more")
    try:
        chosen = device.choose(args.platform, args.device)
        queue = device.open_queue(chosen)
        print("\n".join(device.summary(device.describe(chosen, device.limits(chosen)))[:2]))
        reached = [compare(queue, side, args.rounds) for side in args.size]
    except (SampleError, cl.Error) as error:
        sys.exit(f"sums.py: error: {error}")
    sys.exit(0 if all(reached) else 1)


if __name__ == "__main__":
    main()
