"""The options that every sample shares, its exit status, and one line instead of a traceback."""

import argparse
import contextlib
import json
import signal
import sys
import traceback
from functools import partial
from pathlib import Path

import numpy as np
import pyopencl as cl

from common import device, drivers, errors, isolation, measuring, outputs, program, record
from common.arguments import Parser, a_path, count
from common.buffers import GUARDS, guard_with
from common.files import writing
from common.icd import heed_oclgrind
from common.machine import cores, state
from common.machine.pin import pinned
from common.machine.sysfs import SYSFS
from common.manifest import code_digest
from common.programs import explained
from common.text import complain, is_closed, one_line, open_streams, printable, show_log

_EPILOG = """\
exit status: 0 passed, 1 wrong result, 2 wrong usage, 3 OpenCL or driver failure,
77 not supported by this device, 130 stopped by Ctrl-C, 143 stopped by SIGTERM.
PYOPENCL_CTX=platform[:device] applies if neither -p nor -d is given."""


def parser(sample, description, timed=True):
    """Return an argument parser with the shared options; `sample` names it in records.

    If not `timed`, it has no options of the measurement, and of those for tools only --build-only.
    """
    result = Parser("run.py", description, _EPILOG)
    result.usage = "%(prog)s [options]"  # all of them stand below
    # A test sets another `sysfs`.
    result.set_defaults(sample=sample, keep=None, guards="bands", pin=None, duration=None,
                        sysfs=SYSFS)
    what = "use one process, for a debugger; show the traceback of an error"
    result.add_argument("--debug", action="store_true", help=what)
    add = result.add_argument_group("device").add_argument
    add("-p", "--platform", metavar="P", help="platform: number, or part of its name")
    add("-d", "--device", metavar="D", help="device: number, or part of its name")
    add("-t", "--type", choices=device.TYPES, help="only devices of this type")
    add("--list", action="store_true", help="list platforms and devices, and exit")
    add("--limits", choices=device.PROFILES, metavar="PROFILE",
        help=f"apply the limits of a smaller device: {', '.join(device.PROFILES)}")
    add("--cores", type=cores.parsed, metavar="N-N,N",
        help="run only on these CPU cores")
    group = result.add_argument_group("measurement")
    add = group.add_argument
    usual = "seed of the inputs (default %(default)s)"
    add("--seed", type=count(0, 2**32 - 1), default=1, help=usual)
    add("--json", type=a_path, metavar="FILE", help="append the records to FILE, "
        "which may be /dev/stdout or a FIFO with a reader")
    add("--output", type=a_path, metavar="FILE",
        help="write the kernels' output to FILE, in numpy's format .npz")
    if timed:
        measuring.add_options(group)
        add("-v", "--verbose", action="store_true", help="print the raw times as well")
    add = result.add_argument_group("for tools, and to inspect a kernel").add_argument
    add("--build-only", action="store_true",
        help="build, and show the driver's figures for each kernel; enqueue nothing")
    if timed:
        add("--check-only", action="store_true", help="check the result; do not time")
        add("--describe", action="store_true",
            help="build nothing; write the kernels and their parameters")
        add("--keep", type=a_path, metavar="FOLDER",
            help="store the driver's binary of each .cl file there")
        add("--guards", choices=GUARDS, default="bands", help="around buffers: bands of "
            "NaN, or guard pages, which stop a kernel that touches them")
    return result


def run(main, options, argv=None):
    """Parse `argv`, or the program's, with the parser `options`; call `main(args)`; exit.

    `main` returns an exit status or raises. Whatever stops it becomes one line on stderr and,
    with --json, a record. It works in a child process: `args.progress` is to be told of kernels,
    so that one that crashes the driver costs no other. A sample that runs files of others, such as
    kernels that an option names, sets `args.code_files` to their paths: they are code, too.
    """
    open_streams()
    drivers.ensure_cache()
    args = argparse.Namespace(
        sample=options.get_default("sample"), json=_json_of(sys.argv), started=record.now(),
        debug="--debug" in sys.argv, progress=isolation.Progress(), code_files=(), ended=None,
    )
    try:
        status = _work(main, options.parse_args(argv, namespace=args))
        sys.stdout.flush()
    except (Exception, KeyboardInterrupt) as error:
        status = _stopped(args, error)
    args.progress.ended(status)
    if args.progress.isolated:
        isolation.leave(status)
    sys.exit(status)


