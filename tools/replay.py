"""Repeat the run of a record, and report whether the results agree.

python -m tools replay sgemm.jsonl:12               the record in line 12, on the same device
python -m tools replay sgemm.jsonl:12 -- -p intel   on another device
python -m tools replay --trust mine.jsonl           a file with one record, all options

Records of others are not trusted: only options that sample.toml lists as harmless are used, except
with --trust. Two results agree if both pass and their medians differ by no more than both spreads
(10th to 90th percentile) together, or by no more than 3 %.

Of a run over several sizes, only the size of the record is run again.

exit status: 0 they agree, or a failure passes now; 1 they differ; 77 inconclusive: another device,
other code, fewer than 3 times, or no end within the time limit.
"""

import itertools
import re

from common import files, manifest, record
from common.errors import (
    PASSED,
    UNSUPPORTED,
    WRONG_RESULT,
    WRONG_USAGE,
    Unsupported,
    UsageError,
)
from common.record import GOOD
from common.stats import FEWEST, noise, rate, spread
from common.text import figures, printable
from tools import child, command, engine, points

_DEVICE = {"-p", "--platform", "-d", "--device", "-t", "--type"}  # options that choose it


def options():
    result = command.parser("replay", __doc__, 60, of_sample=False)
    add = result.add_argument
    add("record", metavar="FILE:LINE", help="a record; FILE alone if it has only one")
    add("--trust", action="store_true", help="use all options of the record; for your own records")
    return result


def main(argv, run=child.run):
    """Run it again and compare; return the exit status. `run` does so elsewhere, as child.run()."""
    args, words = command.parse(options(), argv)
    old = load(args.record)
    if old.sample not in manifest.names():
        raise UsageError(f"the record is of the sample {old.sample!r}, which does not exist here")
    found = manifest.read(old.sample)
    recorded, device = _options(old, args.trust), []
    another = points.named(words) & _DEVICE
    if another or old.device:
        recorded = _without_device(recorded)
    if old.device and not another:
        device = [f"--platform={old.device.get('platform')}", f"--device={old.device['name']}"]
    asked = [*recorded, *words, *device]
    if not all(map(str.isprintable, asked)):
        raise UsageError("the record has options that are not printable")
    done = run(found.name, asked, args.limit + manifest.longer(found.name, asked))
    if device and done.status == WRONG_USAGE:
        raise Unsupported(f"not comparable: {done.why}; it was recorded with {' '.join(device)}: "
                          "if that is not here, name another device after --: -p, -d")
    new = counterpart(old, done)
    print(f"{found.name} {printable(old.variant or '')}: {' '.join(recorded)}")
    print(f"  recorded  {shown(found, old)}, {printable(old.started)}")
    print(f"  now       {shown(found, new)}")
    verdict, status = judge(found, old, new)
    if done.status is None and status == WRONG_RESULT:
        verdict = "inconclusive: it did not end within the time limit: give more with --limit"
        status = UNSUPPORTED
    print(*map(printable, verdict.splitlines()), sep="\n")
    return status


def _options(old, trust):
    """Return the options of a record. Raises UsageError where they may do more than choose."""
    words = manifest.as_asked(old.argv[1:])
    point = old.params.get("point")
    if isinstance(point, dict) and isinstance(point.get("options"), list):
        words = point["options"]  # where a run ended before it could say them
    words = _of_one(list(map(str, words)), old.params)
    if not trust and (odd := manifest.more_than_choice(old.sample, words)) is not None:
        what = "option" if odd.startswith("-") else "argument"
        raise UsageError(f"the record's {what} {odd} may name or write a file: give --trust if "
                         "the record is your own")
    return words


def _of_one(words, params):
    """Return the words, with the record's own value in place of a list, such as one of sizes."""
    kept = []
    for word in words:
        option, joined, value = word.partition("=")
        if not joined and kept:
            option, value = kept[-1], word
        own = params.get(option.removeprefix("--"))
        if option[:2] == "--" and isinstance(own, str) and re.search("[,:@]", value):
            word = f"{option}={own}"
            kept = kept if joined else kept[:-1]
        kept.append(word)
    return kept


def _without_device(words):
    """Return the words without those that choose the device, and their values."""
    kept, left = [], iter(words)
    for word in left:
        name, joined, _ = word.partition("=")
        if name not in _DEVICE:
            kept.append(word)
        elif not joined:
            next(left, None)
    return kept


