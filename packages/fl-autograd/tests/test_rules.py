"""Gradients where a choice had to be made, and fused rules against what they replace."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pytest

import fl_autograd as ag
import fl_tensor as ft
from fl_autograd.rules import NON_DIFFERENTIABLE, RULES
from fl_autograd.testing.suite import as_function
from fl_tensor import contract
from fl_tensor.derived_ops import DerivedOps
from fl_tensor.testing import CASES, needs
from fl_tensor.testing.harness import Harness

DERIVED = {op.name for op in contract.DERIVED}
PRIMITIVES = {op.name for op in contract.PRIMITIVES}
OPTIONAL = {op.name for op in contract.OPTIONAL}


def slope(function: Any, x: Any) -> Any:
    return ag.grad(function(x).sum(), x)


def test_every_primitive_has_a_rule_or_is_listed_as_non_differentiable() -> None:
    assert not RULES.keys() & NON_DIFFERENTIABLE
    assert PRIMITIVES - {"to_host"} <= RULES.keys() | NON_DIFFERENTIABLE
    assert RULES.keys() | NON_DIFFERENTIABLE <= PRIMITIVES | DERIVED | OPTIONAL


def rows(names: Any) -> list[Any]:
    """The names as parameters; those that the default backend cannot run are skipped."""
    needed = {name: CASES[name].capability for name in sorted(names)}
    return [pytest.param(n, marks=needs(*([c] if c else []))) for n, c in needed.items()]


@pytest.mark.parametrize("name", rows(RULES.keys() & DERIVED))
def test_fused_rules_equal_the_composition(name: str) -> None:
    """On the gradient samples of the operation table, which avoid ties and corners."""
    harness = Harness(ft.current_backend())
    case, tape = CASES[name], ag.tape_for(harness.backend)
    fused, composition = getattr(tape, name), partial(getattr(DerivedOps, name), tape)
    tried = 0
    dtypes = [d for d in (ft.float64, ft.complex128) if d in harness.backend.dtypes]
    drawn = [(d, label) for d in dtypes if case.accepts(d) for label in case.grad]
    for sample in (s for d, label in drawn for s in case.draw(d, label)):
        _, values = as_function(harness, fused, sample)
        floats = [i for i, x in enumerate(values) if x.dtype.kind in "fc" and x.size]
        if not floats or (name in ("std", "norm") and not _spread(sample)):
            continue
        results = []
        for operation in (fused, composition):
            xs = [ag.Variable(x, requires_grad=i in floats) for i, x in enumerate(values)]
            function, _ = as_function(harness, operation, sample)
            y = function(*xs)
            made = y if isinstance(y, tuple) else (y,)
            weights = [ft.asarray(np.cos(np.arange(v.size)).reshape(v.shape)) for v in made]
            weights = [w.astype(v.dtype) for w, v in zip(weights, made, strict=True)]
            leaves = [xs[i] for i in floats]
            results.append((*made, *ag.grad(made, leaves, weights)))
        for got, want in zip(*results, strict=True):
            np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-9, atol=1e-11)
        tried += 1
    assert tried


def _spread(sample: Any) -> bool:
    # The composition gives NaN where the norm or the deviation is 0; the rules give 0.
    return sample.args[1] != () and sample.operands()[0].values.size > 1


def test_ties_are_shared(leaf: Any, close: Any) -> None:
    x, y = leaf([1.0, 2.0, 3.0]), leaf([1.0, 3.0, 2.0])
    for op, want in ((ft.maximum, [0.5, 0.0, 1.0]), (ft.minimum, [0.5, 1.0, 0.0])):
        gx, gy = ag.grad(op(x, y).sum(), [x, y])
        close(gx, want)
        close(gy, 1 - np.array(want))
    z = leaf([[2.0, 5.0, 5.0], [7.0, 7.0, 7.0]])
    close(slope(lambda v: ft.max(v, 1), z), [[0, 0.5, 0.5], [1 / 3] * 3])
    close(slope(lambda v: ft.min(v, (0, 1)), z), [[1, 0, 0], [0, 0, 0]])


def test_batch_norm_of_data_has_gradients_of_its_parameters_alone(leaf: Any, close: Any) -> None:
    data = np.sin(np.arange(24.0)).reshape(4, 3, 2)

    def gradients(tracked: list[Any], *operands: Any) -> Any:
        y, mean, variance = ft.batch_norm_training(*operands)
        return ag.grad((y * y * y).sum() + mean.sum() + variance.sum(), tracked)

    x, weight, bias = leaf(data), leaf([1.0, 2.0, -3.0]), leaf([0.5, 0.0, 1.0])
    _, to_weight, to_bias = gradients([x, weight, bias], x, weight, bias)
    plain = [v.detach() for v in (x, weight, bias)]
    (alone,) = gradients([weight], plain[0], weight, plain[2])
    close(alone, to_weight.numpy())
    (alone,) = gradients([bias], plain[0], plain[1], bias)
    close(alone, to_bias.numpy())


def test_max_pool_gives_to_the_first_maximum(leaf: Any, close: Any) -> None:
    x = leaf(np.ones((1, 1, 4, 4)))
    got = slope(lambda v: ft.max_pool(v, 2), x)
    close(got[0, 0], [[1, 0, 1, 0], [0, 0, 0, 0], [1, 0, 1, 0], [0, 0, 0, 0]])
    overlapping = slope(lambda v: ft.max_pool(v, 3, 1), x)
    close(overlapping[0, 0], [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]])


def test_kinks_follow_pytorch(leaf: Any, close: Any) -> None:
    x = leaf([-1.0, 0.0, 2.0])
    close(slope(ft.relu, x), [0, 0, 1])
    close(slope(ft.absolute, x), [-1, 0, 1])
    close(slope(lambda v: ft.clip(v, -1.0, 1.0), x), [1, 1, 0])
    close(slope(lambda v: ft.norm(v), leaf([0.0, 0.0])), [0, 0])
    close(slope(lambda v: ft.std(v), leaf([3.0, 3.0])), [0, 0])
    close(slope(lambda v: ft.hypot(v, v), leaf([0.0, 3.0])), [0, math.sqrt(2)])
    close(slope(lambda v: v**0.0, leaf([0.0, 2.0])), [0, 0])
    close(slope(lambda v: v**1.0, leaf([0.0, -2.0])), [1, 1])
    close(slope(lambda v: v**2.0, leaf([0.0, -2.0])), [0, -4])
    close(slope(lambda v: ft.power(0.0, v), leaf([2.0])), [0])


def test_products_with_zeros(leaf: Any, close: Any) -> None:
    for values in ([2.0, 0.0, 4.0], [0.0, 0.0, 4.0], [2.0, 3.0, 4.0]):
        others = [math.prod(values[:i] + values[i + 1 :]) for i in range(3)]
        close(slope(ft.prod, leaf(values)), others)
    # and of second order: d2/dx0dx2 of x0 x1 x2 is x1
    x = leaf([0.0, 5.0, 0.0])
    g = ag.grad(ft.prod(x), x, create_graph=True)
    close(ag.grad(g[0], x), [0, 0, 5])


def test_only_the_last_of_duplicate_writes_counts(leaf: Any, close: Any) -> None:
    x, u = leaf([1.0, 2.0, 3.0]), leaf([10.0, 20.0, 30.0])
    index = ft.asarray([1, 0, 1])
    y = ft.scatter(x, index, u)
    close(y, [20, 30, 3])
    gx, gu = ag.grad(y, [x, u], ft.asarray([1.0, 10.0, 100.0], dtype="float64"))
    close(gx, [0, 0, 100])
    close(gu, [0, 1, 10])
    gx, gu = ag.grad(ft.scatter(x, index, u, mode="add").sum(), [x, u])
    close(gx, [1, 1, 1])
    close(gu, [1, 1, 1])


def test_broadcast_operands_get_sums(leaf: Any, close: Any) -> None:
    x, y = leaf([[1.0], [2.0]]), leaf([10.0, 20.0, 30.0])
    gx, gy = ag.grad((x * y).sum(), [x, y])
    close(gx, [[60.0], [60.0]])
    close(gy, [3.0, 3.0, 3.0])
    s = leaf(2.0)
    close(slope(lambda v: v + ft.zeros((2, 3), "float64"), s), 6.0)


@pytest.mark.defect("N3")
def test_a_bias_of_many_rows_has_an_accurate_gradient(leaf: Any) -> None:
    x = ft.full((500_000, 2), 0.1, dtype=ft.float32)
    bias = leaf([1.0, 2.0]).astype(ft.float32)
    (gradient,) = ag.grad(((x + bias) * x).sum(), [bias])
    exact = 500_000 * float(np.float32(0.1))
    np.testing.assert_allclose(gradient.numpy(), [exact] * 2, rtol=1e-6)


def test_gradients_keep_the_dtype_of_their_variable(leaf: Any) -> None:
    x, y = leaf([1.0], "float32"), leaf([2.0], "float64")
    z = x * y
    assert z.dtype is ft.float64
    z.sum().backward()
    assert x.grad.dtype is ft.float32
    assert y.grad.dtype is ft.float64
    assert not x.astype("int64").requires_grad


def test_empty_arrays(leaf: Any) -> None:
    x = leaf(np.zeros((0, 3)))
    for function in (
        lambda v: v * 2,
        lambda v: v.sum(0),
        lambda v: ft.matmul(v, ft.ones((3, 2), "float64")),
        lambda v: ft.concatenate([v, v]),
        lambda v: v[:, ::-1],
        lambda v: ft.prod(v, 0),
        lambda v: ft.softmax(v, 1),
    ):
        assert slope(function, x).shape == (0, 3)
    image = leaf(np.zeros((0, 2, 5, 5)))
    w = leaf(np.ones((4, 2, 3, 3)))
    gx, gw = ag.grad(ft.conv(image, w).sum(), [image, w])
    assert gx.shape == (0, 2, 5, 5)
    assert np.all(gw.numpy() == 0)


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("padding", [0, ((1, 2), (0, 1)), ((-1, 2), (3, -2))])
@pytest.mark.parametrize(("dilate_x", "dilate_w", "groups"), [(1, 1, 1), (1, 2, 2), (2, 1, 2)])
def test_convolution(
    normal: Any, stride: int, padding: Any, dilate_x: int, dilate_w: int, groups: int
) -> None:
    x, w = normal(2, 4, 7, 6), normal(6, 4 // groups, 3, 2)

    def conv(a: Any, b: Any) -> Any:
        return ft.conv(a, b, stride, padding, dilate_x, dilate_w, groups)

    ag.check_grads(conv, [x, w], order=2, directions=1)


@pytest.mark.parametrize(
    ("window", "stride", "padding"),
    [
        (2, None, 0),
        (3, 1, 1),
        (3, 2, ((1, 0), (0, 1))),
        (2, 3, 0),
        ((1, 3), (2, 1), ((0, 0), (1, 1))),
    ],
)
@pytest.mark.parametrize("include", [True, False])
def test_pooling(normal: Any, window: Any, stride: Any, padding: Any, include: bool) -> None:
    x = normal(2, 3, 7, 8)
    ag.check_grads(lambda v: ft.avg_pool(v, window, stride, padding, include), [x], order=2)
    ag.check_grads(lambda v: ft.max_pool(v, window, stride, padding), [x])


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((2, 3), (3, 4)),
        ((5, 2, 3), (3, 4)),
        ((2, 3), (5, 3, 4)),
        ((5, 1, 2, 3), (4, 3, 2)),
        ((3,), (3, 2)),
    ],
)
def test_matrix_products(normal: Any, a: Any, b: Any) -> None:
    ag.check_grads(ft.matmul, [normal(*a), normal(*b)], order=2)


@pytest.mark.parametrize(
    "index",
    [
        2,
        -1,
        slice(1, None, 2),
        (slice(None, None, -2), 1),
        (..., None, 0),
        ([0, 2, 2], slice(1, 3)),
        ([[0, 1], [2, 2]], [1, 1]),
        (slice(None), [3, 3, 0]),
        (2, slice(3, 0, -2), None),
    ],
    ids=str,
)
def test_indexing(normal: Any, index: Any) -> None:
    ag.check_grads(lambda v: v[index] * v[index], [normal(3, 4)], order=2)


def test_boolean_masks(normal: Any, close: Any) -> None:
    x = normal(3, 4)
    mask = x.tensor > 0
    close(slope(lambda v: v[mask] * 2, x), 2.0 * mask.numpy())


def test_extremes_with_their_positions(leaf: Any, close: Any) -> None:
    x = leaf([[1.0, 5.0], [7.0, 2.0]])
    close(slope(lambda v: ft.max_with_index(v)[0], x), [[0, 1], [1, 0]])
    close(slope(lambda v: ft.min_with_index(v, 0, True)[0], x), [[1, 0], [0, 1]])


def test_quantiles_and_products_of_names(normal: Any) -> None:
    ag.check_grads(lambda v: ft.percentile(v, [10, 50], 1, True), [normal(3, 4)])
    ag.check_grads(lambda x, y: ft.einsum("ij,kj->ik", x, y), [normal(2, 3), normal(4, 3)], order=2)
    ag.check_grads(lambda x, w: ft.average(x, 1, w * w), [normal(2, 3), normal(3)])
    ag.check_grads(lambda v: ft.roll(v, (1, 2), (0, 1)) * v, [normal(3, 4)])


def test_a_result_that_is_its_operand_is_a_value_of_its_own(leaf: Any, close: Any) -> None:
    for function in (lambda v: ft.diff(v, 0), lambda v: ft.roll(v, 0), ft.positive):
        x = leaf([1.0, 2.0]) * 1
        y = function(x)
        y[0] = 9.0
        close(x, [1, 2])
