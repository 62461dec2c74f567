"""The samples of this checkout: their files, cases, and expected results."""

import hashlib
import json
import os
import re
from dataclasses import dataclass

from common import manifest
from common.errors import WRONG_USAGE, UsageError
from common.files import parsed, read_text
from common.manifest import Case, Manifest
from deploy.boards import ROOT
from tools import child

_PATIENCE = 60  # seconds for the parser of a sample
MOST_BYTES = 1024**2  # of an expected.json, or of a text of expected/


@dataclass(frozen=True)
class Sample(Manifest):
    """A Manifest with what is expected of the sample's cases. No board gets that.

    `expected` is expected.json: for each case what its records must hold; empty where it is not
    made yet. `texts` are the files of expected/: what a case of that name must print, see
    deploy/printed.py.
    """

    expected: dict
    texts: dict


def load(root=ROOT):
    """Return every sample by name. Raises UsageError for a sample.toml that cannot be used."""
    return {name: _load(name, root) for name in manifest.names(root)}


def every(samples, skip=(), where="skip"):
    """Return the cases of all samples, without those of the names in `skip`.

    Raises UsageError for a name that no case has; `where` is where it stands.
    """
    cases = [case for sample in samples.values() for case in sample.cases]
    if unknown := set(skip) - {case.name for case in cases}:
        raise UsageError(f"{where}: no sample has a case {min(unknown)!r}")
    return [case for case in cases if case.name not in skip]


def pick(samples, name, case=None):
    """Return the cases of one sample, or its one named case. Raises UsageError."""
    if name not in samples:
        raise UsageError(f"no sample '{name}': choose from {', '.join(samples)}")
    cases = [c for c in samples[name].cases if case in (None, c.name)]
    if not cases:
        have = ", ".join(c.name for c in samples[name].cases)
        raise UsageError(f"sample {name} has no case '{case}': choose from {have}")
    return cases


def asked(name, words):
    """Return a Case with the options that a user gave.

    Raises UsageError for one that no board may run, such as one that names a file: the board would
    look for it.
    """
    if wrong := manifest.more_than_choice(name, words, own=True):
        options = manifest.choosing(name)
        option, _, value = wrong.partition("=")
        takes_value = option in options["values"] | options["seconds"]
        if takes_value and not value:
            raise UsageError(f"{name}: {wrong!r} needs a number or a name as its value")
        why = (f"there is no such option, or no board may run it: see [options] in "
               f"samples/{name}/sample.toml")
        if takes_value or not wrong.startswith("-"):
            why = "give a number or a name as value"
        raise UsageError(f"{name}: {wrong!r} cannot be run on a board: {why}")
    timeout = max(case.timeout for case in manifest.read(name).cases)
    return Case(name, "asked", tuple(words), timeout, longer=manifest.longer(name, words))


def require_once(words):
    """Raise UsageError for an option that is given twice: a sample would take its last value."""
    options = [word.partition("=")[0] for word in words if re.match("-[^0-9.]", word)]
    if more := [option for option in options if options.count(option) > 1]:
        raise UsageError(f"{more[0]} is given more than once: give it once; `fab sweep` takes "
                         "several values after it, with spaces between them")


def require_values(name, words):
    """Raise UsageError where a sample's parser refuses the words: it is asked on this machine."""
    done = child.run(name, (*words, "--list"), _PATIENCE, {"OCL_ICD_VENDORS": os.devnull})
    if done.status == WRONG_USAGE:
        raise UsageError(f"{name}: {done.why}")


def _load(name, root):
    found = manifest.read(name, root)
    expected = _expected(found.folder / "expected.json")
    texts = {}
    for path in sorted(found.folder.glob("expected/*.txt")):
        where = f"samples/{name}/expected/{path.name}"
        texts[path.stem] = read_text(path, MOST_BYTES)
        if path.stem not in [case.name for case in found.cases]:
            raise UsageError(f"{where}: there is no case '{path.stem}'")
        if not texts[path.stem].strip():
            raise UsageError(f"{where} is empty: it would match any output")
    return Sample(**vars(found), expected=expected, texts=texts)


def _expected(path):
    if not path.exists():
        return {}
    value = parsed(path, MOST_BYTES, json.loads)
    if not isinstance(value, dict) or not all(isinstance(case, dict) for case in value.values()):
        raise UsageError(f"{path}: it must have an object for each case")
    return value


def shipped(samples, root=ROOT):
    """Return the files that a board gets, by their path there: common/ and the samples' files."""
    files = manifest.common_files(root)
    for sample in samples.values():
        files += [sample.folder / "sample.toml", *sample.files]
    return {file.relative_to(root).as_posix(): file for file in sorted(files)}


def hashes(files):
    """Return the SHA-256 of each file of `shipped`."""
    return {path: hashlib.sha256(file.read_bytes()).hexdigest() for path, file in files.items()}
