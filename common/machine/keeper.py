"""Change settings of the machine, and restore them when the process that asked for it ends.

common/machine/settings.py starts it with a word: `pin` or `energy`. It waits for the lock of that
word, says `ready`, reads one line, {"changes": [[path, text]], "back": [[path, text]]}, makes the
changes, and says {} or what failed. At the end of its input it restores. That end comes when its
parent closes the pipe, and just the same when the parent is killed or crashes. It has a session of
its own and ignores the signals that end programs, so that it outlives its parent.

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
        "class/devfreq/*": _DEVFREQ, "class/misc/mali0/device/devfreq/*": _DEVFREQ,
        "devices/*.mali": _OLD_MALI, "class/misc/mali0/device": _OLD_MALI,
    },
    "energy": {
        "bus/i2c/drivers/INA231/*-00*": ("enable",), "class/powercap/intel-rapl*": ("energy_uj",),
    },
}
_LOCKS = {"pin": ".", "energy": "class"}  # folders
_COUNTER = "energy_uj"  # its permissions change: 400 is the kernel's, 444 lets all users read it
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
    if name in (_COUNTER, "enable"):
        return text in (("400", "444") if name == _COUNTER else ("0", "1"))
    return bool(re.fullmatch("[0-9]{1,12}", text))


def _held(path):
    """Return what the setting is now, as it is written."""
    if os.path.basename(path) == _COUNTER:
        return f"{os.stat(path).st_mode & 0o777:o}"
    with open(path, encoding="utf-8") as file:
        return file.read().strip()


def put(path, text):
    """Write one setting."""
    if os.path.basename(path) == _COUNTER:
        os.chmod(path, int(text, 8))
        return
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def restore(steps):
    """Write each text into its file; return what could not be written, as texts.

    A file that holds the text already is not written: it may never have been changed.
    """
    failures = []
    for path, text in steps:
        try:
            if _held(path) != text:
                put(path, text)
        except OSError as error:
            failures.append(f"{path} ({error.strerror}; it held {text})")
    return failures


def _change(steps):
    """Make the changes; return {}, or what is wrong with the first that cannot be made."""
    for path, text in steps:
        try:
            put(path, text)
        except OSError as error:
            denied = isinstance(error, PermissionError)
            return {"path": path, "value": text, "error": error.strerror, "denied": denied}
    return {}


def _lock(folder, patience):
    """Lock a folder for as long as this process lives; tell whether nobody else holds it."""
    descriptor, end = os.open(folder, os.O_RDONLY), time.monotonic() + patience
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > end:
                return False
            time.sleep(0.05)


def main(word, root, checked, patience=PATIENCE):
    """Do what the module says. `checked`: only settings below `root`, which stands for /sys."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    parent = os.getppid()
    if not _lock(os.path.join(root, _LOCKS[word]), patience):
        print("busy", flush=True)
        return 1
    print("ready", flush=True)
    line = sys.stdin.readline(_LONGEST)
    if not line:
        return 0
    try:
        asked = json.loads(line)
        changes, back = ([(str(path), str(text)) for path, text in asked[key]]
                         for key in ("changes", "back"))
    except (ValueError, KeyError, TypeError):
        print("the request cannot be read", file=sys.stderr)
        return 2
    if checked and (wrong := refused(word, changes + back, root)):
        print(json.dumps({"path": wrong[0], "value": wrong[1], "denied": False,
                          "error": "the helper does not set this"}), flush=True)
        return 1
    print(json.dumps(_change(changes)), flush=True)
    while os.read(0, 4096):
        pass
    failures = restore(back)
    if failures and os.getppid() != parent:  # else the parent reports it
        print("cannot restore " + ", ".join(failures), file=sys.stderr)
    return int(bool(failures))


if __name__ == "__main__":
    if sys.argv[1:] not in (["pin"], ["energy"]):
        sys.exit("usage: pin | energy")
    sys.exit(main(sys.argv[1], "/sys", checked=True))
