"""A single point: one kernel, one size, one local size; checked, timed, printed, recorded."""

import time
from argparse import Namespace
from dataclasses import asdict, dataclass, replace
from statistics import median

import key
import launch
import matrices
import metadata
import options
import outside
import pyopencl as cl
import texts
from places import Places

from common import cli, device, gemm, timing
from common.digest import digest
from common.errors import PASSED, UNSUPPORTED, WRONG_RESULT, SampleError, outcome, worst
from common.machine import power, state, sysfs
from common.machine.pin import pinned
from common.record import Record

_LOOK_EVERY = 0.1  # seconds from one look at the clocks to the next, between timed runs
_QUIET = 0.01  # seconds without work that show that this process is at rest
_PATIENCE = 0.5  # seconds to wait for that
_ENERGY_LIMIT = 15.0  # seconds that a power sensor has for its readings


@dataclass
class Bench:
    """What all points of one run share."""

    args: Namespace
    chosen: object
    limits: device.Limits
    about: dict
    queue: object


def main(args):
    """Run the point of every kernel that `args` names; return the exit status."""
    kernels = metadata.find(args.kernels, args.file.split(","))
    chosen = device.choose(args.platform, args.device, args.type)
    limits = device.limits(chosen, args.limits)
    about = device.describe(chosen, limits)
    print("\n".join(device.summary(about)), flush=True)
    bench = Bench(args, chosen, limits, about, device.open_queue(chosen))
    if args.pin is None:
        return run_all(bench, kernels)
    with pinned(about["type"], options.hertz(args.pin), args.sysfs):
        return run_all(bench, kernels)


def run_all(bench, kernels):
    """Run a point for each kernel; one that fails is recorded, and no reason to end.

    What this device cannot do counts only where no kernel passed.
    """
    statuses, by_name = [], {meta.name: meta for meta in kernels}
    for name in bench.args.progress.each(by_name):
        meta = by_name[name]
        try:
            statuses.append(run(bench, meta))
        except (SampleError, cl.Error) as error:
            if isinstance(error, cl.Error):
                bench.args.progress.require_alive(bench.queue, error)
            if len(kernels) == 1:
                raise
            if log := getattr(error, "log", None):  # of the compiler
                print(log)
            exit_status, status, reason = outcome(error)
            print(f"\n{meta.name}: {status}: {reason}", flush=True)
            save(bench, meta, status, reason)
            statuses.append(exit_status)
    final = worst(statuses)
    return PASSED if final == UNSUPPORTED and PASSED in statuses else final


def run(bench, meta):
    """Run one point; return the exit status."""
    args, queue, size = bench.args, bench.queue, bench.args.size
    launch.require_support(meta, bench.limits)
    launch.require_shape(meta, size)
    gemm.require_fit(size, meta.dtype, bench.limits)

    # Build the kernel and choose its NDRange.
    args.progress.at(meta.name, "building")
    kernel, build_s = timed(launch.build_kernel, queue.context, meta)
    launch.require_local_memory(meta, kernel, bench.chosen, bench.limits)
    total, local = launch.ndrange(meta, size, args.lws, kernel, bench.chosen, bench.limits)
    print("\n".join(texts.heading(meta, size, total, local)))

    # Draw the inputs, put them between guard bands, set the arguments.
    drawn = matrices.draw(size, meta.dtype, meta.scalar, args.seed, args.data == "integer")
    print(texts.inputs(drawn, args), flush=True)
    places = Places(queue, meta, matrices.as_stored(drawn, meta, size))
    upload_s = places.fill()
    scalars = (drawn.alpha, drawn.beta)
    launch.set_arguments(kernel, meta, size, scalars, places.devices(), places.strides())

    def enqueue():
        return cl.enqueue_nd_range_kernel(queue, kernel, total, local)

    # Run once, first in another process, which a crash may end; look whether it kept to its
    # matrices, and compare with the reference.
    args.progress.at(meta.name, "running")
    fence = "--no-fence"
    if not args.no_fence:
        fence = outside.fence(bench.chosen, meta, size, args.lws, args.seed)
    enqueue().wait()
    result, download_s = timed(places.result)
    touched = look_outside(meta, enqueue, places, result, fence)
    expected, bound = matrices.result_and_bound(drawn, meta, size, args.data, args.eps)
    check = gemm.check(result, expected, bound)
    if check.reason and (left := unwritten(result, drawn.C)):
        check = replace(check, reason=f"{check.reason}; {left}: are di and dj of {meta.path.name} "
                        "the rows and columns that a work-item makes?")  # fmt: skip
    reason = "; ".join([*([check.reason] if check.reason else []), *touched]) or None
    kept = {
        "of_a_run": {"global": total, "local": local, "alpha": texts.number(drawn.alpha),
                     "beta": texts.number(drawn.beta), "trap_pages": fence},
        "check": {"max_abs_error": check.max_abs_error, "error_over_bound": check.error_over_bound,
                  "inputs_sha256": digest(drawn.A, drawn.B, drawn.C),
                  "output_sha256": digest(result)},
        "output": result,
    }  # fmt: skip
    verdict = texts.verdict(check, touched, fence, texts.tolerance(meta, args))
    if reason:
        print("\n".join(verdict), flush=True)
        save(bench, meta, "failed", reason, **kept)
        return WRONG_RESULT

    # Warm up and time what is right, with an eye on the clocks.
    settle()
    times, states = measure(enqueue, args)
    energy = measure_energy(enqueue, args)
    flop = matrices.flop(size, meta.dtype)
    statistics = texts.statistics(times, flop)
    print("\n".join([
        *texts.clocks(states, args.pin), *texts.times(times, build_s, args.verbose),
        texts.rates(statistics, times),
        texts.transfers(flop, median(times.seconds()), upload_s, download_s),
        *texts.energy(energy, args.energy), *verdict,
    ]), flush=True)  # fmt: skip
    save(
        bench, meta, "passed", None, **kept, states=states,
        timing={**asdict(times), "build_s": build_s, "upload_s": upload_s,
                "download_s": download_s},
        metrics={"gflops": statistics["median"], "statistics": statistics, "energy": energy,
                 "flop_convention": matrices.flop_convention(meta.dtype)},
    )  # fmt: skip
    return PASSED


