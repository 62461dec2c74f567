"""Archives of runs: pack a run for others, and unpack theirs without trusting them.

The archive is a zip file:

    manifest.json             what it is, whose, and the size and SHA-256 of every other file
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
import shutil
import zipfile
from pathlib import Path

from common import files
from common.errors import UsageError
from common.text import one_line, printable
from report.disk import scan, whole
from report.replay import arguments, plain_argv, plain_params

FORMAT, VERSION = "opencl-samples run", 2
OLDEST = 1  # version that is read: it has the licence of the data, and no author
OF = ("data", "kernels")  # whose authors and licences an archive has
_SAYS = ("author", "licence")
LARGEST_FILE = 128 * 1024**2  # bytes of an archive
LARGEST_RUN = 512 * 1024**2  # bytes, unpacked
MOST_FILES = 10_000
MOST_COMMANDS = 1000  # that it says to repeat; those of all others are in the records
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

{rights}
Where a record has params.author, params.licence or params.generator, they are of its own kernel.
"""


def rights(path):
    """Return whose the data and the kernels are, by OF: the `author` and `licence` of a TOML file.

    What it does not say is None, as all of it where `path` is None. Raises UsageError.
    """
    table = files.parsed(path, files.LARGEST_OBJECT, files.toml) if path else {}
    unknown = [key for key in table if key not in OF]
    for name in OF:
        own = table.setdefault(name, {})
        if not isinstance(own, dict) or not all(isinstance(text, str) for text in own.values()):
            raise UsageError(f"{path}: {name} must be a table of texts")
        unknown += [f"{name}.{key}" for key in own if key not in _SAYS]
    if unknown:
        have = f"{' and '.join(OF)}, each with {' and '.join(_SAYS)}"
        raise UsageError(f"{path}: unknown key {unknown[0]}: choose from {have}")
    return {name: {key: table[name].get(key) for key in _SAYS} for name in OF}


def told(about):
    """Return the line that says what rights() returned."""
    return "; ".join(
        f"{name}: " + ", ".join(f"{key} {printable(about[name][key] or 'unset')}" for key in _SAYS)
        for name in OF
    )


