"""The work of tasks on boards: each board proceeds at its own pace.

A task plans a Step, and nothing runs yet. `carry_out` runs the steps of several tasks: a board
begins its next step when its last one is done, whatever other boards do meanwhile.
"""

import threading
from concurrent.futures import ThreadPoolExecutor, wait

from deploy.screen import SCREEN


class Step:
    """What one task does on each of its boards.

    `work(board)` does it. Once no board has any of it left, `then(step)` sums it up. `progress`, if
    any, makes the display that the user watches meanwhile.
    """

    def __init__(self, boards, work, then=None, progress=None):
        self.boards, self.work, self.then, self.progress = boards, work, then, progress
        self._results = {}
        self._left = set(boards)
        self._lock = threading.Lock()

    @property
    def results(self):
        """What `work` returned, by the names of those boards that were not given up."""
        return {each.name: self._results[each] for each in self.boards if each in self._results}

    @property
    def failures(self):
        """Why boards were given up before they had done this, by their names."""
        lost = [board for board in self.boards if board not in self._results]
        return {board.name: board.failed for board in lost if board.failed}

    def run(self, board, guarded):
        """Do it on one board, unless that was given up; the last board sums up."""
        if board.failed is None and not board.stopping:
            result = guarded(self.work, board)
            if board.failed is None:
                self._results[board] = result
        with self._lock:
            self._left.discard(board)
            last = not self._left
        if last and self.then and not board.stopping:
            with SCREEN.lock:  # other boards are at their next steps
                self.then(self)


def carry_out(steps, guarded):
    """Run the steps on their boards, all boards at once, each step of a board after the other.

    `guarded(work, board)` does work(board), and notes on the board what goes wrong. A stop by the
    user is passed on to the boards, and raised when they have ended.
    """
    boards = list(dict.fromkeys(board for step in steps for board in step.boards))
    width = max((len(board.name) for board in boards), default=0)
    for board in boards:
        board.prefix = f"{board.name:<{width}} | " if len(boards) > 1 else ""

    def go(board):
        for step in steps:
            if board in step.boards:
                step.run(board, guarded)

    shown = next((step.progress() for step in steps if step.progress), None)
    jobs = {}
    with SCREEN.showing(shown), ThreadPoolExecutor(max(1, len(boards))) as pool:
        try:
            for board in boards:
                jobs[board] = pool.submit(go, board)
            wait(jobs.values())
        except KeyboardInterrupt:
            SCREEN.stop_progress()
            for board, job in jobs.items():
                if not job.done():
                    board.say("stopping")
                    board.stop()
            raise
    for job in jobs.values():
        job.result()
