"""samples/64_bit_integer: exact for every image and size, and its check fails for wrong kernels."""

import json
import re
from functools import partial

import draw_input
import numpy as np
import pyopencl as cl
import pytest
from PIL import Image

from common.program import build
from deploy import samples
from tests.conftest import ROOT, exhaustive_but, sample_module

NAME = "64_bit_integer"
FOLDER = ROOT / "samples" / NAME
KERNELS = ("long_vectors", "many_vectors", "work_group", "two_stages")
MOST = 65535 * 65535  # pixels of the largest image
launch, luma = (sample_module(NAME, name) for name in ("launch", "luma"))
FILES = {name: kernel.file.name for name, kernel in launch.KERNELS.items()}


@pytest.fixture
def sample(recorded):
    """Run the sample; gives the finished process and its records."""
    return partial(recorded, NAME)


def output_lines(squares, pixels, count):
    variance = (count * squares - pixels**2) / count**2
    return (
        f"Square of the pixel values = {squares}\n"
        f"Sum of the pixel values = {pixels}\n"
        f"Mean of the pixel values = {pixels / count:.3f}\n"
        f"Variance of the pixel values = {variance:.3f}\n"
    )


# What it prints and records


def test_what_it_prints_for_its_own_image(sample):
    done, records = sample()
    assert done.returncode == 0, done.stderr
    rgb = np.asarray(Image.open(FOLDER / "assets" / "input.bmp")).astype(np.float32)
    assert rgb.shape == (512, 512, 3)
    red, green, blue = (np.float32(f) * rgb[..., n] for n, f in enumerate((0.2126, 0.7152, 0.0722)))
    grey = (red + green + blue).astype(np.uint8).astype(object)
    assert output_lines((grey**2).sum(), grey.sum(), 512 * 512) in done.stdout
    lines = done.stdout.splitlines()
    at = lines.index("Profiling information:")
    assert [line.split(":")[0] for line in lines[at + 1 : at + 5]] == [
        "Queued time", "Wait time", "Run time", "GB/s",
    ]
    assert "PASSED: both sums equal the host's" in lines
    assert [r.variant for r in records] == ["long_vectors"]
    assert np.var(grey.astype(float)) == pytest.approx(
        float(next(line for line in lines if "Variance" in line).split()[-1]), abs=1e-3
    )


def test_the_record_tells_what_was_run(sample):
    _, (item,) = sample("--size", "64x32", "--repeat", 3, "--warmup", 2, "--kernel", "work_group",
        "--work-group", 8, "--access", "interleaved")
    assert (item.sample, item.variant, item.status) == (NAME, "work_group", "passed")
    assert item.params["image"] == "noise, 64x32 pixels"
    assert item.params["atomics"] == "work"
    assert (item.params["local"], item.params["contiguous"]) == ("8", False)
    assert {len(item.timing[key]) for key in ("queued_s", "wait_s", "run_s", "host_s")} == {3}
    assert item.metrics["gbytes_per_s"] > 0
    assert (item.check["max_abs_error"], item.check["error_over_bound"]) == (0, 0)


def test_all_kernels_side_by_side(sample):
    done, records = sample("--kernel", "all", "--size", "640x480")
    assert [r.variant for r in records] == list(KERNELS)
    head, *rows, note = done.stdout.splitlines()[-8:]
    assert note == ("Medians of 5 rounds, by the host's clock. "
                    "to NAME: times NAME's rate, in the same round.")
    assert head.startswith("whole pass ")
    assert head.split("  ")[-1].strip() == "to plain read"
    rows = [row.rsplit(maxsplit=6) for row in rows]
    names = [row[0].strip() for row in rows]
    assert names == [*KERNELS, "plain read", "numpy on the host"]
    ratios = {row[0].strip(): row[-3:] for row in rows}
    for column, name in enumerate(("long_vectors", "numpy on the host", "plain read")):
        assert ratios[name][column] == "1.00"