def unwritten(result, C):
    """Return a text on rows or columns of C that are as they were before the kernel, or None."""
    same = result == C
    for name, lines in (("rows", same.all(axis=1)), ("columns", same.all(axis=0))):
        if lines.any() and not lines.all():
            return f"{lines.sum()} of {lines.size} {name} of C were never written"
    return None


def timed(function, *args):
    """Call the function; return its result and the seconds it took."""
    start = time.perf_counter()
    result = function(*args)
    return result, time.perf_counter() - start


def look_outside(meta, enqueue, places, result, fence):
    """Return what the kernel touched beside its matrices, as texts; `fence` is of outside.fence().

    `result` is C of a run with NaN around everything. Leaves the matrices as they were before it.
    """
    touched = [] if places.intact() else ["the kernel wrote where C is not"]

    def run_amid(around):
        places.fill(around)
        enqueue().wait()
        return places.result()

    by_value = outside.read_by_value(run_amid, result, meta.dtype)
    touched += [by_value] if by_value else []
    if fence == "touched":
        touched.append(f"the kernel ran into a trap page within {outside.REACH} KiB of A, B or C")
    places.fill()
    return touched


def settle():
    """Wait until this process is at rest.

    The reference is a product by numpy, whose OpenBLAS keeps its threads spinning for 0.11 s after
    one: they would take the cores from a kernel on the CPU.
    """
    deadline = time.perf_counter() + _PATIENCE
    while time.perf_counter() < deadline:
        worked = time.process_time()
        time.sleep(_QUIET)
        if time.process_time() - worked < _QUIET / 2:
            return


def measure(enqueue, args):
    """Warm up, then launch `args.repeat` times; return the Timing and the machine's states."""
    for _ in range(args.warmup):
        enqueue().wait()
    launches, states, looked = [], [state.now(args.sysfs)], 0
    for _ in range(args.repeat):
        launches.append(timing.launch(enqueue))
        if time.perf_counter() - looked > _LOOK_EVERY:
            states.append(state.now(args.sysfs))
            looked = time.perf_counter()
    return timing.collect(launches, args.warmup), [*states, state.now(args.sysfs)]


def measure_energy(enqueue, args):
    """Return the energy of a launch by each sensor, as power.measure(); {} without --energy."""
    if not args.energy:
        return {}
    sensors = sysfs.sensors(args.sysfs)
    with power.switched_on(sensors):
        return power.measure(sensors, lambda: enqueue().wait(), _ENERGY_LIMIT)


def save(bench, meta, status, reason, of_a_run=None, states=None, output=None, **groups):
    """Append the record of a point to the file of --json."""
    args = bench.args
    if args.json is None and args.output is None:
        return
    params = {
        "point": key.of(args, meta, bench.about), "metadata": str(meta.path),
        "kernel": meta.name, "kernel_sha256": meta.digest(), "precision": str(meta.dtype),
        "sums": str(meta.sums), "layout": f"{meta.transA}{meta.transB}, row-major",
        "shape": meta.shape, "tile": f"{meta.di}x{meta.dj}", "options": meta.opts,
        "size": str(args.size), "seed": args.seed, "data": args.data,
        "tolerance": texts.tolerance(meta, args), "transfers": "not counted", "pin": args.pin,
        **(of_a_run or {}),
    }  # fmt: skip
    environment = cli.environment(args.sysfs)
    if states:
        before, *during, after = states
        environment |= {"before": before, "during": during, "after": after,
                        "throttled": state.moved(states)}  # fmt: skip
    cli.save(args, Record(
        "gemmbench", meta.name, status, reason, params=params, device=bench.about,
        environment=environment, **groups,
    ), output)  # fmt: skip
