"""Update the expected results of samples, expected.json: never done by a test or a run."""

import json

from common import files
from deploy import runs, samples, ship
from deploy.errors import BoardError


def expected(board, only=None):
    """Run the samples' cases on `board` and keep the digests of what came out.

    Raises BoardError where a case does not pass.
    """
    known = samples.load()
    chosen = {name: samples.pick(known, name) for name in ([only] if only else known)}
    ship.deploy(board)
    for name, cases in chosen.items():
        kept = {}
        for row in runs.run(board, cases, runs.name_run(), judge=False):
            if row.record.status == "unsupported":
                continue  # by this machine: the others of its case say what must come out
            if row.record.status != "passed":
                raise BoardError(f"{name} {row.case}: {row.record.reason}; nothing was written")
            kept.setdefault(row.case, []).append(row.record)
        if missing := [case.name for case in cases if case.name not in kept]:
            raise BoardError(f"{name} {missing[0]}: none of its kernels runs here; "
                             "nothing was written")
        digests = {case.name: _digests(case, kept[case.name]) for case in cases}
        content = json.dumps(digests, indent=2) + "\n"
        with files.writing(f"cannot write samples/{name}/expected.json"):
            files.replace(known[name].folder / "expected.json", content)
        board.say(f"wrote samples/{name}/expected.json")


def _digests(case, records):
    values = {"seed": records[0].params["seed"]}
    # Of the output of other cases each device gives bits of its own.
    for key in ("inputs_sha256", "output_sha256")[: 1 + case.golden]:
        digests = {item.check[key] for item in records}
        if len(digests) > 1:
            raise BoardError(f"case {case.name}: its kernels do not agree on the {key}")
        values[key] = digests.pop()
    return values