@pytest.mark.exhaustive
def test_the_cases_give_what_expected_json_says(sample):
    expected = json.loads((FOLDER / "expected.json").read_text())
    cases = samples.load()[NAME].cases
    assert set(expected) == {case.name for case in cases}
    for case in cases:
        assert case.golden
        done, records = sample(*case.args)
        assert done.returncode == 0, done.stdout + done.stderr
        for item in records:
            for key in ("inputs_sha256", "output_sha256"):
                assert item.check[key] == expected[case.name][key], (case.name, item.variant)


def test_what_ships_is_what_it_needs():
    shipped = {path.relative_to(FOLDER).as_posix() for path in samples.load()[NAME].files}
    assert {"run.py", "luma.py", "launch.py", "assets/input.bmp"} <= shipped
    assert {f"kernels/{name}" for name in FILES.values()} | {"kernels/probe_atomics.cl"} <= shipped


def test_the_input_image_is_as_it_was_drawn(tmp_path):
    made = tmp_path / "made.bmp"
    Image.fromarray(draw_input.draw(), "RGB").save(made)
    assert made.read_bytes() == (FOLDER / "assets" / "input.bmp").read_bytes()


# Every size


SIZES = [
    "1x1", "7x1", "1x8", "3x3", "31x1", "32x1", "33x1", "63x1", "65x1", "127x1", "4095x1", "4096x1",
    "1x4097", "8193x1", "101x37", "333x777", "2049x1025",
]


@pytest.mark.parametrize("size", exhaustive_but(["1x1", "65x1", "101x37"], SIZES))
def test_any_size_with_every_kernel(sample, size):
    done, records = sample("--size", size, "--kernel", "all", "--repeat", 1, "--warmup", 0)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [(r.variant, r.status) for r in records] == [(name, "passed") for name in KERNELS]


@pytest.mark.parametrize("access", ["contiguous", "interleaved"])
@pytest.mark.parametrize("local", exhaustive_but([64], [1, 2, 64, 256]))
@pytest.mark.parametrize("size", exhaustive_but(["401x997"], ["13x7", "401x997"]))
def test_both_access_patterns_and_every_work_group(sample, access, local, size):
    args = ("--access", access, "--work-group", local, "--repeat", 1, "--warmup", 0)
    done, records = sample("--size", size, "--kernel", "all", *args)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(records) == 4


# 32-bit accumulators do not overflow


def test_no_accumulator_can_overflow_at_any_size():
    """What a kernel adds up in 32 bits is bounded by a stretch, never by the size of the image."""
    for name in KERNELS[1:2]:
        source = (FOLDER / "kernels" / FILES[name]).read_text()
        stretch = int(source.split("#define STRETCH ")[1].split()[0])
        assert stretch * (255 + 255) < 2**16  # half a lane of `pixels`
        assert 16 * stretch * 4 * 255**2 < 2**32  # the sum over the lanes
        # Positions: the last step of a work-item may pass the end by a stretch of all work-items.
        vectors, items = MOST // 64, 2**20
        assert vectors + (stretch + 1) * items < 2**32
    source = (FOLDER / "kernels" / FILES["two_stages"]).read_text()
    apart, sums = (int(source.split(f"#define {name} ")[1].split()[0])
                   for name in ("APART", "SUMS"))
    with_vnni = int(source.split("#define TOGETHER ")[1].split()[0])
    assert "#define TOGETHER (128 * PIXEL_SUMS)" in source
    assert 128 * 2 * 255 < 2**16  # an element of `pixels`, two of each line if PIXEL_SUMS is 1
    without = 128 * 2
    assert apart * 4 * (255 + 255) < 2**16  # half a word of `pairs`
    assert apart * 16 * 255**2 < 2**32
    assert with_vnni * 64 * 255**2 < 2**32
    assert without * 64 * 255**2 < 2**32
    assert 2 * without * 255**2 < 2**32  # an element of `highs`
    assert sums == 4  # as total_of() takes them
    assert MOST // 16 + (apart + 1) * 2**20 < 2**32  # positions
    assert MOST <= luma.MOST_PIXELS < 2**32  # the count
    assert MOST * 255**2 < 2**64  # the sums
    assert 63 * 255**2 < 2**32  # the rest
    assert 255**2 < 2**16  # a square in the ushort8 of long_vectors
    assert 65536 * 255**2 < 2**32  # a part of luma.exact


