"""The tasks of fab. Without --host they work on the built-in board `local`, a folder here."""

import threading
from functools import partial

import fabric
from invoke import Collection, Exit

from common.errors import UsageError
from deploy import boards, doctor, progress, reports, runs, samples, ship, table, update
from deploy import parity as compare
from deploy import provision as provisioning
from deploy.experiments import command, file
from deploy.fleet import FLEET
from tools import check as checking
from tools import inspect as inspecting

# No short options: -h and -H are fab's own.
task = partial(fabric.task, auto_shortflags=False)
HOST = {"host": "a Host of your ssh configuration; default: that of the previous task, else local"}
VERBOSE = {"verbose": "print every line of output, and a table with a row for each kernel"}


@task(help=HOST)
def deploy(c, host=None):
    """Copy changed files of common/ and samples/ to the board."""
    FLEET.each(host, ship.deploy)


@task(help={**HOST, **VERBOSE, "skip": "names of cases to omit, with commas between them"})
def run_all(c, host=None, verbose=False, skip=""):
    """Run every case of every sample, and fetch the records."""
    loaded, asked = samples.load(), tuple(filter(None, map(str.strip, skip.split(","))))
    samples.every(loaded, asked, "--skip")  # names that there are

    def cases_of(board):
        skipped = (*board.settings.skip, *asked)
        cases = samples.every(loaded, skipped, f"board {board.name} in boards.toml: skip")
        if skipped:
            board.say(f"skipped, as boards.toml or --skip says: {', '.join(skipped)}")
        return cases

    _run(host, cases_of, verbose)


@task(help={**HOST, **VERBOSE, "sample": "a name from `fab list`", "case": "only this case"})
def run(c, sample, case=None, host=None, verbose=False):
    """Run the cases of one sample, or the options after --, and fetch the records."""
    cases = samples.pick(samples.load(), sample, case)
    if FLEET.words and case:
        raise UsageError("--case: a case has options of its own; omit it, or those after --")
    if FLEET.words:
        cases = [samples.asked(sample, FLEET.words)]
        samples.require_values(sample, FLEET.words)
    _run(host, lambda board: cases, verbose)


def _run(host, cases_of, verbose):
    def work(board):
        return runs.run(board, cases_of(board), runs.name_run(), verbose=verbose)

    _show(host, work, verbose)


@task(help={
    **HOST, "experiment": "a sample, SAMPLE/NAME in samples/, or a .toml file; see "
    "docs/experiments.md", "kernel": "the kernel whose parameters are tried",
    "budget": "number of points; overrides the file's",
    "seed": "seed of a random or learning search; overrides the file's",
    "limit": "seconds for a point; overrides the file's",
    "rounds": "rounds of the best points at the end; overrides the file's",
    "scheduler": "tls://... of a Dask scheduler, whose workers run the points",
    "wait": "seconds to wait if no board can be reached",
})
def sweep(c, experiment, host=None, kernel=None, budget=None, seed=None, limit=None, rounds=None,
          scheduler=None, wait="300"):
    """Run the points of an experiment on the boards; options after -- are for each point."""
    there = [] if scheduler else FLEET.select(host)
    numbers = {"budget": budget, "seed": seed, "limit": limit, "rounds": rounds}
    numbers = {name: text and _count(f"--{name}", text) for name, text in numbers.items()}
    wait = _count("--wait", wait)
    asked = file.read(experiment, FLEET.words, kernel, **numbers)
    _end(command.sweep(there, asked, scheduler, wait))


def _count(option, text):
    if not (text.isascii() and text.isdigit() and len(text) < 8):
        raise UsageError(f"{option} {text}: give a whole number of at most 7 digits")
    return int(text)


@task(help={**HOST, "scheduler": "tls://... of the Dask scheduler"})
def worker(c, scheduler, host=None):
    """Offer the boards to a Dask scheduler as workers, until stopped."""
    command.work(FLEET.select(host), scheduler, threading.Event())


@task(help={**HOST, "record": "FILE:LINE", "limit": "seconds for the run",
            "trust": "use all options; for your own records"})
def replay(c, record, host=None, limit=None, trust=False):
    """Repeat the run of a record on the board, and compare; options after -- are added."""
    argv = [record, *_limits(limit), *(["--trust"] if trust else []), "--", *FLEET.words]
    _end(command.replay(FLEET.select(host), argv))


@task(help={**HOST, "sample": "a name from `fab list`", "limit": "seconds for a point",
            "folder": "folder of the files; default SAMPLE-inspect"})
def inspect(c, sample, host=None, limit=None, folder=None):
    """Show the board's compiled kernels: registers, spills; options after -- are the sample's."""
    if folder is None:
        folder = f"{sample}-inspect"
    _tool(host, inspecting, sample, limit,  # an empty one is refused
          lambda board: ["--folder", folder and f"{folder}/{board.name}"])


