"""One run as one file: pack it for others, and take theirs without trusting it.

The archive is a zip file:

    manifest.json             what it is, and the size and SHA-256 of every other file
    README.txt                for whoever receives it
    run/plan.json             what was asked for, and the SHA-256 of the code that ran
    run/<sample>/<case>.*     records, logs, outcomes

What identifies the sender and says nothing about the board is left out: who held the board, and
the folder of the records in their command lines.
"""

import hashlib
import io
import json
import os
import re
import zipfile
import zlib
from pathlib import Path

from common import record
from common.text import printable
from report.errors import ReportError
from report.replay import arguments, plain_argv, plain_params

FORMAT, VERSION = "opencl-samples run", 1
LICENCE = "CC0-1.0"
LARGEST_FILE = 128 * 1024**2  # bytes of an archive
LARGEST_RUN = 512 * 1024**2  # bytes, unpacked
MOST_FILES = 10_000
_NAME = r"[a-z0-9_][a-z0-9_-]*"
_MEMBER = re.compile(
    rf"README\.txt|run/(plan|ended)\.json|run/{_NAME}/{_NAME}\.(jsonl|log|outcome\.json)"
)
_PLAN = ("run", "cases", "deployed", "env")
_README = """\
A run of the OpenCL samples: board {board}, {run}.

The records are in run/<sample>/<case>.jsonl, one JSON object a line. manifest.json has the SHA-256
of every file here, and run/plan.json that of every file of the code that ran.

To look at it, or to compare it with results of your own, in a checkout of the samples:

    python -m report ARCHIVE
    python -m report results/ --baseline ARCHIVE

To repeat a case, on a board of yours:

{commands}

Licence of the data: CC0-1.0. Whoever made them has given up all rights in these measurements, as
far as the law allows. https://creativecommons.org/publicdomain/zero/1.0/
"""


def pack(folder, board, path):
    """Write the run in `folder` into the archive `path`; return its SHA-256.

    Raises ReportError where the folder holds no whole run.
    """
    plan = object_in(folder / "plan.json")
    if not plan or not (folder / "ended.json").is_file():
        raise ReportError(f"{folder} holds no run that has ended: `fab collect` fetches them")
    plan = {key: plan[key] for key in _PLAN if key in plan}
    files = {"run/plan.json": _json(plan), "run/ended.json": (folder / "ended.json").read_bytes()}
    records = []
    for file in sorted(folder.glob("*/*")):
        name = f"run/{file.relative_to(folder).as_posix()}"
        if not _MEMBER.fullmatch(name) or not file.is_file():
            continue
        if file.suffix == ".jsonl":
            own = [_without_folder(item) for item in record.read_lenient(file)[0]]
            records += own
            files[name] = "".join(item.to_line() + "\n" for item in own).encode()
        elif file.name.endswith(".outcome.json"):
            outcome = object_in(file)
            outcome["argv"] = plain_argv(outcome.get("argv", []), file.parent.name)
            files[name] = _json(outcome)
        else:
            files[name] = file.read_bytes()
    commands = _commands(records)
    text = _README.format(board=board, run=folder.name, commands="\n".join(commands))
    files["README.txt"] = text.encode()
    about = {
        "format": FORMAT, "version": VERSION, "board": board, "run": folder.name,
        "licence": LICENCE, "machine": _machine(records), "code": plan.get("deployed", {}),
        "replay": [line.strip() for line in commands],
        "files": {name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
                  for name, data in files.items()},
    }  # fmt: skip
    data = _zip({"manifest.json": _json(about), **files})
    if len(data) > LARGEST_FILE or sum(map(len, files.values())) > LARGEST_RUN:
        raise ReportError(f"the run is too large to be shared: {len(data)} bytes as an archive")
    path.write_bytes(data)
    return hashlib.sha256(data).hexdigest()


def is_one(path):
    """Tell whether a file is an archive, or is called one. Raises OSError."""
    with open(path, "rb") as file:
        return Path(path).suffix == ".zip" or file.read(2) == b"PK"