def test_the_sums_of_the_largest_white_image():
    white = MOST * 255**2, MOST * 255
    assert "\n".join(luma.lines(white, MOST)) + "\n" == output_lines(*white, MOST)
    assert luma.lines(white, MOST)[2:] == [
        "Mean of the pixel values = 255.000", "Variance of the pixel values = 0.000"]
    assert white[0] > 2**47


@pytest.mark.exhaustive
def test_16384_x_16384_white(sample):
    done, records = sample("--size", "16384x16384", "--data", "white", "--kernel", "all",
        "--repeat", 1, "--warmup", 0)
    assert done.returncode == 0, done.stdout + done.stderr
    count = 16384**2
    assert done.stdout.count(output_lines(count * 255**2, count * 255, count)) == 4
    assert [r.status for r in records] == ["passed"] * 4


@pytest.mark.exhaustive
@pytest.mark.parametrize("access", ["contiguous", "interleaved"])
def test_many_white_pixels(sample, access):
    """One work-group of one: tens of thousands of vectors in one work-item."""
    done, _ = sample("--size", "4096x2048", "--data", "white", "--kernel", "all",
        "--access", access, "--limits", "mali-t628", "--repeat", 1)
    assert done.returncode == 0, done.stdout


# Where 64-bit atomics are missing


def test_without_the_extension_another_kernel_is_chosen(sample):
    done, (item,) = sample("--limits", "embedded")
    assert done.returncode == 0
    assert "64-bit atomics: the device has no cl_khr_int64_base_atomics" in done.stdout
    assert "long_vectors needs them: two_stages runs in its place" in done.stdout
    assert item.variant == "two_stages"
    assert item.params["atomics"] == "the device has no cl_khr_int64_base_atomics"
    assert item.params["local"] == "1"


def test_a_kernel_that_was_asked_for_is_unsupported(sample):
    done, (item,) = sample("--limits", "embedded", "--kernel", "work_group")
    assert done.returncode == 77
    assert (item.status, item.variant) == ("unsupported", "work_group")
    done, records = sample("--limits", "embedded", "--kernel", "all")
    assert done.returncode == 77
    assert [r.status for r in records] == ["unsupported"] * 3 + ["passed"]


BROKEN_PROBES = {
    "it does not build": ("atom_add(sum", "atom_addition(sum", "probe_atomics.cl does not build"),
    "additions are lost": ("atom_add(sum, ADDEND)", "*sum += ADDEND - 1", "sum is wrong"),
    "carries are lost": ("ADDEND)", "ADDEND & 0xffffffff)", "sum is wrong"),
}


@pytest.mark.parametrize("broken", BROKEN_PROBES)
def test_the_probe_is_believed_and_not_the_extension(sample, project, broken):
    right, wrong, message = BROKEN_PROBES[broken]
    change(project, "probe_atomics.cl", right, wrong)
    done, (item,) = sample(root=project)
    assert done.returncode == 0
    assert done.stderr == ""
    assert item.variant == "two_stages"
    assert "the device has cl_khr_int64_base_atomics, but" in item.params["atomics"]
    assert message in item.params["atomics"]
    assert item.params["atomics"] in done.stdout


def test_two_stages_needs_no_64_bit_integers():
    """An embedded profile may lack them, and the extensions."""
    source = (FOLDER / "kernels" / FILES["two_stages"]).read_text()
    code = re.sub(r"/\*.*?\*/", "", source, flags=re.DOTALL)
    assert not re.findall(r"\w*long\w*|double\w*|atom\w*|#pragma OPENCL|size_t", code)