def _work(main, args):
    heed_oclgrind()
    if args.list:
        print("\n".join(device.listing()))
        return errors.PASSED
    if args.cores:
        cores.use(args.cores)
    cores.tell_pocl()
    if args.json is not None:
        if is_closed(args.json):
            raise errors.UsageError(f"cannot write records to {args.json}: it is closed")
        with writing(f"cannot write records to {args.json}"):
            record.appending(args.json).close()
    if args.output is not None:
        with writing(f"cannot write the output to {args.output}"):
            outputs.start(args.output)
    program.ask(args.keep, args.build_only)
    guard_with(args.guards)
    if not args.debug:  # from here on this is the child process; the parent exits
        isolation.enter(args.progress, partial(_lost, args),
                        lambda status, why: _fail(args, status, "error", why))
    with contextlib.ExitStack() as args.held:
        return main(args)


def _stopped(args, error):
    """Report and record what stopped the work; return the exit status."""
    status, reason = explained(error)
    word, failed = getattr(error, "record_status", "error"), isinstance(error, cl.Error)
    if failed:
        reason = f"OpenCL failed: {one_line(error)}"
    show_log(error)
    if failed or word == "failed":  # at a launch, or a kernel does not build: others may
        args.progress.give_up(reason)
    if isinstance(error, KeyboardInterrupt) and args.ended:  # which has its record
        told = ": what was measured is recorded" if args.json else ""
        args.json, reason = None, args.ended[1] + told
    return _fail(args, status, word, reason, quiet=isinstance(error, BrokenPipeError))


def _lost(args, variant, size, reason, killer):
    """Report and record a kernel at which the child process was lost; return the exit status."""
    word = "error"
    # A compiler that crashes does not support the kernel; one that refuses it says why.
    if args.build_only and variant:
        word = "unsupported" if killer else "failed"
        if killer == signal.SIGPROF:
            reason = f"the compiler takes longer than {program.LIMIT} s: killed"
    at_work = variant and not reason.endswith("while building")
    if args.guards != "bands" and at_work and killer in (signal.SIGSEGV, signal.SIGBUS):
        # The driver works on this device. So it is the kernel that left its buffers.
        word = "failed"
        reason = f"touched a guard page, or memory beyond it: {reason}"
    return _fail(args, errors.EXIT_STATUS[word], word, reason, variant=variant, size=size)


def _json_of(argv):
    """Return the value of --json: a command line that cannot be parsed is recorded, too."""
    only = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    only.add_argument("--json", nargs="?")  # without its value it is no error here
    path = only.parse_known_args(argv[1:])[0].json
    return Path(path) if path else None


def _fail(args, exit_status, status, reason, quiet=False, variant=None, size=None):
    reason = one_line(reason)
    if not quiet:
        where = printable(" ".join(filter(None, (variant, size))))
        complain(": ".join(filter(None, ("run.py: error", where, reason))))
    if args.debug and sys.exc_info()[1]:
        traceback.print_exc()
    params = {"size": size} if size else {}
    try:
        _append(args, record.Record(args.sample, variant, status, reason, params))
    except errors.UsageError as unwritten:
        if not quiet and one_line(unwritten) != reason:  # else it was just reported
            complain(f"run.py: error: {one_line(unwritten)}")
    return exit_status


def _append(args, item):
    """Append a record to the file of --json: by which command, when, and by which code it is."""
    if args.json is not None:
        item.argv, item.started = sys.argv, args.started
        item.code = code_digest(args.sample, tuple(map(str, args.code_files)))
        with writing(f"cannot write records to {args.json}"):
            record.append(args.json, item)


def parameters(args, *names):
    """Return what a record keeps of --caches and the options `names`: numbers, all else as text."""
    values = {name: getattr(args, name) for name in (*names, "caches")}
    return {n: v if isinstance(v, (int, float)) else str(v) for n, v in values.items()}


def save(args, finished, output=None):
    """Append a Record to the file of --json, and the array `output` to that of --output, if given.

    `output` is what the record's digest is of. Raises what ended --duration early, once that is
    recorded.
    """
    asked = {"pin": args.pin, "duration": args.duration}
    finished.params = {**finished.params, **{n: v for n, v in asked.items() if v}}
    if args.ended and finished.status == "passed":
        finished.status, finished.reason = "error", args.ended[1]
    _append(args, finished)
    args.progress.saved(errors.EXIT_STATUS[finished.status])
    if output is not None:
        save_output(args, finished.variant or finished.sample, output)
    if args.ended:
        raise args.ended[0]


