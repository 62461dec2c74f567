"""The tasks of fab. Without --host they work on the built-in board `local`, a folder here."""

from functools import partial

import fabric
from invoke import Collection

from deploy import boards, doctor, expected, runs, samples, ship, table
from deploy.fleet import FLEET

# No short options: -h and -H are fab's own.
task = partial(fabric.task, auto_shortflags=False)
HOST = {"host": "a Host of your ssh configuration; default: the task before's, else local"}


@task(help=HOST)
def deploy(c, host=None):
    """Copy common/ and samples/ to the board; only what changed."""
    FLEET.each(c.config, host, ship.deploy)


@task(help=HOST)
def run_all(c, host=None):
    """Run every case of every sample, and fetch the records."""
    cases = [case for sample in samples.load().values() for case in sample.cases]
    _run(c, host, cases)


@task(help={**HOST, "sample": "as `fab list` names it", "case": "only this case"})
def run(c, sample, case=None, host=None):
    """Run the cases of one sample, and fetch the records."""
    _run(c, host, samples.pick(samples.load(), sample, case))


def _run(c, host, cases):
    name = runs.name_run()
    _show(FLEET.each(c.config, host, lambda board: runs.run(board, cases, name)))


@task(help=HOST)
def collect(c, host=None):
    """Fetch the records of runs whose connection was lost."""
    _show(FLEET.each(c.config, host, runs.collect))


def _show(rows_by_board):
    rows = [row for rows in rows_by_board.values() for row in rows]
    if rows:
        table.show(rows, FLEET.failures())
    if any(row.record.status in ("failed", "error") for row in rows):
        FLEET.case_failed = True


@task(name="list", default=True)
def list_samples(c):
    """List the samples with their cases, and the boards of boards.toml."""
    loaded, known = samples.load(), boards.load(boards.path())
    for sample in loaded.values():
        needs = f" (needs {', '.join(sample.needs)})" if sample.needs else ""
        print(f"{sample.name}: {sample.description}{needs}")
        for case in sample.cases:
            print(f"    {case.name:<12} {' '.join(case.args)}")
    print(f"boards: {', '.join(known)}")
    print("tasks: fab --list")


@task(help={**HOST, "discard": "also delete results that were never collected"})
def clean(c, host=None, discard=False):
    """Delete what was deployed on the board."""
    FLEET.each(c.config, host, lambda board: ship.clean(board, discard))


@task(name="doctor", help=HOST)
def see_doctor(c, host=None):
    """Say what the board has and lacks, and what to do about it. Changes nothing there."""
    healthy = FLEET.each(c.config, host, doctor.examine)
    FLEET.case_failed |= not all(healthy.values())


@task(help={"sample": "only this sample's"})
def update_expected(c, sample=None):
    """Write expected.json anew from a run on `local`. For those who change a sample's inputs."""
    FLEET.named = []  # other boards are what expected.json is for
    FLEET.each(c.config, boards.LOCAL, lambda board: expected.update(board, sample))


namespace = Collection(
    deploy, run_all, run, collect, list_samples, clean, see_doctor, update_expected
)
