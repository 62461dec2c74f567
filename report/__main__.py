"""Make one self-contained HTML page of records.

python -m report                                   results/ into results/report.html
python -m report results/odroid friend.zip         a board, and a shared run
python -m report results/odroid --baseline results/odroid/20260102T030405.678Z
python -m report --figures docs/images             also the plots as SVG and PNG
python -m report --export run.zip results/odroid/20260102T030405.678Z --rights rights.toml
"""

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
if ROOT not in sys.path:
    sys.path.insert(0, ROOT)

from common import stopping

if __name__ == "__main__":
    stopping.end_at_once("report: error: stopped")  # before all that takes long to import

import gc
import logging
import tempfile
from collections import Counter
from itertools import islice
from pathlib import Path

from common import programs
from common.arguments import Parser, a_path
from common.errors import PASSED, WRONG_RESULT, UsageError
from common.files import writing
from common.text import printable
from report import archive, compare, disk
from report.reading import collect
from report.replay import shown

ROOT = Path(ROOT)
_EPILOG = """\
exit status: 0 made, 1 with --fail-on-regression if something is worse than the baseline, 2 wrong
usage or nothing to read, 3 any other failure, 130 stopped by Ctrl-C, 143 by SIGTERM."""


def options():
    parser = Parser("report", __doc__, _EPILOG)
    add = parser.add_argument
    add("results", nargs="*", type=a_path, help="folders, .jsonl files, shared runs (.zip); "
        "default: results/")
    add("-o", "--output", type=a_path, metavar="FILE", help="default: results/report.html")
    add("--baseline", type=a_path, metavar="DIR", help="compare with this folder or shared run")
    add("--fail-on-regression", action="store_true", help="exit status 1 if a point is worse")
    add("--all-runs", action="store_true", help="pool all runs, not only each case's newest")
    add("--figures", type=a_path, metavar="DIR", help="also write each plot as SVG and PNG")
    add("--export", type=a_path, metavar="FILE", help="pack one run into FILE, and make no page")
    add("--rights", type=a_path, metavar="FILE", help="with --export: authors and licences")
    add("--debug", action="store_true", help="show where in the code an unforeseen error occurred")
    return parser


def main(argv=None):
    """Return the exit status."""
    return programs.run("report", _carry_out, sys.argv[1:] if argv is None else argv)


def _carry_out(argv):
    args = options().parse_args(argv)
    if args.fail_on_regression and not args.baseline:
        raise UsageError("--fail-on-regression needs --baseline DIR")
    if args.rights and not args.export:
        raise UsageError("--rights needs --export FILE")
    of_a_page = {"--output": args.output, "--baseline": args.baseline, "--figures": args.figures,
                 "--all-runs": args.all_runs}
    if args.export and (given := [name for name, value in of_a_page.items() if value]):
        raise UsageError(f"--export makes no page: omit {', '.join(given)}")
    if not args.export:
        # What it thinks of fonts and folders, from its import on, is none of the user's business.
        logging.getLogger("matplotlib").setLevel(logging.ERROR)
        from report import page, timeline  # noqa: F401
    if __name__ == "__main__":  # all is imported, Matplotlib last
        stopping.stop_in_order("report: error: stopped")
    return export(args) if args.export else make(args)


def say(line, stream=None):
    """Print one line: names of files and boards, and texts of records, stay in it."""
    print(printable(line), file=stream or sys.stdout)


def make(args):
    """Write the page; return the exit status."""
    from report import page, selection, timeline

    paths = args.results or [ROOT / "results"]
    if not args.results and not paths[0].is_dir():
        raise UsageError("there are no results yet: `fab deploy run-all` makes some")
    output = args.output or ROOT / "results" / "report.html"
    with tempfile.TemporaryDirectory() as unpacked:
        read = collect(paths, Path(unpacked, "results"), args.all_runs)
        comparisons, points = None, read.points
        if args.baseline:
            baseline = collect([args.baseline], Path(unpacked, "baseline"), args.all_runs)
            comparisons = compare.compare(points, baseline.points)
            read.notices += baseline.notices
            read.archives |= baseline.archives
        gemm = list(islice(selection.plots(points), page.MOST_PLOTS + 1))
        timelines = timeline.timelines(read.phases) + timeline.long_runs(read.sustained)
        stream = page.stream(read, gemm, timelines, comparisons, printable(str(args.baseline)))
        stream.enable_buffering(100)
        with disk.whole(output) as unfinished, open(unfinished, "wb") as file:
            stream.dump(file, encoding="utf-8", errors="replace")
    if args.figures:
        write_figures(gemm + timelines, args.figures)
    for line in read.notices[: page.MOST]:
        say(f"report: not read: {line}", sys.stderr)
    boards, size = len({point.board for point in points}), output.stat().st_size / 1024**2
    counts = f"{read.records} records, {len(points)} points, boards: {boards}"
    say(f"{shown(output)}: {counts}, {size:.1f} MiB")
    return tell(comparisons, args) if args.baseline else PASSED


def tell(comparisons, args):
    """Say how the results compare; return the exit status."""
    counts = Counter(row["Verdict"] for row in comparisons)
    said = ", ".join(f"{counts[v]} {v}" for v in compare.VERDICTS if counts[v])
    say(f"compared with {args.baseline}: {said}")
    for row in comparisons:
        if row["Verdict"] == "worse":
            say(f"worse: {compare.line(row)}")
    return WRONG_RESULT if args.fail_on_regression and counts["worse"] else PASSED


def write_figures(plots, folder):
    """Write each plot as NAME.svg and NAME.png. Raises UsageError."""
    from report import draw

    taken = Counter()
    with writing(f"cannot write figures to {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        for plot in plots:
            taken[plot.name] += 1
            more = f"-{taken[plot.name]}" if taken[plot.name] > 1 else ""
            draw.save(plot, folder / f"{plot.name}{more}")
    say(f"{2 * len(plots)} figures in {shown(folder)}")


def export(args):
    """Pack one run; return the exit status."""
    if len(args.results) != 1 or not args.results[0].is_dir():
        raise UsageError("--export packs one run: name its folder, results/<board>/<run>")
    folder = args.results[0].resolve()
    whose = archive.rights(args.rights)
    digest = archive.pack(folder, folder.parent.name, args.export, whose)
    say(f"{shown(args.export)}: {args.export.stat().st_size / 1024:.1f} KiB, SHA-256 {digest}")
    say(f"{archive.told(whose)} (--rights FILE sets them)")
    say("Check it before you share it: it names the machine and its drivers, and has all output of "
        "the samples. Your paths stay in options, parameters, logs and the board's env. It omits "
        "only the holder of the board and the folder of the checkout.")
    return PASSED


if __name__ == "__main__":
    gc.disable()  # millions of objects, and no cycles: to look for some takes a quarter of the time
    status = main()
    stopping.end_at_once("report: error: stopped")
    sys.exit(status)
