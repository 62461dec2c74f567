"""Install, and remove, the helper by which a user who is not root holds clocks and reads energy.

It is one file of the suite, common/machine/keeper.py, owned by root, and a line for sudo that lets
this user run it with one of two words.
"""

import os
import pwd
import re
import shutil
import subprocess
import tempfile

from deploy.onboard.provision import may_be_root

HELPER = "opt/opencl-samples/keeper"  # /opt is root's alone; /usr/local is a group's on Debian
RULE = "etc/sudoers.d/opencl-samples-%s"
LINE = "%(user)s ALL=(root) NOPASSWD: %(helper)s pin, %(helper)s energy\n"
USER = re.compile("[a-z_][a-z0-9_-]{0,31}")  # what sudo takes as it stands, in a file's name, too
PYTHON = "/usr/bin/python3"
PATH = os.environ.get("PATH", "") + ":/usr/sbin:/usr/bin:/sbin:/bin"
LIMIT = 60  # seconds for each command


def helper(wire, request):
    """Say what is there; then install or remove, if request["act"] says so, or neither."""
    text = "#!%s -I\n%s" % (PYTHON, request["text"])
    about = pwd.getpwuid(os.getuid())
    done = {"helper": "/" + HELPER, "there": is_there(text), "reason": None, "changed": False}
    reason = problem(about.pw_name, about.pw_uid)
    if request["act"] == "remove":
        if os.path.exists("/" + HELPER):
            done.update(changed=True, reason=remove(about.pw_name))
    elif reason is None and request["act"] == "install" and not done["there"]:
        done.update(changed=True, reason=install(text, about.pw_name))
    wire.emit("done", **dict(done, problem=reason))


def problem(user, uid):
    """Return why there is nothing to install for this user, or it cannot be; else None."""
    if uid == 0:
        return "not needed, this user is root"
    if not USER.fullmatch(user):
        return "the user's name, %r, is not valid in sudoers" % user
    for tool in ("sudo", "visudo", "install", PYTHON):
        if not shutil.which(tool, path=PATH):
            return "the board has no %s" % tool
    if not may_be_root():
        return "sudo must not ask for a password"
    return None


def is_there(text, root="/"):
    """Tell whether the helper is installed as it is here."""
    try:
        with open(os.path.join(root, HELPER)) as file:
            return file.read() == text
    except OSError:
        return False


def install(text, user, root="/"):
    """Install the helper, and the line that lets the user run it; return what went wrong, or None.

    visudo checks the line before it is put in its place.
    """
    helper, rule = os.path.join(root, HELPER), os.path.join(root, RULE % user)
    with tempfile.TemporaryDirectory() as folder:
        files = {"keeper": text, "rule": LINE % {"user": user, "helper": helper}}
        for name, content in files.items():
            with open(os.path.join(folder, name), "w") as file:
                file.write(content)
        by_root = ["install", "-o", "root", "-g", "root", "-m"]
        return _all([
            ["visudo", "-c", "-f", os.path.join(folder, "rule")],
            by_root + ["0755", "-d", os.path.dirname(helper)],
            by_root + ["0755", os.path.join(folder, "keeper"), helper],
            by_root + ["0440", os.path.join(folder, "rule"), rule],
        ])


def remove(user, root="/"):
    """Remove the line, then the helper and its folder; return what went wrong, or None."""
    helper = os.path.join(root, HELPER)
    return _all([
        ["rm", "-f", os.path.join(root, RULE % user)], ["rm", "-f", helper],
        ["rmdir", os.path.dirname(helper)],
    ])


def _all(commands):
    """Run commands as root, one after the other; return why the first to fail does."""
    sudo = [] if os.getuid() == 0 else ["sudo", "-n"]
    for command in commands:
        try:
            done = subprocess.run(
                sudo + command, env=dict(os.environ, PATH=PATH, LC_ALL="C"), timeout=LIMIT,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                universal_newlines=True, errors="replace", cwd="/",
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return "%s: %s" % (command[0], error)
        if done.returncode:
            said = done.stdout.strip().splitlines() or ["status %d" % done.returncode]
            why = [line for line in said if "error" in line] or said  # visudo ends with a caret
            return "%s: %s" % (command[0], why[-1])
    return None