# The check is checked


def change(project, file, right, wrong):
    path = project / "samples" / NAME / "kernels" / file
    text = path.read_text()
    assert right in text
    path.write_text(text.replace(right, wrong))


MUTANTS = {
    "long_vectors drops the tail": ("long_vectors", "i < count - first; i++", "i < 0; i++"),
    "long_vectors drops half": ("long_vectors", "sum2.lo + sum2.hi", "sum2.lo"),
    "long_vectors adds without atomics": (
        "long_vectors", "atom_add(&sums[1], sum2.lo + sum2.hi)", "sums[1] = sum2.lo + sum2.hi"),
    "many_vectors drops the tail": ("many_vectors", "i < count;", "i < count / 64 * 64;"),
    "many_vectors forgets the carry of a lane": ("many_vectors", "STRETCH 128", "STRETCH 1024"),
    "many_vectors mixes up the pixels": ("many_vectors", "p1 * p1", "p1 * p3"),
    "many_vectors drops half a lane": ("many_vectors", "+ (pixels >> 16u)", ""),
    "many_vectors keeps 32 bits": (
        "many_vectors", "sums_here += convert_ulong2(sum_stretch(vectors, at, step, end));",
        "sums_here = (sums_here + convert_ulong2(sum_stretch(vectors, at, step, end)))"
        " & 0xffffffffUL;"),
    "work_group drops half the tree": ("work_group", "half_size > 0", "half_size > 1"),
    "work_group stops early": ("work_group", "get_local_size(0) / 2;", "get_local_size(0) / 4;"),
    "work_group counts the rest twice": ("work_group", "if (item == 0)", "if (item <= 1)"),
    "two_stages loses the carry": ("two_stages", "sum.y += sum.x < b.x;", ""),
    "two_stages reads half": ("two_stages", "all = count / 64", "all = count / 128"),
    "two_stages drops a line that is left over": (
        "two_stages", "line < stop; line++", "line + 1 < stop; line++"),
    "two_stages drops a group": ("two_stages", "if (local_item == 0)",
        "if (local_item == 0 && get_group_id(0) != 1)"),
}


ONE_EACH = {name: mutant for mutant, (name, *_) in MUTANTS.items()}.values()


@pytest.mark.parametrize("mutant", exhaustive_but(ONE_EACH, MUTANTS))
def test_a_kernel_broken_on_purpose_fails(sample, project, mutant):
    name, right, wrong = MUTANTS[mutant]
    change(project, FILES[name], right, wrong)
    data = "noise" if "mixes up" in mutant else "white"
    done, (item,) = sample("--size", "4099x1023", "--data", data, "--kernel", name,
        "--work-group", 4, root=project)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "FAILED: squares " in done.stdout
    assert item.status == "failed"
    assert item.check["max_abs_error"] > 0
    assert item.check["error_over_bound"] is None  # infinite


OVER_READS = {
    "long_vectors": ("if (count - first >= 8)", "if (count > 0)"),
    "many_vectors": ("; at < stop;", "; at <= stop;"),
    "work_group": ("all = count / 64,", "all = (count + 63) / 64,"),
    "two_stages": ("i < count; i++", "i <= count; i++"),
}


@pytest.mark.parametrize("name", exhaustive_but(KERNELS[2:], KERNELS))
def test_an_over_read_of_a_black_image_shows(sample, project, name):
    """The bands beside the pixels are not 0, so a black image sums to 0 only without over-reads."""
    args = ("--size", "1001x3", "--data", "black", "--kernel", name)
    done, _ = sample(*args)
    assert done.returncode == 0
    assert "Square of the pixel values = 0\nSum of the pixel values = 0\n" in done.stdout
    right, wrong = OVER_READS[name]
    change(project, FILES[name], right, wrong)
    done, _ = sample(*args, root=project)
    assert done.returncode == 1
    assert "FAILED: squares " in done.stdout


