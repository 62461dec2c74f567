"""Which kernels `--kernel best` of samples/mygemm runs, and what the program says of them."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pyopencl as cl
import pytest

from common import device, gemm, tuned
from common.errors import OPENCL_FAILURE, WRONG_RESULT, Unsupported
from common.planning import nvidia, vectors
from common.text import listed
from tests.conftest import sample_module

special = sample_module("mygemm", "special")
compare = sample_module("mygemm", "compare")
NVIDIA_H200 = {
    "name": "NVIDIA H200", "platform": "NVIDIA CUDA", "vendor": "NVIDIA", "type": "gpu",
    "compute_capability": "9.0", "limits": {"profile": "device"},
}


@pytest.fixture
def limits(queue):
    return device.limits(queue.device)


@pytest.fixture
def about(queue, limits):
    return device.describe(queue.device, limits)


def problem_of(text, precision="single", batch=1, lda=None):
    size = gemm.parse_size(text)
    return gemm.Problem(size, np.dtype(gemm.PRECISIONS[precision]), lda or size.K, size.N, size.N,
                        batch)


def arguments(folder, precision="single", **more):
    return SimpleNamespace(**{"tuned": folder, "precision": precision, "duration": None} | more)


def h200(limits, major=9):
    """Return the limits and a device as on an H200, or with an older compute capability."""
    extensions = frozenset({nvidia.EXTENSION, "cl_khr_fp64"})
    limits = replace(limits, extensions=extensions, local_mem_size=48 * 2**10,
                     max_work_group_size=1024)
    chip = {"type": cl.device_type.GPU, "max_compute_units": 132, "compute_capability_minor_nv": 0}
    return limits, SimpleNamespace(compute_capability_major_nv=major, **chip)


# What is stored.


def test_what_was_tuned_and_is_legal_here(queue, about, tmp_path, capsys):
    def best(profile=None, **its):
        limits = device.limits(queue.device, profile)
        ((kernel, params), *_) = special.best(
            arguments(tmp_path), problem_of("64"), {**about, **its}, limits, queue.device)
        return kernel.name, params, capsys.readouterr().out

    assert best(type="gpu", vendor="nobody") == (
        "registers_only", {}, "best: 11_registers_only (no stored parameters apply)\n")
    assert best(type="cpu")[0] == "packed"
    stored = (("tiles", 9, {"TS": 32}), ("01_naive", 5, {"TS": 16}), ("nonesuch", 99, {"TS": 4}),
              ("naive", 50, {"XY": 1}))
    for kernel, gflops, params in stored:
        tuned.store(tmp_path, tuned.identity(about), {
            "kernel": kernel, "precision": "single", "gflops": gflops, "params": params,
            "size": f"{60 + gflops}x64x64", "driver": "1", "when": "", "slower_than": None,
        })
    assert best()[:2] == ("naive", {"TS": 16})
    assert "tuned for this device" in best("mali-t628")[2]
    assert best("embedded")[0] != "naive"


@pytest.mark.parametrize("rows", [1, 64])
def test_what_was_the_fastest_at_this_size(queue, limits, about, tmp_path, rows):
    """For a matrix and a vector too, where kernels for matrices are otherwise passed over."""
    entry = {"precision": "single", "gflops": 9.0, "driver": "1", "when": "", "slower_than": None,
             "size": f"{rows}x64x64"}
    exact = {"kernel": "02_tiles", "params": {"TS": 8}, "compute_units": about["compute_units"]}
    for each in ({"kernel": "01_naive", "params": {"TS": 4}}, exact):
        tuned.store(tmp_path, tuned.identity(about), entry | each)

    def best(columns=64, lda=64):
        problem = problem_of(f"{rows}x{columns}x64", lda=lda)
        found = special.best(arguments(tmp_path), problem, about, limits, queue.device)
        return [kernel.number for kernel, _ in found]

    assert best() == [2]
    others = [1] if rows > 1 else [17, 12, 16]
    assert best(lda=65) == best(columns=63) == others


OF_A_MALI = [
    ("Mali-T860", "single", "22_mali_packed", {"M0": 4, "N0": 4, "UNROLL": 16}),
    ("Mali-G52 r1 (Panfrost)", "single", "24_mali_images", {"M0": 8, "N0": 4}),
    ("Mali-G57", "single", "24_mali_images", {"M0": 4, "N0": 4}),
    ("Mali-G610 (Panfrost)", "single", "24_mali_images", {"M0": 4, "N0": 4}),
    ("Mali-G725", "single", "24_mali_images", {"M0": 4, "N0": 4}),
    ("Mali-LODX", "single", "24_mali_images", {"M0": 4, "N0": 4}),  # by its vendor
    ("Mali-G31", "half", "25_mali_half", {"CHAIN": 64}),
    ("Mali-G57", "int8", "26_mali_int8", {"M0": 8}),
    ("Mali-G57", "double", "11_registers_only", {}),
    ("GeForce", "int8", "26_mali_int8", {}),
]


@pytest.mark.parametrize(("name", "precision", "label", "params"), OF_A_MALI)
def test_on_a_mali(queue, limits, about, capsys, name, precision, label, params):
    vendor = "ARM" if "Mali" in name else "NVIDIA"
    about = {**about, "name": name, "type": "gpu", "vendor": vendor}
    args, problem = arguments(special.TUNED, precision), problem_of("64", precision)
    ((kernel, given),) = special.best(args, problem, about, limits, queue.device)
    assert kernel.label == label
    assert params.items() <= given.items()
    assert ("chosen by a static model" in capsys.readouterr().out) == bool(params)


def test_on_a_mali_without_images(limits, about):
    chip, about = SimpleNamespace(image_support=False), {**about, "name": "Mali-G52", "type": "gpu"}
    ((kernel, _),) = special.best(
        arguments(special.TUNED), problem_of("64"), about, limits, chip)
    assert kernel.label == "22_mali_packed"


# Which kernels may be the fastest.


@pytest.mark.parametrize(("size", "batch", "numbers"), [
    ("640x1x64", 1, [16, 12]), ("1x640x64", 1, [17, 12]), ("64x1x64", 1, [16, 12, 17]),
    ("1x64x64", 1, [17, 12, 16]), ("1x1x64000", 1, [16, 12, 17]), ("2x64x1000", 1, [12, 17]),
    ("100x4x100", 1, [12, 16]), ("3x4x50000", 1, [12, 17, 16]), ("8x8x50000", 1, [12, 17, 16]),
    ("5x9x300", 1, [12, 17, 16]), ("5x9x3000", 1, [12]), ("16", 1, [12, 17, 16]),
    ("16", 4096, [12]), ("100", 1, [12]),
])
def test_on_a_cpu(queue, limits, about, tmp_path, capsys, size, batch, numbers):
    problem = problem_of(size, batch=batch)
    found = special.best(arguments(tmp_path), problem, about, limits, queue.device)
    assert [kernel.number for kernel, _ in found] == numbers
    assert not any(params for _, params in found)
    names = [kernel.label for kernel, _ in found]
    told = "may be the best" if len(names) > 1 else "best"
    said = capsys.readouterr().out
    assert said == f"{told}: {listed(names)} (no stored parameters apply)\n"


@pytest.mark.parametrize(
    ("size", "major", "number"),
    [("4096", 9, 15), ("3000x5000x1111", 9, 15), ("512", 9, 15), ("100000x64x64", 9, 15),
     ("128", 9, 13), ("768", 8, 14), ("4096", 8, 14), ("4096", 7, 13), ("4096x1x4096", 9, 16)],
)
def test_on_an_nvidia_gpu_those_that_are_close_by_the_model(limits, tmp_path, size, major, number):
    limits, chip = h200(limits, major)
    problem = problem_of(size)
    found = special.best(arguments(tmp_path), problem, NVIDIA_H200, limits, chip)
    seconds = {13: nvidia.warps(problem, limits, chip)[0], 14: nvidia.units(problem, chip)[0],
               15: nvidia.warpgroups(problem, chip)[0]}
    for each in {7: (14, 15), 8: (15,)}.get(major, ()):  # is not legal there
        del seconds[each]
    if problem.size.N == 1:
        seconds[16] = vectors.seconds(*vectors.about(problem, chip))
    order = sorted(seconds, key=seconds.get)
    close = [each for each in order if seconds[each] <= 1.3 * seconds[order[0]]]
    assert [kernel.number for kernel, _ in found] == close
    assert close[0] == number
    assert not any(params for _, params in found)


@pytest.mark.parametrize(
    ("order", "tile"), [(32, (32, 32)), (64, (64, 64)), (128, (64, 128))]
)
def test_for_small_products_on_an_h200(limits, tmp_path, order, tile):
    limits, chip = h200(limits)
    problem = problem_of(str(order), batch=4096)
    kernel, _ = special.best(arguments(tmp_path), problem, NVIDIA_H200, limits, chip)[0]
    assert kernel.number == 13
    found = kernel.start({}, problem, limits, chip)
    assert (found["TSM"], found["TSN"], found["SPLITS"]) == (*tile, 1)


def test_with_a_duration_only_the_favourite_runs(queue, limits, about, tmp_path, capsys):
    args = arguments(tmp_path, duration=1.0)
    found = special.best(args, problem_of("2x64x1000"), about, limits, queue.device)
    assert found == [(special.PACKED, {})]
    assert capsys.readouterr().out == "best: 12_packed (no stored parameters apply)\n"


def test_no_kernel_is_legal(limits, about, monkeypatch, tmp_path):
    monkeypatch.setattr(special, "_legal", lambda *_: False)
    with pytest.raises(Unsupported, match="no kernel suits this device"):
        special.best(arguments(tmp_path), problem_of("64"), about, limits, None)


# What the program says of several.


def result(name, ratio=None, kernel=True):
    """A kernel or a library; `ratio` is that to the first by the host's clock."""
    ratios = dict.fromkeys(("12_packed", "17_row_sums"), ratio)
    return SimpleNamespace(name=name, kernel=kernel or None, times=ratio, ratios=ratios,
                           gflops=ratio and 1 / ratio)


