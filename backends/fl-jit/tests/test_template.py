"""A composition is traced once; where it comes up again its calls are copied, and it is not run."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import fl_tensor as ft
from fl_jit import JitBackend
from fl_tensor import dtypes
from fl_tensor.composition import cached_composition
from fl_tensor.derived import attention, elementwise, normalization, reduction


def adapter(x):
    return ft.asarray(x).adapter


def values(made):
    return np.asarray(made.array)


@pytest.fixture
def counted():
    """x * factor + y, and how often it ran: on the backend, or without data to be traced."""
    ran = []

    @cached_composition
    def composition(ops, x, y, factor):
        ran.append(factor)
        y = ops.constant(1.0, x) if y is None else y
        return ops.add(ops.multiply(x, ops.constant(factor, x)), y)

    return composition, ran


X = np.linspace(-2.0, 2.0, 24, dtype=np.float32).reshape(2, 3, 4)
G_X_W = (2, 6, 5, 5), (2, 4, 5, 5), (6, 4, 3, 3)
ROW = np.linspace(0.5, 1.5, 4, dtype=np.float32)

DERIVED = {
    "sigmoid": (elementwise.sigmoid, X),
    "silu": (elementwise.silu, X),
    "softplus": (elementwise.softplus, X),
    "gelu": (elementwise.gelu, X, "none"),
    "gelu, tanh": (elementwise.gelu, X, "tanh"),
    "var": (reduction.var, X, (1,), True, 1.0),
    "std": (reduction.std, X, (1, 2), False, 0.0),
    "logsumexp": (reduction.logsumexp, X, (2,), False),
    "softmax": (reduction.softmax, X, 1),
    "log_softmax": (reduction.log_softmax, X, 2),
    "layer_norm": (normalization.layer_norm, X, ROW, ROW, (2,), 1e-5),
    "layer_norm without bias": (normalization.layer_norm, X, ROW, None, (2,), 1e-5),
    "batch_norm": (normalization.batch_norm, X, ROW, ROW, None, ROW, 2, 1e-5),
    "batch_norm_training": (normalization.batch_norm_training, X, ROW, ROW, 2, 1e-5),
    "batch_norm_gradient": (normalization.batch_norm_gradient, X, X, ROW, ROW, None, 2, 1e-5),
    "attention": (attention.attention, X[None], X[None], X[None], None, None, None, False, None),
    "softmax, float16": (reduction.softmax, X.astype(np.float16), 1),
}


def said(jit):
    """What is put off, call by call, without its operands."""
    return [(call.op, call.parameters, call.shape, call.dtype) for call in jit._pending.calls]


@pytest.mark.parametrize("case", DERIVED.values(), ids=DERIVED)
def test_the_calls_are_those_of_the_composition(jit, case):
    function, *arguments = case
    found = []
    for run in (function.__wrapped__, function):
        pending = [jit.negative(adapter(x)) if isinstance(x, np.ndarray) else x for x in arguments]
        made = run(jit, *pending)
        results = made if isinstance(made, tuple) else (made,)
        found.append((said(jit), [values(result) for result in results]))
    (composed, expected), (copied, got) = found
    assert copied == composed
    for ours, theirs in zip(got, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6 if ours.dtype == np.float32 else 1e-3)


def test_gradients_of_convolutions_are_calls_of_their_own(jit):
    @cached_composition
    def gradients(ops, g, x, w):
        rest = (1, 1), ((1, 1), (1, 1)), (1, 1), (1, 1), 1
        data = ops.conv_data_gradient(g, w, x.shape, *rest)
        return data, ops.conv_weight_gradient(g, x, w.shape, *rest)

    g, x, w = (jit.negative(adapter(np.ones(s, "float32"))) for s in G_X_W)
    results = gradients(jit, g, x, w)
    assert [op for op, *_ in said(jit)][3:] == ["conv_data_gradient", "conv_weight_gradient"]
    assert [values(result).shape for result in results] == list(G_X_W[1:])


def test_it_runs_once_for_operands_of_a_type(jit, counted):
    composition, ran = counted
    for x in (X, X + 1.0):
        for _ in range(3):
            np.testing.assert_allclose(
                values(composition(jit, adapter(x), adapter(ROW), 2.0)), x * 2.0 + ROW, rtol=1e-6
            )
    assert ran == [2.0]


def test_it_runs_again_for_other_shapes_dtypes_and_values(jit, counted):
    composition, ran = counted
    cases = [
        (X, ROW, 2.0),
        (X[0], ROW, 2.0),
        (X.astype(np.float64), ROW.astype(np.float64), 2.0),
        (X, ROW, 3.0),
        (X, None, 3.0),
        (X, ROW, 0.0),
        (X, ROW, -0.0),
    ]
    for x, y, factor in cases * 2:
        made = composition(jit, adapter(x), None if y is None else adapter(y), factor)
        expected = x * x.dtype.type(factor) + (1.0 if y is None else y)
        assert made.dtype.name == x.dtype.name
        np.testing.assert_allclose(values(made), expected, rtol=1e-6)
    assert len(ran) == len(cases), "the second time none ran"


def test_zeros_of_either_sign_are_two_numbers(jit):
    @cached_composition
    def times(ops, x, factor):
        return ops.multiply(x, ops.constant(factor, x))

    for _ in range(2):
        assert not np.signbit(values(times(jit, adapter(ROW), 0.0))).any()
        assert np.signbit(values(times(jit, adapter(ROW), -0.0))).all()


@pytest.mark.parametrize(
    "arguments",
    [
        (1, 1.0, True),
        ((1,), (1.0,), (True,)),
        ((1, 1), (True, True), (True, 1), (1, True), (True, False), (1, 0)),
        ((0.0,), (-0.0,)),
        (0, 0.0, False),
    ],
)
def test_equal_arguments_of_other_types_differ(jit, arguments):
    given = []

    @cached_composition
    def same(ops, x, argument):
        given.append(repr(argument))
        return ops.exp(x)

    for _ in range(2):
        for argument in arguments:
            same(jit, adapter(ROW), argument)
    assert given == [repr(x) for x in arguments]


def test_small_arrays_that_are_there_are_computed_at_once(counted):
    composition, ran = counted
    backend = JitBackend()
    with ft.use(backend):
        for _ in range(3):
            composition(backend, adapter(X), adapter(ROW), 2.0)
    assert len(ran) == 3 and not backend._pending.calls


def test_several_results_and_none(jit):
    @cached_composition
    def both(ops, x, y, wanted):
        return ops.add(x, y), ops.negative(y) if wanted else None, y

    for _ in range(2):
        x, y = adapter(X), adapter(ROW)
        total, minus, same = both(jit, x, y, True)
        assert same is y
        np.testing.assert_array_equal(values(total), X + ROW)
        np.testing.assert_array_equal(values(minus), -ROW)
        total, minus, same = both(jit, x, y, False)
        assert minus is None and same is y
        np.testing.assert_array_equal(values(total), X + ROW)


def test_what_nobody_holds_is_not_computed(jit):
    @cached_composition
    def both(ops, x):
        return ops.exp(x), ops.tanh(x)

    for _ in range(3):
        first = both(jit, adapter(X))[0]
        assert jit._pending.live_results() == [True, False]
        np.testing.assert_allclose(values(first), np.exp(X), rtol=1e-6)


def test_the_same_calls_on_other_operands_are_another_program(jit):
    x = adapter(X)
    runs = {
        "doubled": lambda: reduction.softmax(jit, jit.add(x, x), 2),
        "squared": lambda: reduction.softmax(jit, jit.multiply(x, x), 2),
    }
    expected = {"doubled": X + X, "squared": X * X}
    for _ in range(4):  # the third time by a plan
        for name, run in runs.items():
            e = np.exp(expected[name] - expected[name].max(2, keepdims=True))
            np.testing.assert_allclose(values(run()), e / e.sum(2, keepdims=True), rtol=1e-5)


def test_it_may_come_up_anywhere_and_several_times(jit):
    def softmax(x):
        e = np.exp(x - x.max(2, keepdims=True))
        return e / e.sum(2, keepdims=True)

    x, other = adapter(X), adapter(X * X)
    for picked in (0, 1, 0, 1):  # the same place, another operand
        pair = jit.add(x, other), jit.subtract(x, other)
        shown = X + X * X, X - X * X
        first = reduction.softmax(jit, pair[picked], 2)
        second = reduction.softmax(jit, pair[1], 2)
        again = reduction.softmax(jit, pair[1], 2)
        np.testing.assert_allclose(values(first), softmax(shown[picked]), rtol=1e-5)
        np.testing.assert_allclose(values(second), softmax(shown[1]), rtol=1e-5)
        np.testing.assert_array_equal(values(again), values(second))


def test_an_operand_that_another_thread_has_deferred(jit, counted):
    composition, _ = counted
    made = []

    def elsewhere():
        with ft.use(jit):
            made.append(jit.negative(adapter(X)))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    result = composition(jit, made[0], adapter(ROW), 2.0)
    np.testing.assert_allclose(values(result), -2.0 * X + ROW, rtol=1e-6)


def test_overrides_replace_what_is_inside(jit):
    x = ft.asarray(X)
    ft.softmax(x).numpy()  # known

    def flat(inner, x):
        return inner.multiply(x, inner.constant(0.0, x))

    with ft.override(exp=flat):
        assert np.isnan(ft.softmax(x).numpy()).all()
    assert not np.isnan(ft.softmax(x).numpy()).any()


def test_wrappers_see_what_is_inside(jit):
    x = ft.asarray(X)
    ft.softmax(x).numpy()
    with ft.trace() as graph:
        ft.softmax(x).numpy()
    assert "exp" in [node.op for node in graph.nodes]


def test_a_derived_backend_computes_as_it_likes():
    class Louder(JitBackend):
        def exp(self, x):
            return super().exp(self.add(x, x))

    backend = Louder()
    backend.smallest = 1
    with ft.use(backend):
        for _ in range(2):
            made = elementwise.softplus(backend, adapter(X))
    np.testing.assert_allclose(
        values(made), np.maximum(X, 0) + np.log1p(np.exp(-2.0 * np.abs(X))), rtol=1e-5
    )


def test_what_looks_at_data_runs_each_time(jit):
    @cached_composition
    def halved(ops, x):
        if bytes(ops.to_host(ops.max(x, (0,), False)))[3] >> 7:  # its largest is negative
            return x
        return ops.multiply(x, ops.constant(0.5, x))

    for sign in (1.0, -1.0, 1.0):
        x = sign * ROW
        np.testing.assert_array_equal(
            values(halved(jit, adapter(x))), x if sign < 0 else x * np.float32(0.5)
        )


def test_errors_are_those_of_the_composition(jit):
    for _ in range(2):
        with pytest.raises(ft.ShapeError, match=r"\[layer_norm\] weight \(3,\): x \(2, 3, 4\)"):
            normalization.layer_norm(jit, adapter(X), adapter(ROW[:3]), None, (2,), 1e-5)


def test_half_precision_is_rounded_once(jit):
    x = X.astype(np.float16)
    for _ in range(2):
        made = reduction.var(jit, adapter(x), (0, 1, 2), False, 0.0)
        assert made.dtype is dtypes.float16
        assert values(made) == np.float16(x.astype(np.float32).var())
