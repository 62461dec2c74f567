"""common/start.py: an import that fails ends a sample with one line."""

import pytest

from common.start import importing

NUMPY = ImportError("\nIMPORTANT: read this\n\nlibm.so is missing\n")


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [(NUMPY, 3, "run.py: error: libm.so is missing: see docs/boards.md, What a board needs\n"),
     (KeyboardInterrupt(), 130, "")],
)
def test_an_import_that_fails(capsys, error, status, said):
    with pytest.raises(SystemExit) as ended, importing():
        raise error
    assert ended.value.code == status
    assert capsys.readouterr().err == said