@pytest.mark.parametrize(("given", "results", "lines"), [
    ("best", [("12_packed", 9), ("17_row_sums", 10), ("numpy", 11, False)], ["best: 17_row_sums"]),
    ("best", [("12_packed", 9), ("17_row_sums",)], ["best: 12_packed"]),
    ("best", [("12_packed",), ("17_row_sums",)], []),
    ("best", [("12_packed", 9), ("numpy", 11, False)], []),
    ("12,17", [("12_packed", 9), ("17_row_sums", 10)], []),
])
def test_the_line_that_says_which_is_the_best(given, results, lines):
    args = SimpleNamespace(kernel=given)
    assert compare.fastest([result(*each) for each in results], args) == lines


def test_each_that_may_be_the_best_is_checked_timed_and_recorded(recorded):
    done, items = recorded("mygemm", "--size", "2x64x1000", "--repeat", 3, "--libraries", "none")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "may be the best: 12_packed and 17_row_sums (no stored parameters apply)" in done.stdout
    assert [(item.variant, item.status) for item in items] == [
        ("12_packed", "passed"), ("17_row_sums", "passed")]
    best = max(items, key=lambda item: item.metrics["ratios"]["12_packed"]).variant
    assert f"\nbest: {best}\n" in done.stdout


@pytest.mark.parametrize(("sizes", "same"), [("2x64x1000,3x64x1000", True),
                                             ("2x64x1000,640x1x1000", False)])
