"""Operations from outside, through ``ft.jit`` alone, and what they are called with."""

from __future__ import annotations

import numpy as np
import pytest
from swiglu import GATE, X, compose, repeated_runs, steps, swiglu, truth

import fl_tensor as ft


def test_an_operation_is_its_composition_on_every_backend():
    wanted = truth(lambda x, g: x * ft.silu(g), X, GATE)
    np.testing.assert_array_equal(truth(swiglu, X, GATE), wanted)
    with ft.use("null"):
        assert swiglu(ft.ones((2, 3)), ft.ones((4, 1, 3))).shape == (4, 2, 3)


def test_an_operation_without_a_kernel_is_fused_as_its_composition(backend):
    wanted = truth(swiglu, X, GATE)
    for found in repeated_runs(backend, swiglu, X, GATE):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    assert all("tests.swiglu" not in ops for _, ops in steps(backend))


def test_an_operation_may_hand_its_operand_back(backend):
    same = ft.jit.operation("tests.same", lambda ops, x: x)
    for found in repeated_runs(backend, lambda x: ft.exp(same(x * 2.0)) + same(x), X):
        np.testing.assert_allclose(found, np.exp(X * np.float32(2)) + X, rtol=1e-5, atol=1e-6)


def test_operands_are_promoted_and_broadcast(backend):
    for found in repeated_runs(backend, lambda x, g: swiglu(x, ft.cast(g[0], "float64")), X, GATE):
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, truth(swiglu, X, GATE[0]), rtol=1e-5, atol=1e-6)


def test_errors_are_raised_where_the_operation_is_called(backend):
    with ft.use(backend):
        x, y = ft.asarray(X) * 2.0, ft.asarray(GATE)[:, :5]
        with pytest.raises(ft.ShapeError, match="multiply"):
            swiglu(x, y)


def test_an_override_reaches_into_the_composition(backend):
    seen = []

    def multiply(inner, x, y):
        seen.append(x.shape)
        return inner.multiply(x, y)

    with ft.use(backend), ft.override(multiply=multiply):
        found = swiglu(ft.asarray(X), ft.asarray(GATE))
    assert len(seen) == 2
    np.testing.assert_allclose(np.asarray(found), truth(swiglu, X, GATE), rtol=1e-6)


def test_operations_that_depend_on_data_are_not_one_call(backend):
    def compose(ops, x, rows):
        return ops.gather(ops.exp(x), rows, 0)

    pick = ft.jit.operation("tests.pick", compose, roles="AA")
    with ft.use(backend):
        with pytest.raises(IndexError):
            pick(ft.asarray(X), ft.asarray([0, 96]))


def test_parameters_are_part_of_the_structure(backend):
    def compose(ops, x, *, power=2):
        for _ in range(power - 1):
            x = ops.multiply(x, x)
        return x

    powers = ft.jit.operation("tests.powers", compose)
    for power in (2, 3, 2, 3):
        (found,) = repeated_runs(backend, lambda x, p=power: powers(x, power=p), X, times=1)
        np.testing.assert_allclose(found, X ** (2 ** (power - 1)), rtol=1e-5)
    assert len(ft.jit.plans(backend)) == 2
    np.testing.assert_allclose(truth(powers, X), X * X, rtol=1e-6)


def test_equal_parameters_of_other_types_differ(backend):
    def compose(ops, x, *, factor=1.0):
        by = {bool: 5.0, int: 3.0}.get(type(factor), factor)
        return ops.multiply(x, ops.constant(by, x))

    scaled = ft.jit.operation("tests.scaled_by_class", compose)
    for _ in range(3):
        for factor, wanted in ((1, 3.0), (True, 5.0), (1.0, 1.0), (0.0, 0.0), (-0.0, -0.0)):
            with ft.use(backend):
                found = np.asarray(scaled(ft.asarray(X), factor=factor))
            np.testing.assert_array_equal(found, X * np.float32(wanted))
            np.testing.assert_array_equal(np.signbit(found), np.signbit(X * np.float32(wanted)))


def test_no_plan_outlives_the_composition_that_it_was_made_of(backend):
    """A notebook runs a cell again."""

    def defined(number):
        def compose(ops, x):
            return ops.add(ops.exp(x), ops.constant(number, x))

        return ft.jit.operation("tests.again", compose)

    for number in (1.0, 2.0, 3.0):
        for found in repeated_runs(backend, defined(number), X):
            np.testing.assert_allclose(found, np.exp(X) + np.float32(number), rtol=1e-5)


def test_arrays_may_be_taken_as_they_are(backend):
    def compose(ops, mask, x):
        return ops.where(mask, x, ops.negative(x))

    sign = ft.jit.operation("tests.sign", compose, roles="AP")
    for found in repeated_runs(backend, lambda mask, x: sign(mask, x), X > 0, X):
        np.testing.assert_array_equal(found, np.abs(X))


