"""The tasks `fab sweep` and `fab worker`."""

from contextlib import closing, contextmanager
from importlib.util import find_spec

from common.errors import OPENCL_FAILURE, SampleError
from deploy.errors import BoardError
from deploy.experiments import workers
from deploy.experiments.member import Member
from deploy.experiments.records import Runs
from deploy.experiments.show import Show
from deploy.experiments.sweep import Sweep
from deploy.runs import RESULTS, shown
from deploy.screen import SCREEN
from tools import replay as tool

EXPERIMENTS = RESULTS / "experiments"


def sweep(boards, experiment, scheduler=None, wait_s=300):
    """Run an Experiment on Boards, or on the workers of a scheduler; return its exit status.

    `wait_s` is how long to wait where every board is away. Raises UsageError and BoardError.
    """
    path = EXPERIMENTS / f"{experiment.found.name}-{experiment.name}"
    show = Show()
    with closing(Runs(path)) as kept, _attended(boards, scheduler) as (client, attendants):
        task = Sweep(experiment, client, attendants, kept, show, wait_s)
        try:
            if not scheduler and find_spec("bokeh"):  # without it there is no dashboard
                show.line(f"Dask's dashboard: {client.dashboard_link}")
            with SCREEN.showing(show.progress):
                task.carry_out()
        finally:
            workers.close(attendants, task.stored)
    for kind in task.kinds.values():
        show.line(kind.label)
        SCREEN.put([*kind.lines(), f"records: {shown(RESULTS / '*' / kind.run)}"], "    ")
    SCREEN.put(task.summary.lines())
    return task.summary.status()


def replay(board, argv):
    """Repeat the run of a record on a Board: `argv` as of `tools replay`; return its status."""
    member = Member(board)
    try:
        member.connect()
        return tool.main(argv, member.once)
    except (SampleError, BoardError) as error:
        board.say(str(error))
        return getattr(error, "exit_status", OPENCL_FAILURE)
    finally:
        member.forget([])


def work(boards, scheduler, stop):
    """Offer Boards to a scheduler until the Event `stop`. Raises UsageError."""
    with _attended(boards, scheduler) as (_, attendants):
        try:
            stop.wait()
        finally:
            workers.close(attendants, ())


@contextmanager
def _attended(boards, scheduler):
    width = max((len(board.name) for board in boards), default=0)
    for board in boards:
        board.prefix = f"{board.name:<{width}} | " if len(boards) > 1 else ""
    with workers.connect(scheduler) as client:
        yield client, [workers.Attendant(board, client) for board in boards]
