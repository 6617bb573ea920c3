"""Gradients of first and second order against PyTorch in float64, over shapes and parameters."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import fl_autograd as ag
import fl_tensor as ft

torch = pytest.importorskip("torch")
F = torch.nn.functional

Function = Callable[..., Any]


def values(*shapes: tuple[int, ...], low: float | None = None, seed: int = 0) -> list[Any]:
    """Standard normal arrays, or uniform ones from ``low`` to ``low + 2``."""
    rng = np.random.default_rng(seed)
    if low is None:
        return [rng.standard_normal(s) for s in shapes]
    return [rng.uniform(low, low + 2, s) for s in shapes]


def agree(
    ours: Function, theirs: Function, inputs: Sequence[Any], order: int = 2, rtol: float = 1e-8
) -> None:
    """Values, gradients, and gradients of a weighted sum of the gradients."""
    xs = [ag.Variable(ft.asarray(a), requires_grad=True) for a in inputs]
    ts = [torch.tensor(a, requires_grad=True) for a in inputs]
    y, z = ours(*xs), theirs(*ts)
    same(y, z, rtol)
    weights = np.cos(np.arange(y.size)).reshape(y.shape)
    gx = ag.grad(y, xs, ft.asarray(weights), create_graph=order > 1, allow_unused=True)
    gt = torch.autograd.grad(
        z, ts, torch.tensor(weights), create_graph=order > 1, allow_unused=True
    )
    for a, b in zip(gx, gt, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            same(a, b, rtol)
    if order < 2:
        return
    seconds = [(a, b) for a, b in zip(gx, gt) if a is not None and b.requires_grad]
    if not seconds:
        return
    ws = [np.sin(1.0 + np.arange(a.size)).reshape(a.shape) for a, _ in seconds]
    mine = [(a, w) for (a, _), w in zip(seconds, ws) if a.requires_grad]
    hx: Sequence[Any] = [None] * len(xs)
    if mine:
        hx = ag.grad([a for a, _ in mine], xs, [ft.asarray(w) for _, w in mine], allow_unused=True)
    ht = torch.autograd.grad(
        [b for _, b in seconds], ts, [torch.tensor(w) for w in ws], allow_unused=True
    )
    for a, b in zip(hx, ht, strict=True):
        zero = np.zeros(())
        left, right = (
            (zero if a is None else a.numpy()),
            (zero if b is None else b.numpy(force=True)),
        )
        np.testing.assert_allclose(*np.broadcast_arrays(left, right), rtol=rtol, atol=1e-9)


def same(a: Any, b: Any, rtol: float) -> None:
    np.testing.assert_allclose(a.numpy(), b.detach().numpy(), rtol=rtol, atol=1e-10)


UNARY = {
    "exp": (ft.exp, torch.exp, None),
    "expm1": (ft.expm1, torch.expm1, None),
    "log": (ft.log, torch.log, 0.2),
    "log1p": (ft.log1p, torch.log1p, -0.5),
    "sqrt": (ft.sqrt, torch.sqrt, 0.2),
    "sin": (ft.sin, torch.sin, None),
    "cos": (ft.cos, torch.cos, None),
    "tan": (ft.tan, torch.tan, -0.7),
    "tanh": (ft.tanh, torch.tanh, None),
    "erf": (ft.erf, torch.erf, None),
    "absolute": (ft.absolute, torch.abs, None),
    "negative": (ft.negative, torch.neg, None),
    "square": (ft.square, torch.square, None),
    "reciprocal": (ft.reciprocal, torch.reciprocal, 0.3),
    "rsqrt": (ft.rsqrt, torch.rsqrt, 0.3),
    "sigmoid": (ft.sigmoid, torch.sigmoid, None),
    "silu": (ft.silu, F.silu, None),
    "relu": (ft.relu, torch.relu, None),
    "gelu": (ft.gelu, F.gelu, None),
    "gelu tanh": (lambda x: ft.gelu(x, "tanh"), lambda x: F.gelu(x, approximate="tanh"), None),
    "softplus": (ft.softplus, F.softplus, None),
    "asin": (ft.asin, torch.asin, -0.9),
    "acos": (ft.acos, torch.acos, -0.9),
    "atan": (ft.atan, torch.atan, None),
    "sinh": (ft.sinh, torch.sinh, None),
    "cosh": (ft.cosh, torch.cosh, None),
    "asinh": (ft.asinh, torch.asinh, None),
    "acosh": (ft.acosh, torch.acosh, 1.3),
    "atanh": (ft.atanh, torch.atanh, -0.9),
    "log2": (ft.log2, torch.log2, 0.2),
    "log10": (ft.log10, torch.log10, 0.2),
    "exp2": (ft.exp2, torch.exp2, None),
    "clip": (lambda x: ft.clip(x, -0.5, 0.7), lambda x: torch.clamp(x, -0.5, 0.7), None),
    "power": (lambda x: x**2.5, lambda x: x**2.5, 0.2),
    "cube": (lambda x: x**3, lambda x: x**3, None),
    "base": (lambda x: 2.0**x, lambda x: 2.0**x, None),
}


@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str) -> None:
    ours, theirs, low = UNARY[name]
    for shape in ((), (7,), (2, 3)):
        spread = 1.8 if name in ("asin", "acos", "atanh") else 2.0
        (x,) = values(shape, low=low)
        if low is not None:
            x = low + (x - low) * spread / 2.0
        agree(ours, theirs, [x])


BINARY = {
    "add": (ft.add, torch.add, None),
    "subtract": (ft.subtract, torch.sub, None),
    "multiply": (ft.multiply, torch.mul, None),
    "divide": (ft.divide, torch.div, 0.3),
    "power": (ft.power, torch.pow, 0.3),
    "atan2": (ft.atan2, torch.atan2, None),
    "hypot": (ft.hypot, torch.hypot, 0.3),
    "maximum": (ft.maximum, torch.maximum, None),
    "minimum": (ft.minimum, torch.minimum, None),
}
SHAPES = [((2, 3), (2, 3)), ((2, 3), (3,)), ((4, 1, 3), (2, 1)), ((), (2, 2)), ((1,), (3, 1))]


@pytest.mark.parametrize(("name", "shapes"), list(itertools.product(BINARY, SHAPES)))
def test_binary_with_broadcasting(name: str, shapes: Any) -> None:
    ours, theirs, low = BINARY[name]
    agree(ours, theirs, values(*shapes, low=low))


def test_remainder() -> None:
    agree(ft.remainder, torch.remainder, values((3, 4), (4,), low=0.3), order=1)


def test_ties_and_corners() -> None:
    a, b = np.array([1.0, 2.0, 0.0]), np.array([1.0, 3.0, -0.0])
    agree(ft.maximum, torch.maximum, [a, b], order=1)
    agree(ft.minimum, torch.minimum, [a, b], order=1)
    agree(lambda x: ft.max(x, 0), lambda x: torch.amax(x, 0), [np.array([[1.0, 2], [1, 3]])], 1)
    agree(lambda x: ft.min(x), lambda x: torch.amin(x), [np.array([[1.0, 2], [1, 3]])], 1)
    for ours, theirs in ((ft.relu, torch.relu), (ft.absolute, torch.abs)):
        agree(ours, theirs, [np.array([-1.0, 0.0, 1.0])], order=1)
    agree(lambda x: ft.clip(x, 0.0, 1.0), lambda x: torch.clamp(x, 0, 1), [a], order=1)
    agree(ft.prod, torch.prod, [np.array([2.0, 0.0, 3.0])])
    agree(ft.prod, torch.prod, [np.array([0.0, 0.0, 3.0])])
    agree(lambda x: x**0.0, lambda x: x**0.0, [np.array([0.0, 2.0])], order=1)
    agree(lambda x: ft.norm(x), lambda x: torch.linalg.vector_norm(x), [np.zeros(3)], order=1)


def test_clip_with_array_bounds() -> None:
    x, low, high = values((4, 5), (5,), (5,))
    high = low + np.abs(high)
    agree(lambda x, a, b: ft.clip(x, a, b), lambda x, a, b: torch.clamp(x, a, b), [x, low, high], 1)


REDUCTIONS = {
    "sum": (ft.sum, torch.sum),
    "mean": (ft.mean, torch.mean),
    "max": (ft.max, torch.amax),
    "min": (ft.min, torch.amin),
    "logsumexp": (ft.logsumexp, torch.logsumexp),
    "var": (
        lambda x, a, k: ft.var(x, a, k, 1.0),
        lambda x, a, keepdim: torch.var(x, a, correction=1, keepdim=keepdim),
    ),
    "std": (
        lambda x, a, k: ft.std(x, a, k),
        lambda x, a, keepdim: torch.std(x, a, correction=0, keepdim=keepdim),
    ),
    **{
        f"norm {p}": (
            lambda x, a, k, p=p: ft.norm(x, axis=a, keepdims=k, ord=p),
            lambda x, a, keepdim, p=p: torch.linalg.vector_norm(x, p, a, keepdim),
        )
        for p in (1.0, 2.0, 3.0, 0.5, math.inf)
    },
}


@pytest.mark.parametrize(
    ("name", "axis", "keepdims"),
    list(itertools.product(REDUCTIONS, [0, (1,), (0, 2), (0, 1, 2)], [False, True])),
)
def test_reductions(name: str, axis: Any, keepdims: bool) -> None:
    ours, theirs = REDUCTIONS[name]
    agree(
        lambda x: ours(x, axis, keepdims),
        lambda x: theirs(x, axis, keepdim=keepdims),
        values((3, 4, 2)),
        order=1 if name == "norm inf" else 2,
    )


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_along_an_axis(axis: int) -> None:
    (x,) = values((3, 4, 5))
    for ours, theirs in (
        (ft.cumulative_sum, torch.cumsum),
        (ft.cumulative_prod, torch.cumprod),
        (ft.softmax, torch.softmax),
        (ft.log_softmax, torch.log_softmax),
        (lambda v, a: ft.sort(v, a), lambda v, a: torch.sort(v, a)[0]),
        (lambda v, a: ft.sort(v, a, True), lambda v, a: torch.sort(v, a, descending=True)[0]),
        (lambda v, a: ft.topk(v, 2, a)[0], lambda v, a: torch.topk(v, 2, a)[0]),
        (lambda v, a: ft.prod(v, a), lambda v, a: torch.prod(v, a)),
        (lambda v, a: ft.flip(v, a), lambda v, a: torch.flip(v, (a,))),
        (lambda v, a: ft.roll(v, 2, a), lambda v, a: torch.roll(v, 2, a)),
        (lambda v, a: ft.stack([v, v * v], a), lambda v, a: torch.stack([v, v * v], a)),
        (
            lambda v, a: ft.concatenate([v, ft.exp(v), v], a),
            lambda v, a: torch.cat([v, torch.exp(v), v], a),
        ),
    ):
        agree(lambda v, f=ours: f(v, axis), lambda v, f=theirs: f(v, axis), [x])


def test_rearranging() -> None:
    (x,) = values((2, 3, 4))
    for ours, theirs in (
        (lambda v: v.reshape(4, 6) ** 2, lambda v: v.reshape(4, 6) ** 2),
        (lambda v: v.permute(2, 0, 1) ** 2, lambda v: v.permute(2, 0, 1) ** 2),
        (lambda v: ft.tril(v, -1) ** 2, lambda v: torch.tril(v, -1) ** 2),
        (lambda v: ft.triu(v, 1) ** 2, lambda v: torch.triu(v, 1) ** 2),
        (
            lambda v: ft.pad(v, ((0, 1), (2, 0), (1, 3)), value=5.0) ** 2,
            lambda v: F.pad(v, (1, 3, 2, 0, 0, 1), value=5.0) ** 2,
        ),
        (lambda v: ft.broadcast_to(v, (5, 2, 3, 4)) ** 2, lambda v: v.expand(5, 2, 3, 4) ** 2),
        (lambda v: ft.split(v, [1, 2], 1)[1] ** 2, lambda v: torch.split(v, [1, 2], 1)[1] ** 2),
        (lambda v: ft.where(v > 0, v * v, v), lambda v: torch.where(v > 0, v * v, v)),
    ):
        agree(ours, theirs, [x])


INDICES = [
    1,
    (slice(None), -1),
    (slice(0, 5, 2), slice(1, None)),
    (..., 0),
    (None, slice(1, 3), ..., None),
    [0, 4, 4, 0],
    ([0, 1, 1], [2, 2, 0]),
    (slice(None), [3, 3], slice(0, 1)),
    ([1, 2], slice(None), [0, 1]),
    ([[0, 1], [1, 1]], 2),
]


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_indexing(index: Any) -> None:
    def convert(i: Any) -> Any:
        return torch.tensor(i) if isinstance(i, list) else i

    theirs = tuple(map(convert, index)) if isinstance(index, tuple) else convert(index)
    agree(lambda v: v[index] ** 2, lambda v: v[theirs] ** 2, values((5, 4, 2)))


def test_masks_gather_and_scatter() -> None:
    x, u = values((4, 5), (3, 5))
    agree(lambda v: v[v > 0] ** 2, lambda v: v[v > 0] ** 2, [x])
    rows = [2, 0, 2]
    index = torch.tensor(rows)
    agree(
        lambda v, w: ft.scatter(v, ft.asarray(rows), w, 0, "add") ** 2,
        lambda v, w: torch.index_add(v, 0, index, w) ** 2,
        [x, u],
    )
    places = np.array([[0, 1, 1], [2, 2, 2], [4, 0, 4], [3, 3, 1]])
    agree(
        lambda v: ft.take_along_axis(v, ft.asarray(places), 1) ** 2,
        lambda v: torch.gather(v, 1, torch.tensor(places)) ** 2,
        [x],
    )
    agree(
        lambda v: ft.embedding(v, ft.asarray(places)) ** 2,
        lambda v: F.embedding(torch.tensor(places), v) ** 2,
        values((5, 3)),
    )

    def written(v: Any, w: Any) -> Any:
        y = v * 1
        y[1:4, ::2] = w
        return y * y

    agree(written, written, values((4, 5), (3, 3)))


MATRICES = [
    ((2, 3), (3, 4)),
    ((5, 2, 3), (3, 4)),
    ((2, 3), (5, 3, 4)),
    ((5, 2, 3), (5, 3, 4)),
    ((6, 1, 2, 3), (5, 3, 4)),
    ((3,), (3,)),
    ((3,), (5, 3, 2)),
    ((5, 2, 3), (3,)),
]


@pytest.mark.parametrize("shapes", MATRICES, ids=str)
def test_matmul(shapes: Any) -> None:
    agree(ft.matmul, torch.matmul, values(*shapes))


@pytest.mark.parametrize("shape", [(3,), (4, 3), (2, 4, 3)])
def test_linear(shape: Any) -> None:
    agree(ft.linear, F.linear, values(shape, (5, 3), (5,)))


@pytest.mark.parametrize("spatial", [1, 2, 3])
@pytest.mark.parametrize(
    ("stride", "padding", "dilation", "groups"),
    [(1, 0, 1, 1), (2, 1, 1, 1), (1, 2, 2, 1), (2, 1, 2, 2), (3, 0, 1, 4), (3, 2, 1, 1)],
)
def test_conv(spatial: int, stride: int, padding: int, dilation: int, groups: int) -> None:
    size, kernel = (8, 7, 6)[:spatial], (3, 2, 2)[:spatial]
    conv = (F.conv1d, F.conv2d, F.conv3d)[spatial - 1]
    agree(
        lambda x, w: ft.conv(x, w, stride, padding, 1, dilation, groups),
        lambda x, w: conv(x, w, None, stride, padding, dilation, groups),
        values((2, 4, *size), (4, 4 // groups, *kernel)),
    )


@pytest.mark.parametrize("padding", [((1, 2), (0, 3)), ((-1, 0), (2, -2)), ((-1, -1), (-2, 0))])
@pytest.mark.parametrize("stride", [1, 2])
def test_conv_with_uneven_and_negative_padding(padding: Any, stride: int) -> None:
    (top, bottom), (left, right) = padding
    agree(
        lambda x, w: ft.conv(x, w, stride, padding),
        lambda x, w: F.conv2d(F.pad(x, (left, right, top, bottom)), w, None, stride),
        values((2, 3, 8, 9), (4, 3, 3, 2)),
    )


@pytest.mark.parametrize(("stride", "padding"), [(2, 0), (2, 1), (3, 2)])
def test_transposed_conv(stride: int, padding: int) -> None:
    """A convolution with dilated input is PyTorch's transposed convolution with flipped kernel."""
    k = 3
    agree(
        lambda x, w: ft.conv(
            x, ft.flip(ft.permute(w, (1, 0, 2, 3)), (2, 3)), 1, k - 1 - padding, stride
        ),
        lambda x, w: F.conv_transpose2d(x, w, None, stride, padding),
        values((2, 3, 4, 5), (3, 2, k, k)),
    )


