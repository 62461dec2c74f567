"""What fab says where a package is missing."""

import pytest


@pytest.mark.parametrize(
    ("package", "task"),
    [("numpy", "list"), ("rich", "list"), ("dask", "sweep sgemm"), ("distributed", "sweep sgemm"),
     ("optuna", "sweep learns.toml")],
)
def test_a_missing_package_is_one_line(fab, project, tmp_path, package, task):
    (project / "learns.toml").write_text('sample = "sgemm"\nsearch = "learn"\n')
    (tmp_path / "lacks").mkdir()
    (tmp_path / "lacks" / f"{package}.py").write_text(f"raise ImportError('no {package}')\n")
    done = fab(*task.split(), env={"PYTHONPATH": str(tmp_path / "lacks")})
    assert done.stderr == f"fab: error: no {package}: `make run` installs what it needs\n"
    assert done.returncode == 3
