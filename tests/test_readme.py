"""Every command of the README does what the README says."""

import os
import re
import signal
import subprocess
import time

import pytest

from deploy import samples
from tests.conftest import ROOT

README = (ROOT / "README.md").read_text()
COMMANDS = [
    line for block in re.findall(r"```sh\n(.*?)```", README, re.S) for line in block.splitlines()
]
SET_UP = [". .venv/bin/activate"]
OURSELVES = ["make test"]  # these tests are what it runs
EMULATED = [c for c in COMMANDS if re.search("make board|emulated", c)]  # test_emulate_readme


def test_there_are_commands():
    assert {"make run", "make test", "fab deploy --host odroid run-all"} <= set(COMMANDS)


def shell(command, folder, home, timeout=300):
    """Run a line in bash as a user who followed the README would."""
    lines = f"set -e\n{SET_UP[0]}\n{command}"
    env = {**os.environ, "HOME": str(home)}
    return subprocess.run(
        ["bash", "-c", lines], cwd=folder, env=env, capture_output=True, text=True, check=False,
        stdin=subprocess.DEVNULL, timeout=timeout,
    )


def run_few(folder):
    """Let boards.toml leave out most cases: every command is tried, not every kernel."""
    names = {case.name for case in samples.every(samples.load())}
    skip = f"skip = {sorted(names - {'documented'})}\n"
    toml = "".join(f"[{board}]\n{skip}" for board in ("local", "odroid", "firefly"))
    (folder / "boards.toml").write_text(toml.replace("'", '"'))


@pytest.mark.exhaustive
@pytest.mark.timeout(1200)
def test_every_command(walk_through, odroid, ssh_server, tmp_path):
    firefly = ssh_server("firefly")
    run_few(walk_through)
    blocks = odroid.host_block("odroid") + firefly.host_block("firefly")
    (tmp_path / ".ssh" / "config").write_text(blocks)
    for command in COMMANDS:
        if command in SET_UP + OURSELVES + EMULATED:
            continue
        few = command.replace("--budget 20", "--budget 2 --rounds 1")
        if few == "python samples/sgemm/run.py":  # PoCL takes a second and more for a launch
            few += " --repeat 1 --warmup 0"
        done = shell(few, walk_through, tmp_path)
        assert done.returncode == 0, command + "\n" + done.stdout + done.stderr
        assert done.stderr == "", command
    for board in ("local", "odroid", "firefly"):
        assert list(walk_through.glob(f"results/{board}/*/sgemm/documented.jsonl"))
    assert not (odroid.home / "opencl-samples").exists()  # clean was the last


def test_make_test_is_this_suite(walk_through, tmp_path):
    whole = shell("make -n test-all", walk_through, tmp_path).stdout
    assert whole.startswith(".venv/bin/python -u -m pytest -n 3 --dist worksteal ")
    assert " -m " not in whole.partition("pytest")[2]
    most = shell("make -n test", walk_through, tmp_path).stdout
    assert most == whole.replace("\n", ' -m "not exhaustive"\n')


def test_a_second_make_run_starts_within_two_seconds(walk_through, tmp_path):
    run_few(walk_through)
    times = []
    while len(times) < 3 or (min(times) >= 2 and len(times) < 10):  # others may use the machine
        start = time.monotonic()
        with subprocess.Popen(
            ["make", "run"], cwd=walk_through, env={**os.environ, "HOME": str(tmp_path)},
            stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL, start_new_session=True,
        ) as process:
            for line in process.stdout:
                if line.startswith("running "):  # the first case
                    times.append(time.monotonic() - start)
                    break
            os.killpg(process.pid, signal.SIGINT)  # a Ctrl-C: it stops the sample, too
            process.stdout.read()
    assert min(times) < 2, times


def test_the_table_names_every_sample():
    assert all(f"[{name}](samples/{name}/README.md)" in README for name in samples.load())


PAGES = [ROOT / "README.md", *ROOT.glob("samples/*/README.md"), *ROOT.glob("docs/*.md")]


def wrong_links(page):
    """Return the links of a page, to files and headings, that lead nowhere."""
    wrong = []
    for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", page.read_text()):
        to = page.parent / target if target else page
        if not to.exists() or (anchor and anchor not in anchors(to)):
            wrong.append(f"{target}#{anchor}")
    return wrong


def anchors(page):
    """Return the anchors that GitHub makes of a page's headings."""
    text, found = re.sub(r"```.*?```", "", page.read_text(), flags=re.S), {}
    for heading in re.findall(r"^#+ +(.*?) *$", text, re.M):
        words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        anchor = re.sub(r"[^\w -]", "", words).replace(" ", "-")
        found[anchor] = found.get(anchor, -1) + 1
    return {f"{a}-{n}" if n else a for a, count in found.items() for n in range(count + 1)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    assert wrong_links(page) == []


def test_a_link_that_leads_nowhere_is_found(tmp_path):
    (tmp_path / "a.md").write_text("# A `b`: c-d\n```sh\n# no heading\n```\n## A b c-d\n")
    page = tmp_path / "page.md"
    page.write_text("# Top\n[1](a.md#a-b-c-d) [2](a.md#a-b-c-d-1) [3](#top) [4](a.md) [5](https://x#y)\n"
                    "[6](a.md#no-heading) [7](#down) [8](b.md#top) [9](b.md)\n")
    assert wrong_links(page) == ["a.md#no-heading", "#down", "b.md#top", "b.md#"]