def load(text):
    """Return the Record that FILE:LINE names. Raises UsageError where there is none."""
    path, colon, line = text.rpartition(":")
    if not (colon and re.fullmatch("[0-9]{1,12}", line)):
        path, line = text, ""
    if not path:
        raise UsageError("FILE:LINE: give a path: it is empty")
    number = int(line or 1)
    items = enumerate(files.records(path), 1)
    item = next((item for at, item in items if at == number), None)
    if item is None:
        raise UsageError(f"{path} has no line {number}")
    if not line and next(items, None):
        raise UsageError(f"{path} has several records: name one, such as {path}:1")
    if isinstance(item, str):
        raise UsageError(item)
    # The record of a run that ended there stays; of others a later one took its place.
    rest = itertools.chain([(number, item)], items if item.reason == record.UNFINISHED else ())
    if all(at != number for at, _ in record.settled(rest)):
        raise UsageError(f"{path}:{number} was written before {item.variant} was timed: name the "
                         "later record that replaced it")
    return item


def counterpart(old, done):
    """Return the record of the new run that stands for the old one; one of its own where none does.

    It has the same kernel, of several the same size.
    """
    same = [item for item in done.records if item.variant == old.variant]
    exact = [item for item in same if item.params.get("size") == old.params.get("size")]
    found = exact or same or [item for item in done.records if item.variant is None]
    if done.reason or not found:
        reason = done.reason or f"it left no record of {old.variant}"
        return record.Record(old.sample, old.variant, "error", reason)
    return found[-1]


def rates(found, item):
    """Return the Spread of a record's metric, or None where it has no metric or no times."""
    metric, times = engine.rate(found, item), spread([t for t in item.times() if t > 0])
    return rate([metric], times) if metric and times else None


def shown(found, item):
    """Return a record's result: its metric with the spread, or why it did not pass."""
    if item.reason:
        return printable(f"{item.status}: {item.reason}")
    its = rates(found, item)
    if its is None:
        return item.status
    about = f"median of {its.count}, spread {figures(its.low)} to {figures(its.high)}"
    about = about if its.count > 1 else "1 run, no spread"
    return f"{engine.amount(found, its.median, [item])} ({about})"


def judge(found, old, new):
    """Return the verdict, and the exit status."""
    was, now = (f"{d.get('name')} ({d.get('platform')})" for d in (old.device, new.device))
    if old.device and new.device and was != now:
        return f"not comparable: recorded on {was}, now on {now}", UNSUPPORTED
    if new.code and old.code != new.code:
        why = "the code has changed since" if old.code else "the record has no digest of its code"
        return f"not comparable: {why}", UNSUPPORTED
    notes = "".join(
        f"note: recorded with {name} {old.device[name]}, now {new.device[name]}\n"
        for name in ("platform_version", "driver")
        if name in old.device and name in new.device and old.device[name] != new.device[name]
    )
    verdict, status = compare(found, old, new)
    return notes + verdict, status


def compare(found, old, new):
    """Return the verdict on two runs of the same code and device, and the exit status."""
    if new.status not in GOOD:
        if old.status != new.status:
            return f"differ: recorded as {old.status}, now {new.status}", WRONG_RESULT
        if _kind(old.reason) != _kind(new.reason):
            return f"differ: the reason of the failure changed ({new.status})", WRONG_RESULT
        return f"agree: it fails as recorded ({new.status})", PASSED
    if old.status not in GOOD:
        return f"no longer fails: it was recorded as {old.status}", PASSED
    before, after = rates(found, old), rates(found, new)
    if before is None or after is None:
        return "agree: both runs passed; there are no times to compare", PASSED
    apart, allowed = abs(after.median - before.median), noise(after, before)
    if allowed is None:
        fewest = min(before.count, after.count)
        return f"inconclusive: one side has {fewest} times, fewer than {FEWEST}", UNSUPPORTED
    text = f"the medians differ by {figures(apart)}; up to {figures(allowed)} counts as noise"
    if apart <= allowed:
        return f"agree: {text}", PASSED
    note = "note: other load, or a hot device, may be the cause: repeat it on an idle machine"
    return f"differ: {text}\n{note}", WRONG_RESULT


def _kind(reason):
    """Return a reason without its numbers."""
    return re.sub(r"[-+.\de]*\d", "0", reason or "")
