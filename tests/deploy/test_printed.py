"""What a case prints against expected/<case>.txt: the comparison, and the texts of the samples."""

import re
import time

import pytest

from common.errors import UsageError
from deploy import printed, samples
from deploy.onboard.limits import LOG as LOG_LIMIT
from tests.conftest import ROOT

PART = "C = alpha * C\n0.1 0.25 -0.3\n1.5e-05 0.6 0.7\n"
TEXT = f"Sum = 9365464\n\n{PART}\n{PART}"
LOG = f"Device: x\n\nSum = 9365464\nRun time: 1ms\n\n{PART}Run time: 2ms\n\n{PART}PASSED\n"


def changed(number, line):
    """Return LOG with another line of that number, or without it."""
    lines = LOG.splitlines()
    lines[number - 1 : number] = [] if line is None else [line]
    return "\n".join(lines) + "\n"


def test_other_lines_and_spaces_do_not_matter():
    assert printed.difference(TEXT, LOG) is None
    assert printed.difference(TEXT, LOG.replace("0.25", "\t 0.25").replace("\n", "\r\n")) is None
    assert printed.difference(TEXT.replace("\n", "\n\n"), f"warning\n{LOG}") is None


AGREE = [
    ("0.25", "0.25"), ("0.25", "0.26"), ("0.25", "0.24"), ("0.5558", "0.555801"),
    ("0.1", "0.0999999"), ("1.5e-05", "1.4e-05"), ("1.5e-05", "0.000015"), ("-0.1", "-.1"),
    ("99.9", "100.0"), ("7", "+7"), ("7", "007"), ("64,", "64,"), ("(0.5)", "(0.6)"), ("x", "x"),
    ("9" * 40, "9" * 40), ("1.0e+999", "1.0e+999"), ("0.0", "-0.0"),
]
DIFFER = [
    ("0.25", "0.27"), ("0.25", "0.23"), ("0.5558", "0.555802"), ("0.25", "-0.25"), ("0.25", "nan"),
    ("0.25", "inf"), ("0.25", "0.2 5"), ("0.25", "0.25x"), ("0.25", "0,25"), ("1.5e-05", "1.3e-05"),
    ("1.5e-05", "1.5e-06"), ("9365464", "9365465"), ("9365464", "9365464.0"), ("7.0", "7"),
    ("9" * 40, "9" * 39 + "8"), ("9" * 41, "0" + "9" * 41), ("64,", "64"), ("64,", "96,"),
    ("x", "X"), ("1.0e+999", "1.0e+998"), ("1.0", "1.0e9999999"), ("0.25", "\u0660.25"),
    ("0.25", "0x1p-2"), ("1000", "1_000"), ("0.25", ""), (",", ";"),
]


@pytest.mark.parametrize(("wanted", "came"), AGREE)
def test_numbers_that_agree(wanted, came):
    assert printed.difference(f"a = {wanted} b", f"a = {came} b\n") is None


@pytest.mark.parametrize(("wanted", "came"), DIFFER)
def test_words_that_differ(wanted, came):
    reason = printed.difference(f"a = {wanted} b", f"a = {came} b\n")
    assert reason.startswith(
        f'line 1, "a = {wanted} b", is not printed: nearest is line 1 of the log'
    )
    assert reason.endswith(f'"a = {came} b"' if came else '"a = b"')


