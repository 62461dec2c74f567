"""Install what the samples need on a board that has sshd and python3: plan first, then execute.

Each package comes from the first source that has it: installed packages; the distribution's
packages, with --system; wheels, or else the distribution's packages, that this machine downloads,
in an environment below the remote folder.
"""

import hashlib
import tempfile
import time
from typing import NamedTuple

from common.files import writing
from deploy import debs, doctor, helper, wheels
from deploy.errors import BoardError
from deploy.link import PIECE, sense
from deploy.onboard import limits

_WHEELS = {"numpy": "numpy", "pyopencl": "pyopencl", "PIL": "Pillow"}
_DRIVER = "pocl-opencl-icd"  # Debian's, for the CPU
_DRIVER_WHEELS = ("intel-opencl-rt", "intel-cmplr-lib-rt")  # for x86_64 only


class Plan(NamedTuple):
    """What is to be done on a board: nothing of it is done yet.

    lines: what the user reads, (how, what). drivers: libraries that need an ICD file. lacking: what
    no step of it brings. kind: how packages come, or None: the board's `apt` installs them, or this
    machine downloads `wheels` or `debs` for the folder.
    """

    lines: list
    drivers: list
    lacking: list
    kind: str | None = None
    packages: tuple = ()


def provision(board, system, dry_run, mirror=None):
    """Plan and do; return whether the samples can run there.

    A dry run does nothing, and returns whether the plan would bring it. `mirror` is the address of
    an archive of the board's distribution.
    """
    found, plan = _look(board, system)
    board.say(f"plan for {board.name}")
    for how, text in plan.lines:
        board.say(f"{how:<6} {text}")
    for text in plan.lacking:
        board.say(f"FAIL   {text}")
    if system:
        helper.provision(board, dry_run)
    if dry_run:
        board.say("dry run: nothing was changed")
        return not plan.lacking
    if not (plan.kind or plan.drivers or plan.lacking):
        board.say("nothing to do")
    if plan.kind == "apt":
        _install(board, plan.packages)
        found, plan = _look(board, system, apt_failed=True)
    if plan.kind or plan.drivers:
        _make(board, plan, found, mirror)
        found, _ = _look(board, system=False)
    shown = {"python3", "packages", *_WHEELS, "OpenCL"}
    with sense(found):
        findings = [item for item in doctor.judge(found, time.time()) if item.what in shown]
        return doctor.show(board, findings)


def _look(board, system, apt_failed=False):
    """Return what is there, and the Plan for it."""
    names = {**doctor.DEBIAN, "driver": _DRIVER}
    texts = doctor.modules(tried=not board.settings.build_only)
    session = board.start("look", limits.PROBES, debian=names, modules=texts)
    found = session.event()
    with sense(found):
        if found["event"] != "found":
            raise ValueError("what it has must come")
        return found, make_plan(found, board.settings.folder, system, apt_failed)


def make_plan(found, folder, system, apt_failed=False):
    """Return the Plan for what was found on a board; `folder` is the remote one.

    `system` allows what lies outside of that folder. The board's apt may have failed already.
    """
    lines = [("keep", f"{name} {p['text']}") for name, p in found["packages"].items() if p["ok"]]
    loads = [icd for icd in found["icd"]["files"] if icd["problem"] is None]
    lines += [("keep", f"{icd['file']}: {icd['library']}") for icd in loads]
    plan = Plan(lines, found["drivers"], [])
    for library in found["drivers"]:
        lines.append(("ICD", f"{library} has no ICD file: one in {folder}/vendors for later runs"))
    if not doctor.is_recent(found):
        version = found["python"]["version"]
        plan.lacking.append(f"Python {version}: the samples need 3.8 or newer")
        return plan
    if not found["lacking"]:
        return plan
    apt = found["apt"]
    against = apt["problem"]
    if apt_failed:
        against = "it failed"
    elif not against and not apt["may"]:
        against = "it needs root, or sudo without a password"
    elif not against and not system:
        against = f"it could install {', '.join(apt['new'])} with --system"
    if not against:
        lines.append(("apt", f"install {', '.join(apt['new'])}"))
        return plan._replace(kind="apt", packages=apt["packages"])
    lines.append(("skip", f"apt-get: {against}"))
    if why := wheels.none_for(wheels.target(found)):
        return _with_debs(plan, found, folder, why)
    return _with_wheels(plan, found, folder)


