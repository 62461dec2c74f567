"""samples/mygemm: what a peak is, what it takes as the best, which sizes it understands."""

import json
from types import SimpleNamespace

import numpy as np
import pyopencl as cl
import pytest
from conftest import modules_of

from common import device, gemm, isolation
from common.errors import OpenCLFailure, UsageError
from common.gemm import Size

NAMES = (
    "checking", "ladder", "launch", "measure", "outcome", "roofline", "sizes", "tuned", "tuning",
)  # fmt: skip


@pytest.fixture(scope="module")
def sample():
    """The sample's modules."""
    with modules_of("mygemm") as module:
        yield SimpleNamespace(**{name: module(name) for name in NAMES})


# The roofline.


def test_the_ceiling_is_the_lower_of_two(sample):
    def ceiling(size, beta=0.0, gbytes=10.0):
        peak = sample.roofline.Peak(100.0, 5.0, gbytes, "fma, float4")
        problem = sample.launch.Problem(Size(*size), np.dtype(np.float32), *size[:3])
        return peak.ceiling(problem, beta)

    assert str(ceiling((1024, 1024, 1024))) == "100 GFLOPS, by compute"
    thin = ceiling((1000, 1000, 1))  # 5e6 operations, 4008000 bytes
    assert (round(thin.gflops, 3), thin.by) == (round(5e6 / 4008000 * 10, 3), "memory")
    assert ceiling((1000, 1000, 1), beta=1.0).gflops < thin.gflops


def make_roofline(sample, queue):
    limits = device.limits(queue.device)
    make = sample.roofline.Roofline
    return sample.roofline.attempt(make, queue, limits, np.dtype(np.float32))


@pytest.mark.exhaustive
def test_the_peak_is_measured_and_can_only_rise(sample, queue):
    roof, why = make_roofline(sample, queue)
    assert why is None
    problem = sample.launch.Problem(Size(64, 64, 64), np.dtype(np.float32), 64, 64, 64)
    peak = roof.peak(problem)
    assert peak.gflops > 1
    assert peak.near_gbytes_per_s >= peak.gbytes_per_s > 0.1
    # It can only rise: what others do on the machine never makes a peak.
    assert roof.peak(problem).gflops >= peak.gflops


@pytest.mark.parametrize(
    ("right", "wrong"),
    [("        j = OP(j, by, plus);\n", ""), ("v < each; v += 8", "v < each / 2; v += 8")],
)
def test_a_peak_of_a_kernel_that_does_less_is_refused(
    sample, queue, monkeypatch, tmp_path, right, wrong
):
    text = sample.roofline.SOURCE.read_text()
    assert right in text
    broken = tmp_path / "roofline.cl"
    broken.write_text(text.replace(right, wrong))
    monkeypatch.setattr(sample.roofline, "SOURCE", broken)
    roof, why = make_roofline(sample, queue)
    problem = sample.launch.Problem(Size(64, 64, 64), np.dtype(np.float32), 64, 64, 64)
    if roof is None:
        assert "multiply_add of roofline.cl gives a wrong result" in why
    else:
        peak, why = sample.roofline.attempt(roof.peak, problem)
        assert peak is None
        assert why == "the peak is unknown: read_all of roofline.cl gives a wrong result"


# The inputs.


def test_exact_data_is_exact_for_every_beta_that_is_checked(sample):
    """Half holds whole numbers up to 2048: 128 products of up to 16 reach it with no C to add."""
    problem = sample.launch.Problem(Size(2, 2, 128), np.dtype(np.float16), 128, 2, 2)
    assert gemm.exact(problem.size, 1, 0, problem.dtype)
    with pytest.raises(UsageError, match="sums below 2048"):
        sample.checking.require_exact(problem, "integer", 1.0, 0.0)


# The best.

ABOUT = {"name": "Mali-G52", "platform": "ARM Platform", "vendor": "ARM", "type": "gpu",
         "driver": "1"}  # fmt: skip


def entry(kernel="registers", size="512x512x512", gflops=9.0, precision="single", **params):
    defaults = {"TSM": 32, "TSN": 32, "TSK": 8, "WPTM": 4, "WPTN": 4, "PAD": 0}
    return {"kernel": kernel, "precision": precision, "size": size, "gflops": gflops,
            "params": params or defaults, "driver": "r1", "when": "2026",
            "slower_than": None}  # fmt: skip