BROKEN = {
    "a digit of an integer": (3, "Sum = 9365469", 1, 'line 3 of the log, "Sum = 9365469"'),
    "a digit in the first part": (7, "0.1 0.25 -0.5", 4, 'line 7 of the log, "0.1 0.25 -0.5"'),
    "a digit in the last part": (12, "0.1 0.45 -0.3", 8, 'line 12 of the log, "0.1 0.45 -0.3"'),
    "nan": (8, "nan nan nan", 5, 'line 8 of the log, "nan nan nan"'),
    "an exponent": (13, "1.5e-04 0.6 0.7", 9, 'line 13 of the log, "1.5e-04 0.6 0.7"'),
    "a number too many": (13, "1.5e-05 0.6 0.7 0", 9, '"1.5e-05 0.6 0.7 0"'),
    "a sign": (3, "Sum = -9365464", 1, '"Sum = -9365464"'),
    "what could steer a terminal": (3, "Sum = \x1b[2J7", 1, '"Sum = ?[2J7"'),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_the_reason_names_the_line_and_the_nearest(broken):
    number, line, wanted, nearest = BROKEN[broken]
    reason = printed.difference(TEXT, changed(number, line))
    text = TEXT.split("\n")[wanted - 1]
    assert reason.startswith(f'line {wanted}, "{text}", is not printed: nearest is '), reason
    assert nearest in reason


def test_a_missing_line():
    reason = printed.difference(TEXT, changed(3, None))
    nearest = 'nearest is line 3 of the log, "Run time: 1ms"'  # as many words
    assert reason == f'line 1, "Sum = 9365464", is not printed: {nearest}'
    # The row of one part is there in the other: that is no excuse.
    for number, wanted in ((7, 4), (12, 8)):
        reason = printed.difference(TEXT, changed(number, None))
        assert reason.startswith(f'line {wanted}, "0.1 0.25 -0.3", is not printed'), reason


def test_lines_in_another_order():
    swapped = "Square = 7\nSum = 5\n"
    reason = printed.difference("Sum = 5\nSquare = 7\n", swapped)
    assert reason == (
        'line 1, "Sum = 5", is not printed where it belongs, and nothing like it is'
    )
    rows = "0.1 0.25 -0.3\n1.5e-05 0.6 0.7\n"
    back = "".join(rows.splitlines(keepends=True)[::-1])
    assert printed.difference(TEXT, LOG.replace(rows, back, 1)) is not None


def test_a_log_that_is_truncated_empty_or_no_text():
    for end in range(0, LOG.rindex("0.7"), 3):
        assert printed.difference(TEXT, LOG[:end]) is not None
    assert printed.difference(TEXT, "").endswith("and nothing like it is")
    noise = bytes(range(256)) * 8
    reason = printed.difference(TEXT, noise.decode("utf-8", "replace"))
    assert reason.startswith('line 1, "Sum = 9365464", is not printed')
    assert reason.isprintable()
    assert printed.difference(TEXT, f"{noise.decode('latin-1')}\n{LOG}") is None


def test_a_long_line_agrees_with_none_and_is_shown_in_part():
    long = "0.5 " * 1000
    assert printed.difference(long, long) is not None
    assert printed.difference("Sum = 5", f"{'Sum = 5 ' * 50}\n") is not None
    assert len(printed.difference("Sum = 5", f"{'Sum = 5 ' * 50}\n")) < 500


def test_a_log_is_read_up_to_what_a_board_may_send(tmp_path):
    log = tmp_path / "x.log"
    assert printed.read_log(log) == ""
    log.write_bytes(b"\xff\n" + b"x" * LOG_LIMIT)
    assert printed.read_log(log) == "\ufffd\n" + "x" * (LOG_LIMIT - 2)


HOSTILE = {
    "empty lines": "\n", "one line": "0.1 ", "one number": "9", "near numbers": "0.1 0.25 -0.4\n",
    "short lines": "1\n", "digits": "9" * 40 + "\n", "long lines": "1.5 " * 249 + "\n",
    "exponents": "1e999 1e-999 1e9\n", "almost a number": "1" * 39 + "x\n",
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_log_costs_seconds_only(kind):
    part = HOSTILE[kind]
    start = time.process_time()
    reason = printed.difference(TEXT, part * (LOG_LIMIT // len(part)))
    assert reason.startswith("line 1, ")
    assert time.process_time() - start < 10  # some 2 s here, 0.2 s for most


# What the samples have

LOADED = samples.load()
TEXTS = [(name, case) for name, sample in LOADED.items() for case in sample.texts]
README = {name: (LOADED[name].folder / "README.md").read_text() for name in LOADED}


def test_the_documented_examples_have_a_text():
    documented = {(c.sample, c.name) for c in samples.every(LOADED) if c.name == "documented"}
    assert {("sgemm", "documented"), ("64_bit_integer", "documented")} <= documented <= set(TEXTS)


@pytest.mark.parametrize(("name", "case"), TEXTS)
def test_a_case_prints_its_text(run_sample, name, case):
    (chosen,) = samples.pick(LOADED, name, case)
    done = run_sample(name, *chosen.args)
    assert done.returncode == 0, done.stderr
    assert printed.difference(LOADED[name].texts[case], done.stdout) is None


@pytest.mark.parametrize(("name", "case"), TEXTS)
def test_no_line_of_a_text_can_be_wrong(name, case):
    """Each number of each line is looked at: another last digit is a fault."""
    text = LOADED[name].texts[case]
    assert printed.difference(text, text) is None
    for found in re.finditer(r"(?<![\w.-])-?\d+\.?\d*(?![\w.])", text):
        last = found[0][-1]
        wrong = found[0][:-1] + str((int(last) + 5) % 10)
        log = f"{text[: found.start()]}{wrong}{text[found.end() :]}"
        assert printed.difference(text, log) is not None, wrong


def test_texts_are_not_shipped():
    assert not [path for path in samples.shipped(LOADED) if "/expected/" in path]


def test_the_readmes_show_what_the_texts_say():
    text = LOADED["64_bit_integer"].texts["documented"]
    assert printed.difference(text, README["64_bit_integer"]) is None
    text = LOADED["sgemm"].texts["documented"]
    block = re.search(r"(?:^    .*\n)*^    C = alpha.*\n(?:^    .*\n)*", README["sgemm"], re.M)[0]
    assert len(block.splitlines()) == 5
    assert printed.difference(block, text) is None
    text = LOADED["gemmbench"].texts["paper"]
    rows = re.findall(r"^    (?:64 |96 |100) +SGEMM.*FAILS$", README["gemmbench"], re.M)
    assert len(rows) == 3
    assert printed.difference("\n".join(rows), text) is None


# As part of a run

PRINTS = "print('''Device: here\nSum = 5\nMean = 0.25\n''')\n"


def texts(folder, **by_case):
    (folder / "expected").mkdir()
    for case, text in by_case.items():
        (folder / "expected" / f"{case}.txt").write_text(text)


@pytest.mark.parametrize("board", ["local", "odroid"])
def test_a_case_that_prints_another_text_fails(fab, stub, request, board):
    if board == "odroid":
        request.getfixturevalue("odroid")
    folder = stub("prints", PRINTS, cases=("right", "wrong"))
    texts(folder, right="Sum = 5\nMean = 0.26\n", wrong="Sum = 5\nMean = 0.35\n")
    done = fab("deploy", "--host", board, "run-all")
    assert done.returncode == 1
    words = " ".join(done.stdout.split())
    reason = 'expected/wrong.txt: line 2, "Mean = 0.35", is not printed: nearest is line 3'
    assert f'failed: prints wrong: {reason} of the log, "Mean = 0.25"' in words
    assert "expected/right.txt" not in words
    assert "2 of 3 passed" in words


def test_a_case_that_passed_only_in_part_is_left_to_its_records(fab, stub):
    code = """
append(args.json, Record('part', 'x', 'unsupported', 'lacks it'))
append(args.json, Record('part', 'y', 'passed'))
sys.exit(77)
"""
    texts(stub("part", PRINTS + code), only="Sum = 6\n")
    done = fab("deploy", "run-all")
    assert done.returncode == 0
    assert "expected/only.txt" not in done.stdout
    assert "unsupported: part only: lacks it" in done.stdout


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("other", b"x\n", "expected/other.txt: there is no case 'other'"),
        ("only", b" \n\n", "expected/only.txt is empty"),
        ("only", b"\xff\n", r"only\.txt is not text in UTF-8"),
    ],
)
def test_a_text_that_cannot_be_used(stub, project, name, content, message):
    folder = stub("two")
    texts(folder)
    (folder / "expected" / f"{name}.txt").write_bytes(content)
    with pytest.raises(UsageError, match=message):
        samples.load(project)


def test_the_texts_are_beside_expected_json():
    files = sorted(ROOT.glob("samples/*/expected/*"))
    assert len(files) == len(TEXTS) >= 3