@pytest.mark.parametrize("name", exhaustive_but(KERNELS[2:], KERNELS))
def test_a_write_outside_is_named(sample, project, name):
    target = "sums[get_num_groups(0)] = 1" if name == "two_stages" else "sums[2] = 1"
    path = project / "samples" / NAME / "kernels" / FILES[name]
    before, entry, body = path.read_text().partition(f"void {name}(")
    path.write_text(f"{before}{entry}{body.replace('{', '{ ' + target + ';', 1)}")
    done, _ = sample("--size", "64x64", "--kernel", name, root=project)
    assert done.returncode == 1
    assert "FAILED: the kernel wrote outside of its buffers" in done.stdout


def test_a_write_next_to_the_pixels_is_no_fault_of_the_next_kernel(sample, project):
    here = "    atom_add(&sums[0], square2.lo + square2.hi);"
    change(project, FILES["long_vectors"], here, f"    ((__global uchar *)pixels)[-1] = 1;\n{here}")
    done, records = sample("--size", "64x64", "--kernel", "all", "--check-only", root=project)
    assert done.returncode == 1
    assert [item.status for item in records] == ["failed", "passed", "passed", "passed"]


def test_a_barrier_stands_before_each_step_of_the_tree():
    """Not every device shows a missing barrier in its result: hold its place in the source."""
    for name in ("work_group", "two_stages"):
        source = (FOLDER / "kernels" / FILES[name]).read_text()
        loop = source.split("half_size /= 2) {")[1]
        assert loop.index("barrier(CLK_LOCAL_MEM_FENCE)") < loop.index("scratch[")


UNKNOWN = "__AVX512BW__", "__SPIR__"  # what it asks for


@pytest.mark.parametrize("white", [False, True], ids=["noise", "white"])
@pytest.mark.parametrize("count", [1, 15, 16, 17, 63, 64, 65, 1000, 600_013])
@pytest.mark.parametrize(
    "defines", [None, {}, {"CPU": 1}, {"GROUP_X": 16}, {"CPU": 1, "AMD": 26, "GROUP_X": 16}],
    ids=str,
)
@pytest.mark.parametrize("unknown", [(), UNKNOWN], ids=["here", "elsewhere"])
def test_two_stages_with_any_access_pattern(queue, tmp_path, unknown, defines, count, white):
    """White pixels fill the 32-bit sums of a stretch as far as they may be filled.

    "elsewhere" is a CPU of which the kernel knows no instruction. None stands for what the
    sample defines here.
    """
    if defines is None:
        defines = launch.instructions(queue.device, 16)
    before, file = tmp_path / "before.cl", FOLDER / "kernels" / FILES["two_stages"]
    before.write_text("".join(f"#undef {name}\n" for name in unknown))
    program = build(queue.context, file, {"WORK_GROUP": 16, **defines}, before=[before])
    kernel = cl.Kernel(program, "two_stages")
    drawn = np.random.default_rng(count).integers(0, 256, count)
    pixels = np.full(count, 255, np.uint8) if white else drawn.astype(np.uint8)
    flags = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
    buffer = cl.Buffer(queue.context, flags, hostbuf=pixels)
    sums = np.empty((1, 2), np.uint64)
    made = cl.Buffer(queue.context, cl.mem_flags.WRITE_ONLY, sums.nbytes)
    wide = pixels.astype(np.uint64)
    for contiguous, local in ((0, 16), (1, 16), *(((1, 1),) if "GROUP_X" not in defines else ())):
        kernel(queue, (local,), (local,), buffer, np.uint32(count), np.uint32(contiguous), made)
        cl.enqueue_copy(queue, sums, made)
        assert sums.tolist() == [[(wide * wide).sum(), wide.sum()]]


def test_the_sample_stays_a_tutorial():
    assert len((FOLDER / "run.py").read_text().splitlines()) <= 140
