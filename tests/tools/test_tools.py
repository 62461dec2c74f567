"""What all tools keep to: no sample's name, a help that says how to use them."""

import pytest

from common import manifest
from tests.conftest import ROOT
from tools.__main__ import COMMANDS, main

SOURCES = [path for name in ("tools", "deploy", "report") for path in (ROOT / name).glob("*.py")]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_no_module_knows_a_sample(path):
    for name in manifest.names():
        assert f'"{name}"' not in path.read_text()


@pytest.mark.parametrize("name", COMMANDS)
def test_each_has_a_help(name, capsys):
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    assert ended.value.code == 0
    assert f"python -m tools {name} " in capsys.readouterr().out