def pack(folder, board, path, whose=None):
    """Write the run in `folder` into the archive `path`; return its SHA-256.

    `whose` is what rights() returns. Raises UsageError where the folder holds no whole run, or one
    too large to be shared.
    """
    plan = files.object_in(folder / "plan.json")
    if not plan or not (folder / "ended.json").is_file():
        raise UsageError(f"{folder} has no run that has ended: `fab collect` fetches it")
    with whole(path) as unfinished:
        with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as archive:
            _Packing(archive).run(folder, printable(board), plan, whose or rights(None))
        if (size := unfinished.stat().st_size) > LARGEST_FILE:
            raise UsageError(f"the run is too large to share: {size} bytes as an archive")
        with open(unfinished, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()


class _Packing:
    """An archive that is written: its files, and each command once."""

    def __init__(self, archive):
        self.archive, self.left = archive, LARGEST_RUN
        self.files, self.commands = {}, {}

    def run(self, folder, board, plan, whose):
        """Write a run, then its README and the manifest."""
        plan, name = {key: plan[key] for key in _PLAN if key in plan}, printable(folder.name)
        self.add("run/plan.json", [_json(plan)])
        self.add("run/ended.json", [files.read_bytes(folder / "ended.json", LARGEST_RUN)])
        for file in sorted(folder.glob("*/*")):
            member = f"run/{file.relative_to(folder).as_posix()}"
            if _MEMBER.fullmatch(member) and file.is_file():
                self.add(member, self._parts(file))
        commands = "\n".join(f"    {line}" for line in self.commands)
        readme = _README.format(board=board, run=name, commands=commands, rights=told(whose))
        self.add("README.txt", [readme.encode(errors="replace")])
        self.add("manifest.json", [_json({
            "format": FORMAT, "version": VERSION, "board": board, "run": name, **whose,
            "files": self.files,
        })])

    def add(self, name, parts):
        """Write a file, part by part. Raises UsageError where the run becomes too large."""
        # A fixed date: the same run gives the same archive.
        info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
        info.compress_type = zipfile.ZIP_DEFLATED
        size, digest = 0, hashlib.sha256()
        with self.archive.open(info, "w") as file:
            for part in parts:
                size += len(part)
                if size > self.left:
                    most = f"more than {LARGEST_RUN >> 20} MiB"
                    raise UsageError(f"the run is too large to share: {most}")
                digest.update(part)
                file.write(part)
        self.left -= size
        self.files[name] = {"bytes": size, "sha256": digest.hexdigest()}

    def _parts(self, file):
        """Yield the parts of a file, without the folders of whoever ran it."""
        if file.suffix == ".jsonl":
            for item in scan(file):
                if not isinstance(item, str):
                    item.argv = plain_argv(item.argv, item.sample)
                    item.params = plain_params(item.params, item.sample)
                    words = arguments(item.sample, item.argv)
                    if words is not None and len(self.commands) < MOST_COMMANDS:
                        self.commands[f"python {words}"] = None
                    yield item.to_line().encode() + b"\n"
        elif file.name.endswith(".outcome.json"):
            outcome = files.object_in(file)
            argv = outcome.get("argv")
            argv = plain_argv(argv, file.parent.name) if isinstance(argv, list) else []
            yield _json(outcome | {"argv": argv})
        else:
            yield files.read_bytes(file, LARGEST_RUN)


def is_one(path):
    """Tell whether a file is an archive, or is called one. Raises UsageError and OSError."""
    with files.opened(path) as file:
        return Path(path).suffix == ".zip" or file.read(2) == b"PK"


def unpack(path, folder):
    """Unpack an archive's run into `folder`, which is made.

    Returns its manifest, with the archive's own SHA-256 as `sha256`. Nothing is written before
    all of it was checked. Raises UsageError for what is no archive of ours, or was changed since
    it was packed.
    """
    try:
        with files.opened(path, LARGEST_FILE) as file:
            packed = file.read(os.fstat(file.fileno()).st_size)
        with zipfile.ZipFile(io.BytesIO(packed)) as archive:
            about = _checked(archive)
            for name in about["files"].keys() - {"README.txt"}:
                target = folder / name.removeprefix("run/")
                target.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(name) as member, open(target, "wb") as file:
                    shutil.copyfileobj(member, file)
    except Exception as error:  # zipfile has many, for what is hostile or broken
        why = one_line(error) or type(error).__name__
        raise UsageError(f"{printable(str(path))} is refused: {why}") from error
    return about | {"sha256": hashlib.sha256(packed).hexdigest()}


def _checked(archive):
    """Return the manifest of an open archive, all of which is as it says."""
    infos = archive.infolist()
    names = {info.filename for info in infos}
    if len(infos) > MOST_FILES or sum(info.file_size for info in infos) > LARGEST_RUN:
        raise UsageError("it holds more files or bytes than a run can have")
    if len(names) < len(infos):
        raise UsageError("it holds two files of the same name")
    for info in infos:
        _require_plain(info)
    if "manifest.json" not in names:
        raise UsageError("it has no manifest.json: it is not an archive of `fab export`")
    size = archive.getinfo("manifest.json").file_size
    if size > files.LARGEST_OBJECT:
        raise UsageError("its manifest.json is too large")
    with archive.open("manifest.json") as member:
        about = _manifest(member.read(size))  # read() alone would inflate all that is there
    if names != {"manifest.json", *about["files"]}:
        raise UsageError("its files differ from its manifest")
    for name, expected in about["files"].items():
        with archive.open(name) as member:
            digest = hashlib.file_digest(member, "sha256").hexdigest()
        if digest != expected["sha256"]:
            raise UsageError(f"the SHA-256 of {name} differs from that in the manifest")
    return about


def _require_plain(info):
    """Refuse a member that is a link, or has a name that is none of ours."""
    if info.external_attr >> 16 & 0o170000 not in (0, 0o100000):
        raise UsageError(f"{info.filename} is not a plain file")
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise UsageError(f"{info.filename} has an unsupported compression")
    if info.filename != "manifest.json" and not _MEMBER.fullmatch(info.filename):
        raise UsageError(f"{info.filename!r} is not the name of a file in a run")


def _manifest(data):
    about = json.loads(data)
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise UsageError("it is not an archive of `fab export`")
    if about.get("version") not in range(OLDEST, VERSION + 1):
        known = f"{OLDEST} to {VERSION}"
        raise UsageError(f"its version is {about.get('version')!r}, this reader knows {known}")
    listed = about.get("files")
    if not isinstance(listed, dict) or not {"README.txt", "run/plan.json"} <= listed.keys() or any(
        not isinstance(each, dict) or "sha256" not in each for each in listed.values()
    ):
        raise UsageError("its manifest lists no files of a run")
    for key in ("board", "run"):
        if not isinstance(about.get(key), str):
            raise UsageError(f"its manifest has no {key}")
        about[key] = printable(about[key])[:80]
    if about["version"] == OLDEST:
        about["data"] = {"licence": about.get("licence")}
    for name in OF:
        own = about[name] if isinstance(about.get(name), dict) else {}
        texts = {key: own.get(key) for key in _SAYS}
        about[name] = {k: v[:80] if isinstance(v, str) else None for k, v in texts.items()}
    return about


def _json(value):
    return json.dumps(value, indent=1, sort_keys=True).encode() + b"\n"
