"""What the driver made of each kernel: its text or binary in files, and what is in it as tables."""

import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import listings
import pyopencl as cl
import runner
import texts
from outcome import Result, exit_status

from common.errors import UsageError

_POCL = "Portable Computing Language"
_CUDA = "/usr/local/cuda/bin"  # where its tools are when they are not on the PATH
_LLVM_DIS = ("llvm-dis", *(f"llvm-dis-{n}" for n in range(22, 5, -1)))
_FUNCTIONS = ("_pocl_kernel_gemm_workgroup", "_pocl_kernel_gemm")  # of PoCL, the launched one first
_cache = None  # PoCL's, of this process


@dataclass
class Found:
    """What is known of one kernel: numbers, a Counter for each text, files, and what is lacking."""

    numbers: dict
    counts: dict = field(default_factory=dict)
    files: list = field(default_factory=list)
    lacking: list = field(default_factory=list)

    def write(self, path, content):
        """Keep `content` (bytes or text) in a file."""
        data = content if isinstance(content, bytes) else content.encode()
        try:
            path.write_bytes(data)
        except OSError as error:
            raise UsageError(f"cannot write {path}: {error.strerror}") from error
        self.files.append(path)

    def plain(self):
        """Return it as a record keeps it."""
        return self.numbers | {name: dict(counter) for name, counter in self.counts.items()}


def set_environment():
    """Make drivers keep what they compile: to be called before OpenCL is used."""
    global _cache
    _cache = tempfile.TemporaryDirectory(prefix="mygemm-pocl-")
    os.environ["POCL_CACHE_DIR"] = _cache.name
    os.environ["POCL_LEAVE_KERNEL_COMPILER_TEMP_FILES"] = "1"
    os.environ["CUDA_CACHE_DISABLE"] = "1"  # NVIDIA's: a program from its cache has no log


def inspect(args, queue, limits, about, problem, rungs):
    """Look at each rung, given as (rung, parameters given for it); return the exit status."""
    folder = args.listings
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot write to {folder}: {error.strerror}") from error
    results, found = [], {}
    for rung, given in rungs:
        if args.progress.is_done(rung.label, str(problem.size)):
            continue
        result = Result(problem, rung.label, args.progress)
        results.append(result)
        if result.status != "passed":
            continue
        with result.going_on(alone=len(rungs) == 1):
            result.at("building")
            before = _cached()
            nvidia = "cl_nv_compiler_options" in limits.extensions
            options = ("-cl-nv-verbose",) if nvidia else ()
            result.gemm = gemm = runner.prepare(queue, limits, rung, given, problem, options)
            print("\n".join(texts.chosen(gemm)), flush=True)
            _launch(gemm)
            each = found[result.name] = Found(_numbers(gemm))
            if queue.device.platform.name.strip() == _POCL:
                _pocl(gemm, _cached() - before, folder / rung.label, each)
            else:
                _binary(gemm, folder / rung.label, each)
        result.save(
            args, None, about, None, each.plain() if (each := found.get(result.name)) else {}
        )
        args.progress.done(rung.label, str(problem.size))
    _show(found, results, folder)
    return exit_status(results)


def _launch(gemm):
    """Launch it once: PoCL compiles a kernel for its work-group only then."""
    stream = runner.Stream(gemm.queue, gemm.problem)
    for number in range(3):
        stream.matrices.write(number, 1)
    gemm.set_up(stream, 1, 0).enqueue()[-1].wait()


def _numbers(gemm):
    """Return what OpenCL says of a kernel, and NVIDIA's compiler in its log. Memory in bytes."""
    info, device = cl.kernel_work_group_info, gemm.queue.device
    asked = {
        "private": info.PRIVATE_MEM_SIZE,
        "local_bytes": info.LOCAL_MEM_SIZE,
        "limit": info.WORK_GROUP_SIZE,
        "multiple": info.PREFERRED_WORK_GROUP_SIZE_MULTIPLE,
    }
    numbers = {}
    for name, key in asked.items():
        try:
            numbers[name] = gemm.kernel.get_work_group_info(key, device)
        except cl.Error:  # private memory is new in OpenCL 1.1, and some drivers lack it
            numbers[name] = None
    log = gemm.program.get_build_info(device, cl.program_build_info.LOG)
    return numbers | nvidia_log(log)


def nvidia_log(log, kernel="gemm"):
    """Return what the log of -cl-nv-verbose says of a kernel: registers, spilled bytes."""
    part = re.split(rf"(?:Compiling entry function|Function properties for) '?{kernel}\b", log)
    numbers = {"registers": None, "spills": None}
    if len(part) > 1:
        mine = re.split(r"Compiling entry function", "".join(part[1:]))[0]
        if used := re.search(r"Used (\d+) registers", mine):
            numbers["registers"] = int(used[1])
        spilled = re.findall(r"(\d+) bytes spill (?:stores|loads)", mine)
        numbers["spills"] = sum(map(int, spilled)) if spilled else None
    return numbers