@task(iterable=["define"], help={
    **HOST, "sample": "a name from `fab list`", "limit": "seconds for a point",
    "define": "NAME=VALUE, a macro for the kernels",
})
def check(c, sample, define, host=None, limit=None):
    """Detect data races and out-of-bounds accesses on the board; after --: the sample's options."""
    own = [f"--define={each}" for each in define]
    _tool(host, checking, sample, limit, lambda board: own)


def _tool(host, module, sample, limit, own):
    samples.pick(samples.load(), sample)  # that there is
    _end(command.tool(FLEET.select(host), module, sample, FLEET.words,
                      lambda board: [*_limits(limit), *own(board)]))


def _limits(limit):
    return ["--limit", limit] if limit else []


def _end(status):
    if status:
        raise Exit(code=status)


@task(help={**HOST, **VERBOSE})
def collect(c, host=None, verbose=False):
    """Fetch the records of runs whose connection was lost."""
    _show(host, partial(runs.collect, verbose=verbose), verbose)


def _show(host, work, verbose):
    """Do `work(board)` on every board while the user watches, and sum its Rows up."""
    came = FLEET.each(host, work, None if verbose else progress.display)
    rows = [row for rows in came.values() for row in rows]
    if rows and verbose:
        table.show(rows)
    if rows:
        table.brief(rows, FLEET.failures, FLEET.words)
    FLEET.case_failed |= any(row.record.status in ("failed", "error") for row in rows)


def _judge(host, work):
    """Do `work(board)`, which tells whether all is well with a board, on every board."""
    FLEET.case_failed |= not all(FLEET.each(host, work).values())


@task(name="list", default=True)
def list_samples(c):
    """List the samples with their cases, and the boards of boards.toml."""
    loaded, known = samples.load(), boards.load()
    for sample in loaded.values():
        needs = f" (needs {', '.join(sample.needs)})" if sample.needs else ""
        print(f"{sample.name}: {sample.description}{needs}")
        for case in sample.cases:
            print(f"    {case.name:<12} {' '.join(case.args)}".rstrip())
    print(f"boards: {', '.join(known)}")
    print("tasks: fab --list")


@task(help={
    **HOST, "host": "only this board's results", "baseline": "compare with this folder or archive",
    "fail_on_regression": "exit status 1 if a point is worse",
    "all_runs": "pool all runs, not only each case's newest", "output": "the file to write",
    "figures": "a folder for the plots as SVG and PNG",
})
def report(
    c, host=None, baseline=None, fail_on_regression=False, all_runs=False, output=None, figures=None
):
    """Make one HTML page of the results; see docs/report.md."""
    options = {"--baseline": baseline, "--output": output, "--figures": figures}
    words = [f"{name}={value}" for name, value in options.items() if value is not None]
    words += ["--fail-on-regression"] if fail_on_regression else []
    words += ["--all-runs"] if all_runs else []
    reports.make([*words, *(runs.RESULTS / name for name in FLEET.asked(host))])


@task(help={**HOST, "run": "name of its folder in results/; default: the newest",
            "rights": "a TOML file: authors and licences of data and kernels; see docs/report.md"})
def export(c, host=None, run=None, rights=None):
    """Pack a run into one archive that others can view, compare and repeat."""
    for name in FLEET.asked(host) or FLEET.last:
        reports.export(name, run, rights)


@task(help={**HOST, "discard": "also delete results that were never collected",
            "system": "also remove the helper that `fab provision --system` installed"})
def clean(c, host=None, discard=False, system=False):
    """Delete the deployed files on the board."""
    FLEET.each(host, lambda board: ship.clean(board, discard, system))


@task(name="doctor", help=HOST)
def see_doctor(c, host=None):
    """Check what the board has and lacks, and print how to fix it. Changes nothing."""
    _judge(host, doctor.examine)


@task(help={
    **HOST, "dry_run": "only print the plan",
    "system": "let the board's apt install packages, and install the helper for --pin and "
    "--energy; else nothing outside the folder changes",
    "mirror": "address of an archive of the board's distribution; default: this machine's own",
})
def provision(c, host=None, dry_run=False, system=False, mirror=None):
    """Install what the samples need: Python packages, an ICD file for the board's driver."""
    _judge(host, partial(provisioning.provision, system=system, dry_run=dry_run, mirror=mirror))


@task(help=HOST)
def parity(c, host=None):
    """Run the cases here and on the board, and compare inputs and outputs, bit by bit."""
    FLEET.case_failed |= not compare.parity(FLEET, host)


@task(help={"sample": "only this sample's"})
def update_expected(c, sample=None):
    """Write expected.json from a run on `local`, after a change of a sample's inputs."""
    FLEET.named = []  # other boards are what expected.json is for
    FLEET.each(boards.LOCAL, lambda board: update.expected(board, sample))


namespace = Collection(
    deploy, run_all, run, sweep, replay, inspect, check, worker, collect, report, export,
    list_samples, clean, see_doctor, provision, parity, update_expected,
)
