"""Show the compiler's result for each kernel: registers, memory, instruction counts.

python -m tools inspect mygemm                              every kernel, small matrices
python -m tools inspect mygemm -- --kernel 6 7 --size 512 --precision double
python -m tools inspect sgemm -- -p nvidia
python -m tools inspect sgemm --gpu mali-g52,mali-g610

Each point runs once, with --check-only and --keep. PoCL gives LLVM IR and the machine's code,
NVIDIA's driver PTX and, with the CUDA tools, SASS. Binaries of other drivers are only kept.
With --gpu the kernels are built for Mali GPUs that you do not have, by Mesa's compiler, on emulated
boards.
"""

import argparse
import json
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from common import manifest, table
from common.arguments import a_path
from common.text import printable
from tools import child, command, engine, gpus, listings, points

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
    result = command.parser("inspect", __doc__, gpus.LIMIT)
    result.add_argument("--folder", type=a_path, metavar="FOLDER",
                        help="folder of the files (default SAMPLE-inspect)")
    result.add_argument("--gpu", type=_names, default=(), metavar="GPU,GPU",
                        help="build for these GPUs instead: mali-g52, ...")
    return result


def _names(text):
    if not (names := list(filter(None, text.split(",")))):
        raise argparse.ArgumentTypeError("give the name of a GPU: it is empty")
    return names


def main(argv, starter=None):
    """Run every point, and look at what the driver made; return the exit status.

    `starter` runs the sample elsewhere: see check.main().
    """
    args, words = command.parse(options(), argv)
    found = manifest.read(args.sample)
    folder = args.folder or Path(f"{found.name}-inspect")
    if args.gpu:
        gpus.require(args.gpu)
    fixed, every = command.plan(found, words, whole=bool(args.gpu))
    plan = [(gpu, words) for gpu in args.gpu or [""] for words in every]
    labels = [" ".join(filter(None, (gpu, *words))) or "default" for gpu, words in plan]
    summary, kernels, built = engine.Summary(found), {}, []
    each = zip(plan, labels, command.folders(folder, labels))
    for (gpu, words), label, keep in command.shown(each, len(plan)):
        asked = (*fixed, *words)
        if gpu:
            result, costs = gpus.build(found, gpu, asked, args.limit, keep)
            built.append((" ".join(words), gpu, result, costs))
        else:
            result = _run(found, asked, args.limit, keep, kernels, starter)
        print(f"{label}: {engine.line(found, result)}", flush=True)
        summary.add(points.Point(asked, label=label), result.state)
    print("\n".join(gpus.report(built) if args.gpu else report(kernels)))
    print(f"{summary.lines()[0]}; files in {printable(str(folder))}")
    return summary.status()


def _run(found, asked, limit_s, keep, kernels, starter):
    """Run a point, leave its files in the folder `keep`, and look() at them; return the Result."""
    with tempfile.TemporaryDirectory(prefix="tools-inspect-") as made:
        cache, kept = Path(made, "pocl"), Path(made, "kept")
        point = points.Point((*asked, "--check-only", "--keep", str(kept)))
        run = starter(made) if starter else child.run
        result = engine.run(found, point, limit_s, environment(cache), run)
        if kept.exists():
            look(kept, cache, kernels)
            command.copy(kept, keep)
    return result


def environment(cache):
    """Return the variables that make drivers compile anew and keep it."""
    return {
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
        log = path.with_suffix(".log").read_text(encoding="utf-8", errors="replace")
        for name, numbers in about["kernels"].items():
            one = Kernel({**numbers, **nvidia_log(log, name)})
            if about["platform"] == _POCL:
                _pocl(one, path, cache, name)
            else:
                _binary(one, path, name)
            key = file.stem, name, json.dumps(about["defines"], sort_keys=True)
            if key not in kernels or one.launched:
                kernels[key] = one


def nvidia_log(text, kernel):
    """Return what the log of -cl-nv-verbose says of a kernel: registers, and spilled bytes."""
    part = re.split(rf"(?:Compiling entry function|Function properties for) '?{kernel}\b", text)
    mine = "".join(part[1:]).partition("Compiling entry function")[0]
    used = re.search(r"Used (\d+) registers", mine)
    spilled = re.findall(r"(\d+) bytes spill (?:stores|loads)", mine)
    return {"registers": int(used[1]) if used else None,
            "spills": sum(map(int, spilled)) if spilled else None}


def _keep(one, kind, path, listing, count):
    """Keep a listing, as of _output(), and count its instructions; or note why there is none."""
    text, why = listing
    if text:
        path.write_text(text, encoding="utf-8")
        one.counts[kind] = count(text)
    else:
        one.lacking.append(f"no {kind}: {why}")


def _pocl(one, path, cache, kernel):
    """Keep LLVM IR, as the front end left it, and the machine's code."""
    base = path.with_name(f"{path.stem}-{kernel}")
    binary = path.with_suffix(".bin").read_bytes()
    front = next((bc for bc in cache.glob("*/*/program.bc") if bc.read_bytes() in binary), None)
    code = sorted(front.parent.glob(f"{kernel}/*/{kernel}.so")) if front else []
    code.sort(key=lambda each: each.parent.name == _ANY_SIZE)
    if not code:
        one.lacking.append("PoCL left no compiled kernel")
        return
    one.launched = code[0].parent.name != _ANY_SIZE

    ir = _output(*((name, "-o", "-", front) for name in _LLVM_DIS))
    _keep(one, "LLVM IR", Path(f"{base}.ll"), ir, lambda t: listings.llvm_ir(t, kernel))
    # The binutils know this machine's instructions only; LLVM's know those of a board as well.
    disassembly = _output(*((name, "-d", "--no-show-raw-insn", code[0])
                            for name in ("objdump", *_LLVM_OBJDUMP)))
    names = (f"_pocl_kernel_{kernel}_workgroup", f"_pocl_kernel_{kernel}")
    _keep(one, listings.ASSEMBLY, Path(f"{base}.s"), disassembly,
          lambda t: listings.assembly(t, names))


def _binary(one, path, kernel):
    """Look at a program's binary. NVIDIA's is PTX, a text."""
    binary = path.with_suffix(".bin").read_bytes()
    if f".entry {kernel}(".encode() not in binary:
        one.lacking.append("this driver's binary is not text: no instructions are counted")
        return
    text = binary.rstrip(b"\0").decode(errors="replace")
    one.counts["PTX"] = listings.ptx(text, kernel)
    ptx, cubin = path.with_suffix(".ptx"), path.with_suffix(".cubin")
    ptx.write_text(text, encoding="utf-8")
    target = re.search(r"\.target (\w+)", text)
    sass = _output(("ptxas", "-arch", target[1] if target else "", "-o", cubin, ptx))
    if sass[1] is None:
        sass = _output(("nvdisasm", "-c", cubin), ("cuobjdump", "-sass", cubin))
    _keep(one, "SASS", path.with_suffix(".sass"), sass, lambda t: listings.sass(t, kernel))


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
        title = "Instructions; each is counted once, even in a loop"
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