@pytest.fixture
def best(sample, queue, tmp_path):
    """Store entries of devices, and ask for the best; gives its label, parameters and reason."""

    def find(stored, size=512, profile=None, about=ABOUT, precision="single"):
        for its, each in stored:
            told = {**ABOUT, **its}
            told = {key: told[key] for key in ("name", "platform", "vendor", "type")}
            told["family"] = its.get("family", sample.tuned._family(queue.device, told))
            sample.tuned.store(told, each, tmp_path)
        problem = sample.launch.Problem(
            Size(size, size, size), np.dtype(np.float32), size, size, size
        )
        limits = device.limits(queue.device, profile)
        arguments = (problem, precision, queue.device, about, limits, tmp_path)
        return sample.tuned.find(sample.ladder.RUNGS, *arguments)

    return find


def test_what_is_slower_than_another_kernel_is_not_the_best(best):
    slower = entry("tiles", gflops=99, TS=2) | {"slower_than": "11_registers_only"}
    found = best([({}, slower)])
    assert found.why == "nothing is tuned for it, the default for every device"
    found = best([({}, slower), ({}, entry("tiles", gflops=50, size="64x64x64", TS=4))])
    assert found.params == {"TS": 4}


def test_this_device_comes_first_then_family_vendor_and_the_default(best):
    here, family = {}, {"name": "Mali-G31"}
    vendor = {"name": "Mali-T628"}
    found = best([(vendor, entry("tiles", gflops=99, TS=2))])
    assert (found.rung.name, found.params) == ("tiles", {"TS": 2})
    assert found.why.startswith("tuned for its vendor (Mali-T628: 99 GFLOPS at 512x512x512")
    found = best([(family, entry("tiles", gflops=50, TS=4))])
    assert (found.params, found.why[:20]) == ({"TS": 4}, "tuned for its family")
    found = best([(here, entry("tiles", gflops=10, TS=8))])
    assert (found.params, found.why[:21]) == ({"TS": 8}, "tuned for this device")
    other = {**ABOUT, "name": "Rubbish", "vendor": "Nobody", "platform": "None"}
    found = best([], about=other)
    assert found.rung.name == "registers_only"
    assert found.why == "nothing is tuned for it, the default for every device"
    found = best([], about={**other, "type": "cpu", "preferred_vector_widths": {"float": 4}})
    assert (found.rung.name, found.why[-16:]) == ("packed", "default for CPUs")


def test_the_nearest_size_counts_then_the_faster_kernel(best):
    stored = [
        ({}, entry("naive", "64x64x64", 1, TS=4)),
        ({}, entry("tiles", "1024x1024x1024", 5, TS=4)),
        ({}, entry("naive", "1024x1024x1024", 7, TS=8)),
        ({}, entry("naive", "1024x1024x1024", 70, "double", TS=16)),
    ]
    assert best(stored, size=900).params == {"TS": 8}
    assert best([], size=100).params == {"TS": 4}


def test_what_is_not_legal_here_is_passed_over(best):
    stored = [({}, entry("tiles", gflops=9, TS=32)), ({}, entry("naive", gflops=5, TS=16))]
    assert best(stored).params == {"TS": 32}
    assert best([], profile="mali-t628").params == {"TS": 16}
    assert best([], profile="embedded").rung.name == "registers_only"


def test_a_newer_result_takes_the_place_of_an_older(best, tmp_path):
    best([({}, entry("naive", TS=4))])
    assert best([({}, entry("naive", TS=8))]).params == {"TS": 8}
    (path,) = tmp_path.glob("*.json")
    assert path.name == "mali-g52-arm-platform.json"
    assert len(json.loads(path.read_text())["entries"]) == 1


@pytest.mark.parametrize("text", ["", "[]", '{"device": {}, "entries": []}'])
def test_a_file_that_cannot_be_understood_is_named(best, tmp_path, text):
    (tmp_path / "odd.json").write_text(text)
    with pytest.raises(UsageError, match=r"odd\.json cannot be used: .*; delete it, or tune again"):
        best([])


