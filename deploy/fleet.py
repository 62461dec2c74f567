"""The boards of one call of fab, the work on them, and the exit status."""

import os
import signal
import socket
import subprocess
import sys
import threading
from concurrent import futures
from contextlib import suppress

import fabric.executor
from invoke import Exit

from common import stopping
from common.errors import OPENCL_FAILURE, WRONG_RESULT, UsageError
from common.files import regular
from common.isolation import leave
from common.programs import is_unwritable
from common.stopping import Stopped, end_at_once, stop_in_order
from deploy import boards, samples
from deploy.errors import BoardError, Refusal, explained
from deploy.link import LocalLink, Session, SshLink
from deploy.onboard import facts, limits
from deploy.screen import SCREEN

STOPPED = "stopped"  # why a board is given up that the user stopped
_HOLDER = f"{facts.user()}@{socket.gethostname()}"  # of a board's lock: this program
TAKES_WORDS = ("run", "sweep", "replay", "inspect", "check")


class Board:
    """A board in use: its name, its Settings, its link.

    `failed` says why it is given up; `stopping` tells whether the user stopped it, and `broken`
    says why a run ended early.
    """

    def __init__(self, name, settings, link):
        self.name, self.settings, self.link = name, settings, link
        self.prefix, self.failed, self.broken = "", None, None
        self.stopping, self._session, self._here = False, None, None

    def start(self, do, seconds=limits.COPY, **request):
        """Ask the board to do one of deploy/onboard/remote.py's REQUESTS; return the Session.

        It is to be done within `seconds`.
        """
        if self.stopping:
            raise BoardError(STOPPED)
        mine = {"folder": self.settings.folder, "env": self.settings.env, "holder": _HOLDER}
        self._session = Session(self.link, seconds)
        if self.stopping:  # since: nobody knew of the session
            self._session.stop()
        try:
            self._session.greet({**request, **mine, "do": do})
        except BoardError as error:
            if self.stopping:
                raise BoardError(STOPPED) from error
            raise
        if self.stopping:  # since: the program must hear of it, too
            self._session.stop()
        return self._session

    def run_here(self, command, **options):
        """Run a command on this machine for the board; return a subprocess.CompletedProcess.

        Raises BoardError where the user stops it.
        """
        if self.stopping:
            raise BoardError(STOPPED)
        self._here = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, errors="replace", start_new_session=True, **options,
        )
        if self.stopping:  # since: nobody knew of the process
            self.stop()
        said = self._here.communicate()
        if self.stopping:
            raise BoardError(STOPPED)
        return subprocess.CompletedProcess(command, self._here.returncode, *said)

    def stop(self):
        """Ask what is running for the board, there and here, to stop, and start no more."""
        self.stopping = True
        if self._here:
            self._here.send_signal(signal.SIGINT)  # pip deletes its temporary files
        if self._session:
            self._session.stop()

    def end(self):
        """Stop what is running on the board, and wait for its end. The results stay there."""
        self.stop()
        with suppress(BoardError):
            while self._session and self._session.event()["event"] not in ("run", "done"):
                pass
        self.close()

    def close(self):
        """Give the program that is running on the board up: to it, the connection is lost."""
        if self._session:
            self._session.close()

    def say(self, text):
        """Print lines, each with the board's name where there are several."""
        SCREEN.put(text.split("\n"), self.prefix)


def name_lines(chosen):
    """Let each line of a board begin with its name, where there are several."""
    width = max((len(board.name) for board in chosen), default=0)
    for board in chosen:
        board.prefix = f"{board.name:<{width}} | " if len(chosen) > 1 else ""


def on_each(chosen, work, progress=None):
    """Do `work(board)` on all boards at once; return what it returned, by the boards' names.

    What goes wrong is noted on the board, which is then left out; the others go on. `progress`, if
    any, makes the display that the user watches meanwhile. A stop by the user is passed on to the
    boards, and raised when they have ended.
    """
    results, jobs = {}, {}
    name_lines(chosen)

    def go(board):
        try:
            results[board] = work(board)
        except Exception as error:
            if is_unwritable(error):
                board.end()
            if isinstance(error, UsageError) or is_unwritable(error):
                raise
            board.failed = explained(error)[1]
            board.close()
            # What a board refuses when it is stopped, such as half a copy, is no news to the user.
            in_order = board.failed == STOPPED or isinstance(error, Refusal)
            if not (board.stopping and in_order):
                SCREEN.complain(f"{board.name}: {board.failed}")

    def ended(seconds):
        return not futures.wait(jobs.values(), seconds).not_done

    shown = progress() if progress else None
    with SCREEN.showing(shown), futures.ThreadPoolExecutor(max(1, len(chosen))) as pool:
        try:
            for board in chosen:
                jobs[board] = pool.submit(go, board)
            stopping.wait(ended)
        except KeyboardInterrupt:
            SCREEN.stop_progress()
            for board in chosen:
                # A job that has just begun may not be noted yet.
                if board not in jobs or not jobs[board].done():
                    board.say("stopping")
                    # One that takes no data must not keep the others from hearing of it.
                    threading.Thread(target=board.stop, daemon=True).start()
            stopping.wait(ended)
            raise
    for job in jobs.values():
        job.result()
    return {board.name: results[board] for board in chosen if board in results}


