"""Operations that a generator of kernels fuses: through the public functions, and in PyTorch.

"-backward" is the gradient of a result that is there. PyTorch's own gradient functions are called
directly, ours go through the graph.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Shape = tuple[int, ...]
Call = Callable[[], object]
#: Case -> the shape of what is computed with.
CASES: dict[str, Shape] = {
    "gelu": (512, 3072),
    "gelu-large": (8192, 1024),
    "gelu-backward": (512, 3072),
    "gelu-backward-large": (8192, 1024),
    "dropout+residual": (512, 3072),
    "dropout+residual-large": (8192, 1024),
    "layer-norm": (512, 768),
    "layer-norm-large": (8192, 1024),
    "layer-norm-backward": (512, 768),
    "layer-norm-backward-large": (8192, 1024),
    "softmax": (6144, 128),
    "softmax-backward": (6144, 128),
    "cross-entropy-forward+backward": (512, 30522),
    "adam": (25_000_000,),
}


def kind_of(case: str) -> str:
    """The case without its size."""
    return case.removesuffix("-large")


def shape_of(case: str, tiny: bool) -> Shape:
    """The shape of a case, or of its miniature."""
    if not tiny:
        return CASES[case]
    return (1000,) if case == "adam" else (4, 40)


def our_call(case: str, shape: Shape) -> Call:
    """What a user writes; computed, not deferred."""
    import fl_autograd as ag
    import fl_nn as nn
    import fl_tensor as ft

    ft.seed(0)
    x, g = ag.Variable(ft.rand(shape), requires_grad=True), ft.rand(shape)
    if case == "adam":
        parameter = nn.Parameter(x.tensor)
        parameter.grad = g
        optimizer = nn.Adam([parameter])

        def update() -> None:
            optimizer.step()
            ft.eval(parameter)

        return update
    if case == "cross-entropy-forward+backward":
        targets = ft.default_generator().integers(0, shape[1], shape[:1])
        return slope_of(lambda: nn.cross_entropy(x, targets), None, [x])
    weight, bias = (ag.Variable(ft.rand(shape[-1:]), requires_grad=True) for _ in range(2))
    dropout = nn.Dropout(0.1)
    calls: dict[str, Callable[[], Any]] = {
        "gelu": lambda: ft.gelu(x, "tanh"),
        "dropout+residual": lambda: dropout(x) + g,
        "layer-norm": lambda: ft.layer_norm(x, weight, bias),
        "softmax": lambda: ft.softmax(x),
    }
    call = calls[case.removesuffix("-backward")]
    if case.endswith("-backward"):
        leaves = [x, weight, bias] if case.startswith("layer-norm") else [x]
        y = call()
        ft.eval(y)
        return slope_of(lambda: y, g, leaves)

    @ag.no_grad()
    def forward() -> None:
        ft.eval(call())

    return forward


def slope_of(result: Callable[[], Any], g: Any, leaves: list[Any]) -> Call:
    """The gradient of a result, with respect to ``leaves``."""
    import fl_tensor as ft

    def step() -> None:
        for leaf in leaves:
            leaf.zero_grad()
        result().backward(g, retain_graph=g is not None)
        ft.eval(*[leaf.grad for leaf in leaves])

    return step


def torch_call(case: str, shape: Shape) -> Callable[[], object]:
    """The same in PyTorch."""
    import torch

    aten, functional = torch.ops.aten, torch.nn.functional
    torch.set_grad_enabled(case.startswith("cross-entropy"))
    x, g = torch.rand(shape), torch.rand(shape)
    if case == "adam":
        parameter = torch.nn.Parameter(x)
        parameter.grad = g
        return torch.optim.Adam([parameter], fused=True).step
    if case == "cross-entropy-forward+backward":
        targets = torch.randint(shape[1], shape[:1])
        x.requires_grad_()

        def step() -> object:
            x.grad = None
            return functional.cross_entropy(x, targets).backward()

        return step
    weight, bias = torch.rand(shape[-1]), torch.rand(shape[-1])
    y, mean, scale = aten.native_layer_norm(x, shape[-1:], weight, bias, 1e-5)
    saved = (mean, scale, weight, bias, [True, True, True])
    calls: dict[str, Callable[[], object]] = {
        "gelu": lambda: functional.gelu(x, approximate="tanh"),
        "gelu-backward": lambda: aten.gelu_backward(g, x, approximate="tanh"),
        "dropout+residual": lambda: functional.dropout(x, 0.1) + g,
        "layer-norm": lambda: functional.layer_norm(x, shape[-1:], weight, bias),
        "layer-norm-backward": lambda: aten.native_layer_norm_backward(g, x, shape[-1:], *saved),
        "softmax": lambda: torch.softmax(x, -1),
        "softmax-backward": lambda: aten._softmax_backward_data(g, y, -1, torch.float32),
    }
    return calls[case]