def _with_debs(plan, found, folder, why):
    """Return the Plan for a board that no wheels fit, for the reason `why`."""
    apt, release = found["apt"], debs.release(found["release"])
    if apt["other_python"] or not release:
        lacks = apt["other_python"] or "and its system is not derived from Debian"
        plan.lacking.append(f"{', '.join(found['lacking'])}: {why}, {lacks}")
        return plan
    # What was provisioned before is replaced as a whole.
    every = [doctor.DEBIAN[name] for name in _WHEELS]
    wanted = sorted({*apt["packages"], *(every if found["provisioned"] else ())})
    text = f"{', '.join(wanted)} and what they need, of {release}: downloaded here, unpacked into"
    plan.lines.append(("debs", f"{text} {folder}/envs; {why}"))
    return plan._replace(kind="debs", packages=wanted)


def _with_wheels(plan, found, folder):
    missing = set(_WHEELS) & set(found["lacking"])
    no_driver = "driver" in found["lacking"]
    target = wheels.target(found)
    by_wheel = no_driver and target.machine == "x86_64"
    if no_driver and not by_wheel:
        plan.lacking.append(
            "an OpenCL driver: install the vendor's (Mali: libmali.so), or, for the CPU, "
            f"Debian's {_DRIVER}"
        )
    if found["implementation"] != "cpython":
        plan.lacking.append(f"wheels for {found['implementation']}: set python to a CPython")
        return plan
    # What was provisioned before is replaced as a whole.
    every = by_wheel or (missing and found["provisioned"])
    wanted = [wheel for name, wheel in _WHEELS.items() if every or name in missing]
    wanted += _DRIVER_WHEELS if by_wheel else ()
    if wanted:
        text = f"{', '.join(wanted)} for {target}: downloaded here, unpacked into {folder}/envs"
        plan.lines.append(("wheels", f"{text} for later runs"))
    return plan._replace(kind="wheels" if wanted else None, packages=wanted)


def _install(board, packages):
    """Let the board's apt install packages, and print what it prints.

    Whether it brought what is needed, Python's imports tell.
    """
    session = board.start("install", 3 * limits.APT, packages=packages)
    while (event := session.event())["event"] == "lines":
        with sense(event):
            board.say("\n".join(f"   {line.rstrip()}" for line in event["text"]))
    if reason := event.get("reason"):
        board.say(f"note   {reason}: using packages downloaded by this machine")


def _make(board, plan, found, mirror):
    kind = plan.kind
    with tempfile.TemporaryFile() as payload:
        if kind:
            board.say(f"downloading {', '.join(plan.packages)}")
            try:
                with writing(f"cannot write to {tempfile.gettempdir()}"):
                    download(board, plan, found, mirror, payload)
            except BoardError as error:
                if board.stopping:
                    raise
                board.say(f"FAIL   {error}")
                if not plan.drivers:
                    return
                kind = None
                payload.truncate(payload.seek(0))
            if kind:
                size = payload.tell()
                board.say(f"sending {size / limits.MIB:.1f} MiB; the board unpacks and tests them")
        payload.seek(0)
        digest = hashlib.file_digest(payload, "sha256").hexdigest()
        session = board.start(
            "make", limits.UNPACK, sha256=digest, drivers=plan.drivers, packages=kind,
        )
        session.send(b"%d\n" % payload.tell())
        payload.seek(0)
        while piece := payload.read(PIECE):
            session.send(piece)
        session.event()  # it is done


def download(board, plan, found, mirror, payload):
    """Download the packages that the board lacks into `payload`, which is shipped to it."""
    if plan.kind == "wheels":
        wheels.download(plan.packages, wheels.target(found), payload, board.run_here)
        return
    session = board.start("installed", limits.PROBES, format=debs.FORMAT)
    event = session.event()
    with sense(event):
        size = max(0, min(int(event["bytes"]), limits.INSTALLED))
    installed = b"".join(session.pieces(size)).decode(errors="replace")
    driver = "driver" not in found["lacking"]
    for note in debs.download(plan.packages, debs.release(found["release"]), installed, driver,
                              mirror, payload, board.run_here):
        board.say(f"note   {note}")
