"""Products and convolutions of float32, on shapes of AlexNet, ResNet-50, VGG16 and BERT, through
the public functions; `descriptors.py` has them for kernel libraries."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

Shape = tuple[int, ...]
Call = Callable[[], object]
#: Case -> the shapes of the factors.
PRODUCTS = {
    "gemm-512x512x512": ((512, 512), (512, 512)),
    "gemm-1024x1024x1024": ((1024, 1024), (1024, 1024)),
    "gemm-2048x2048x2048": ((2048, 2048), (2048, 2048)),
    "gemm-4096x4096x4096": ((4096, 4096), (4096, 4096)),
    "gemm-512x768x768": ((512, 768), (768, 768)),
    "gemm-512x768x3072": ((512, 768), (768, 3072)),
    "gemm-512x3072x768": ((512, 3072), (3072, 768)),
    "gemm-788x768x2304": ((788, 768), (768, 2304)),
    "gemm-32x9216x4096": ((32, 9216), (9216, 4096)),
    "gemm-9216x32x4096": ((9216, 32), (32, 4096)),
    "bmm-96x128x64x128": ((96, 128, 64), (96, 64, 128)),
    "bmm-96x128x128x64": ((96, 128, 128), (96, 128, 64)),
    "bmm-48x197x64x197": ((48, 197, 64), (48, 64, 197)),
}
#: Layer -> batch, channels, size, features, kernel, stride, padding, and groups if there are some.
LAYERS = {
    "R50-7x7/2-3-64@224": (8, 3, 224, 64, 7, 2, 3),
    "R50-1x1-64-64@56": (8, 64, 56, 64, 1, 1, 0),
    "R50-3x3-64@56": (8, 64, 56, 64, 3, 1, 1),
    "R50-1x1-64-256@56": (8, 64, 56, 256, 1, 1, 0),
    "R50-3x3/2-128@56": (8, 128, 56, 128, 3, 2, 1),
    "R50-3x3-128@28": (8, 128, 28, 128, 3, 1, 1),
    "R50-1x1-512-128@28": (8, 512, 28, 128, 1, 1, 0),
    "R50-3x3-256@14": (8, 256, 14, 256, 3, 1, 1),
    "R50-1x1-1024-256@14": (8, 1024, 14, 256, 1, 1, 0),
    "R50-3x3-512@7": (8, 512, 7, 512, 3, 1, 1),
    "R50-1x1-2048-512@7": (8, 2048, 7, 512, 1, 1, 0),
    "Alex-11x11/4-3-64@224": (32, 3, 224, 64, 11, 4, 2),
    "Alex-5x5-64-192@27": (32, 64, 27, 192, 5, 1, 2),
    "Alex-3x3-192-384@13": (32, 192, 13, 384, 3, 1, 1),
    "VGG-3x3-64@224": (4, 64, 224, 64, 3, 1, 1),
    "VGG-3x3-128@112": (4, 128, 112, 128, 3, 1, 1),
    "VGG-3x3-256@56": (4, 256, 56, 256, 3, 1, 1),
    "VGG-3x3-512@14": (4, 512, 14, 512, 3, 1, 1),
}
#: The same of small groups, how many of which comes last: depthwise layers of MobileNet V2 and V3,
#: EfficientNet-B0 and ConvNeXt-T, those of ResNeXt-50 (32 x 4d), and two with several features for
#: each channel.
GROUPED = {
    "MNv2-3x3-32@112": (8, 32, 112, 32, 3, 1, 1, 32),
    "MNv2-3x3/2-96@112": (8, 96, 112, 96, 3, 2, 1, 96),
    "MNv2-3x3-144@56": (8, 144, 56, 144, 3, 1, 1, 144),
    "MNv2-3x3-192@28-one": (1, 192, 28, 192, 3, 1, 1, 192),
    "MNv2-3x3-384@14": (8, 384, 14, 384, 3, 1, 1, 384),
    "MNv2-3x3-960@7": (8, 960, 7, 960, 3, 1, 1, 960),
    "MNv3-3x3-16@112": (8, 16, 112, 16, 3, 1, 1, 16),
    "MNv3-3x3-72@56": (8, 72, 56, 72, 3, 1, 1, 72),
    "MNv3-5x5-120@28": (8, 120, 28, 120, 5, 1, 2, 120),
    "ENB0-5x5/2-144@56": (8, 144, 56, 144, 5, 2, 2, 144),
    "ENB0-5x5-672@14": (8, 672, 14, 672, 5, 1, 2, 672),
    "ENB0-5x5-1152@7-one": (1, 1152, 7, 1152, 5, 1, 2, 1152),
    "CNXT-7x7-96@56": (8, 96, 56, 96, 7, 1, 3, 96),
    "CNXT-7x7-768@7": (8, 768, 7, 768, 7, 1, 3, 768),
    "RNXT-3x3-4*32@56": (8, 128, 56, 128, 3, 1, 1, 32),
    "RNXT-3x3/2-8*32@56": (8, 256, 56, 256, 3, 2, 1, 32),
    "RNXT-3x3-8*32@28": (8, 256, 28, 256, 3, 1, 1, 32),
    "RNXT-3x3-16*32@14": (8, 512, 14, 512, 3, 1, 1, 32),
    "RNXT-3x3-32*32@7": (8, 1024, 7, 1024, 3, 1, 1, 32),
    "times-2-3x3-64@28": (8, 64, 28, 128, 3, 1, 1, 64),
    "times-4-3x3-32@28": (8, 32, 28, 128, 3, 1, 1, 32),
}
PASSES = ("forward", "data", "weights")


def make_tiny() -> None:
    """From here on these cases are miniatures of one product, two layers and one of groups."""
    PRODUCTS.clear()
    PRODUCTS["gemm-tiny"] = ((3, 4), (4, 5))
    LAYERS.clear()
    LAYERS.update({"tiny": (2, 4, 8, 5, 3, 2, 1), "images": (2, 3, 8, 5, 3, 1, 0)})
    GROUPED.clear()
    GROUPED["few"] = (2, 4, 6, 8, 3, 1, 1, 4)


class Convolved(NamedTuple):
    """A pass of a layer: shapes of the image, of the kernel and of the result of a convolution."""

    which: str
    image: Shape
    kernel: Shape
    result: Shape
    stride: int
    padding: int
    groups: int
    operations: float


def convolutions() -> dict[str, Convolved]:
    """Case -> pass of a layer."""
    return _passes("conv", LAYERS)


def grouped() -> dict[str, Convolved]:
    """The same of layers of small groups."""
    return _passes("grouped", GROUPED)


def _passes(kind: str, layers: Mapping[str, Shape]) -> dict[str, Convolved]:
    found = {}
    for layer, (batch, channels, size, features, kernel, stride, padding, *more) in layers.items():
        groups = more[0] if more else 1
        out = (size + 2 * padding - kernel) // stride + 1
        shapes = (
            (batch, channels, size, size),
            (features, channels // groups, kernel, kernel),
            (batch, features, out, out),
        )
        work = 2.0 * math.prod(shapes[2]) * math.prod(shapes[1][1:])
        for which in PASSES:
            if which != "data" or channels != 3:  # images of a data set need no gradient
                about = Convolved(which, *shapes, stride, padding, groups, work)
                found[f"{kind}-{layer}-{which}"] = about
    return found


def operations() -> dict[str, float]:
    """Case -> floating operations of a call."""
    found = {case: 2.0 * math.prod(x) * y[-1] for case, (x, y) in PRODUCTS.items()}
    passes = convolutions() | grouped()
    return {**found, **{case: about.operations for case, about in passes.items()}}


def our_call(case: str) -> Call:
    """A case on the backend in use."""
    import fl_autograd as ag
    import fl_tensor as ft

    draws, backend = ft.Generator(0), ft.current_backend()
    if case in PRODUCTS:
        x, y = map(draws.normal, PRODUCTS[case])
        return computed(lambda: x @ y, ft.eval)
    which, *shapes, stride, padding, groups, _ = (convolutions() | grouped())[case]
    x, w, g = (draws.normal(shape).adapter for shape in shapes)
    rest = (stride,) * 2, ((padding, padding),) * 2, (1, 1), (1, 1), groups
    gradients = ag.RULES["conv"].vjps
    calls: dict[str, Callable[[], Any]] = {
        "forward": lambda: backend.conv(x, w, *rest),
        "data": lambda: gradients["x"](backend, g, shapes[0], w, *rest),
        "weights": lambda: gradients["w"](backend, g, x, shapes[1], *rest),
    }
    return computed(calls[which], lambda found: backend.evaluate([found]))


def computed(call: Call, evaluate: Callable[[Any], object]) -> Call:
    """``call`` with its result computed, not deferred."""

    def run() -> object:
        found = call()
        evaluate(found)
        return found

    return run


def torch_call(case: str, channels_last: bool = False) -> Call:
    """The same in PyTorch; the operands of a convolution with channels last, if wanted."""
    import torch

    torch.set_grad_enabled(False)
    if case in PRODUCTS:
        x, y = map(torch.randn, PRODUCTS[case])
        return lambda: x @ y
    which, *shapes, stride, padding, groups, _ = (convolutions() | grouped())[case]
    order = torch.channels_last if channels_last else torch.contiguous_format
    x, w, g = (torch.randn(shape).contiguous(memory_format=order) for shape in shapes)
    if which == "forward":
        return lambda: torch.nn.functional.conv2d(x, w, None, stride, padding, 1, groups)
    wanted = [which == "data", which == "weights", False]
    rest = [stride] * 2, [padding] * 2, [1, 1], False, [0, 0], groups, wanted
    return lambda: torch.ops.aten.convolution_backward(g, x, w, None, *rest)
