"""The helper by which a user of a board who is not root holds clocks and reads energy."""

from common.machine import keeper
from common.machine.settings import HELPER
from deploy.link import sense
from deploy.onboard import limits
from deploy.screen import shortened


def provision(board, dry_run):
    """Install the helper, or say what would be done, or why nothing can be."""
    found = _ask(board, None if dry_run else "install")
    with sense(found):
        problem, reason = (shortened(str(found[key])) for key in ("problem", "reason"))
        if found["problem"]:
            board.say(f"skip   helper for --pin and --energy: {problem}")
        elif found["reason"]:
            board.say(f"FAIL   helper for --pin and --energy: {reason}")
        elif found["there"]:
            board.say(f"keep   {HELPER}")
        else:
            done = "installed" if found["changed"] else "to be installed"
            board.say(f"sudo   {HELPER}, for --pin and --energy, and a line in /etc/sudoers.d for "
                      f"it alone: {done}")


def remove(board):
    """Remove what provision() installed."""
    found = _ask(board, "remove")
    with sense(found):
        if found["reason"]:
            board.say(f"FAIL   {HELPER} stays: {shortened(str(found['reason']))}")
        elif found["changed"]:
            board.say(f"removed {HELPER}, and its line in /etc/sudoers.d")


def _ask(board, act):
    with open(keeper.__file__, encoding="utf-8") as file:
        return board.start("helper", limits.PROBES, text=file.read(), act=act).event()