def test_families(sample, queue):
    def family(name):
        return sample.tuned._family(queue.device, {**ABOUT, "name": name})

    assert family("Mali-T628") == "Mali Midgard"
    assert family("Mali-G71") == "Mali Bifrost"
    assert family("Mali-G610 (Panfrost)") == "Mali Valhall"
    assert family("Mali-G999") is None
    assert family("Adreno") is None
    about = device.describe(queue.device, device.limits(queue.device))
    if queue.device.type & cl.device_type.CPU:
        assert about["platform"] in sample.tuned._family(queue.device, about)


# tune


def test_the_configuration_that_loses_the_device_is_kept(sample, monkeypatch, capsys):
    lost = OpenCLFailure("the device does not answer any more")
    result = SimpleNamespace(status="error", reason="CL_OUT_OF_RESOURCES", times=None)
    result.save = lambda *_: None
    evaluation = SimpleNamespace(
        rung=sample.ladder.NAIVE, prepare=lambda params: result, lost_device=lambda: lost,
        args=None, expected=SimpleNamespace(inputs=None), about=None,
    )  # fmt: skip
    view = sample.tuning._Device(SimpleNamespace(name="theirs"), evaluation, "RuntimeFailedConfig")
    assert view.name == "theirs"
    kept = view.compile_and_benchmark(None, None, {"TS": 8, "more": 1}, None, None)
    assert (kept["__error__"], kept["reason"]) == ("RuntimeFailedConfig", "CL_OUT_OF_RESOURCES")
    assert capsys.readouterr().out == "--TS 8: CL_OUT_OF_RESOURCES\n"
    with pytest.raises(OpenCLFailure, match="does not answer any more"):
        view.compile_and_benchmark(None, None, {"TS": 16}, None, None)


def test_a_configuration_that_fails_while_it_is_timed_is_an_error_of_its_own(sample):
    def launcher(stream):
        raise OpenCLFailure("CL_OUT_OF_RESOURCES")

    evaluation = sample.tuning.Evaluation.__new__(sample.tuning.Evaluation)
    evaluation.stream = SimpleNamespace(
        queue=SimpleNamespace(
            device=SimpleNamespace(type=0, max_compute_units=1, global_mem_size=0)
        )
    )
    evaluation.args = SimpleNamespace(in_flight=1, queues=1, repeat=2, warmup=0)
    evaluation.turn = None
    results = []
    for launcher_of in (launcher, lambda stream: lambda: None):
        result = sample.outcome.Result(SimpleNamespace(size=1), "x", isolation.Progress())
        result.bar = sample.measure.Bar(f"x{len(results)}", launcher_of, lambda streams: None)
        results.append(result)
    evaluation.time(results)
    assert [result.status for result in results] == ["error", "passed"]
    assert results[0].reason == "CL_OUT_OF_RESOURCES"
    assert results[0].times is None
    assert len(results[1].times.host_s) == 2
    assert evaluation.turn == (1, 1)
    evaluation.turn, evaluation.args.in_flight = sample.measure.Turn(3, 1), None
    evaluation.time(results[1:])
    assert results[1].turn == evaluation.turn == (3, 1)  # as it was the first time


# Sizes.


def test_sizes(sample):
    parse = sample.sizes.parse
    assert parse("64,100") == [Size(64, 64, 64), Size(100, 100, 100)]
    assert parse("640x48x1000") == [Size(640, 48, 1000)]
    assert [s.M for s in parse("1024:4096:1024")] == [1024, 2048, 3072, 4096]
    assert [s.M for s in parse("5:9:3,8,5")] == [5, 8]
    for text in ("", ",", "1:2", "1x2:3x4:5", "4:1:1", "1:2:0", "-1", "1:999999:1", "1:2:3:4"):
        with pytest.raises(sample.sizes.argparse.ArgumentTypeError):
            parse(text)


def test_kernels_by_number_name_and_label(sample):
    parse = sample.sizes.kernels(sample.ladder.RUNGS)
    assert [r.number for r in parse("1,tiles,03_more_work,04,1")] == [1, 2, 3, 4]
    assert parse("all") == sample.ladder.RUNGS
    assert parse("best") == "best"
    with pytest.raises(sample.sizes.argparse.ArgumentTypeError, match="'x' is no kernel"):
        parse("1,x")
