"""The rules of the house that a program can check."""

import ast
import re
import subprocess
import sys

import pytest

from tests.conftest import ROOT

SOURCES = [
    path
    for path in sorted(ROOT.rglob("*"))
    if path.suffix in (".py", ".cl")
    and not {".venv", ".board", ".emulated", "results", "__pycache__"}
    & set(path.relative_to(ROOT).parts)
]
# Imports go one way: samples -> common; tools, report -> common; deploy -> both; dev -> all.
MAY_IMPORT = {
    "common": {"common", "numpy", "pyopencl", "torch"},  # the last need not be there
    "samples": {"common", "numpy", "pyopencl", "PIL"},
    "tools": {"common", "tools", "rich"},
    "deploy": {"common", "deploy", "tools", "fabric", "invoke", "rich"}
    | {"dask", "distributed", "numpy", "optuna"},
    "report": {"common", "report", "jinja2", "markupsafe", "matplotlib", "PIL"},
    "dev": {"common", "deploy", "dev", "report", "tools", "PIL", "selenium"},
}


def imports(path):
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module.split(".")[0])
    return found - set(sys.stdlib_module_names)


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_source_file(path):
    text = path.read_text()
    assert len(text.splitlines()) <= 400, "a file has more than 400 lines: split it"
    where = path.relative_to(ROOT).parts[0]
    if path.suffix == ".py" and where in MAY_IMPORT:
        beside = {p.stem for p in path.parent.glob("*.py")} if where == "samples" else set()
        assert imports(path) <= MAY_IMPORT[where] | beside
        assert ast.get_docstring(ast.parse(text))


# Of Python 3.9 and newer: what boards of Debian 11 and Ubuntu 20.04 lack.
NEWER = {
    "BooleanOptionalAction", "add_note", "batched", "bit_count", "cache", "exit_on_error",
    "file_digest", "hardlink_to", "is_relative_to", "lcm", "nextafter", "pairwise", "process_group",
    "randbytes", "removeprefix", "removesuffix", "unparse", "waitstatus_to_exitcode",
    "with_stem",
}
NEWER_ARGUMENTS = {"kw_only", "root_dir", "slots", "strict", "usedforsecurity"}


def newer(tree):
    """Yield what of a file's syntax tree Python 3.8 lacks, as far as ruff does not tell."""
    hints = {id(part) for node in ast.walk(tree) for name in ("annotation", "returns")
             if (hint := getattr(node, name, None)) for part in ast.walk(hint)}
    for node in ast.walk(tree):
        if id(node) in hints:
            continue
        if isinstance(node, (ast.Attribute, ast.ImportFrom, ast.keyword)):
            found = {getattr(node, "attr", None), getattr(node, "arg", None)}
            found |= {alias.name for alias in getattr(node, "names", ())}
            known = NEWER | NEWER_ARGUMENTS if isinstance(node, ast.keyword) else NEWER
            yield from found & known
        if isinstance(node, (ast.BinOp, ast.AugAssign)) and isinstance(node.op, ast.BitOr):
            sides = [getattr(node, side, None) for side in ("left", "right", "target", "value")]
            if not any(side and flags_or_set(side) for side in sides):
                yield f"{ast.unparse(node)}: of dicts?"


def flags_or_set(node):
    """Tell whether an operand of | says by itself that it is no dict."""
    if isinstance(node, ast.BinOp):
        return flags_or_set(node.left) or flags_or_set(node.right)
    called = isinstance(node, ast.Call) and getattr(node.func, "id", None) == "set"
    named = getattr(node, "attr", "").isupper()
    return isinstance(node, (ast.Set, ast.SetComp)) or called or named


def test_what_runs_on_a_board_needs_no_newer_python_than_boards_have():
    for path in SOURCES:
        where = path.relative_to(ROOT)
        if path.suffix == ".py" and where.parts[0] in ("common", "samples"):
            found = [*newer(ast.parse(path.read_text(), feature_version=(3, 8)))]
            assert not found, f"{where}: Python 3.8 has no {found[0]}"


@pytest.mark.parametrize(
    "text",
    ["from functools import cache", "text.removeprefix('x')", "zip(a, b, strict=True)", "a | b",
     "a |= {'x': 1}", "{**a} | b"],
)
def test_newer_python_is_found(text):
    assert list(newer(ast.parse(text)))


@pytest.mark.parametrize(
    "text", ["os.O_RDONLY | os.O_CLOEXEC", "have | {1}", "have |= set(more)", "flags |= F.A | F.B",
             "def f(a: str | None): pass"]
)
def test_flags_and_sets_are_no_newer_python(text):
    assert not list(newer(ast.parse(text)))


def test_the_record_needs_the_standard_library_only():
    assert imports(ROOT / "common" / "record.py") == set()


def test_no_version_stands_in_the_makefile():
    assert not re.findall(r"pip install.*==", (ROOT / "Makefile").read_text())


def test_the_set_up_says_what_pip_installs_before_it_does():
    command = ["make", "--dry-run", "--always-make", ".venv/ready"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert 0 < said.index('echo "installing $(grep -c == requirements.lock) packages') < (
        said.index("bin/pip install")
    )


@pytest.mark.parametrize("lock", sorted(ROOT.glob("requirements*.lock")), ids=lambda p: p.name)
def test_a_lock_pins_every_package_with_a_hash(lock):
    text = lock.read_text()
    packages = re.findall(r"^[a-z0-9-]+==.*(?:\n    .*)*", text, re.M)
    assert len(packages) > 10
    assert all("--hash=sha256:" in package for package in packages)
    assert len(packages) == len(re.findall("^[^ \n]", text, re.M))  # nothing else is asked for
    assert "://" not in text


def test_intels_driver_is_locked_for_the_machines_that_have_it():
    text = (ROOT / "requirements.lock").read_text()
    for name in ("intel-opencl-rt", "intel-cmplr-lib-rt", "intel-cmplr-lic-rt", "tbb", "tcmlib"):
        assert re.search(rf"^{name}==\S+ ; .*x86_64.*linux", text, re.M), name


def _modules(package):
    for path in sorted((ROOT / package).rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        if not name.endswith(("__main__", "__init__")):
            yield name


@pytest.mark.parametrize("package", ["deploy", "report", "tools"])
def test_what_starts_samples_and_reads_records_needs_no_opencl(package):
    code = "import sys; sys.modules['pyopencl'] = None; import " + ", ".join(_modules(package))
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done.stderr


def test_no_two_modules_that_are_imported_by_a_bare_name_share_it():
    paths = [*ROOT.glob("samples/*/*.py"), *ROOT.glob("tests/*.py")]
    names = [path.stem for path in paths if path.name != "run.py"]
    assert sorted(names) == sorted(set(names) - set(sys.stdlib_module_names))


# A test file is named for a module, a package or a sample, and may add which part of it.
TESTS = sorted((ROOT / "tests").glob("*/**/test_*.py"))


@pytest.mark.parametrize("path", TESTS, ids=lambda p: str(p.relative_to(ROOT / "tests")))
def test_the_tests_mirror_the_tree(path):
    folder = ROOT / path.parent.relative_to(ROOT / "tests")
    assert folder.is_dir()
    tested = [folder, *folder.iterdir(), *set(path.parent.glob("*.py")) - set(TESTS)]
    names = "|".join(re.escape(one.stem) for one in tested if one.is_dir() or one.suffix == ".py")
    assert re.fullmatch(f"test_({names})(_.+)?", path.stem)