@pytest.mark.parametrize(
    ("window", "stride", "padding"),
    [
        (2, 2, 0),
        (3, 2, 1),
        (3, 1, 1),
        (2, 3, 0),
        ((3, 2), (2, 1), (1, 0)),
        ((1, 4), (3, 2), (0, 2)),
    ],
)
def test_pooling(window: Any, stride: Any, padding: Any) -> None:
    (x,) = values((2, 3, 7, 9))
    around = padding if isinstance(padding, int) else tuple((p, p) for p in padding)
    ties = np.round(x)
    for data in (x, ties, np.ones_like(x)):
        agree(
            lambda v: ft.max_pool(v, window, stride, around),
            lambda v: F.max_pool2d(v, window, stride, padding),
            [data],
            order=1,
        )
    for include in (True, False):
        agree(
            lambda v, i=include: ft.avg_pool(v, window, stride, around, i),
            lambda v, i=include: F.avg_pool2d(v, window, stride, padding, count_include_pad=i),
            [x],
        )


def test_layer_norm() -> None:
    x, w, b = values((4, 3, 5), (3, 5), (3, 5))
    agree(
        lambda x, w, b: ft.layer_norm(x, w, b, (1, 2)),
        lambda x, w, b: F.layer_norm(x, (3, 5), w, b),
        [x, w, b],
    )
    agree(lambda x: ft.layer_norm(x, axis=-1), lambda x: F.layer_norm(x, (5,)), [x])