def unpack(path, folder):
    """Unpack an archive's run into `folder`, which is made.

    Returns its manifest, with the archive's own SHA-256 as `sha256`. Nothing is written before
    all of it was checked. Raises ReportError for what is no archive of ours, or was changed since
    it was packed.
    """
    try:
        with open(path, "rb") as file:
            if (size := os.fstat(file.fileno()).st_size) > LARGEST_FILE:
                raise _Refused(f"larger than {LARGEST_FILE >> 20} MiB")
            packed = file.read(size)
        with zipfile.ZipFile(io.BytesIO(packed)) as archive:
            about, files = _checked(archive)
    except (_Refused, OSError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError,
            RuntimeError, ValueError, RecursionError) as error:  # fmt: skip
        why = printable(" ".join(str(error).split()) or type(error).__name__)
        raise ReportError(f"{path} is refused: {why}") from error
    for name, data in files.items():
        target = folder / name.removeprefix("run/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    return about | {"sha256": hashlib.sha256(packed).hexdigest()}


class _Refused(Exception):
    """Why an archive is not taken."""


def _checked(archive):
    """Return (manifest, data of the run's files by name) of an open archive."""
    infos = archive.infolist()
    if len(infos) > MOST_FILES or sum(info.file_size for info in infos) > LARGEST_RUN:
        raise _Refused("it holds more than a run can have")
    names = [info.filename for info in infos]
    if len(set(names)) < len(names):
        raise _Refused("it holds two files of the same name")
    for info in infos:
        _require_plain(info)
    if "manifest.json" not in names:
        raise _Refused("it has no manifest.json: it is no archive of `fab export`")
    about = _manifest(_read(archive, "manifest.json"))
    if set(names) != {"manifest.json", *about["files"]}:
        raise _Refused("its files are not those of its manifest")
    files = {}
    for name, expected in about["files"].items():
        data = _read(archive, name)
        if hashlib.sha256(data).hexdigest() != expected["sha256"]:
            raise _Refused(f"{name} is not what was packed: its SHA-256 differs")
        files[name] = data
    del files["README.txt"]
    return about, files


def _read(archive, name):
    """Return a member; no more of it is inflated than its header says that there is."""
    size = archive.getinfo(name).file_size
    with archive.open(name) as member:
        # Asked for less than it holds, it would give no more than that of any size.
        data = member.read(size + 1)
    if len(data) != size:
        raise _Refused(f"{name} has not the size that its header says")
    return data


def _require_plain(info):
    """Refuse a member that is a link, is encrypted, or has a name that is none of ours."""
    kind = info.external_attr >> 16 & 0o170000
    if kind not in (0, 0o100000):
        raise _Refused(f"{info.filename} is not a plain file")
    if info.flag_bits & 1:
        raise _Refused(f"{info.filename} is encrypted")
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise _Refused(f"{info.filename} is compressed in a way that we do not use")
    if info.filename != "manifest.json" and not _MEMBER.fullmatch(info.filename):
        raise _Refused(f"{info.filename!r} is no name of a file in a run")


def _manifest(data):
    about = json.loads(data)
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise _Refused("it is no archive of `fab export`")
    if about.get("version") != VERSION:
        raise _Refused(f"its version is {about.get('version')!r}, this reader knows {VERSION}")
    files = about.get("files")
    good = isinstance(files, dict) and all(
        isinstance(value, dict) and isinstance(value.get("sha256"), str) for value in files.values()
    )
    if not good or not {"README.txt", "run/plan.json"} <= set(files):
        raise _Refused("its manifest lists no files of a run")
    for key in ("board", "run", "licence"):
        if not isinstance(about.get(key), str):
            raise _Refused(f"its manifest has no {key}")
        about[key] = printable(about[key])[:80]
    return about


def _without_folder(item):
    """Return the record without the folders of whoever ran it."""
    item.argv = plain_argv(item.argv, item.sample)
    item.params = plain_params(item.params, item.sample)
    return item


def _commands(records):
    """Return a line for each command that made records."""
    lines = {}
    for item in records:
        if (words := arguments(item.sample, item.argv)) is not None:
            lines["    python " + " ".join(words)] = None
    return list(lines)


def _machine(records):
    """Return each device and environment that the records name, once."""
    seen = {}
    for item in records:
        if item.device:
            about = {"device": item.device, "environment": item.environment}
            seen.setdefault(json.dumps([item.device, item.environment.get("host")]), about)
    return list(seen.values())


def _zip(files):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            # A fixed date: the same run gives the same archive.
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), content,
                             zipfile.ZIP_DEFLATED)  # fmt: skip
    return data.getvalue()


def _json(value):
    return json.dumps(value, indent=1, sort_keys=True).encode() + b"\n"


def object_in(path):
    """Return the JSON object of a file; an empty one where there is none that can be read."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
