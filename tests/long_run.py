"""A long run that nobody has to wait for: its summary, as a record keeps it."""

from common import sustained
from common.sustained import Run

FIRST, HOT = 1e9, 7.5e8  # hertz


def hot(slower=1.0, hz=FIRST, cpu=1.8e9, seconds=600, noise=0.0, kind="gpu"):
    """Return the summary of a run that is `slower` from a third of it on, at those clocks.

    `kind` is the device's type.
    """
    made, launch = Run(seconds, 1), seconds / 2000
    for n in range(1, 201):
        late, at = n > 66, n * seconds / 200
        wobble = 1 + noise * (n % 3 - 1)
        made.add([[0, 0, launch * wobble * (slower if late else 1)]] * 10, at)
        clocks = {"gpu g": hz if late else FIRST, "cpu c": cpu if late else 1.8e9}
        state = {"clocks_hz": clocks, "temperatures_c": {"soc": 40.0 + n / 4}, "power_w": {}}
        made.states.append((at, state))
    return sustained.summary(made, 50 * launch, "GFLOPS", kind)
