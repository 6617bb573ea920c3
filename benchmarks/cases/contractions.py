"""Products and convolutions of float32, on shapes of AlexNet, ResNet-50, VGG16 and BERT, through
the public functions; `problems.py` has them for providers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

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
#: Layer -> batch, channels, size, features, kernel, stride, padding.
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
PASSES = ("forward", "data", "weights")


def make_tiny() -> None:
    """From here on these cases are miniatures of one product and two layers."""
    PRODUCTS.clear()
    PRODUCTS["gemm-tiny"] = ((3, 4), (4, 5))
    LAYERS.clear()
    LAYERS.update({"tiny": (2, 4, 8, 5, 3, 2, 1), "images": (2, 3, 8, 5, 3, 1, 0)})


def convolutions() -> dict[str, tuple[str, Shape, Shape, Shape, int, int, float]]:
    """Case -> pass, shapes of image, kernel and result, stride, padding, floating operations."""
    found = {}
    for layer, (batch, channels, size, features, kernel, stride, padding) in LAYERS.items():
        out = (size + 2 * padding - kernel) // stride + 1
        shapes = (
            (batch, channels, size, size),
            (features, channels, kernel, kernel),
            (batch, features, out, out),
        )
        flops = 2.0 * math.prod(shapes[2]) * channels * kernel**2
        for which in PASSES:
            if which != "data" or channels != 3:  # images of a data set need no gradient
                found[f"conv-{layer}-{which}"] = (which, *shapes, stride, padding, flops)
    return found


def operations() -> dict[str, float]:
    """Case -> floating operations of a call."""
    found = {case: 2.0 * math.prod(x) * y[-1] for case, (x, y) in PRODUCTS.items()}
    return {**found, **{case: about[-1] for case, about in convolutions().items()}}


def our_call(case: str) -> Call:
    """A case on the backend in use."""
    import fl_autograd as ag
    import fl_tensor as ft

    draws, backend = ft.Generator(0), ft.current_backend()
    if case in PRODUCTS:
        x, y = map(draws.normal, PRODUCTS[case])
        return computed(lambda: x @ y, ft.eval)
    which, x_shape, w_shape, g_shape, stride, padding, _ = convolutions()[case]
    x, w, g = (draws.normal(shape).adapter for shape in (x_shape, w_shape, g_shape))
    rest = (stride,) * 2, ((padding, padding),) * 2, (1, 1), (1, 1), 1
    gradients = ag.RULES["conv"].vjps
    calls: dict[str, Callable[[], Any]] = {
        "forward": lambda: backend.conv(x, w, *rest),
        "data": lambda: gradients["x"](backend, g, x_shape, w, *rest),
        "weights": lambda: gradients["w"](backend, g, x, w_shape, *rest),
    }
    return computed(calls[which], lambda found: backend.evaluate([found]))


def computed(call: Call, evaluate: Callable[[Any], object]) -> Call:
    """``call`` with its result computed, not put off."""

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
    which, *shapes, stride, padding, _ = convolutions()[case]
    order = torch.channels_last if channels_last else torch.contiguous_format
    x, w, g = (torch.randn(shape).contiguous(memory_format=order) for shape in shapes)
    if which == "forward":
        return lambda: torch.nn.functional.conv2d(x, w, None, stride, padding)
    wanted = [which == "data", which == "weights", False]
    rest = [stride] * 2, [padding] * 2, [1, 1], False, [0, 0], 1, wanted
    return lambda: torch.ops.aten.convolution_backward(g, x, w, None, *rest)
