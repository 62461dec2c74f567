"""The images of samples/64_bit_integer: every BMP, the truncated luma, the sums, broken files."""

import struct
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from PIL import Image

from tests.conftest import exhaustive_but, sample_module

NAME = "64_bit_integer"
luma = sample_module(NAME, "luma")


@pytest.fixture
def sample(recorded):
    """Run the sample; gives the finished process and its records."""
    return partial(recorded, NAME)


# Images

FACTORS = (0.2126, 0.7152, 0.0722)


def rgb_image(width=37, height=23):
    rng = np.random.default_rng(5)
    return rng.integers(0, 256, (height, width, 3), dtype=np.uint8)


def truncated_luma(rgb):
    """The SDK's luma, a pixel at a time: C's float is what struct's "f" stores."""
    values = [sdks_luma(*pixel) for pixel in rgb.reshape(-1, 3).tolist()]
    return np.array(values, np.uint8).reshape(rgb.shape[:2])


def sdks_luma(red, green, blue):
    red, green, blue = (single(single(f) * v) for f, v in zip(FACTORS, (red, green, blue)))
    return int(single(single(red + green) + blue))


def single(value):
    return struct.unpack("f", struct.pack("f", value))[0]


def exact_luma(rgb):
    return rgb.astype(np.uint32) @ np.array([2126, 7152, 722], np.uint32) // 10000


