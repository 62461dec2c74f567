"""Change settings of the machine, and restore them when the process that asked for it ends.

common/machine/settings.py starts it with a word: `pin` or `energy`. It waits for the lock of that
word, says `ready`, reads one line, [[path, text]], writes each text to its file, and says what it
will restore, and what failed. At the end of its input it restores. That end comes when its parent
closes the pipe, and just the same when the parent is killed or crashes. It has a session of its own
and ignores the signals that end programs, so that it outlives its parent.

`fab provision --system` installs this file for users who are not root; sudo then runs it. So it
needs the standard library only, takes no path from its command line or environment, and as a
program writes nothing but the settings below, to what the kernel offers.
"""

import fcntl
import glob
import json
import os
import re
import signal
import sys
import time

PATIENCE = 30  # seconds that another's end may take
_LONGEST = 1 << 20  # of a request
_CPU = ("scaling_governor", "scaling_min_freq", "scaling_max_freq", "scaling_setspeed")
_DEVFREQ = ("governor", "min_freq", "max_freq", "userspace/set_freq")
_OLD_MALI = ("dvfs_min_lock", "dvfs_max_lock")
_FILES = {
    "pin": {
        "devices/system/cpu/cpufreq/policy*": _CPU, "devices/system/cpu/cpu[0-9]*/cpufreq": _CPU,
        "class/devfreq/*": _DEVFREQ, "devices/*.mali": _OLD_MALI,
        "class/misc/mali0/device": _OLD_MALI,
    },
    "energy": {
        "bus/i2c/drivers/INA231/*-00*": ("enable",), "class/powercap/intel-rapl*": ("energy_uj",),
    },
}
_LOCKS = {"pin": ".", "energy": "class"}  # folders
_COUNTER = "energy_uj"  # its permissions change: 444 lets all users read it
_VALUES = {_COUNTER: "444", "enable": "1"}
_GOVERNORS = {"scaling_governor": "scaling_available_governors", "governor": "available_governors"}


def refused(word, steps, root):
    """Return the first of the [path, text] that is no such setting below `root`, or None."""
    known = {
        os.path.join(folder, name)
        for pattern, names in _FILES[word].items()
        for folder in glob.glob(os.path.join(glob.escape(root), pattern)) for name in names
    }
    return next((s for s in steps if s[0] not in known or not _may_hold(*s)), None)


def _may_hold(path, text):
    folder, name = os.path.split(path)
    if name in _GOVERNORS:
        return text in _held(os.path.join(folder, _GOVERNORS[name])).split()
    return bool(re.fullmatch(_VALUES.get(name, "[0-9]{1,12}"), text))


def _held(path):
    """Return what the setting is now, as it is written."""
    if os.path.basename(path) == _COUNTER:
        return f"{os.stat(path).st_mode & 0o777:o}"
    with open(path, encoding="utf-8") as file:
        text = file.read().strip()
    return "0" if text == "-1" else text  # "no lock", as some of Mali's old drivers show it


def put(path, text):
    """Write one setting."""
    if os.path.basename(path) == _COUNTER:
        os.chmod(path, int(text, 8))
        return
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def change(steps, back):
    """Make the changes [path, text]; return {}, or what is wrong with the first that fails.

    `back` gets the changes that restore what there was, the last one first.
    """
    for path, text in steps:
        try:
            back.insert(0, [path, _held(path)])
            put(path, text)
        except OSError as error:
            denied = isinstance(error, PermissionError)
            return {"path": path, "value": text, "error": error.strerror, "denied": denied}
    return {}


def restore(back):
    """Make the changes that change() noted; return those that cannot be made, as texts.

    A file that holds the text already is not written: it may never have been changed.
    """
    failures = []
    for path, text in back:
        try:
            if _held(path) != text:
                put(path, text)
        except OSError as error:
            failures.append(f"{path} ({error.strerror}; it held {text})")
    return failures


def lock(file, seconds):
    """Lock an open file or folder against other processes; wait for it at most so many seconds.

    Raises BlockingIOError where another process has it still.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def main(word, root, patience=PATIENCE):
    """Do what the module says, with settings below `root`, which stands for /sys."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    parent = os.getppid()
    try:
        lock(os.open(os.path.join(root, _LOCKS[word]), os.O_RDONLY), patience)
    except BlockingIOError:
        print("busy", flush=True)
        return 1
    print("ready", flush=True)
    line = sys.stdin.readline(_LONGEST)
    if not line:
        return 0
    try:
        steps = [(str(path), str(text)) for path, text in json.loads(line)]
    except (ValueError, TypeError):
        print("the request cannot be read", file=sys.stderr)
        return 2
    back = []
    if wrong := refused(word, steps, root):
        problem = {"path": wrong[0], "value": wrong[1], "denied": False,
                   "error": "the helper does not set this"}
    else:
        problem = change(steps, back)
    print(json.dumps({"back": back, "problem": problem}), flush=True)
    while os.read(0, 4096):
        pass
    failures = restore(back)
    if failures and os.getppid() != parent:  # else the parent reports it
        print("cannot restore " + ", ".join(failures), file=sys.stderr)
    return int(bool(failures))


if __name__ == "__main__":
    if sys.argv[1:] not in (["pin"], ["energy"]):
        sys.exit("usage: pin | energy")
    sys.exit(main(sys.argv[1], "/sys"))
