"""Choosing a device and keeping to its limits."""

import os
from types import SimpleNamespace

import numpy as np
import pyopencl as cl
import pytest

from common import device, program
from common.errors import OpenCLFailure, UsageError
from common.text import size_text

CPU, GPU = cl.device_type.CPU, cl.device_type.GPU


def fake(name, kind):
    return SimpleNamespace(name=name, type=kind, driver_version="1")


def platform(name, *items):
    def get_devices(kind):
        found = [item for item in items if kind == cl.device_type.ALL or item.type & kind]
        return found

    made = SimpleNamespace(name=name, version="OpenCL 1.2", get_devices=get_devices)
    for item in items:
        item.platform = made
    return made


@pytest.fixture(autouse=True)
def broken(monkeypatch):
    """What is wrong with drivers, by the device's name: nothing, unless a test says so."""
    problems = {}
    monkeypatch.setattr(device.drivers, "problem", lambda item, anew=False: problems.get(item.name))
    monkeypatch.setattr(device, "passed_over", [])
    return problems


@pytest.fixture
def mali_board(monkeypatch):
    """An ODROID as Debian makes it: PoCL comes first, the Mali shows as two devices."""
    found = [
        platform("Portable Computing Language", fake("pthread-cortex-a15", CPU)),
        platform("ARM Platform", fake("Mali-T628 (4 cores)", GPU), fake("Mali-T628 (2)", GPU)),
    ]
    monkeypatch.setattr(device, "platforms", lambda: found)


@pytest.mark.parametrize(
    ("what", "error"),
    [("opencl_c_version", cl.RuntimeError("clGetDeviceInfo failed: INVALID_VALUE")),
     ("extensions", UnicodeDecodeError("utf-8", b"cl_\xe4", 3, 4, "invalid"))],
)
def test_a_text_that_a_driver_does_not_tell_is_named(queue, what, error):
    class Silent:
        def __getattr__(self, name):
            if name == what:
                raise error
            return getattr(queue.device, name)

    with pytest.raises(OpenCLFailure, match=f"^the driver does not report its {what}: .*{error}$"):
        device.describe(Silent(), device.limits(Silent()))


@pytest.mark.usefixtures("mali_board")
class TestChoose:
    def test_a_gpu_comes_before_a_cpu_that_is_listed_first(self):
        assert device.choose().name == "Mali-T628 (4 cores)"

    @pytest.mark.parametrize(
        ("options", "name"),
        [
            ({"platform": "0"}, "pthread-cortex-a15"),
            ({"platform": "portable"}, "pthread-cortex-a15"),
            ({"platform": "1", "device": "1"}, "Mali-T628 (2)"),
            ({"device": "mali"}, "Mali-T628 (4 cores)"),
            ({"device": "(2)"}, "Mali-T628 (2)"),
            ({"type_name": "cpu"}, "pthread-cortex-a15"),
        ],
    )
    def test_by_number_name_and_type(self, options, name):
        assert device.choose(**options).name == name

    @pytest.mark.parametrize(
        ("value", "name"),
        [("0", "pthread-cortex-a15"), ("arm:1", "Mali-T628 (2)"), ("1:", "Mali-T628 (4 cores)")],
    )
    def test_pyopencl_ctx(self, monkeypatch, value, name):
        monkeypatch.setenv("PYOPENCL_CTX", value)
        assert device.choose().name == name
        assert device.choose(platform="portable").name == "pthread-cortex-a15"  # options win

    @pytest.mark.parametrize("value", ["1:0,1", "0:0:0"])
    def test_pyopencl_ctx_that_is_too_much(self, monkeypatch, value):
        monkeypatch.setenv("PYOPENCL_CTX", value)
        with pytest.raises(UsageError, match="platform:device"):
            device.choose()

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"platform": "intel"}, r"no platform 'intel': choose from \[0\] Portable"),
            ({"platform": "2"}, "no platform '2'"),
            ({"platform": ""}, "no platform ''"),
            ({"device": "0"}, "-d 0 needs -p"),
            ({"device": "adreno"}, r"no device 'adreno': choose from \[0\] pthread"),
            ({"platform": "0", "type_name": "gpu"}, "no device of type gpu on Portable"),
        ],
    )
    def test_what_is_not_there_is_said_with_what_is(self, options, message):
        with pytest.raises(UsageError, match=message):
            device.choose(**options)

    def test_platforms_of_one_name_are_told_apart(self, monkeypatch):
        found = [platform("Portable Computing Language", fake("cpu", CPU)) for _ in range(2)]
        found[1].version = "OpenCL 3.0 PoCL 3.1"
        monkeypatch.setattr(device, "platforms", lambda: found)
        with pytest.raises(UsageError, match=r"\(OpenCL 1.2\), .*\(OpenCL 3.0 PoCL 3.1\)"):
            device.choose(platform="nvidia")

    def test_the_listing_numbers_as_the_options_count(self):
        lines = device.listing()
        assert lines[0] == "Platforms (2):"
        assert "    [1] ARM Platform, OpenCL 1.2" in lines
        assert "            [1] Mali-T628 (2) (gpu)" in lines


