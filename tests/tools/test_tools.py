"""What all tools keep to: no sample's name, a help that says how to use them."""

import ast

import pytest

from common import manifest
from tests.conftest import ROOT
from tools.__main__ import COMMANDS, main

SOURCES = [path for name in ("tools", "deploy", "report") for path in (ROOT / name).rglob("*.py")]


def texts(source):
    return {node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant)}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_module_knows_a_sample(path):
    assert texts(path.read_text()).isdisjoint(manifest.names())


def test_a_sample_is_found_however_it_is_quoted():
    assert texts("f('sgemm', 1)") == {"sgemm", 1}
    assert ROOT / "deploy" / "onboard" / "limits.py" in SOURCES


@pytest.mark.parametrize("name", COMMANDS)
def test_each_has_a_help(name, capsys):
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    assert ended.value.code == 0
    assert f"python -m tools {name} " in capsys.readouterr().out
