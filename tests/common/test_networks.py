"""Sizes by the names of layers."""

from argparse import ArgumentTypeError

import pytest

from common import gemm, manifest
from common.gemm import Size
from common.networks import NETWORKS


def test_every_size_is_one_and_none_stands_twice():
    for name, sizes in NETWORKS.items():
        assert len(set(gemm.parse_sizes(f"@{name}"))) == len(sizes), name


@pytest.mark.parametrize(
    ("name", "size"),
    [
        # Output height * width, output channels, input channels * filter.
        ("resnet50.conv1", (112 * 112, 64, 3 * 7 * 7)),
        ("resnet50.conv4b", (14 * 14, 256, 256 * 3 * 3)),
        ("mobilenet_v1.pw13", (7 * 7, 1024, 1024)),
        ("mobilenet_v2.expand2", (112 * 112, 6 * 16, 16)),
        ("transformer.scores", (128, 128, 64)),
    ],
)
def test_a_layer_is_a_size(name, size):
    assert gemm.parse_size(f"@{name}") == Size(*size)
    assert gemm.parse_sizes(f"64,@{name}")[1] == Size(*size)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("@resnet", "'@resnet' is not a network: choose from @resnet50, @mobilenet_v1"),
        ("@transformer.fc", "'@transformer.fc' is not a layer: @transformer has projection"),
        ("@", "'@' is not a network"),
        ("@resnet50", "give one size: a layer such as @resnet50.fc"),
    ],
)
def test_what_is_no_layer(text, message):
    with pytest.raises(ArgumentTypeError, match=message):
        gemm.parse_size(text)


def test_a_name_only_chooses():
    words = ["--size", "@resnet50.fc,64", "--size=@transformer"]
    assert manifest.more_than_choice("mygemm", words) is None
