"""The result record: one JSON object a line, versioned. Standard library only.

A reader refuses what it does not know, with the file and the line: a record that is half
understood is worse than none.
"""

import json
import math
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime, timezone

SCHEMA = 1
STATUSES = ("passed", "failed", "unsupported", "error")
_TIMING = {"queued_s", "wait_s", "run_s", "host_s", "warmup"}
_METRICS = {"gflops", "gbytes_per_s", "flop_convention"}
_CHECK = {"max_abs_error", "error_over_bound", "inputs_sha256", "output_sha256"}


class RecordError(ValueError):
    """A record that cannot be written or understood; the message names file and line."""


def _now():
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


@dataclass
class Record:
    """What one kernel did in one run of a sample.

    Times are in seconds, rates in 10^9 per second. `params` holds the sample's own parameters,
    `device` what device.describe() says, `environment` what board.environment() says. `timing`,
    `metrics` and `check` are empty where it did not come so far. `reason` says why the status is
    not `passed`.
    """

    sample: str
    variant: str | None
    status: str
    reason: str | None = None
    params: dict = field(default_factory=dict)
    device: dict = field(default_factory=dict)
    environment: dict = field(default_factory=dict)
    timing: dict = field(default_factory=dict)
    metrics: dict = field(default_factory=dict)
    check: dict = field(default_factory=dict)
    argv: list = field(default_factory=list)
    started: str = field(default_factory=_now)
    schema: int = SCHEMA

    def __post_init__(self):
        if self.schema != SCHEMA:
            raise RecordError(f"schema {self.schema} is unknown, this reader knows {SCHEMA}")
        if self.status not in STATUSES:
            raise RecordError(f"status {self.status!r} is none of {', '.join(STATUSES)}")
        if (self.status == "passed") != (self.reason is None):
            raise RecordError("a reason must stand with every status but passed")
        for name, known in (("timing", _TIMING), ("metrics", _METRICS), ("check", _CHECK)):
            if unknown := set(getattr(self, name)) - known:
                raise RecordError(f"unknown key {name}.{min(unknown)}")

    def to_line(self):
        """Return the record as one line of JSON. A number that is not finite becomes null."""
        return json.dumps(_finite(asdict(self)), sort_keys=True, allow_nan=False)


def _finite(value):
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def append(path, record):
    """Add the record to the file, flushed: what was written survives a crash of the next run."""
    with open(path, "a", encoding="utf-8") as file:
        file.write(record.to_line() + "\n")


def read(path):
    """Return the records of a file. Raises RecordError for the first line it cannot understand."""
    records, errors = read_lenient(path)
    if errors:
        raise RecordError(errors[0])
    return records


def read_lenient(path):
    """Return (records, errors): every record that is whole, and what is wrong with the others."""
    records, errors = [], []
    with open(path, encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, 1):
            try:
                records.append(_parse(line))
            except RecordError as error:
                errors.append(f"{path}:{number}: {error}")
    return records, errors


def _parse(line):
    try:
        data = json.loads(line)
    except ValueError as error:
        raise RecordError(f"not a JSON object: {error}") from error
    if not isinstance(data, dict):
        raise RecordError("not a JSON object")
    known = {f.name for f in fields(Record)}
    if data.get("schema") != SCHEMA:
        raise RecordError(f"schema {data.get('schema')!r} is unknown, this reader knows {SCHEMA}")
    if unknown := set(data) - known:
        raise RecordError(f"unknown key {min(unknown)}")
    if missing := known - set(data):
        raise RecordError(f"key {min(missing)} is missing")
    for f in fields(Record):
        if f.type in (dict, "dict") and not isinstance(data[f.name], dict):
            raise RecordError(f"{f.name} is not an object")
    return Record(**data)
