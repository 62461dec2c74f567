"""The section of kernels that were only built."""

import re

from report_data import item, make_run, program

FIGURES = {"by": "Mesa", "instructions": 331, "registers": 24, "threads": 2, "arithmetic": 10.2,
           "load_store": 12.0, "spills": 3, "fills": 4}


def built(kernel="dot4", status="built", compiler=None, **more):
    reason = None if status == "built" else "it is broken"
    kernel_numbers = {"private": 0, "local": 64, "limit": 256, "multiple": 8}
    metrics = {"kernel": kernel_numbers, **({"compiler": compiler} if compiler else {})}
    argv = ["samples/sgemm/run.py", "--build-only"]
    return item(kernel, status, (), reason=reason, metrics=metrics, argv=argv, check={}, **more)


def test_kernels_are_shown_by_board_with_what_binds_them(tmp_path, capsys):
    results, page = tmp_path / "results", tmp_path / "page.html"
    faster = {**FIGURES, "arithmetic": 20.5, "spills": 0, "fills": 0}
    make_run(results, built(compiler=FIGURES), built("row4", "failed"), board="mali-g52")
    make_run(results, built(compiler=faster), built("row4"), board="mali-g610")
    done = program(capsys, results, "--output", page)
    assert done.returncode == 0, done.stderr
    text = page.read_text()
    section = text.partition('id="builds"')[2].partition("</section>")[0]
    assert "do not hold for Arm&#39;s compiler" in section
    assert '<span class="badge memory">12 cycles of load/store</span>' in section
    assert "331 instructions, 24 registers, 2 threads, 3 spills, 4 fills" in section
    assert '<span class="badge arithmetic">20.5 cycles of arithmetic</span>' in section
    assert '<span class="badge failed">failed</span>' in section
    assert "0 bytes private, 64 bytes local" in section
    assert '<th scope="row">sgemm speed dot4</th>' in section


def test_a_page_of_kernels_that_ran_has_no_such_section(tmp_path, capsys):
    make_run(tmp_path / "results", item())
    program(capsys, tmp_path / "results", "--output", tmp_path / "page.html")
    assert 'id="builds"' not in (tmp_path / "page.html").read_text()


def test_parameters_that_differ_on_a_board_name_its_kernels(tmp_path, capsys):
    results, page = tmp_path / "results", tmp_path / "page.html"
    tiles = [built(params={"size": "512", "M0": n}, compiler=FIGURES) for n in (4, 8)]
    make_run(results, *tiles, board="mali-g52")
    make_run(results, tiles[1], built("row4", params={"size": "512", "M0": 2}), board="mali-g610")
    assert program(capsys, results, "--output", page).returncode == 0
    section = page.read_text().partition('id="builds"')[2].partition("</section>")[0]
    names = re.findall(r'<th scope="row">([^<]*)</th>', section)
    assert names == ["sgemm speed dot4 M0=4", "sgemm speed dot4 M0=8", "sgemm speed row4"]
    assert section.count('<span class="badge memory">') == 3