def test_batch_norm() -> None:
    x, w, b = values((4, 3, 5), (3,), (3,))

    def ours(x: Any, w: Any, b: Any) -> Any:
        return ft.batch_norm(x, ft.mean(x, (0, 2)), ft.var(x, (0, 2)), w, b, 1)

    agree(ours, lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True), [x, w, b])


@pytest.mark.defect("V6", "item 2")
@pytest.mark.parametrize("name", ["cross_entropy", "nll_loss"])
def test_losses_over_classes(name: str) -> None:
    ours, theirs = getattr(ft, name), getattr(F, name)
    (x,) = values((6, 5))
    targets = [0, 4, 2, 2, 1, 0]
    agree(
        lambda v: ours(v, ft.asarray(targets)).mean(),
        lambda v: theirs(v, torch.tensor(targets)),
        [x],
    )
    (image,) = values((2, 3, 4, 5))
    labels = np.arange(40).reshape(2, 4, 5) % 3
    agree(
        lambda v: ours(v, ft.asarray(labels), 1),
        lambda v: theirs(v, torch.tensor(labels), reduction="none"),
        [image],
    )


def test_a_network_trains_alike() -> None:
    """Ten steps of gradient descent on a convolutional network."""
    rng = np.random.default_rng(0)
    shapes = [(8, 1, 3, 3), (8,), (6, 8, 3, 3), (6,), (10, 54), (10,)]
    start = [rng.standard_normal(s) * 0.2 for s in shapes]
    x = rng.standard_normal((4, 1, 12, 12))
    targets = [1, 7, 3, 3]
    ours = [ag.Variable(ft.asarray(a), requires_grad=True) for a in start]
    theirs = [torch.tensor(a, requires_grad=True) for a in start]

    def forward(a: Any, b: Any, c: Any, d: Any, e: Any, f: Any) -> Any:
        h = ft.relu(ft.conv(ft.asarray(x), a, 1, 1) + b.reshape(1, -1, 1, 1))
        h = ft.max_pool(h, 2)
        h = ft.avg_pool(ft.gelu(ft.conv(h, c, 1, 1) + d.reshape(1, -1, 1, 1)), 2)
        h = ft.linear(h.reshape(4, -1), e, f)
        return ft.cross_entropy(h, ft.asarray(targets)).mean()

    def reference(a: Any, b: Any, c: Any, d: Any, e: Any, f: Any) -> Any:
        h = F.max_pool2d(torch.relu(F.conv2d(torch.tensor(x), a, b, padding=1)), 2)
        h = F.avg_pool2d(F.gelu(F.conv2d(h, c, d, padding=1)), 2)
        return F.cross_entropy(F.linear(h.reshape(4, -1), e, f), torch.tensor(targets))

    for _ in range(10):
        loss, wanted = forward(*ours), reference(*theirs)
        assert loss.item() == pytest.approx(wanted.item(), rel=1e-10)
        loss.backward()
        wanted.backward()
        for p, q in zip(ours, theirs, strict=True):
            p.tensor = p.tensor - 0.1 * p.grad.tensor
            p.zero_grad()
            with torch.no_grad():
                q -= 0.1 * q.grad
                q.grad = None
