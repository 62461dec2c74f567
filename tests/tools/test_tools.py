"""What all tools keep to: no sample's name, a help that says how to use them."""

import pytest

from common import manifest
from tests.conftest import ROOT
from tools.__main__ import COMMANDS, main

SOURCES = sorted((ROOT / "tools").glob("*.py"))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_no_tool_knows_a_sample(path):
    text = path.read_text()
    code = text.partition('"""\n\n')[2] if text.count('"""') > 1 else text  # without examples
    code = code if '"""' in text[:4] else text
    for name in manifest.names():
        assert f'"{name}"' not in code


@pytest.mark.parametrize("name", COMMANDS)
def test_each_has_a_help(name, capsys):
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    assert ended.value.code == 0
    assert f"python -m tools {name} " in capsys.readouterr().out