def test_ratios_by_size_are_to_a_kernel_that_runs_at_each(recorded, sizes, same):
    done, _ = recorded("mygemm", "--size", sizes, "--repeat", 2, "--libraries", "none")
    assert done.returncode == 0, done.stdout + done.stderr
    assert ("\nto 12_packed " in done.stdout) == same


CHANGES = {
    "crashes": ("os.abort()", "error", OPENCL_FAILURE),
    "fails": ("fail()", "error", OPENCL_FAILURE),
    "does nothing": ("(lambda: [cl.enqueue_marker(stream.queue)])", "failed", WRONG_RESULT),
}


@pytest.mark.parametrize("how", CHANGES)
@pytest.mark.parametrize("size", ["1x640x300", "2x64x1000"])
def test_one_that_is_wrong_or_fails_is_told_and_another_is_the_best(recorded, how, size):
    code, status, exit_status = CHANGES[how]
    change = f"""
import os
import pyopencl as cl
from common.errors import OpenCLFailure
enqueuer = run.enqueuer
def fail():
    raise OpenCLFailure("no")
def other(built, alpha, beta, stream):
    return {code} if built.plan.kernel.number == 17 else enqueuer(built, alpha, beta, stream)
run.enqueuer = other
"""
    done, items = recorded("mygemm", "--size", size, "--repeat", 2, "--libraries", "none",
                           change=change)
    assert {item.variant: item.status for item in items} == {
        "17_row_sums": status, "12_packed": "passed"}
    assert done.returncode == exit_status, done.stdout + done.stderr
    assert "\nbest: 12_packed\n" in done.stdout
    assert "Traceback" not in done.stderr