@pytest.mark.usefixtures("mali_board")
class TestDriversThatDoNotWork:
    def test_the_next_device_is_taken_and_the_reason_told(self, broken):
        broken["Mali-T628 (4 cores)"] = broken["Mali-T628 (2)"] = "crashes"
        assert device.choose().name == "pthread-cortex-a15"
        assert device.skipped() == ["ARM Platform: its driver crashes"]

    def test_none_is_left(self, broken):
        broken.update({"Mali-T628 (4 cores)": "crashes", "Mali-T628 (2)": "hangs"})
        with pytest.raises(OpenCLFailure, match="no driver works: ARM Platform: its driver crash"):
            device.choose(type_name="gpu")

    @pytest.mark.parametrize("options", [{"platform": "arm"}, {"device": "mali"}])
    def test_who_asks_for_it_gets_it(self, broken, options):
        broken["Mali-T628 (4 cores)"] = "crashes"
        assert device.choose(**options).name == "Mali-T628 (4 cores)"
        assert device.skipped() == []

    def test_the_listing_tells_it(self, broken):
        broken["Mali-T628 (2)"] = "crashes"
        lines = device.listing()
        at = lines.index("            [1] Mali-T628 (2) (gpu)")
        assert lines[at + 1].strip() == "not the default: its driver crashes"


def test_a_platform_that_fails_is_skipped_with_the_reason(monkeypatch):
    def broken(kind):
        code = cl.status_code.OUT_OF_HOST_MEMORY
        raise cl.RuntimeError(cl._cl._ErrorRecord("no memory", code, "clGetDeviceIDs"))

    pocl = platform("PoCL", fake("pthread", CPU))
    arm = SimpleNamespace(name="ARM Platform", version="OpenCL 1.2", get_devices=broken)
    monkeypatch.setattr(device, "platforms", lambda: [arm, pocl])
    assert device.choose().name == "pthread"
    assert "platform ARM Platform fails: " in device.skipped()[0]
    with pytest.raises(OpenCLFailure, match="platform ARM Platform fails: "):
        device.choose(platform="arm")
    assert any("platform ARM Platform fails" in line for line in device.listing())


def test_no_platform_is_an_opencl_failure(monkeypatch):
    monkeypatch.setattr(cl, "get_platforms", list)
    with pytest.raises(OpenCLFailure, match="no OpenCL platform"):
        device.choose()


def test_a_profile_only_lowers(queue):
    real = device.limits(queue.device)
    mali = device.limits(queue.device, "mali-t628")
    assert mali.max_work_group_size == min(256, real.max_work_group_size)
    assert mali.local_mem_size == min(32768, real.local_mem_size)
    assert ("cl_khr_fp64" in mali.extensions) == ("cl_khr_fp64" in real.extensions)
    assert "cl_khr_subgroups" not in mali.extensions
    assert mali.extensions <= real.extensions
    assert mali.max_mem_alloc_size == real.max_mem_alloc_size
    assert device.describe(queue.device, mali)["limits"]["profile"] == "mali-t628"


def test_what_is_only_built_keeps_to_the_profile_alone(queue, monkeypatch):
    monkeypatch.setattr(device.program, "builds_only", lambda: True)
    bifrost = device.limits(queue.device, "mali-g52")
    assert bifrost.max_work_group_size == 384
    assert bifrost.extensions <= device.limits(queue.device).extensions
    valhall = device.limits(queue.device, "mali-g610")
    assert valhall.max_work_group_size == queue.device.max_work_group_size
    assert device.describe(queue.device, valhall)["limits"]["local_mem_type"] == "global"


