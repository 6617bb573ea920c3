"""Products and convolutions of float32 on two threads: the numpy backend with oneDNN and without
it, and PyTorch, on shapes of AlexNet, ResNet-50, VGG16 and BERT.

For orientation; no claim. GF/s are 10^9 operations per second; ratios above 1 are in favour of
oneDNN; the last rows are geometric means. Each library runs in a process of its own, and the three
take turns. Images are row-major in all three, as a user makes them.

    python benchmarks/contractions.py [--rounds 15] [--only conv-R50-3x3-512@7-data] [--json FILE]
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from _measure import Worker, environment, options, report, serve, take_turns

THREADS = 2
LIBRARIES = ("onednn", "numpy", "torch")
#: Case -> the shapes of the factors.
PRODUCTS = {
    "gemm-512x512x512": ((512, 512), (512, 512)),
    "gemm-1024x1024x1024": ((1024, 1024), (1024, 1024)),
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
    "R50-1x1-64-256@56": (8, 64, 56, 256, 1, 1, 0),
    "R50-3x3-128@28": (8, 128, 28, 128, 3, 1, 1),
    "R50-3x3/2-128@56": (8, 128, 56, 128, 3, 2, 1),
    "R50-1x1-1024-256@14": (8, 1024, 14, 256, 1, 1, 0),
    "R50-3x3-512@7": (8, 512, 7, 512, 3, 1, 1),
    "Alex-11x11/4-3-64@224": (32, 3, 224, 64, 11, 4, 2),
    "Alex-5x5-64-192@27": (32, 64, 27, 192, 5, 1, 2),
    "VGG-3x3-64@224": (4, 64, 224, 64, 3, 1, 1),
    "VGG-3x3-256@56": (4, 256, 56, 256, 3, 1, 1),
}
PASSES = ("forward", "data", "weights")
Shape = tuple[int, ...]


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


class OneAtATime(dict[str, Callable[[], object]]):
    """The calls of a library, made when asked for; only the last one is kept."""

    def __init__(self, product: Callable[..., Any], convolution: Callable[..., Any]) -> None:
        super().__init__()
        self._product, self._convolution = product, convolution

    def __missing__(self, case: str) -> Callable[[], object]:
        self.clear()
        if case in PRODUCTS:
            self[case] = self._product(*PRODUCTS[case])
        else:
            self[case] = self._convolution(*convolutions()[case][:-1])
        self[case]()  # chooses kernels
        return self[case]


def our_calls() -> OneAtATime:
    import fl_autograd as ag
    import fl_tensor as ft

    draws = ft.Generator(0)
    backend = ft.get_backend("numpy")
    gradients = ag.RULES["conv"].vjps

    def product(x_shape: Shape, y_shape: Shape) -> Callable[[], object]:
        x, y = draws.normal(x_shape), draws.normal(y_shape)
        return lambda: x @ y

    def convolution(
        which: str, x_shape: Shape, w_shape: Shape, g_shape: Shape, stride: int, padding: int
    ) -> Callable[[], object]:
        x, w, g = (draws.normal(shape).adapter for shape in (x_shape, w_shape, g_shape))
        rest = (stride,) * 2, ((padding, padding),) * 2, (1, 1), (1, 1), 1
        return {
            "forward": lambda: backend.conv(x, w, *rest),
            "data": lambda: gradients["x"](backend, g, x_shape, w, *rest),
            "weights": lambda: gradients["w"](backend, g, x, w_shape, *rest),
        }[which]

    return OneAtATime(product, convolution)


def torch_calls() -> OneAtATime:
    import torch

    torch.set_num_threads(THREADS)
    torch.set_grad_enabled(False)

    def product(x_shape: Shape, y_shape: Shape) -> Callable[[], object]:
        x, y = torch.randn(x_shape), torch.randn(y_shape)
        return lambda: x @ y

    def convolution(
        which: str, x_shape: Shape, w_shape: Shape, g_shape: Shape, stride: int, padding: int
    ) -> Callable[[], object]:
        x, w, g = torch.randn(x_shape), torch.randn(w_shape), torch.randn(g_shape)
        if which == "forward":
            return lambda: torch.nn.functional.conv2d(x, w, None, stride, padding)
        wanted = [which == "data", which == "weights", False]
        rest = [stride] * 2, [padding] * 2, [1, 1], False, [0, 0], 1, wanted
        return lambda: torch.ops.aten.convolution_backward(g, x, w, None, *rest)

    return OneAtATime(product, convolution)


def means(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row of geometric means per kind of case."""
    found = []
    for kind in ("gemm", "bmm", *(f"conv {which}" for which in PASSES)):
        start, _, end = kind.partition(" ")
        group = [row for row in rows if row["case"].startswith(start) and row["case"].endswith(end)]
        if group:
            columns = [name for name in group[0] if name != "case"]
            average = {
                c: math.exp(sum(math.log(row[c]) for row in group) / len(group)) for c in columns
            }
            found.append({"case": kind, **average})
    return found


def main() -> None:
    given = options(__doc__)
    if given.serve:
        serve(torch_calls() if given.serve == "torch" else our_calls())
        return
    rows = []
    with ExitStack() as stack:
        workers = {}
        for library in LIBRARIES:
            switch = "0" if library == "numpy" else "1"
            workers[library] = stack.enter_context(Worker(library, THREADS, FL_ONEDNN=switch))
        for case, flops in operations().items():
            if given.only and case not in given.only:
                continue
            seconds = take_turns(workers, case, given.rounds)
            rows.append(
                {
                    "case": case,
                    **{f"{name} GF/s": flops / seconds[name] / 1e9 for name in LIBRARIES},
                    "to numpy": seconds["numpy"] / seconds["onednn"],
                    "to torch": seconds["torch"] / seconds["onednn"],
                }
            )
    about = environment("numpy", "torch", "fl-tensor", "onednn-cpu-gomp")
    report(given, {**about, "threads": THREADS, "rounds": given.rounds}, rows + means(rows))


if __name__ == "__main__":
    main()
