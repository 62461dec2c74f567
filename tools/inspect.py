"""Show the compiler's result for each kernel: registers, memory, instruction counts.

python -m tools inspect mygemm                              every kernel, small matrices
python -m tools inspect mygemm --axis --kernel 6 7 -- --size 512 --precision double
python -m tools inspect sgemm -- -p nvidia
python -m tools inspect sgemm --gpu mali-g52,mali-g610 --listing

Each point runs once, with --check-only and --keep. PoCL gives LLVM IR and the machine's code,
NVIDIA's driver PTX and, with the CUDA tools, SASS. Binaries of other drivers are only kept.
With --gpu the kernels are built for Mali GPUs that are not here, by Mesa's compiler, on emulated
boards.
"""

import json
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from common import manifest, table
from common.errors import UsageError
from common.text import printable
from tools import child, command, engine, gpus, listings, points
from tools.progress import Progress

_POCL = "Portable Computing Language"
_CUDA = "/usr/local/cuda/bin"  # where its tools are when they are not on the PATH
_LLVM_DIS, _LLVM_OBJDUMP = ((tool, *(f"{tool}-{n}" for n in range(22, 5, -1)))
                           for tool in ("llvm-dis", "llvm-objdump"))
_NUMBERS = ("registers", "private", "spills", "local", "limit", "multiple")
_ANY_SIZE = "0-0-0"  # PoCL's name of code for every work-group; the others are for one


@dataclass
class Kernel:
    """What is known of one kernel: numbers, a Counter for each text, and what is lacking."""

    numbers: dict
    counts: dict = field(default_factory=dict)
    lacking: list = field(default_factory=list)
    launched: bool = False


def options():
    """Return the parser."""
    result = command.parser("inspect", __doc__)
    command.add_sample(result)
    command.add_axis(result)
    result.add_argument("--folder", type=Path, metavar="FOLDER",
                        help="folder of the files (default SAMPLE-inspect)")
    result.add_argument("--gpu", type=_names, default=(), metavar="GPU,GPU",
                        help="build for these instead: mali-g52, ...")
    result.add_argument("--listing", action="store_true", help="print the disassembly as well")
    command.add_limit(result, gpus.LIMIT)
    return result


def _names(text):
    return list(filter(None, text.split(",")))


def main(argv, starter=None):
    """Run every point, and look at what the driver made; return the exit status.

    `starter` runs the sample elsewhere: see check.main().
    """
    line = command.parse(options(), argv)
    args, found = line.args, manifest.read(line.args.sample)
    if args.listing and not args.gpu:
        raise UsageError("--listing prints the disassembly for the GPUs of --gpu: name one")
    folder = args.folder or Path(f"{found.name}-inspect")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot write to {folder}: {error.strerror}") from error
    if args.gpu:
        return gpus.inspect(line, found, folder)
    axes = command.all_axes(found, line)
    given = {word.partition("=")[0] for word in line.options} | set(axes)
    small = () if set(found.tools.small) & given else found.tools.small
    plan, kernels = [], {}
    for number in range(points.size(axes)):
        words = points.words(points.pair(axes, number))
        label = " ".join(words) or "default"
        keep = folder / (re.sub(r"[^A-Za-z0-9.,]+", "-", label).strip("-")[:100] or "point")
        plan.append((points.Point((*small, *line.options, *words), "0" * 32, label), keep))
    summary = engine.Summary(found)
    with Progress(len(plan)) as progress:
        for point, keep in plan:
            shutil.rmtree(keep, ignore_errors=True)
            with tempfile.TemporaryDirectory(prefix="tools-inspect-") as made:
                cache, kept = Path(made, "pocl"), Path(made, "kept")
                asked = point._replace(
                    options=(*point.options, "--check-only", "--keep", str(kept)))
                run = starter(made) if starter else child.run
                ((_, result),) = engine.run(
                    found, [asked], args.limit, environment(cache), run=run)
                progress.step(f"{point.label}: {engine.line(found, result)}")
                summary.add(point, result.state)
                if kept.exists():
                    shutil.copytree(kept, keep)
                    look(keep, cache, kernels)
    print("\n".join(report(kernels)))
    print(f"{summary.lines()[0]}; files in {folder}")
    return summary.status()


def environment(cache):
    """Return what makes drivers compile anew and keep it, as a function of a point."""
    return lambda _point: {
        "POCL_CACHE_DIR": str(cache), "POCL_LEAVE_KERNEL_COMPILER_TEMP_FILES": "1",
        "CUDA_CACHE_DISABLE": "1",  # NVIDIA's: a program from its cache has no log
    }


def look(folder, cache, kernels):
    """Add the kernels of the programs in a folder of --keep, by (file, kernel, defines).

    `cache` is PoCL's. Of the same kernel in several programs the one that was launched is kept.
    """
    for path in sorted(folder.glob("*.json")):
        about = json.loads(path.read_text(encoding="utf-8"))
        file = Path(about["file"])
        if file.parts[0] == "common":
            continue  # of a probe, or of a measurement of the device
        for name, numbers in about["kernels"].items():
            one = Kernel({**numbers, **nvidia_log(path.with_suffix(".log"), name)})
            base = path.with_name(f"{path.stem}-{name}")
            (_pocl if about["platform"] == _POCL else _binary)(one, path, base, cache, name)
            key = file.stem, name, json.dumps(about["defines"], sort_keys=True)
            if key not in kernels or one.launched:
                kernels[key] = one