def test_the_type_of_local_memory_is_described(queue):
    about = device.describe(queue.device, device.limits(queue.device))
    kind = cl.device_local_mem_type.to_string(queue.device.local_mem_type)
    assert about["limits"]["local_mem_type"] == kind.lower()


def test_a_device_that_runs_nothing_is_not_tried(monkeypatch):
    monkeypatch.setattr(device.drivers, "problem", lambda *_, **__: pytest.fail("it was tried"))
    listed = [each for about in device.survey(tried=False) for each in about["devices"]]
    assert all(each["problem"] is None and each["driver"] for each in listed)


@pytest.mark.parametrize(
    ("local", "kernel_limit", "fitted"),
    [((16, 4), 256, (16, 4)), ((16, 4), 32, (8, 4)), ((16, 16), 1, (1, 1)), ((512,), 512, (256,))],
)
def test_a_work_group_is_made_to_fit(queue, local, kernel_limit, fitted):
    assert device.limits(queue.device, "mali-t628").fit(local, kernel_limit) == fitted


@pytest.mark.parametrize("kind", ["local", "global"])
def test_the_summary_says_where_local_memory_is_no_nearer(queue, kind):
    about = device.describe(queue.device, device.limits(queue.device))
    about["limits"]["local_mem_type"] = kind
    said = [line for line in device.summary(about) if line.startswith("  local memory")]
    assert [("is global memory" in line) for line in said] == [True] * (kind == "global")


def test_the_summary_shows_what_matters(queue):
    text = "\n".join(device.summary(device.describe(queue.device, device.limits(queue.device))))
    for part in (queue.device.name.strip(), "vector widths", "float", "work-group", "cl_khr_fp64"):
        assert part in text


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (32768, "32 KiB"), (6.3e9, "5.87 GiB"), (4e18, "3.47 EiB")],
)
def test_sizes_as_text(count, text):
    assert size_text(count) == text


@pytest.mark.parametrize(("build_only", "said"), [(False, "Unknown DRM_IOCTL\n"), (True, "")])
def test_what_a_driver_says_while_it_loads(build_only, said, monkeypatch, capfd):
    """Mesa's dummy devices, on which nothing runs, say what they do not know."""

    def platforms():
        os.write(2, b"Unknown DRM_IOCTL\n")
        return found

    found = device.platforms()
    monkeypatch.setattr(device, "platforms", platforms)
    monkeypatch.setattr(program.mesa, "listen", lambda: None)  # it changes the environment
    program.ask(None, build_only)
    try:
        device.choose()
    finally:
        program.ask(None, False)
    assert capfd.readouterr().err == said


def test_each_precision_may_be_truncated():
    fp = cl.device_fp_config
    chip = SimpleNamespace(half_fp_config=fp.ROUND_TO_ZERO, double_fp_config=0,
                           single_fp_config=fp.ROUND_TO_NEAREST | fp.INF_NAN)
    nearest = [np.float32, np.complex64]
    for dtype in (np.float16, np.float64, np.complex128, np.int8, *nearest):
        assert device.rounds_to_nearest(chip, dtype) == (dtype in nearest)


@pytest.mark.parametrize(("vendor", "family", "found"), [
    ("AuthenticAMD", "26", 26), ("AuthenticAMD", "", 0), ("AuthenticAMD", "x", 0),
    ("GenuineIntel", "6", 0)])
def test_the_family_of_a_cpu_of_amd(monkeypatch, vendor, family, found):
    monkeypatch.setattr(device, "host_cpu", lambda: {"cpu family": family} if family else {})
    chip = SimpleNamespace(type=cl.device_type.CPU, vendor=vendor, name="EPYC")
    assert device.amd_family(chip) == found


def test_linux_tells_of_the_first_processor(tmp_path):
    file = tmp_path / "cpuinfo"
    assert device.host_cpu(file) == {}
    first = "processor\t: 0\ncpu family\t: 25\nflags\t\t: fpu vme\n"
    file.write_text(f"{first}\nprocessor\t: 1\nflags : -\n")
    assert device.host_cpu(file) == {"processor": "0", "cpu family": "25", "flags": "fpu vme"}
