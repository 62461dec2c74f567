"""Build a .cl file. A failed build shows the compiler's log with the source lines it names.

With --keep, what the driver makes of each file is kept in a folder, for tools/inspect. With
--build-only nothing is enqueued, and a compiler that takes too long is ended.
"""

import itertools
import json
import os
import re
import signal
import sys
import tempfile
import time
import warnings
from contextlib import contextmanager
from pathlib import Path

import pyopencl as cl

from common import drivers, files, mesa, ptx
from common.errors import UNSUPPORTED, WRONG_RESULT, OpenCLFailure, UsageError
from common.text import size_text

_ROOT = Path(__file__).resolve().parents[1]
_LARGEST = 16 * 1024**2  # bytes of a kernel's source
_LONGEST_LOG, _MOST_LINES = 64 * 1024, 200  # what is shown of a log: characters, and lines
_SEARCHED = 1024**2  # characters of it in which an error is looked for
# clang's `file:3:12: error: text`, as most drivers print it, or PoCL's `error: file:3:12: text`.
_PLACE = re.compile(r"(?:^|:)(\d{1,9}):\d+:\s+(?:fatal )?(?:error:\s*)?(.*)")
_INFO = cl.kernel_work_group_info
# What OpenCL says of a kernel: the question, and the answer in words.
_ASKED = {
    "private": (_INFO.PRIVATE_MEM_SIZE, "{} of private memory"),
    "local": (_INFO.LOCAL_MEM_SIZE, "{} of local memory"),
    "limit": (_INFO.WORK_GROUP_SIZE, "work-groups up to {}"),
    "multiple": (_INFO.PREFERRED_WORK_GROUP_SIZE_MULTIPLE, "multiple {}"),
}
# What enables a type that OpenCL C has as an extension, before a source with it as REAL.
_ENABLE = "#ifdef {0}\n#pragma OPENCL EXTENSION {0} : enable\n#endif\n#line 1\n"
_EXTENSIONS = {"double": "cl_khr_fp64", "half": "cl_khr_fp16"}
LIMIT = 60  # seconds of the processors for a build with --build-only: some compilers never end
_asked = {"keep": None, "build_only": False}
# By the program: the seconds that its build took, what Mesa said of its kernels, and the program
# itself, for Intel's CPU driver forgets one that only its kernels hold.
_made = {}


def ask(keep, build_only):
    """Take over the options --keep and --build-only, for every later build().

    With a folder to keep in, of each program: its binary (.bin), the compiler's log (.log), the
    build options and what OpenCL says of each kernel (.json; memory in bytes; its file from the
    project's folder on, and whether it reads images), and of each kernel
    Mesa's disassembly (.isa). Raises UsageError where there is no such folder and none can be made.
    """
    if keep is not None:
        with files.writing(f"--keep {keep}"):
            Path(keep).mkdir(parents=True, exist_ok=True)
    _asked.update(keep=keep, build_only=build_only)
    if build_only:
        mesa.listen()


def builds_only():
    """Tell whether --build-only is given: nothing may be enqueued."""
    return _asked["build_only"]


def build(context, path, defines=None, options=(), before=()):
    """Return the program of the file `path`, built with -D for each of `defines`.

    The text of the files `before` stands before its own. Where REAL is defined as double or half,
    what enables this type stands before all. Where there are instructions that NVIDIA's
    compiler refuses, the program is patched: see common/ptx.py. Raises OpenCLFailure, whose `log`
    is the compiler's log with the lines of source it names.
    """
    try:
        texts = {each: files.read_text(each, _LARGEST) for each in (*before, path)}
    except UsageError as error:
        raise OpenCLFailure(f"the kernel {path.name}: {error}") from error
    # Behind others a file has its own line numbers, and its name, in the compiler's messages.
    named = (f'#line 1 "{each.name}"\n{text}' for each, text in texts.items())
    source = "".join(named if before else texts.values())
    if extension := _EXTENSIONS.get((defines or {}).get("REAL")):
        source = _ENABLE.format(extension) + source
    # pyopencl's own cl.Program adds -I, which some Mali compilers refuse, and keeps binaries, which
    # some drivers crash on when they load them again. What it wraps does neither.
    program = cl._cl._Program(context, source)
    folder = _asked["keep"]
    if folder and "cl_nv_compiler_options" in context.devices[0].extensions:
        options = [*options, "-cl-nv-verbose"]  # NVIDIA's log then has registers and spills
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cl.CompilerWarning)  # remarks, e.g. of an unused argument
        try:
            started = time.perf_counter()
            # SIGPROF ends this process, and isolation goes on in another: a handler in Python would
            # wait for the compiler.
            signal.setitimer(signal.ITIMER_PROF, LIMIT if builds_only() else 0)
            with quiet_driver() as said, drivers.restoring_process():
                all_flags = " ".join([*flags(defines or {}), *options])
                program.build(all_flags.encode(), context.devices)
                if ptx.MARK in source:
                    program = ptx.patched(program, all_flags.encode())
        except cl.RuntimeError as error:
            if error.code != cl.status_code.BUILD_PROGRAM_FAILURE:
                raise
            log = str(error)
            why = f" does not build: {first_error(log[:_SEARCHED])}"
            raise _failure(path, why, with_source(log, texts)) from error
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    made = mesa.kernels(said[0])
    if wrong := mesa.error(said[0]):
        raise _failure(path, f": {wrong}", None, (UNSUPPORTED, "unsupported"))
    if builds_only():
        _made[program.int_ptr] = time.perf_counter() - started, made, program
    program = cl.Program(program)
    if folder:
        _keep(program, made, folder, path, defines or {}, options)
    return program


