"""Archives of runs: pack a run for others, and unpack theirs without trusting them.

The archive is a zip file:

    manifest.json             what it is, whose, and the SHA-256 of every other file
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
from pathlib import Path

from common import files
from common.errors import UsageError
from common.manifest import NAME
from common.text import one_line, printable
from report.disk import whole
from report.replay import arguments, plain_argv, plain_params

FORMAT, VERSION = "opencl-samples run", 2
OLDEST = 1  # version that is read: it has the licence of the data, and no author
OF = ("data", "kernels")  # whose authors and licences an archive has
_SAYS = ("author", "licence")
LARGEST_FILE = 128 * 1024**2  # bytes of an archive
LARGEST_RUN = 512 * 1024**2  # bytes, unpacked
MOST_FILES = 10_000
_OF_CASE = rf"run/{NAME.pattern}/{NAME.pattern}\.(jsonl|log|outcome\.json)"
_MEMBER = re.compile(rf"README\.txt|run/(plan|ended)\.json|{_OF_CASE}")
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
    """Return for each of OF the `author` and the `licence` that a TOML file gives, or None.

    Without a `path` all are None. Raises UsageError.
    """
    table = files.parsed(path, files.LARGEST_OBJECT, files.toml) if path else {}
    for name, own in table.items():
        known = name in OF and isinstance(own, dict) and own.keys() <= set(_SAYS)
        if not known or not all(isinstance(text, str) for text in own.values()):
            raise UsageError(f"{path}: {name}: there can be {' and '.join(OF)}, each a table "
                             f"of the texts {' and '.join(_SAYS)}")
    return {name: {key: table.get(name, {}).get(key) for key in _SAYS} for name in OF}


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
        raise UsageError(f"{folder} is no run that has ended: `fab collect` fetches one whose "
                         "connection was lost; the points of a sweep cannot be exported")
    about = {"format": FORMAT, "version": VERSION, "board": printable(board),
             "run": printable(folder.name), **(whose or rights(None))}
    with whole(path) as unfinished:
        with zipfile.ZipFile(unfinished, "w") as archive:
            _write_run(archive, folder, plan, about)
        if (size := unfinished.stat().st_size) > LARGEST_FILE:
            raise UsageError(f"the run is too large to share: {size} bytes as an archive")
        with open(unfinished, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()


def _write_run(archive, folder, plan, about):
    """Write the files of a run, its README, and the manifest, which is `about` and all of them."""
    own = {f"run/{path.relative_to(folder).as_posix()}": path
           for path in sorted(folder.glob("*/*")) if path.is_file()}
    own = {name: path for name, path in own.items() if _MEMBER.fullmatch(name)}
    if sum(path.stat().st_size for path in own.values()) > LARGEST_RUN:
        raise UsageError(f"the run is too large to share: more than {LARGEST_RUN >> 20} MiB")
    commands = {}
    contents = {
        "run/plan.json": [_json({key: plan[key] for key in _PLAN if key in plan})],
        "run/ended.json": [files.read_bytes(folder / "ended.json", LARGEST_RUN)],
        **{name: _parts(path, commands) for name, path in own.items()},
    }
    listed = {name: _add(archive, name, parts) for name, parts in contents.items()}
    readme = _README.format(**about, commands="\n".join(commands), rights=told(about))
    listed["README.txt"] = _add(archive, "README.txt", [readme.encode(errors="replace")])
    _add(archive, "manifest.json", [_json({**about, "files": listed})])


def _add(archive, name, parts):
    """Write a file, part by part; return what the manifest says of it."""
    info = zipfile.ZipInfo(name)  # of 1980: the same run gives the same archive
    info.compress_type = zipfile.ZIP_DEFLATED
    digest = hashlib.sha256()
    with archive.open(info, "w") as file:
        for part in parts:
            file.write(part)
            digest.update(part)
    return {"sha256": digest.hexdigest()}


def _parts(path, commands):
    """Yield a file without the folders of whoever ran it; add what it ran to `commands`."""
    sample = path.parent.name
    if path.suffix == ".jsonl":
        for item in files.records(path):
            if not isinstance(item, str):
                item.argv = plain_argv(item.argv, item.sample)
                item.params = plain_params(item.params, item.sample)
                yield item.to_line().encode() + b"\n"
    elif path.name.endswith(".outcome.json"):
        outcome = files.object_in(path)
        argv = outcome.get("argv")
        argv = plain_argv(argv, sample) if isinstance(argv, list) else []
        if words := arguments(sample, argv):
            commands[f"    python {words}"] = None
        yield _json(outcome | {"argv": argv})
    else:
        yield files.read_bytes(path, LARGEST_RUN)


def is_one(path):
    """Tell whether a file is an archive, or is called one. Raises UsageError and OSError."""
    with files.opened(path) as file:
        return Path(path).suffix == ".zip" or file.read(2) == b"PK"


def unpack(path, folder):
    """Unpack an archive into `folder`, which is made: the run is in its folder run/.

    Returns its manifest, with the archive's own SHA-256 as `sha256`. Nothing is written before
    all of it was checked. Raises UsageError for what is no archive of ours, or was changed since
    it was packed.
    """
    try:
        with files.opened(path, LARGEST_FILE) as file:
            packed = file.read(os.fstat(file.fileno()).st_size)
        with zipfile.ZipFile(io.BytesIO(packed)) as archive:
            about = _checked(archive)
            archive.extractall(folder, about["files"])
    except OSError as error:
        why = error.strerror or one_line(error)
        raise UsageError(f"cannot unpack {printable(str(path))}: {why}") from error
    except Exception as error:  # zipfile has many, for what is hostile or broken
        why = one_line(error) or type(error).__name__
        raise UsageError(f"{printable(str(path))} is refused: {why}") from error
    return about | {"sha256": hashlib.sha256(packed).hexdigest()}


def _checked(archive):
    """Return the manifest of an open archive, all of which is as it says."""
    infos = archive.infolist()
    names = {info.filename for info in infos}
    _require(len(infos) <= MOST_FILES and sum(info.file_size for info in infos) <= LARGEST_RUN,
             "it holds more files or bytes than a run can have")
    _require(len(names) == len(infos), "it holds two files of the same name")
    for info in infos:
        name = info.filename
        _require(name == "manifest.json" or _MEMBER.fullmatch(name),
                 f"{name!r} is not the name of a file in a run")
        _require(info.external_attr >> 16 & 0o170000 in (0, 0o100000),
                 f"{name} is not a plain file")
        _require(info.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED),
                 f"{name} has an unsupported compression")
    _require("manifest.json" in names, "it has no manifest.json, so `fab export` did not make it")
    size = archive.getinfo("manifest.json").file_size
    _require(size <= files.LARGEST_OBJECT, "its manifest.json is too large")
    with archive.open("manifest.json") as member:
        about = _manifest(member.read(size))  # read() alone would inflate all that is there
    _require(names == {"manifest.json", *about["files"]}, "its files differ from its manifest")
    for name, expected in about["files"].items():
        with archive.open(name) as member:
            digest = hashlib.file_digest(member, "sha256").hexdigest()
        _require(digest == expected, f"the SHA-256 of {name} differs from that in the manifest")
    return about


def _manifest(data):
    """Return what a manifest says, with the SHA-256 of each of its `files`."""
    about = json.loads(data)
    _require(isinstance(about, dict) and about.get("format") == FORMAT,
             "it is not an archive of `fab export`")
    _require(about.get("version") in range(OLDEST, VERSION + 1), f"its version is "
             f"{about.get('version')!r}, this reader knows {OLDEST} to {VERSION}")
    for key in ("board", "run"):
        _require(isinstance(about.get(key), str), f"its manifest has no {key}")
        about[key] = printable(about[key])[:80]
    listed = about.get("files")
    listed = listed.items() if isinstance(listed, dict) else ()
    about["files"] = {name: each.get("sha256") for name, each in listed if isinstance(each, dict)}
    _require({"README.txt", "run/plan.json"} <= about["files"].keys(),
             "its manifest lists no files of a run")
    if about["version"] == OLDEST:
        about["data"] = {"licence": about.get("licence")}
    for name in OF:
        own = about[name] if isinstance(about.get(name), dict) else {}
        texts = {key: own.get(key) for key in _SAYS}
        about[name] = {k: v[:80] if isinstance(v, str) else None for k, v in texts.items()}
    return about


def _require(is_so, why):
    if not is_so:
        raise UsageError(why)


def _json(value):
    return json.dumps(value, indent=1, sort_keys=True).encode() + b"\n"