def nvidia_log(log, kernel):
    """Return what the log of -cl-nv-verbose, a path or a text, says of a kernel: registers, and
    bytes that were spilled."""
    text = log if isinstance(log, str) else log.read_text(encoding="utf-8", errors="replace")
    part = re.split(rf"(?:Compiling entry function|Function properties for) '?{kernel}\b", text)
    numbers = {"registers": None, "spills": None}
    if len(part) > 1:
        mine = re.split(r"Compiling entry function", "".join(part[1:]))[0]
        if used := re.search(r"Used (\d+) registers", mine):
            numbers["registers"] = int(used[1])
        spilled = re.findall(r"(\d+) bytes spill (?:stores|loads)", mine)
        numbers["spills"] = sum(map(int, spilled)) if spilled else None
    return numbers


def _pocl(one, path, base, cache, kernel):
    """Keep LLVM IR, before and after work-items became loops, and the machine's code."""
    binary = path.with_suffix(".bin").read_bytes()
    front = next((bc for bc in cache.glob("*/*/program.bc") if bc.read_bytes() in binary), None)
    code = sorted(front.parent.glob(f"{kernel}/*/{kernel}.so")) if front else []
    code.sort(key=lambda each: each.parent.name == _ANY_SIZE)
    if not code:
        one.lacking.append("PoCL has left no compiled kernel")
        return
    one.launched = code[0].parent.name != _ANY_SIZE
    for bitcode, suffix in ((front, ".ll"), (code[0].parent / "parallel.bc", ".work_group.ll")):
        text, why = _output(*((name, "-o", "-", bitcode) for name in _LLVM_DIS))
        if text:
            Path(f"{base}{suffix}").write_text(text, encoding="utf-8")
        elif suffix == ".ll":
            one.lacking.append(f"no LLVM IR: {why}")
        if text and suffix == ".ll":
            one.counts["LLVM IR"] = listings.llvm_ir(text, kernel)
    # The binutils know this machine's instructions only; LLVM's know those of a board as well.
    text, why = _output(*((name, "-d", "--no-show-raw-insn", code[0])
                          for name in ("objdump", *_LLVM_OBJDUMP)))
    if text:
        Path(f"{base}.s").write_text(text, encoding="utf-8")
        names = (f"_pocl_kernel_{kernel}_workgroup", f"_pocl_kernel_{kernel}")
        one.counts[listings.ASSEMBLY] = listings.assembly(text, names)
    else:
        one.lacking.append(f"no assembly: {why}")


def _binary(one, path, base, _cache, kernel):
    """Look at a program's binary. NVIDIA's is PTX, a text."""
    binary = path.with_suffix(".bin").read_bytes()
    if f".entry {kernel}(".encode() not in binary:
        one.lacking.append("this driver's binary is no text: nothing is counted")
        return
    text = binary.rstrip(b"\0").decode(errors="replace")
    one.counts["PTX"] = listings.ptx(text, kernel)
    ptx, cubin = path.with_suffix(".ptx"), path.with_suffix(".cubin")
    ptx.write_text(text, encoding="utf-8")
    target = re.search(r"\.target (\w+)", text)
    text, why = _output(("ptxas", "-arch", target[1] if target else "", "-o", cubin, ptx))
    if why is None:
        text, why = _output(("nvdisasm", "-c", cubin), ("cuobjdump", "-sass", cubin))
    if text:
        path.with_suffix(".sass").write_text(text, encoding="utf-8")
        one.counts["SASS"] = listings.sass(text, kernel)
    else:
        one.lacking.append(f"no SASS: {why}")


def _output(*commands):
    """Return (text, None) of the first command that works, else (None, why none of them does)."""
    reasons = []
    for name, *arguments in commands:
        program = shutil.which(name) or shutil.which(name, path=_CUDA)
        if program is None:
            continue
        try:
            done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True,
                                  check=False, timeout=300, errors="replace")
        except (OSError, subprocess.TimeoutExpired) as error:
            reasons.append(f"{name} does not work: {error}")
            continue
        if done.returncode == 0:
            return done.stdout, None
        said = (done.stderr or done.stdout).strip().splitlines()
        reasons.append(printable(said[0]) if said else f"{name} fails: {done.returncode}")
    return None, reasons[0] if reasons else f"{commands[0][0]} is not installed"


def report(kernels):
    """Return the lines of both tables, and of what is lacking."""
    if not kernels:
        return ["No kernel was built."]
    labels = _labels(kernels)
    rows = [[labels[key], *map(_cell, map(one.numbers.get, _NUMBERS))]
            for key, one in kernels.items()]
    head = ["", "registers", "private", "spills", "local", "work-group limit", "multiple"]
    lines = ["", *table.lines(head, rows)]
    counts = [
        (labels[key], kind, c) for key, one in kernels.items() for kind, c in one.counts.items()
    ]
    total = sum((c for *_, c in counts), Counter())
    classes = [name for name in listings.CLASSES + listings.RARE if total[name]]
    rows = [
        [n, kind, *(listings.shown(kind, c, name) for name in classes)] for n, kind, c in counts
    ]
    if rows:
        title = "Instructions, counted once each, whether they are in a loop or not"
        lines += ["", title, *table.lines(["", "in", *classes], rows)]
    lacking = dict.fromkeys(line for one in kernels.values() for line in one.lacking)
    return [*lines, "", *lacking]


def _cell(value):
    return "-" if value is None else value


def _labels(kernels):
    """Return a name for each kernel: its file and its own, and the defines where others have those
    as well."""
    alike = Counter((file, name) for file, name, _ in kernels)
    labels = {}
    for file, name, defines in kernels:
        label = file if file.endswith(name) else f"{file} {name}"
        if alike[file, name] > 1:
            label += "".join(f" {k}={v}" for k, v in json.loads(defines).items())
        labels[file, name, defines] = printable(label)
    return labels