def _failure(path, why, log, result=(WRONG_RESULT, "failed")):
    """Return the OpenCLFailure of a build: with --build-only it is the `result`.

    A compiler that refuses a kernel fails; one that breaks at it, as by a crash, is unsupported.
    """
    failure = OpenCLFailure(f"{path.name}{why}")
    failure.log = log
    if builds_only():
        failure.exit_status, failure.record_status = result
    return failure


def _keep(program, made, folder, path, defines, options):
    """Write the driver's binary and log of a program into the folder, under an unused name."""
    (device,) = program.context.devices
    about = {
        "file": os.path.relpath(path, _ROOT), "defines": defines, "options": list(options),
        "platform": device.platform.name.strip(), "device": device.name.strip(),
        "images": "read_image" in program.get_info(cl.program_info.SOURCE),
        "kernels": {k.function_name: _numbers(k, device) for k in program.all_kernels()},
    }
    log = program.get_build_info(device, cl.program_build_info.LOG)
    binary = program.get_info(cl.program_info.BINARIES)[0]
    with files.writing(f"cannot write to {folder}"):
        for number in itertools.count():
            base = Path(folder, f"{number}-{path.stem}")
            if not base.with_suffix(".json").exists():
                break
        base.with_suffix(".bin").write_bytes(binary)
        base.with_suffix(".log").write_text(log, encoding="utf-8", errors="replace")
        for name, (figures, disassembly) in made.items():
            figures["listing"] = f"{base.name}-{name}.isa"
            base.with_name(figures["listing"]).write_text(disassembly, encoding="utf-8")
        # Last, and whole: where it stands, a tool finds all of the others.
        files.replace(base.with_suffix(".json"), json.dumps(about))


def _numbers(kernel, device):
    """Return OpenCL's figures for a kernel; None where the driver has none."""
    numbers = {}
    for name, (info, _) in _ASKED.items():
        try:
            numbers[name] = kernel.get_work_group_info(info, device)
        except cl.Error:  # private memory is new in OpenCL 1.1, and some drivers lack it
            numbers[name] = None
    return numbers


def group_limit(kernel):
    """Return how many work-items a work-group of a kernel may have at most.

    Raises OpenCLFailure where the driver says 0.
    """
    (device,) = kernel.context.devices
    most = kernel.get_work_group_info(_INFO.WORK_GROUP_SIZE, device)
    if most < 1:
        name = kernel.function_name
        raise OpenCLFailure(f"the driver reports a work-group size of 0 for the kernel {name}")
    return most


def report(name, kernel):
    """Print the driver's figures for a kernel, for --build-only; return them for a record."""
    (device,) = kernel.context.devices
    numbers, (seconds, made, _) = _numbers(kernel, device), _made[kernel.program.int_ptr]
    figures, _ = made.get(kernel.function_name, ({}, None))
    texts = [words.format(size_text(number) if "memory" in words else number)
             for (_, words), number in zip(_ASKED.values(), numbers.values()) if number is not None]
    print(f"{name}: built in {seconds:.3g} s: {', '.join(texts + mesa.texts(figures))}", flush=True)
    metrics = {"kernel": numbers, **({"compiler": figures} if figures else {})}
    return {"timing": {"build_s": seconds}, "metrics": metrics}


def flags(defines):
    """Return the build options that define each of `defines`."""
    return [f"-D{name}={value}" for name, value in defines.items()]


def first_error(log):
    """Return the first error in a compiler's log, with its place, in one line."""
    for line in log.splitlines():
        if place := _error_place(line):
            return f"line {place[1]}: {place[2]}"
    for line in log.splitlines():
        if line.lower().startswith("error: "):  # of the compiler itself
            return f"{line[7:]} (see docs/boards.md, Drivers)"
    return "the compiler's log, above, names no line"


def _error_place(line):
    return _PLACE.search(line) if "error" in line.lower() else None


@contextmanager
def quiet_driver():
    """Keep away what a driver itself writes to stderr: the log that it returns says it again.

    With --build-only, yield a list that holds it afterwards, with what it writes to stdout: Mesa
    says nothing in the log.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    kept, said = {number: os.dup(number) for number in ((1, 2) if builds_only() else (2,))}, []
    with tempfile.TemporaryFile() if builds_only() else open(os.devnull, "r+b") as file:
        try:
            for number in kept:
                os.dup2(file.fileno(), number)
            yield said
        finally:
            for number, copy in kept.items():
                os.dup2(copy, number)
                os.close(copy)
            file.seek(0)
            said.append(file.read().decode(errors="replace"))


def with_source(log, texts):
    """Return a log with the lines that it names, of the {path: text} of a program's files.

    Of a log that is too long only the beginning, which has the first error.
    """
    shown, length = [], len(log)
    log = log[:_LONGEST_LOG]
    lines = log.splitlines()
    cut = length > len(log) or len(lines) > _MOST_LINES
    for line in lines[:_MOST_LINES]:
        shown.append(line)
        place = _error_place(line)
        named = [text for path, text in texts.items() if f"{path.name}:" in line]
        source = (named or list(texts.values()))[-1].splitlines() if place else ()
        if place and 0 < int(place[1]) <= len(source):
            named = source[int(place[1]) - 1]
            if named.strip() not in log:  # some compilers show it themselves
                shown.append(f"{int(place[1]):5} | {named}")
    if cut:
        shown.append(f"... and so on: the compiler's log has {length:,} characters")
    return "\n".join(shown)