def save_result(args, about, variant, reason, params, found, check, output=None, **timing):
    """Save the Record of a kernel that was checked; return its exit status.

    `reason` says why its result is wrong, or is None. `found` is a Measured, `check` is what the
    record keeps of the check, and `timing` are more times.
    """
    save(args, record.Record(
        args.sample, variant, "failed" if reason else "passed", reason, params, about,
        {**environment(args.sysfs), **found.machine}, {**found.timing, **timing}, found.metrics,
        check,
    ), output)
    return errors.WRONG_RESULT if reason else errors.PASSED


def save_stopped(args, about, variant, status, reason, params):
    """Save the Record of a kernel that gave no result: of its status, and why."""
    save(args, record.Record(args.sample, variant, status, reason, params, about,
                             environment(args.sysfs)))


def choose(args):
    """Return the device of the options, its Limits or those of --limits, and its description.

    Raises OpenCLFailure where the options name one whose driver reports a limit of 0.
    """
    before = cores.threads()
    chosen = device.choose(args.platform, args.device, args.type)
    if device.type_of(chosen) == "cpu":
        cores.bind_threads(before)
    if not args.build_only and (missing := drivers.missing_limit(chosen)):
        raise errors.OpenCLFailure(f"{chosen.platform.name.strip()}: its driver {missing}")
    limits = device.limits(chosen, args.limits)
    return chosen, limits, device.describe(chosen, limits)


def pin(args, about, count):
    """Hold the clocks for --pin until run() ends; `about` is what device.describe() said.

    Raises UsageError where --duration is given and what is timed, a `count` of kernels at one size,
    is not one, or where caches are to be flushed between launches that follow one another.
    """
    if args.caches == "flushed" and (args.duration or args.energy):
        raise errors.UsageError("--caches flushed: omit --duration and --energy, which launch the "
                                "kernel back to back")
    if args.duration and count != 1:
        raise errors.UsageError("--duration runs one kernel at one size: the next would start on a "
                                "hot board. Name one, see --help")
    if args.pin and not (args.build_only or args.check_only):
        hz = None if args.pin == "max" else float(args.pin) * 1e6
        args.held.enter_context(pinned(about["type"], hz, args.sysfs))


def show(args, about):
    """Print what device.describe() said, and whether others use the machine on which we measure.

    Once a run: not where a child goes on after a crash.
    """
    if not args.progress.crashed:
        # An experiment that times nothing has no such option.
        timed = vars(args).get("check_only") is False and not args.build_only
        print(*device.summary(about), *filter(None, [timed and state.busy()]), sep="\n", flush=True)


def built(args, about, params, kernels):
    """Print and record the driver's figures for each kernel of {variant: kernel}; return PASSED."""
    for variant, kernel in kernels.items():
        made = program.report(variant, kernel)
        save(args, record.Record(args.sample, variant, "built", None, params, about,
                                 environment(), **made))
    return errors.PASSED


def describe(args, about, kernels):
    """Write a record that says which kernels the sample has, for --describe; return PASSED.

    `about` is what device.describe() says. `kernels` is a list of {"name", "options", "space"}: the
    options run this kernel, and `space` is the dictionary of a common.constraints.Space, or None
    where it has no parameters. Two more keys may stand there: "flags" has the option of each
    parameter, where that is not --PARAMETER, and "itemsize" the bytes of an element, where not 4.
    A kernel without parameters, which --kernel NAME runs, may be given as its name.
    """
    kernels = [{"name": k, "options": ["--kernel", k], "space": None} if isinstance(k, str) else k
               for k in kernels]
    item = record.Record(args.sample, "describe", "passed", None, {"kernels": kernels}, about,
                         environment())
    save(args, item)
    if args.json is None:
        print(json.dumps(json.loads(item.to_line()), indent=1))
    return errors.PASSED


def save_output(args, name, output):
    """Append the output array of a kernel to the file of --output, if there is one."""
    if args.output is not None:
        with writing(f"cannot write the output to {args.output}"):
            outputs.append(args.output, name, output)


def environment(tree=SYSFS):
    """Return what a record keeps of the machine and the packages that ran. `tree` is /sys."""
    return {**state.environment(tree), "numpy": np.__version__, "pyopencl": cl.VERSION_TEXT}