@pytest.mark.parametrize(
    ("arguments", "named"), [((X,), {}), ((X, X, X), {}), ((X, X), {"scale": 1})]
)
def test_arguments_that_do_not_fit(backend, arguments, named):
    with ft.use(backend), pytest.raises(ft.ArgumentError, match=r"expected \(x, gate\)"):
        swiglu(*map(ft.asarray, arguments), **named)


@pytest.mark.parametrize(
    ("name", "compose", "complaint"),
    [
        ("swiglu", compose, "the name of a package, a dot"),
        ("tests.swiglu", lambda ops, x, gate: x, "is taken by"),
        ("tests.other", lambda ops, x, scale=2.0: x, "plain values after it"),
        ("tests.other", lambda ops: 1, "arrays before the star"),
    ],
)
def test_operations_that_make_no_sense(name, compose, complaint):
    with pytest.raises(ft.ArgumentError, match=complaint):
        ft.jit.operation(name, compose)


exponential = ft.jit.operation("tests.exponential", lambda ops, x: ops.exp(x))
floating = ft.jit.operation("tests.floating", lambda ops, x, y: ops.exp(ops.add(x, y)), roles="SS")
last = ft.jit.operation("tests.last", lambda ops, x: ops.sum(x, (len(x.shape) - 1,), False))


def data(ops, x, y):
    """A composition that looks at data before it does what its operands may not fit."""
    ops.to_host(x)
    return ops.exp(ops.add(x, y))


looking = ft.jit.operation("tests.looking", data, roles="AA")


@pytest.fixture(params=["numpy", "jit"])
def anywhere(request):
    with ft.use(request.param):
        yield


@pytest.mark.parametrize("shape", [(3,), (256, 1024)])
@pytest.mark.parametrize("others", [("float32", "int32"), ("int32", "int32"), ("bool", "int64")])
def test_integers_become_floating_where_roles_ask_for_it(anywhere, shape, others):
    x, y = (ft.ones(shape, dtype=dtype) for dtype in others)
    found = floating(x, y)
    assert found.dtype is ft.float32
    np.testing.assert_allclose(np.asarray(found), np.full(shape, np.exp(2)), rtol=1e-6)


@pytest.mark.parametrize("shape", [(3,), (256, 1024)])
@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: exponential(x), ft.DTypeError, r"x int32\(.*\[exp\] x is int32: .* astype, or"),
        (lambda x: swiglu(x, x), ft.DTypeError, r"gate int32.*\[silu\] x is int32: expected"),
        (lambda x: looking(x, ft.ones_like(x, dtype="int64")), ft.DTypeError, "several dtypes"),
        (lambda x: looking(x, x), ft.DTypeError, "expected a floating or complex dtype"),
        (lambda x: looking(ft.ones((2, 7)), ft.ones((2, 9))), ft.ShapeError, "do not broadcast"),
        (lambda x: swiglu(ft.ones((3,)), ft.ones((4,))), ft.ShapeError, r"gate float32\(4,\): "),
        (lambda x: last(ft.ones(())), ft.AxisError, r"\[tests.last\] x float32\(\): \[sum\] axis"),
        (lambda x: last(x, []), ft.ArgumentError, "expected"),
    ],
)
def test_operands_that_do_not_fit_are_errors_for_people(anywhere, shape, call, error, words):
    with pytest.raises(error, match=words):
        call(ft.ones(shape, dtype="int32"))


def test_errors_name_the_operation_on_tapes_and_under_overrides_too(anywhere):
    ag = pytest.importorskip("fl_autograd")
    integers = ft.ones((3,), dtype="int32")
    with pytest.raises(ft.DTypeError, match="expected a floating or complex dtype"):
        looking(ag.Variable(integers), integers)
    with ft.override(exp=lambda inner, x: inner.exp(x)):
        for call in (exponential, lambda x: looking(x, x)):
            with pytest.raises(ft.DTypeError, match=r"\[exp\] x is int32"):
                call(integers)


def test_parameters_have_a_hash(anywhere):
    scaled = ft.jit.operation("tests.lists", lambda ops, x, *, axes: ops.sum(x, tuple(axes), False))
    assert scaled(ft.ones((2, 3)), axes=(1,)).tolist() == [3.0, 3.0]
    with pytest.raises(ft.ArgumentError, match="axes is a list, which has no hash"):
        scaled(ft.ones((2, 3)), axes=[1])


def test_operands_are_checked_once_for_each_type(anywhere):
    runs = []

    def compose(ops, x):
        runs.append(x.shape)
        return ops.exp(x)

    seen = ft.jit.operation("tests.seen_once", compose)
    for _ in range(5):
        seen(ft.ones((3,)))
    assert len(runs) == 6
