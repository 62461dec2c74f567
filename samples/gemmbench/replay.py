"""Run a recorded point again, and say whether it agrees with its record.

python samples/gemmbench/run.py replay gemmbench.jsonl:12      the record in line 12

Agree: it passes again, and its median rate differs by no more than the recorded range. Kernel,
size, local size, inputs and repeats are those of the record, the device too, if no other is named.
The exit status is 0 where they agree or it no longer fails, 1 where they differ, and 77 where that
cannot be told: on another device, with a changed kernel, or from rates of less than 3 runs.
"""

import re
from pathlib import Path

import child
import key
import metadata
import options

from common import cli, record
from common import device as devices
from common.errors import PASSED, UNSUPPORTED, WRONG_RESULT, Unsupported, UsageError
from common.timing import figures

_ENOUGH = 3  # runs: the range of fewer says little
_STATISTICS = ("median", "min", "max", "range", "repeats")


def parser():
    """Return the parser of `replay`."""
    result = cli.bare_parser("gemmbench", __doc__)
    cli.add_device(result)
    cli.add_json(result)
    add = result.add_argument
    add("record", metavar="FILE:LINE", help="a record; only FILE where it holds one")
    add("--kernels", type=Path, metavar="DIR", help="folder of the kernel (default: as recorded)")
    add("--limit", type=options.positive, metavar="S", default=60,
        help="seconds that it may take (default %(default)s)")  # fmt: skip
    options.add_sysfs(result)
    return result


def main(args):
    """Run the point again and compare; return the exit status."""
    old = load(args.record)
    point = dict(old.params["point"])
    point["limits"] = args.limits or point["limits"]
    point |= where(args, old)
    path = find_kernel(Path(old.params["metadata"]), args.kernels)
    changed = metadata.load(path).digest() != point["kernel_sha256"]
    outcome = child.run(key.command(point, path, args.sysfs), args.limit)
    new = outcome.record
    if new is not None:
        cli.save(args, new)
    if others := unlike(old, new, changed and path.stem):
        verdict, status = f"not comparable: {others}", UNSUPPORTED
    else:
        verdict, status = compare(old, new)
    print(f"{key.label(point)}\n  recorded  {shown(old)}, {old.started}")
    print(f"  now       {shown(new) if new else outcome.reason}\n{verdict}")
    return status


def origin(item):
    """Return what a record says of its device; {} where that is nothing."""
    about = item.device or item.params.get("point", {}).get("ran_on")
    return about if isinstance(about, dict) and {"platform", "name"} <= set(about) else {}


def where(args, old):
    """Return the options of the device: those that are given, else those that name the record's.

    Raises Unsupported where that device is not here.
    """
    given = {name: getattr(args, name) for name in ("platform", "device", "type")}
    about = origin(old)
    if any(given.values()) or not about:
        recorded = {} if any(given.values()) else {n: old.params["point"][n] for n in given}
        return given | recorded
    found = []
    for p, platform in enumerate(devices.platforms()):
        if platform.name.strip() != about["platform"]:
            continue
        for d, device in enumerate(devices.devices(platform)):
            if device.name.strip() == about["name"]:
                now = devices.describe(device, devices.limits(device))
                same = sum(now[name] == about.get(name) for name in key.RAN_ON)
                found.append((-same, p, d))
    if not found:
        raise Unsupported(
            f"not comparable: recorded on {about['name']} ({about['platform']}), which is not "
            "here; -p or -d takes another device"
        )
    _, p, d = min(found)
    return {"platform": str(p), "device": str(d), "type": None}


def unlike(old, new, changed):
    """Return why no verdict is possible, or None; `changed` names a kernel that has changed.

    Says where only the driver is another: that is what a replay may be there to judge.
    """
    if changed:
        return f"the files of {changed} have changed since"
    was, now = origin(old), origin(new) if new else {}
    if not was or not now:
        return None
    if any(was[name] != now[name] for name in ("platform", "name")):
        return f"recorded on {was['name']} ({was['platform']}), now on {now['name']}"
    for name in ("platform_version", "driver"):
        if was.get(name) != now[name]:
            print(f"note: recorded with {name} {was.get(name)}, now {now[name]}")
    return None


def find_kernel(recorded, folder):
    """Return where the metadata is: in `folder`, else among ours.

    A path of a record is never followed: whoever wrote it chose what is there. Raises UsageError
    where the kernel is none of ours.
    """
    path = (folder or options.KERNELS) / recorded.name
    if folder is None and not path.exists():
        raise UsageError(f"{recorded} is none of our kernels: name its folder with --kernels")
    return path


def load(text):
    """Return the Record that FILE:LINE names. Raises UsageError where it is no point."""
    path, colon, line = text.rpartition(":")
    if not colon or not (line.isascii() and line.isdigit()):
        path, line = text, None
    try:
        records = list(record.scan(path))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    if line is None and len(records) != 1:
        raise UsageError(f"{path} has {len(records)} records: name one, such as {path}:1")
    if line is not None and not 1 <= int(line) <= len(records):
        raise UsageError(f"{path} has {len(records)} records, not one in line {line}")
    found = records[int(line or 1) - 1]
    if isinstance(found, str):  # what is wrong with that line; the others do not matter here
        raise UsageError(found)
    if found.sample != "gemmbench" or not {"point", "metadata"} <= set(found.params):
        raise UsageError(f"{text} is no point of gemmbench: it does not say how it was run")
    if problem := flaw(found):
        raise UsageError(f"{text} cannot be run again: {problem}")
    return found


def flaw(item):
    """Return what is wrong with the record of a point, as a text, or None."""
    path = item.params["metadata"]
    if not isinstance(path, str) or not path.isprintable():
        return "metadata is not a path"
    if item.status == "passed":
        values = item.metrics.get("statistics", {})
        for name in _STATISTICS:
            if type(values.get(name)) not in (int, float):
                return f"metrics.statistics.{name} is missing or no number"
    return key.flaw(item.params["point"])


def shown(item):
    """Return a record's result: its rate with the range, or why it did not pass."""
    if item.status != "passed":
        return f"{item.status}: {item.reason}"
    s = item.metrics["statistics"]
    return f"{figures(s['median'])} GFLOPS ({figures(s['min'])} to {figures(s['max'])})"


def _kind(reason):
    """Return a reason without its numbers."""
    return re.sub(r"[-+.\de]*\d", "0", reason or "")


def compare(old, new):
    """Return the verdict on a replay, and the exit status."""
    now = new.status if new else "error"
    if old.status == "passed" and now == "passed":
        before, after = old.metrics["statistics"], new.metrics["statistics"]
        apart = abs(after["median"] - before["median"])
        spread = f"{figures(apart)} GFLOPS apart, the recorded range is {figures(before['range'])}"
        runs = min(before["repeats"], after["repeats"])
        if runs < _ENOUGH:
            more = f"record it with --repeat {_ENOUGH} or more"
            return f"unsure: {spread}, but that is of {runs:g} runs: {more}", UNSUPPORTED
        if apart <= before["range"]:
            return f"agree: {spread}", PASSED
        return f"differ: {spread}", WRONG_RESULT
    if now == "passed":
        return f"no longer fails: it was recorded as {old.status}", PASSED
    if old.status == now:
        if new and _kind(old.reason) != _kind(new.reason):
            return f"differ: it still does not pass ({now}), but in another way", WRONG_RESULT
        return f"agree: it still does not pass ({now})", PASSED
    return f"differ: recorded as {old.status}, now {now}", WRONG_RESULT
