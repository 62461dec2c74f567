"""The tasks `fab sweep` and `fab worker`, and tools whose samples run on boards."""

from contextlib import closing
from functools import partial
from importlib.util import find_spec

from common import stopping
from common.errors import UNSUPPORTED, SampleError, Unsupported, UsageError, worst
from deploy import samples
from deploy.experiments import file
from deploy.experiments.member import Member
from deploy.experiments.records import EXPERIMENTS, Runs
from deploy.experiments.show import Show
from deploy.link import sense
from deploy.runs import RESULTS, shown
from deploy.screen import SCREEN, some
from tools import command as tools_command
from tools import points
from tools import replay as tools_replay


def sweep(boards, experiment, scheduler=None, wait_s=300):
    """Run an Experiment on Boards, or on the workers of a scheduler; return its exit status.

    `wait_s` is how long to wait where every board is away. Raises UsageError and BoardError.
    """
    from deploy.experiments import workers  # Dask takes half a second to import
    from deploy.experiments.sweep import Sweep

    path = RESULTS / EXPERIMENTS / f"{experiment.found.name}-{experiment.name}"
    show = Show()
    with closing(Runs(path)) as kept, workers.attended(boards, scheduler) as there:
        client, stored = there
        task = Sweep(experiment, client, stored, kept, show, wait_s)
        if find_spec("bokeh"):  # without it there is none
            show.line(f"Dask's dashboard: {client.dashboard_link}")
        with SCREEN.showing(show.progress):
            task.carry_out()
    for kind in task.kinds.values():
        show.line(kind.label)
        paths = some([shown(path) for path in kind.records.paths()], 8, "boards")
        SCREEN.put([*kind.lines(), *(f"records: {path}" for path in paths)], "    ")
    lines = task.summary.lines()
    # The fastest of all single points is not the best of the final rounds.
    decided = any(kind.finals.decided for kind in task.kinds.values())
    SCREEN.put(lines[:1] if decided else lines)
    if refused := task.refused():
        SCREEN.put([refused])
    lacking = any(kind.records.lacking() for kind in task.kinds.values())
    return worst([task.summary.status(), *[UNSUPPORTED] * lacking])


def replay(boards, argv):
    """Repeat the run of a record on Boards: `argv` as of `tools replay`; return the status.

    Raises UsageError, before a board gets anything, where there is no such record.
    """
    tools_replay.load(tools_command.parse(tools_replay.options(), argv)[0].record)
    return _each(boards, lambda board, member: tools_replay.main(argv, member.once))


def tool(boards, module, sample, words, own):
    """Run a tool, a module of tools/, with its sample on Boards; return the status.

    `words` are options of the sample, as of a sweep, and `own(board)` those of the tool. Raises
    UsageError where they cannot be.
    """
    options, axes = points.apart(words)
    samples.asked(sample, [*options, *file.each_value(axes)])
    argv = {board: [sample, *own(board), "--", *words] for board in boards}
    for each in argv.values():
        tools_command.parse(module.options(), each)

    def one(board, member):
        return module.main(argv[board], lambda folder: partial(member.once, files=str(folder)))

    return _each(boards, one)


def _each(boards, start):
    """Call start(board, its Member) for each of the Boards; return the worst exit status."""
    statuses = []
    for board in boards:
        if len(boards) > 1:
            SCREEN.put([f"{board.name}:"])
        member = Member(board)
        try:
            member.connect()
            with sense("what it made of kernels"):
                statuses.append(start(board, member))
        except SampleError as error:
            why = str(error)
            if isinstance(error, Unsupported):  # a result, as others are
                board.say(why)
            elif isinstance(error, UsageError) and len(boards) == 1:
                SCREEN.complain(why)
            else:
                SCREEN.complain(f"{board.name}: {why}")
            statuses.append(error.exit_status)
        finally:
            member.forget(["once"])
    return worst(statuses)


def work(boards, scheduler, stop):
    """Offer Boards to a scheduler until the Event `stop`. Raises UsageError."""
    from deploy.experiments import workers

    with workers.attended(boards, scheduler):
        stopping.wait(stop.wait)
