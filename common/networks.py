"""Sizes of GEMMs in common neural networks, by the names of their layers: --size @NETWORK.LAYER.

A convolution of one image becomes C = A * B by im2col: M is its output's height x width, N its
output channels, and K its input channels x the height x width of its filter. A fully connected
layer has M = 1. The dimensions of the layers are those that the networks' papers give, for images
of 224 x 224. Depthwise convolutions are not a GEMM: they are omitted. Of equal
layers the first is named.
"""

from argparse import ArgumentTypeError

NETWORKS = {
    # K. He et al., Deep Residual Learning for Image Recognition, table 1; the first convolution of
    # a stage has the stride 2. a, b, c: of a stage's first block; d: the first of later blocks.
    "resnet50": {
        "conv1": "12544x64x147",
        "conv2a": "3136x64x64", "conv2b": "3136x64x576", "conv2c": "3136x256x64",
        "conv2d": "3136x64x256",
        "conv3a": "784x128x256", "conv3b": "784x128x1152", "conv3c": "784x512x128",
        "conv3shortcut": "784x512x256", "conv3d": "784x128x512",
        "conv4a": "196x256x512", "conv4b": "196x256x2304", "conv4c": "196x1024x256",
        "conv4shortcut": "196x1024x512", "conv4d": "196x256x1024",
        "conv5a": "49x512x1024", "conv5b": "49x512x4608", "conv5c": "49x2048x512",
        "conv5shortcut": "49x2048x1024", "conv5d": "49x512x2048",
        "fc": "1x1000x2048",
    },
    # A. Howard et al., MobileNets, table 1. pw: the pointwise convolutions.
    "mobilenet_v1": {
        "conv1": "12544x32x27",
        "pw1": "12544x64x32", "pw2": "3136x128x64", "pw3": "3136x128x128", "pw4": "784x256x128",
        "pw5": "784x256x256", "pw6": "196x512x256", "pw7": "196x512x512", "pw12": "49x1024x512",
        "pw13": "49x1024x1024",
        "fc": "1x1000x1024",
    },
    # M. Sandler et al., MobileNetV2, table 2. Numbers are of the bottlenecks, one after the other;
    # they expand the channels and project them to few.
    "mobilenet_v2": {
        "conv1": "12544x32x27", "project1": "12544x16x32",
        "expand2": "12544x96x16", "project2": "3136x24x96",
        "expand3": "3136x144x24", "project3": "3136x24x144", "project4": "784x32x144",
        "expand5": "784x192x32", "project5": "784x32x192", "project7": "196x64x192",
        "expand8": "196x384x64", "project8": "196x64x384", "project11": "196x96x384",
        "expand12": "196x576x96", "project12": "196x96x576", "project14": "49x160x576",
        "expand15": "49x960x160", "project15": "49x160x960", "project17": "49x320x960",
        "conv2": "49x1280x320", "fc": "1x1000x1280",
    },
    # A block of BERT base (J. Devlin et al.): 768 wide, 12 heads of 64, 128 words. scores and
    # values are of one head.
    "transformer": {
        "projection": "128x768x768", "scores": "128x128x64", "values": "128x64x128",
        "widen": "128x3072x768", "narrow": "128x768x3072",
    },
}


def layers(text):
    """Return the sizes, as texts, of `@NETWORK.LAYER` or `@NETWORK`. Raises ArgumentTypeError."""
    network, _, layer = text[1:].partition(".")
    if network not in NETWORKS:
        raise ArgumentTypeError(f"'{text}' is not a network: choose from @{', @'.join(NETWORKS)}")
    sizes = NETWORKS[network]
    if layer and layer not in sizes:
        raise ArgumentTypeError(f"'{text}' is not a layer: @{network} has {', '.join(sizes)}")
    return [sizes[layer]] if layer else list(sizes.values())
