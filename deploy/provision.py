"""Bring a board that has sshd and python3 to where the samples run: plan first, then do it.

In this order, each only for what the ones before do not give: what is there already; the
distribution's packages, which --system allows; wheels that this machine downloads, in an
environment below the remote folder.
"""

import hashlib
import time
from typing import NamedTuple

from deploy import doctor, wheels
from deploy.boards import ROOT
from deploy.errors import BoardError

_WHEELS = {"numpy": "numpy", "pyopencl": "pyopencl", "PIL": "Pillow"}
_DRIVER = "pocl-opencl-icd"  # Debian's, for the CPU
_DRIVER_WHEELS = ("intel-opencl-rt", "intel-cmplr-lib-rt")  # for x86_64 only


class Plan(NamedTuple):
    """What is to be done on a board: nothing of it is done yet.

    lines: what the user reads, (how, what). apt: Debian's packages. wheels: requirements for pip.
    with_system: whether the board's own packages stay visible beside them. drivers: libraries that
    need an ICD file. lacking: what no step of it brings.
    """

    lines: list
    apt: list
    wheels: list
    with_system: bool
    drivers: list
    lacking: list


def provision(board, system, dry_run):
    """Plan and do; return whether the samples can run there.

    A dry run does nothing, and returns whether the plan would bring it.
    """
    found = _look(board)
    plan = make_plan(found, board.settings.folder, system)
    board.say(f"plan for {board.name}")
    for how, text in plan.lines:
        board.say(f"{how:<6} {text}")
    for text in plan.lacking:
        board.say(f"FAIL   {text}")
    if dry_run:
        board.say("a dry run: nothing was changed")
        return not plan.lacking
    if not (plan.apt or plan.wheels or plan.drivers or plan.lacking):
        board.say("nothing to do")
    if plan.apt:
        _apt(board, plan.apt)
        found = _look(board)
        plan = make_plan(found, board.settings.folder, system=False)
    if plan.wheels or plan.drivers:
        _make(board, plan, found)
        found = _look(board)
    shown = {"python3", *_WHEELS, "OpenCL"}
    findings = [item for item in doctor.judge(found, time.time()) if item.what in shown]
    return doctor.show(board, findings)


def _look(board):
    names = {**doctor.DEBIAN, "driver": _DRIVER}
    session = board.start("provision", do="look", modules=doctor.modules(), debian=names)
    event = session.event()
    if event["event"] != "found":
        raise BoardError(f"it sends what makes no sense: {event}")
    return event


def make_plan(found, folder, system):
    """Return the Plan for what was found on a board; `folder` is the remote one.

    `system` allows what lies outside of that folder.
    """
    lines = [("keep", f"{name} {p['text']}") for name, p in found["packages"].items() if p["ok"]]
    lines += [("keep", f"{i['file']}: {i['library']}") for i in _drivers(found)]
    plan = Plan(lines, [], [], False, found["drivers"], [])
    for library in found["drivers"]:
        lines.append(("ICD", f"{library} has no ICD file: one in {folder}/vendors for later runs"))
    if _too_old(found):
        plan.lacking.append(f"Python {found['python']['version']}: the samples need 3.10 or newer")
        return plan
    if not found["lacking"]:
        return plan
    against = _against_apt(found["apt"], system)
    if against is None:
        return plan._replace(apt=found["apt"]["packages"], lines=[*lines, ("apt", _new(found))])
    lines.append(("skip", f"apt-get: {against}"))
    return _with_wheels(plan, found, folder)


def _with_wheels(plan, found, folder):
    missing = [name for name in found["lacking"] if name in _WHEELS]
    no_driver = "driver" in found["lacking"]
    by_wheel = no_driver and wheels.machine(found) == "x86_64"
    if no_driver and not by_wheel:
        plan.lacking.append(
            "an OpenCL driver: install the vendor's (Mali: libmali.so), or, for the CPU, "
            f"Debian's {_DRIVER}"
        )
    if found["implementation"] != "cpython":
        plan.lacking.append(f"wheels for {found['implementation']}: set python to a CPython")
        return plan
    # Beside packages of the system only what is missing; otherwise an environment of its own.
    earlier = found["provisioned"]["python"] or found["provisioned"]["env"].get("PYTHONPATH")
    alone = by_wheel or earlier or len(missing) == len(_WHEELS)
    wanted = [_WHEELS[name] for name in (_WHEELS if alone else missing)] if missing else []
    if by_wheel:
        wanted = [*_WHEELS.values(), *_pinned(_DRIVER_WHEELS)]
    if wanted:
        text = f"{', '.join(wanted)} for {wheels.target(found)}: downloaded here, unpacked into "
        plan.lines.append(("wheels", f"{text}{folder}/envs for later runs"))
    return plan._replace(wheels=wanted, with_system=not alone)


def _pinned(names):
    """Return the packages with the versions that requirements.lock has."""
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8").split()
    return [next(word for word in lock if word.startswith(f"{name}==")) for name in names]


def _too_old(found):
    version = found["python"]["version"]
    return tuple(map(int, version.split(".")[:2])) < doctor.OLDEST_PYTHON


def _drivers(found):
    return [icd for icd in found["icd"]["files"] if icd["problem"] is None]


def _new(found):
    return f"install {', '.join(found['apt']['new'])}"


def _against_apt(apt, system):
    """Return why apt is not to be used, or None where it is."""
    if apt["problem"]:
        return apt["problem"]
    if not apt["may"]:
        return "it needs root, or sudo that asks this user for no password"
    if not system:
        return f"it could install {', '.join(apt['new'])}: --system allows it"
    return None


def _apt(board, packages):
    """Let the board's apt install. Whether that brought what is needed, Python's imports tell."""
    session = board.start("provision", do="install", packages=packages)
    while (event := session.event())["event"] == "lines":
        for line in event["text"]:
            board.say(f"   {line.rstrip()}")
    if event.get("reason"):
        board.say(f"note   {event['reason']}: wheels may do")


def _make(board, plan, found):
    payload = b""
    if plan.wheels:
        board.say(f"downloading {', '.join(plan.wheels)}")
        try:
            payload = wheels.download(plan.wheels, found)
        except BoardError as error:
            board.say(f"FAIL   {error}")
            if not plan.drivers:
                return
        board.say(f"sending {len(payload) / 1024**2:.1f} MiB; the board unpacks and tries them")
    session = board.start(
        "provision", do="make", bytes=len(payload), sha256=hashlib.sha256(payload).hexdigest(),
        with_system=plan.with_system, drivers=list(plan.drivers),
    )  # fmt: skip
    session.send(payload)
    session.event()