def _cached():
    """Return PoCL's compiled kernels, as paths."""
    return set(Path(_cache.name).glob("*/*/gemm/*/gemm.so"))


def _pocl(gemm, compiled, base, found):
    """Keep LLVM IR, before and after work-items became loops, and the machine's code."""
    sides = (*gemm.plan.local_size, 1, 1)[:3]
    name = "-".join(map(str, sides))
    compiled = [path for path in compiled if path.parent.name.startswith(name)]
    if not compiled:
        found.lacking.append("PoCL has left no compiled kernel")
        return
    library = compiled[0]
    front, loops = library.parents[2] / "program.bc", library.parent / "parallel.bc"
    for path, suffix in ((front, ".bc"), (loops, ".work_group.bc"), (library, ".so")):
        if path.exists():
            found.write(base.with_name(base.name + suffix), path.read_bytes())
    for path, suffix, counted in ((front, ".ll", True), (loops, ".work_group.ll", False)):
        text, why = _output(*((name, "-o", "-", path) for name in _LLVM_DIS))
        if text:
            found.write(base.with_name(base.name + suffix), text)
            if counted:
                found.counts["LLVM IR"] = listings.llvm_ir(text)
        elif counted:
            found.lacking.append(f"LLVM IR is left as bitcode: {why}")
    text, why = _output(("objdump", "-d", "--no-show-raw-insn", library))
    if text:
        found.write(base.with_name(base.name + ".s"), text)
        found.counts[listings.ASSEMBLY] = listings.assembly(text, _FUNCTIONS)
    else:
        found.lacking.append(f"The machine's code is left as it is: {why}")


def _binary(gemm, base, found):
    """Keep the program's binary. NVIDIA's is PTX, a text."""
    binary = gemm.program.get_info(cl.program_info.BINARIES)[0]
    if b".entry gemm(" not in binary:
        found.write(base.with_name(base.name + ".bin"), binary)
        found.lacking.append("The driver gives a binary that is no text: nothing is counted")
        return
    text = binary.rstrip(b"\0").decode(errors="replace")
    ptx = base.with_name(base.name + ".ptx")
    found.write(ptx, text)
    found.counts["PTX"] = listings.ptx(text)
    target = re.search(r"\.target (\w+)", text)
    cubin = base.with_name(base.name + ".cubin")
    text, why = _output(("ptxas", "-arch", target[1] if target else "", "-o", cubin, ptx))
    if why is None:
        text, why = _output(("nvdisasm", "-c", cubin), ("cuobjdump", "-sass", cubin))
    if text:
        found.files.append(cubin)
        found.write(base.with_name(base.name + ".sass"), text)
        found.counts["SASS"] = listings.sass(text)
    else:
        found.lacking.append(f"{gemm.rung.label}: no SASS: {why}")


def _output(*commands):
    """Return (text, None) of the first command that works, else (None, why none of them does)."""
    reasons = []
    for name, *arguments in commands:
        program = shutil.which(name) or shutil.which(name, path=_CUDA)
        if program is None:
            continue
        command = [program, *map(str, arguments)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        except (OSError, subprocess.TimeoutExpired) as error:
            reasons.append(f"{name} does not work: {error}")
            continue
        if done.returncode == 0:
            return done.stdout, None
        said = (done.stderr or done.stdout).strip().splitlines()
        reasons.append(said[0] if said else f"{name} fails with status {done.returncode}")
    return None, reasons[0] if reasons else f"{commands[0][0]} is not installed"


def _show(found, results, folder):
    head = ["", "registers", "private", "spills", "local", "work-group limit", "multiple"]
    names = ("registers", "private", "spills", "local_bytes", "limit", "multiple")
    rows = [[n, *(_cell(each.numbers[key]) for key in names)] for n, each in found.items()]
    print("\n" + "\n".join(texts.columns(head, rows)))
    counts = [(n, kind, c) for n, each in found.items() for kind, c in each.counts.items()]
    shown = [c for c in listings.CLASSES + listings.RARE if any(count[c] for *_, count in counts)]
    rows = [
        [n, kind, *(listings.shown(kind, count, c) for c in shown)] for n, kind, count in counts
    ]
    if rows:
        print("\nInstructions, counted once each, whether they are in a loop or not")
        print("\n".join(texts.columns(["", "in", *shown], rows)))
    print()
    lacking = dict.fromkeys(line for each in found.values() for line in each.lacking)
    for line in [*lacking, *texts.remarks(results, {}, None, None)]:
        print(line)
    print(f"{sum(len(each.files) for each in found.values())} files in {folder}")


def _cell(value):
    return "-" if value is None else str(value)
