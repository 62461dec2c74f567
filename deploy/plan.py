"""The work of tasks on boards: each board proceeds at its own pace.

A task plans a Step, and nothing runs yet. `carry_out` runs the steps of several tasks: a board
begins its next step when its last one is done, whatever other boards do meanwhile.
"""

import logging
from concurrent.futures import ThreadPoolExecutor, wait

from common.errors import UsageError
from deploy.errors import BoardError
from deploy.screen import SCREEN

STOPPED = "stopped"  # why a board is given up that the user stopped


class Step:
    """What one task does on each of its boards.

    `work(board)` does it. Once no board has any of it left, `then(step)` sums it up. `progress`, if
    any, makes the display that the user watches meanwhile.
    """

    def __init__(self, boards, work, then=None, progress=None):
        self.boards, self.work, self.then, self.progress = boards, work, then, progress
        self._results, self._left = {}, len(boards)

    @property
    def results(self):
        """What `work` returned, by the names of those boards that were not given up."""
        return {each.name: self._results[each] for each in self.boards if each in self._results}

    @property
    def failures(self):
        """Why boards were given up before they had done this, by their names."""
        return {each.name: each.failed for each in self.boards
                if each.failed and each not in self._results}

    def run(self, board):
        """Do it on one board, unless that was given up; the last board sums up."""
        if board.failed is None and not board.stopping:
            self._do(board)
        with SCREEN.lock:  # other boards are at their next steps
            self._left -= 1
            if self.then and not self._left and not board.stopping:
                self.then(self)

    def _do(self, board):
        try:
            self._results[board] = self.work(board)
            return
        except BoardError as error:
            board.failed = str(error)
            board.close()
        except UsageError:
            raise
        except Exception as error:  # one board's surprise must not cost the others their table
            board.failed = surprise(error)
        if not board.stopping or board.failed != STOPPED:  # else the user knows
            SCREEN.complain(f"{board.name}: {board.failed}")


def surprise(error):
    """Return a line for an unforeseen error; -d (--debug) shows its traceback."""
    logging.getLogger("deploy").debug("unforeseen", exc_info=error)
    return f"unforeseen {type(error).__name__}: {' '.join(str(error).split())} (fab -d shows where)"


def name_lines(boards):
    """Let each line of a board begin with its name, where there are several."""
    width = max((len(board.name) for board in boards), default=0)
    for board in boards:
        board.prefix = f"{board.name:<{width}} | " if len(boards) > 1 else ""


def carry_out(steps):
    """Run the steps on their boards, all boards at once, each step of a board after the other.

    What goes wrong is noted on the board. A stop by the user is passed on to the boards, and raised
    when they have ended.
    """
    boards = list(dict.fromkeys(board for step in steps for board in step.boards))
    name_lines(boards)

    def go(board):
        for step in steps:
            if board in step.boards:
                step.run(board)

    shown = next((step.progress() for step in steps if step.progress), None)
    jobs = {}
    with SCREEN.showing(shown), ThreadPoolExecutor(max(1, len(boards))) as pool:
        try:
            for board in boards:
                jobs[board] = pool.submit(go, board)
            wait(jobs.values())
        except KeyboardInterrupt:
            SCREEN.stop_progress()
            for board in boards:
                # A job that has just begun may not be noted yet.
                if board not in jobs or not jobs[board].done():
                    board.say("stopping")
                    board.stop()
            raise
    for job in jobs.values():
        job.result()
