"""What `--kernel best` of samples/mygemm runs: what was stored, or the fastest of a few kernels."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pyopencl as cl
import pytest

from common import device, gemm, tuned
from common.errors import OPENCL_FAILURE, OpenCLFailure, Unsupported
from common.isolation import Progress
from common.planning import nvidia, vectors
from tests.conftest import sample_module

special = sample_module("mygemm", "special")
NVIDIA_H200 = {
    "name": "NVIDIA H200", "platform": "NVIDIA CUDA", "vendor": "NVIDIA", "type": "gpu",
    "compute_capability": "9.0", "limits": {"profile": "device"},
}


@pytest.fixture(scope="module")
def best():
    return sample_module("mygemm", "best")


@pytest.fixture(scope="module")
def run():
    return sample_module("mygemm", "run")


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
    return SimpleNamespace(tuned=folder, precision=precision, **more)


def h200(limits, major=9):
    """Return the limits and a device as on an H200, or with an older compute capability."""
    extensions = frozenset({nvidia.EXTENSION, "cl_khr_fp64"})
    limits = replace(limits, extensions=extensions, local_mem_size=48 * 2**10,
                     max_work_group_size=1024)
    chip = {"type": cl.device_type.GPU, "max_compute_units": 132, "compute_capability_minor_nv": 0}
    return limits, SimpleNamespace(compute_capability_major_nv=major, **chip)


# What is stored.


def test_what_was_tuned_and_is_legal_here(best, queue, about, tmp_path):
    def first(profile=None, **its):
        limits = device.limits(queue.device, profile)
        return best.candidates(arguments(tmp_path), problem_of("64"), {**about, **its}, limits,
                               queue.device)[0]

    kernel, params, why = first(type="gpu", vendor="nobody")
    assert (kernel.name, params) == ("registers_only", {})
    assert why == "the default for every device; no stored parameters apply"
    assert first(type="cpu").kernel.name == "packed"
    stored = (("tiles", 9, {"TS": 32}), ("01_naive", 5, {"TS": 16}), ("nonesuch", 99, {"TS": 4}),
              ("naive", 50, {"XY": 1}))
    for kernel, gflops, params in stored:
        tuned.store(tmp_path, tuned.identity(about), {
            "kernel": kernel, "precision": "single", "gflops": gflops, "params": params,
            "size": f"{60 + gflops}x64x64", "driver": "1", "when": "", "slower_than": None,
        })
    kernel, params, _ = first()
    assert (kernel.name, params) == ("naive", {"TS": 16})
    assert "tuned for this device" in first("mali-t628").why
    assert first("embedded").kernel.name != "naive"


@pytest.mark.parametrize("rows", [1, 64])
def test_what_was_the_fastest_at_this_size(best, queue, limits, about, tmp_path, rows):
    """For a matrix and a vector too, where kernels for matrices are otherwise passed over."""
    entry = {"precision": "single", "gflops": 9.0, "driver": "1", "when": "", "slower_than": None,
             "size": f"{rows}x64x64"}
    exact = {"kernel": "02_tiles", "params": {"TS": 8}, "compute_units": about["compute_units"]}
    for each in ({"kernel": "01_naive", "params": {"TS": 4}}, exact):
        tuned.store(tmp_path, tuned.identity(about), entry | each)

    def names(columns=64, lda=64):
        problem = problem_of(f"{rows}x{columns}x64", lda=lda)
        found = best.candidates(arguments(tmp_path), problem, about, limits, queue.device)
        return [each.name for each in found]

    assert names() == ["02_tiles --TS 8"]
    for found in (names(lda=65), names(columns=63)):
        assert found == ["01_naive --TS 4"] if rows > 1 else found[0] == "17_row_sums"


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
def test_on_a_mali(best, queue, limits, about, name, precision, label, params):
    vendor = "ARM" if "Mali" in name else "NVIDIA"
    about = {**about, "name": name, "type": "gpu", "vendor": vendor}
    args, problem = arguments(special.TUNED, precision), problem_of("64", precision)
    kernel, given, why = best.candidates(args, problem, about, limits, queue.device)[0]
    assert kernel.label == label
    assert params.items() <= given.items()
    assert ("chosen by a static model" in why) == bool(params)


def test_on_a_mali_without_images(best, limits, about):
    chip, about = SimpleNamespace(image_support=False), {**about, "name": "Mali-G52", "type": "gpu"}
    found = best.candidates(arguments(special.TUNED), problem_of("64"), about, limits, chip)
    assert found[0].kernel.label == "22_mali_packed"


# Which kernels may be the fastest.


@pytest.mark.parametrize(("size", "numbers"), [
    ("64x1x64", [16, 16, 16, 12, 17]), ("1x64x64", [17, 17, 12, 16]),
    ("1x1x64", [16, 16, 16, 12, 17]), ("2x64x1000", [12, 17]), ("100x8x100", [12, 16]),
    ("3x4x50000", [12, 17, 16]), ("9x9x300", [12]), ("16", [12, 17, 16]), ("100", [12]),
])
def test_on_a_cpu(best, queue, limits, about, tmp_path, size, numbers):
    found = best.candidates(arguments(tmp_path), problem_of(size), about, limits, queue.device)
    assert [each.kernel.number for each in found] == numbers
    assert len({each.name for each in found}) == len(found)
    assert all(each.kernel.number > 12 for each in found if each.params)


@pytest.mark.parametrize(("size", "name", "values"), [
    ("1000x1x100", "ROWS", {1, 4, 8}), ("1x1x99", "ROWS", {1, 4, 8}),
    ("1x500x900", "UNROLL", {4, 8}),
])
def test_a_vector_has_other_parameters_than_the_defaults_to_try(queue, limits, size, name, values):
    problem = problem_of(size)
    start = vectors.start_dots if name == "ROWS" else vectors.start_sums
    default = start({}, problem, limits, queue.device)[name]
    others = vectors.others(problem, limits, queue.device)
    assert [set(each) for each in others] == [{name}] * len(others)
    assert {each[name] for each in others} == values - {default}


@pytest.mark.parametrize(
    ("size", "major", "number"),
    [("4096", 9, 15), ("3000x5000x1111", 9, 15), ("512", 9, 15), ("100000x64x64", 9, 15),
     ("128", 9, 13), ("768", 8, 14), ("4096", 8, 14), ("4096", 7, 13), ("4096x1x4096", 9, 16)],
)
def test_on_an_nvidia_gpu_those_that_are_close_by_the_model(
        best, limits, tmp_path, size, major, number):
    limits, chip = h200(limits, major)
    problem = problem_of(size)
    found = best.candidates(arguments(tmp_path), problem, NVIDIA_H200, limits, chip)
    seconds = {13: nvidia.warps(problem, limits, chip)[0], 14: nvidia.units(problem, chip)[0],
               15: nvidia.warpgroups(problem, chip)[0]}
    for each in {7: (14, 15), 8: (15,)}.get(major, ()):  # is not legal there
        del seconds[each]
    if problem.size.N == 1:
        seconds[16] = vectors.seconds(*vectors.about(problem, chip))
    order = sorted(seconds, key=seconds.get)
    close = [each for each in order if seconds[each] <= 1.3 * seconds[order[0]]]
    assert [each.kernel.number for each in found] == close
    assert close[0] == number
    assert not any(each.params for each in found)


@pytest.mark.parametrize(
    ("order", "tile"), [(32, (32, 32)), (64, (64, 64)), (128, (64, 128))]
)
def test_for_small_products_on_an_h200(best, limits, tmp_path, order, tile):
    limits, chip = h200(limits)
    problem = problem_of(str(order), batch=4096)
    kernel = best.candidates(arguments(tmp_path), problem, NVIDIA_H200, limits, chip)[0].kernel
    assert kernel.number == 13
    found = kernel.start({}, problem, limits, chip)
    assert (found["TSM"], found["TSN"], found["SPLITS"]) == (*tile, 1)


# A trial.


@pytest.fixture
def pick(best, run, queue, limits, about, tmp_path, monkeypatch, capsys):
    """Choose at a size where each kernel takes so many seconds; gives its number, and the output.

    Seconds may be given for a name with parameters as well, and that name is then given back.
    What takes 0 seconds ends with an error when it is launched, and a None when it is built.
    """
    def choose(size, seconds, **more):
        def launched(contender, *_):
            spent = seconds.get(contender.name, seconds[int(contender.name[:2])])
            if not spent:
                raise OpenCLFailure("the launch failed")
            return 0, 0, 0, spent

        def built(queue, limits, kernel, given, problem):
            if seconds[kernel.number] is None:
                raise Unsupported("not here")
            return build(queue, limits, kernel, given, problem)

        build = best.plans.build_kernel
        monkeypatch.setattr(best.Contender, "sample", launched)
        monkeypatch.setattr(best.plans, "build_kernel", built)
        usual = {"data": "sdk", "seed": 1, "alpha": 1.0, "beta": 0.0, "in_flight": None,
                 "queues": None, "caches": "warm", "build_only": False, "progress": Progress()}
        args = arguments(tmp_path, **usual | more)
        picked = best.pick(args, problem_of(size), about, limits, queue, run.enqueuer)
        ((kernel, params),) = picked
        name = best.Candidate(kernel, params, "").name
        return (name if params else kernel.number), capsys.readouterr().out

    return choose


def test_the_fastest_of_those_tried(pick):
    number, said = pick("2x64x1000", {12: 2e-5, 17: 1e-5})
    assert (number, said) == (17, "best: 17_row_sums (the fastest of those tried, within 3 %: "
                                  "12_packed takes 2.00 times as long)\n")


def test_the_favourite_of_those_that_tie(pick):
    assert pick("2x64x1000", {12: 2e-5, 17: 1.95e-5})[0] == 12


def test_parameters_are_tried_and_used(pick):
    name, said = pick("1x64x1000", {17: 3e-5, "17_row_sums --UNROLL 4": 1e-5, 12: 2e-5, 16: 4e-5})
    assert name == "17_row_sums --UNROLL 4"
    assert said == (
        "best: 17_row_sums --UNROLL 4 (the fastest of those tried, within 3 %: 17_row_sums takes "
        "3.00 times as long, 12_packed 2.00 times)\n"
    )


def test_one_that_fails_is_left_out(pick):
    number, said = pick("1x4x50000", {12: 3e-5, 17: 0, 16: None})
    assert number == 12
    assert said.splitlines() == [
        "17_row_sums was tried, but ended with: the launch failed",
        "17_row_sums --UNROLL 4 was tried, but ended with: the launch failed",
        "16_dot_products was tried, but ended with: not here",
        "best: 12_packed (the default for CPUs; no stored parameters apply)",
    ]


def test_if_all_fail_the_favourite_runs_and_says_why(pick):
    for ends in (0, None):
        number, said = pick("2x64x1000", {12: ends, 17: ends})
        assert number == 12
        reason = "not here" if ends is None else "the launch failed"
        assert f"12_packed was tried, but ended with: {reason}" in said


def test_one_that_crashed_before_is_not_tried_again(pick):
    progress = Progress()
    progress.done("17_row_sums", "2x64x1000", "error", "crashed by SIGSEGV while trying")
    number, said = pick("2x64x1000", {12: 2e-5, 17: 1e-5}, progress=progress)
    assert number == 12
    assert "17_row_sums was tried, but ended with: crashed by SIGSEGV while trying" in said


def test_a_single_candidate_and_build_only_need_no_trial(pick):
    assert pick("100", {12: None})[0] == 12
    assert pick("2x64x1000", {12: None, 17: None}, build_only=True)[0] == 12


def test_through_the_program(recorded):
    done, items = recorded("mygemm", "--size", "2x64x1000", "--check-only", "--data", "integer")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "best: " in done.stdout
    assert "the fastest of those tried" in done.stdout
    assert [item.status for item in items] == ["passed"]


CRASH = """
import os
enqueuer = run.enqueuer
run.enqueuer = lambda built, *more: os.abort() if built.plan.kernel.number == 17 else enqueuer(
    built, *more)
"""


def test_a_kernel_that_crashes_the_driver_in_a_trial_is_recorded_and_another_runs(recorded):
    done, items = recorded("mygemm", "--size", "2x64x1000", "--check-only", change=CRASH)
    assert {item.variant: item.status for item in items} == {
        "17_row_sums": "error", "12_packed": "passed"}
    assert done.returncode == OPENCL_FAILURE, done.stdout + done.stderr
    assert "17_row_sums was tried, but ended with: " in done.stdout
    assert "Traceback" not in done.stderr