def bmp(rgb, bits=24, top_down=False):
    """Return a BMP of 24 or 32 bits per pixel, with padded rows, as other programs write it."""
    height, width, _ = rgb.shape
    rows = rgb[:, :, ::-1] if top_down else rgb[::-1, :, ::-1]
    if bits == 32:
        rows = np.concatenate([rows, np.full((height, width, 1), 77, np.uint8)], 2)
    padding = b"\xee" * (-width * bits // 8 % 4)  # whatever: it is no pixel
    data = b"".join(row.tobytes() + padding for row in rows)
    return bmp_file(width, -height if top_down else height, bits, 0, b"", data)


def bmp_file(width, height, bits, compression, palette, data):
    start = 14 + 40 + len(palette)
    header = b"BM" + np.array([start + len(data), 0, start, 40], "<u4").tobytes()
    header += np.array([width, height], "<i4").tobytes() + np.array([1, bits], "<u2").tobytes()
    more = [compression, len(data), 2835, 2835, len(palette) // 4, 0]
    return header + np.array(more, "<u4").tobytes() + palette + data


GREYS = np.repeat(np.arange(256, dtype=np.uint8), 4).reshape(256, 4)
GREYS[:, 3] = 0


def rle8(indices):
    data = b""
    for row in indices[::-1]:
        data += b"".join(bytes([1, value]) for value in row) + b"\0\0"
    return data + b"\0\1"


def palette_bmp(indices):
    height, width = indices.shape
    padded = np.pad(indices[::-1], ((0, 0), (0, -width % 4)))
    return bmp_file(width, height, 8, 0, GREYS.tobytes(), padded.tobytes())


def test_every_bmp(tmp_path):
    rgb = rgb_image()
    for name, data in {
        "24": bmp(rgb), "24 top-down": bmp(rgb, top_down=True), "32": bmp(rgb, 32),
        "32 top-down": bmp(rgb, 32, True),
    }.items():
        path = tmp_path / "x.bmp"
        path.write_bytes(data)
        assert np.array_equal(luma.read(path), truncated_luma(rgb)), name


def test_bmp_with_a_palette_and_rle(tmp_path):
    indices = rgb_image(19, 5)[..., 0]
    wanted = truncated_luma(np.repeat(indices, 3).reshape(5, 19, 3))
    path = tmp_path / "x.bmp"
    path.write_bytes(palette_bmp(indices))
    assert np.array_equal(luma.read(path), wanted)
    path.write_bytes(bmp_file(19, 5, 8, 1, GREYS.tobytes(), rle8(indices)))
    assert np.array_equal(luma.read(path), wanted)


@pytest.mark.parametrize("kind", exhaustive_but(["png"], ["png", "gif", "tiff", "ppm"]))
def test_any_image_that_pillow_opens(sample, tmp_path, kind):
    path = tmp_path / f"x.{kind}"
    grey = rgb_image(31, 9)[..., 0]
    Image.fromarray(grey).save(path)
    done, _ = sample(path, "--kernel", "two_stages")
    assert done.returncode == 0, done.stderr
    exact = truncated_luma(np.repeat(grey, 3).reshape(9, 31, 3)).astype(object)
    assert f"\nSquare of the pixel values = {(exact**2).sum()}\n" in done.stdout
    assert f"\nSum of the pixel values = {exact.sum()}\n" in done.stdout


def test_the_luma_is_truncated_and_not_rounded():
    rgb = np.array([[[0, 0, 255], [1, 1, 0], [255, 255, 255], [0, 1, 0]]], np.uint8)
    # 18.411, 0.9278, 255 and 0.7152
    assert luma.truncated(rgb).tolist() == [[18, 0, 255, 0]]


DARKER = [13, 26, 31, 47, 52, 57, 62, 91, 94, 101, 104, 111, 114, 124, 182, 185, 188, 202, 208, 222,
          228, 243, 248]


def test_the_luma_is_float32_as_the_sdks():
    """Of every colour: where float32 ends below a whole number, the result is one less."""
    less, greys = 0, []
    for red in range(256):
        green, blue = np.divmod(np.arange(65536), 256)
        rgb = np.stack([np.full(65536, red), green, blue], 1).astype(np.uint8).reshape(256, 256, 3)
        found, exact = luma.truncated(rgb), exact_luma(rgb)
        differs = found != exact
        assert np.array_equal(found[differs], exact[differs] - 1)
        assert np.array_equal(found[differs][None], truncated_luma(rgb[differs][None]))
        assert np.array_equal(found[red, ::16][None], truncated_luma(rgb[red, ::16][None]))
        less += differs.sum()
        greys += [red] if differs[red, red] else []
    assert less == 299
    assert greys == DARKER


@pytest.mark.parametrize("shape", [(1, 2**18 + 3), (2**18 + 3, 1), (700, 777), (1, 1)])
def test_an_image_of_any_shape_is_converted_part_by_part(shape):
    rgb = np.resize(rgb_image(), (*shape, 3))
    wanted = np.resize(truncated_luma(rgb_image()), shape)
    assert np.array_equal(luma.truncated(rgb), wanted)


def test_the_host_sums_agree_with_python():
    image = luma.make((301, 777), "noise", 4)
    values = image.ravel().tolist()
    want = [sum(v * v for v in values), sum(values)]
    assert luma.exact(image).tolist() == want
    variance = float(luma.lines(want, len(values))[3].split()[-1])
    assert variance == pytest.approx(float(np.var(image.astype(float))), abs=1e-3)
    assert variance > 0
    assert len(set(values)) == 256


def test_sums_that_differ_fail_and_so_do_guards_that_changed():
    right = [2**63 + 5, 3]
    assert luma.check(right, right, intact=True) == luma.Check(0, 0.0, None)
    for wrong in ([2**63 + 6, 3], [2**63 + 5, 2]):
        found = luma.check(wrong, np.array(right, np.uint64), intact=True)
        assert (found.max_abs_error, found.error_over_bound) == (1, np.inf)
        assert found.reason.endswith(f" instead of {right[0]}, sum {wrong[1]} instead of 3")
    assert "wrote outside" in luma.check(right, right, intact=False).reason


@pytest.mark.parametrize(("kind", "value"), [("white", 255), ("black", 0)])
def test_images_of_one_value(kind, value):
    image = luma.make((3, 2), kind, 1)
    assert (image.shape, image.dtype, set(image.flat)) == ((2, 3), np.uint8, {value})


def test_the_sdks_figures():
    """The sums that the SDK's tutorial prints, and the variance that it should have printed."""
    assert luma.lines((914239116, 9365464), 512 * 512)[3].endswith(" = 2211.169")


# Bad input


def make_bad(folder):
    good = bmp(rgb_image())
    bomb = bmp_file(60000, 60000, 24, 0, b"", b"\0" * 64)
    files = {
        "short.bmp": good[: len(good) // 2], "header.bmp": good[:30], "empty.bmp": b"",
        "text.bmp": b"this is no picture\n", "bomb.bmp": bomb,
        "wide.bmp": bmp_file(0, 5, 24, 0, b"", b"\0" * 64),
        "rle.bmp": bmp_file(19, 5, 8, 1, GREYS.tobytes(), b"\x05"),
        "negative.bmp": bmp_file(-4, 5, 24, 0, b"", b"\0" * 64),
    }
    for name, data in files.items():
        (folder / name).write_bytes(data)
    (folder / "folder.bmp").mkdir()
    Image.fromarray(np.full((3, 3), 1000, np.uint16)).save(folder / "deep.png")


BAD = {
    "short.bmp": "cannot read", "header.bmp": "", "empty.bmp": "cannot identify image file",
    "text.bmp": "cannot identify image file", "bomb.bmp": "exceeds limit",
    "missing.bmp": "No such file", "folder.bmp": "it is a folder,", "wide.bmp": "", "rle.bmp": "",
    "negative.bmp": "", "deep.png": "more than 8 bits per channel",
}


@pytest.mark.parametrize("name", BAD)
def test_a_file_that_cannot_be_read(refused, tmp_path, name):
    make_bad(tmp_path)
    said = refused(NAME, tmp_path / name)
    assert BAD[name] in said
    assert name in said


OPTIONS = {
    "0x5": "is not a size", "5": "is not a size", "70000x70000": "1 to 4294967295 pixels",
    "-1x5": "", "axb": "is not a size", "99999999999x1": "is not a size",
}


@pytest.mark.parametrize("size", OPTIONS)
def test_a_size_that_cannot_be(run_here, size):
    run = sample_module(NAME, "run")
    code, _, said = run_here(run.main, f"--size={size}", options=run.options())
    assert code == 2
    assert len(said.splitlines()) == 1
    assert OPTIONS[size] in said


def test_options_that_contradict(run_here):
    run = sample_module(NAME, "run")
    for args in (("x.bmp", "--size", "4x4"), ("--data", "white"), ("--work-group", "3")):
        code, _, said = run_here(run.main, *args, options=run.options())
        assert code == 2
        assert len(said.splitlines()) == 1


def test_an_image_larger_than_the_device(run_here, monkeypatch):
    run = sample_module(NAME, "run")
    real = run.device.limits
    monkeypatch.setattr(
        run.device, "limits", lambda *args: replace(real(*args), max_mem_alloc_size=100))
    code, _, said = run_here(run.main, "--size=10x11", options=run.options())
    assert code == 2
    assert "noise, 10x11 pixels: the image takes 110 B, but the device allocates at most" in said


def test_without_pillow(sample, tmp_path):
    (tmp_path / "PIL.py").write_text("raise ImportError('no PIL')\n")
    env = {"PYTHONPATH": str(tmp_path)}
    done, _ = sample(env=env)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "needs Pillow (Debian: python3-pil)" in done.stderr
    done, _ = sample("--size", "33x5", env=env)
    assert done.returncode == 0, done.stderr