class Fleet:
    """The boards that the tasks of one call of fab work on."""

    def __init__(self):
        self.named = []  # by -H, for every task
        self.words = ()  # after --, for each task that takes options of a sample
        self.ssh_file, self.ssh_options = None, []
        self.case_failed = False
        self.last = [boards.LOCAL]  # names of the boards of the task before
        self.boards = {}  # all that were selected so far, by name

    def select(self, host, also=()):
        """Return the boards of a task: those of -H, else `host`, else those of the task before.

        `also` names boards that this one task needs beside them.
        """
        if names := self.asked(host):
            self.last = names
        names = list(dict.fromkeys([*also, *self.last]))
        settings = boards.load()
        for name in [name for name in names if name not in self.boards]:
            mine = settings.get(name, boards.Settings())
            if name == boards.LOCAL:
                link = LocalLink(mine.python or sys.executable)
            else:
                python = mine.python or "python3"
                link = SshLink(name, python, mine.ssh_config or self.ssh_file,
                               self.ssh_options)
            self.boards[name] = Board(name, mine, link)
        return [self.boards[name] for name in names]

    def asked(self, host):
        """Return the names of the boards of -H, or of `host`; an empty list without either."""
        if self.named and host is not None:
            raise UsageError("give the boards with -H or with --host, not with both")
        names = self.named or ([] if host is None else [host])
        return list(dict.fromkeys(boards.check_name(name) for name in names))

    def each(self, host, work, progress=None, also=()):
        """Do `work(board)` on the boards of a task, but not on those that were given up.

        Return what it returned, by their names: see on_each().
        """
        chosen = [board for board in self.select(host, also) if board.failed is None]
        return on_each(chosen, work, progress)

    @property
    def failures(self):
        """Why boards were given up, by their names."""
        return {name: board.failed for name, board in self.boards.items() if board.failed}

    def exit_status(self):
        """Return what fab ends with: the worst of what happened."""
        if self.failures:
            return OPENCL_FAILURE
        return WRONG_RESULT if self.case_failed else 0


def _stopped(tasks, why="stopped"):
    """Return what to say where the tasks of these names were stopped, by the user or by `why`."""
    if "sweep" in tasks:
        return f"{why}; repeat the command to continue"
    if tasks & {"run", "run-all", "collect", "parity"}:
        return f"{why}; `fab collect` fetches results that are still on a board"
    return why  # what the others began is no use


FLEET = Fleet()


class Executor(fabric.executor.Executor):
    """Runs each task once, for all boards together: fabric would go through -H one by one."""

    def expand_calls(self, calls, apply_hosts=True):
        self.core.remainder = ""  # fabric would run it as a shell command
        return super().expand_calls(calls, apply_hosts=False)

    def execute(self, *tasks):
        # Where a terminal is closed, boards go on: `fab collect` fetches what they did.
        stop_in_order("fab: error: stopped", closed=False)
        try:
            status = self._status(tasks)
        finally:
            end_at_once("fab: error: stopped")
        leave(status)  # in Python's own end, which takes a tenth of a second, a signal has no line

    def _status(self, tasks):
        """Run the tasks; return the exit status of fab, when all that there is to say is said."""
        options = self.core[0].args
        if options.hosts.value is not None:
            FLEET.named = [name.strip() for name in options.hosts.value.split(",")]
        try:
            if "--" in sys.argv:
                FLEET.words = tuple(sys.argv[sys.argv.index("--") + 1 :])
                if not any(task.name in TAKES_WORDS for task in tasks):
                    raise UsageError(f"options after -- are for {', '.join(TAKES_WORDS)} only")
                samples.require_once(FLEET.words)
            for key in options.identity.value:
                # ssh would go on without one that is not there.
                FLEET.ssh_options += ["-i", regular(os.path.expanduser(key))]
            if (seconds := options["connect-timeout"].value) is not None:
                if seconds < 1:
                    raise UsageError(f"--connect-timeout {seconds}: give seconds, from 1 up")
                FLEET.ssh_options += ["-o", f"ConnectTimeout={seconds}"]
            if file := options["ssh-config"].value:
                FLEET.ssh_file = regular(os.path.expanduser(file))
            super().execute(*tasks)
            sys.stdout.flush()
            return FLEET.exit_status()
        except Exit as ended:
            return ended.code
        except (Exception, Stopped) as error:
            status, why = explained(error)
            if isinstance(error, Stopped) or is_unwritable(error):
                why = _stopped({task.name for task in tasks},
                               "stopped" if isinstance(error, Stopped) else why)
            if not isinstance(error, BrokenPipeError):  # nobody reads on
                SCREEN.complain(why)
            return status
