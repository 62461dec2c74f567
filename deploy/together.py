"""Work on several boards at once. One that goes wrong is given up, and the others go on."""

import logging
import threading
from concurrent.futures import ThreadPoolExecutor, wait

from common.errors import UsageError
from common.programs import is_unwritable
from deploy.errors import BoardError, lacking
from deploy.screen import SCREEN

STOPPED = "stopped"  # why a board is given up that the user stopped


def surprise(error):
    """Return a line for an unforeseen error, or a lack; -d (--debug) shows its traceback."""
    logging.getLogger("deploy").debug("unforeseen", exc_info=error)
    if isinstance(error, ImportError):
        return lacking(error)
    return f"unforeseen {type(error).__name__}: {' '.join(str(error).split())} (fab -d shows where)"


def name_lines(boards):
    """Let each line of a board begin with its name, where there are several."""
    width = max((len(board.name) for board in boards), default=0)
    for board in boards:
        board.prefix = f"{board.name:<{width}} | " if len(boards) > 1 else ""


def on_each(boards, work, progress=None):
    """Do `work(board)` on all boards at once; return what it returned, by the boards' names.

    What goes wrong is noted on the board, which is then left out. `progress`, if any, makes the
    display that the user watches meanwhile. A stop by the user is passed on to the boards, and
    raised when they have ended.
    """
    results, jobs = {}, {}
    name_lines(boards)

    def go(board):
        try:
            results[board] = work(board)
            return
        except BoardError as error:
            board.failed = str(error)
            board.close()
        except UsageError:
            raise
        except Exception as error:  # one board's surprise must not cost the others their table
            if is_unwritable(error):
                raise
            board.failed = surprise(error)
        if not board.stopping or board.failed != STOPPED:  # else the user knows
            SCREEN.complain(f"{board.name}: {board.failed}")

    shown = progress() if progress else None
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
                    # One that takes no data must not keep the others from hearing of it.
                    threading.Thread(target=board.stop, daemon=True).start()
            raise
    for job in jobs.values():
        job.result()
    return {board.name: results[board] for board in boards if board in results}
