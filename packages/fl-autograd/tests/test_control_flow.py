"""Gradients of ``ft.cond``, ``ft.while_loop`` and ``ft.scan`` in graphs: those of the program that
runs on values, to second order."""

from pathlib import Path

import numpy as np
import pytest

import fl_autograd as ag
import fl_tensor as ft
from fl_autograd import extend
from fl_autograd.rules.control import vjp
from fl_tensor.errors import CaptureError

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "acme-backend" / "src"


@pytest.fixture(params=["numpy", "jit", "acme"], autouse=True)
def backend(request, monkeypatch):
    """Two of ours, and one in pure Python from outside, which knows nothing of control flow."""
    if request.param == "acme":
        monkeypatch.syspath_prepend(str(EXAMPLE))
        made = pytest.importorskip("acme_backend").AcmeBackend()
    else:
        pytest.importorskip("fl_jit" if request.param == "jit" else "numpy")
        made = request.param
    with ft.use(made) as used:
        yield used


def array(*shape, seed=0):
    values = np.random.default_rng(seed).standard_normal(shape)
    return ft.asarray(values.reshape(-1).tolist(), dtype="float64").reshape(shape)


def graph_of(f, operands):
    """``f`` as a graph that runs on variables, and the graph."""
    with ft.trace() as graph:
        given = [ag.Variable(x, requires_grad=True) for x in operands]
        for x in given:
            graph.input(x)
        graph.output(f(*given))
    assert len(graph.inputs) == len(operands)
    return lambda *xs: graph(*xs)[0]


def two_orders(f, *operands):
    """The value, the gradients, and the gradients of a function of the gradients."""
    xs = [ag.Variable(x, requires_grad=True) for x in operands]
    y = f(*xs)
    first = ag.grad(y, xs, create_graph=True, allow_unused=True)
    known = [g for g in first if g is not None]
    total = sum((ft.sum(ft.sin(g)) for g in known[1:]), ft.sum(known[0] * known[0]))
    second = ag.grad(total, xs, allow_unused=True) if total.requires_grad else []
    return [y, *first, *second]


def assert_equal(got, wanted):
    """None is a gradient of zeros."""
    assert len(got) == len(wanted)
    for a, b in zip(got, wanted):
        if a is None or b is None:
            assert not any(x is not None and ft.any(x != 0) for x in (a, b))
            continue
        np.testing.assert_allclose(a.tensor.numpy(), b.tensor.numpy(), rtol=1e-9, atol=1e-12)


def check(f, *operands):
    wanted = two_orders(f, *operands)
    assert_equal(two_orders(graph_of(f, operands), *operands), wanted)
    shapes = [v is None for v in wanted]

    def step(*xs):
        return [ft.zeros(()) if v is None else v.tensor for v in two_orders(f, *xs)]

    compiled = ft.compile(step, strict=True)
    for _ in range(2):
        found = compiled(*operands)
    assert compiled.compiled_calls == 1
    given = [None if absent else ag.Variable(x) for absent, x in zip(shapes, found)]
    assert_equal(given, wanted)


def cell(w):
    def body(carry, x):
        h, c = carry
        gates = x @ w + h
        c = ft.sigmoid(gates) * c + ft.tanh(gates)
        h = ft.tanh(c) * h
        return (h, c), h * x

    return body


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("steps", [3, 1, 0])
def test_scan(reverse, steps):
    def f(h, c, xs, w):
        (h, c), ys = ft.scan(cell(w), (h, c), xs, reverse=reverse)
        return ft.sum(h * c) + ft.sum(ys * ys)

    check(f, array(3), array(3, seed=1), array(steps, 3, seed=2), array(3, 3, seed=3))


def test_scan_by_finite_differences():
    def f(h, xs):
        h, ys = ft.scan(lambda h, x: (ft.tanh(h * x + h), ft.sin(h) * x), h, xs)
        return ft.sum(h) + ft.sum(ys * ys)

    operands = array(2), array(3, 2, seed=1)
    ag.check_grads(graph_of(f, operands), operands)


@pytest.mark.parametrize("scale", [0.01, 1.0, 30.0])
def test_while_loop_of_a_number_of_trips_that_depends_on_data(scale):
    def f(x, w):
        def test(x, n):
            return ft.sum(x * x) > 1e-1

        x, n = ft.while_loop(
            test, lambda x, n: (ft.sin(x * w) * 0.7, n + 1), (x * scale, 0), most=40
        )
        return ft.sum(x * x * w) + n.astype("float64")

    check(f, array(3), array(3, seed=1))


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_cond(sign):
    def f(x, w):
        y, z = ft.cond(
            ft.sum(x) > 0, lambda x: (x * x @ w, ft.sin(x)), lambda x: (ft.exp(x), x * 2.0), x
        )
        return ft.sum(y * z)

    check(f, ft.absolute(array(3)) * sign, array(3, 3, seed=1))


def test_bodies_in_bodies():
    def f(x, xs, w):
        def body(c, x):
            def rise(a):
                return ft.while_loop(
                    lambda a, k: k < 2, lambda a, k: (ft.tanh(a @ w) + x, k + 1), (a, 0), most=3
                )[0]

            c = ft.cond(ft.sum(c) > 0, rise, lambda a: a * ft.sum(w) * 0.1, c + x)
            c, inner = ft.scan(lambda c, r: (c * 0.5 + ft.sin(r), c * r), c, w)
            return c, ft.sum(inner, axis=0)

        c, ys = ft.scan(body, x, xs)
        return ft.sum(c) + ft.sum(ys * ys)

    check(f, array(3), array(3, 3, seed=1), array(3, 3, seed=2))


def test_variables_from_around_a_body_have_gradients():
    held = {}

    def f(x, w):
        held["w"] = w * 2.0  # found neither among arguments nor in a variable of the body
        outside = ft.exp(w)

        def body(c, x):
            return ft.tanh(c * held["w"] + x), ft.sum(outside) * c

        c, ys = ft.scan(body, x, ft.stack([x, w]))
        y = ft.cond(ft.sum(c) > 0, lambda: outside * c, lambda: held["w"] * c)
        return ft.sum(y) + ft.sum(ys * ys)

    def step(x, w):
        return [v.tensor for v in two_orders(f, x, w)]

    x, w = array(3), array(3, seed=1)
    assert_equal(two_orders(graph_of(f, (x, w)), x, w), two_orders(f, x, w))


def test_carries_without_gradient_and_of_several_dtypes():
    def f(x, w):
        def body(carry, row):
            a, n, flag, half = carry
            half = half + ft.sum(row).astype("float32")
            a = ft.where(flag, a * row, a + w) * n.astype("float64") + half.astype("float64")
            return (a, n + 1, ft.sum(a) > 0, half), (a > 0, half * half)

        start = (x, ft.asarray(1), ft.asarray(True), ft.zeros((), dtype="float32"))
        (a, n, flag, half), (signs, ys) = ft.scan(body, start, ft.stack([w, x, w]))
        assert not any(getattr(v, "requires_grad", False) for v in (signs, n))
        return ft.sum(a) + ft.sum(ys.astype("float64")) + half.astype("float64")

    x, w = array(2), array(2, seed=1)
    wanted, got = two_orders(f, x, w), two_orders(graph_of(f, (x, w)), x, w)
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_allclose(a.tensor.numpy(), b.tensor.numpy(), rtol=1e-5, atol=1e-5)


def test_results_that_are_operands_and_gradients_of_some():
    def f(x, w):
        same, other = ft.cond(ft.sum(x) > -9, lambda: (x, x), lambda: (w, x))
        c, ys = ft.scan(lambda c, r: (c, r), w, ft.stack([x, x]))
        kept = ft.while_loop(lambda a: ft.sum(a) < -99, lambda a: a * 2.0, x)
        return ft.sum(same * ys[1]) + ft.sum(c) + ft.sum(kept * kept * other)

    check(f, array(3), array(3, seed=1))


def test_complex_carries(backend):
    if ft.complex128 not in backend.dtypes:
        pytest.skip("the backend has no complex numbers")

    def f(x, w):
        z, ys = ft.scan(lambda z, r: (z * z * (r + 1j) + z, z * r), x + 1j * w, ft.stack([x, w]))
        z = ft.cond(ft.sum(x) > -9, lambda z: z * z, lambda z: z, z)
        return ft.sum(ft.real(z)) + ft.sum(ft.absolute(ys))

    check(f, array(2) * 0.5, array(2, seed=1) * 0.5)


def test_a_tensor_that_becomes_a_variable():
    def f(xs, w):
        h, ys = ft.scan(lambda h, x: (ft.tanh(x * w + h), h), ft.zeros((3,), dtype="float64"), xs)
        return ft.sum(h * h) + ft.sum(ys)

    check(f, array(2, 3), array(3, seed=1))


def test_the_step_of_a_loop_may_take_gradients_itself():
    """Newton's method: nobody differentiates the loop, so nothing is lost."""

    def step(x):
        def body(x):
            v = ag.Variable(x, requires_grad=True)
            (g,) = ag.grad(ft.sum(v**4 - v), [v], create_graph=True)
            (h,) = ag.grad(ft.sum(g), [v])
            return x - g.tensor / h.tensor

        return ft.while_loop(lambda x: ft.any(ft.absolute(4 * x**3 - 1) > 1e-9), body, x)

    compiled = ft.compile(step, strict=True)
    x = ft.asarray([1.0, 2.0], dtype="float64")
    for _ in range(2):
        np.testing.assert_allclose(compiled(x).numpy(), 0.25 ** (1 / 3), rtol=1e-9)
    assert compiled.compiled_calls == 1


half = extend.defop(
    "half", lambda ops, x: ops.multiply(x, ops.constant(0.5, x)), x=lambda ops, g: g
)


@pytest.mark.parametrize(
    "cut",
    [
        lambda c: c.detach(),
        lambda c: ag.Variable(c.tensor),
        lambda c: ag.Variable(c),
        lambda c: half(c),
        lambda c: ag.no_grad()(lambda: c * 2.0)(),
        lambda c: ag.grad(ft.sum(c * c), [c], retain_graph=True)[0],
        lambda c: ft.scan(lambda a, x: (a.detach() + x, None), c, ft.stack([c, c]))[0],
    ],
)
def test_gradients_that_a_body_cuts_off_are_no_graph(cut):
    def f(x):
        c, _ = ft.scan(lambda c, x: (c * x + cut(c), None), x, ft.stack([x, x]))
        return ft.sum(c)

    x = ag.Variable(array(3), requires_grad=True)
    with ft.trace(), pytest.raises(CaptureError, match="cuts some of them off"):
        f(x)
    with ag.no_grad(), ft.trace() as graph:  # nobody asks for them
        if cut.__code__.co_names[:2] != ("ag", "grad"):
            graph.output(f(x))

    def step(x):
        v = ag.Variable(x, requires_grad=True)
        return ag.grad(f(v), [v])[0].tensor

    compiled = ft.compile(step)
    for _ in range(3):
        np.testing.assert_allclose(compiled(array(3)).numpy(), step(array(3)).numpy())
    assert compiled.compiled_calls == 0 and "cuts some of them off" in compiled.explain()


def test_detached_gradients_in_later_steps():
    """The carry begins as a Tensor, which has no gradient to cut off, and is a Variable later."""
    w = ag.Variable(array(3), requires_grad=True)
    with ft.trace(), pytest.raises(CaptureError, match="half, which has a gradient of its own"):
        ft.scan(lambda c, x: (half(c) * w + x, None), ft.zeros((3,), dtype="float64"), array(2, 3))


def test_a_body_may_take_gradients_of_loops_that_are_differentiated_again():
    def f(x, w):
        def body(c, r):
            v = c * 1.0
            y, _ = ft.scan(lambda a, b: (ft.sin(a * b) + w, None), v, ft.stack([r, r]))
            (g,) = ag.grad(ft.sum(y), [v], create_graph=True)
            return ft.tanh(g) + c, g * r

        c, ys = ft.scan(body, x, ft.stack([w, x]))
        return ft.sum(c * c) + ft.sum(ys)

    check(f, array(2), array(2, seed=1))


def test_checkpoint_around_and_inside():
    def f(x, w):
        def body(c, r):
            return ag.checkpoint(lambda c: ft.tanh(c * w + r), c), c * r

        def whole(x):
            c, ys = ft.scan(body, x, ft.stack([x, w]))
            return ft.sum(c) + ft.sum(ys * ys)

        return ag.checkpoint(whole, x)

    x, w = array(3), array(3, seed=1)
    xs = [ag.Variable(v, requires_grad=True) for v in (x, w)]
    wanted = ag.grad(f(*xs), xs)

    def step(x, w):
        xs = [ag.Variable(v, requires_grad=True) for v in (x, w)]
        return [g.tensor for g in ag.grad(f(*xs), xs)]

    compiled = ft.compile(step, strict=True)
    for _ in range(2):
        found = compiled(x, w)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a.numpy(), b.tensor.numpy(), rtol=1e-9)


@pytest.mark.parametrize("before", [True, False])
def test_autocast_in_bodies(backend, before):
    if ft.bfloat16 not in backend.dtypes:
        pytest.skip("the backend has no bfloat16")

    def step(x, w):
        xs = [ag.Variable(v, requires_grad=True) for v in (x, w)]
        with ag.autocast("O1", compute="bfloat16"):
            # The weight is cast here, and the cast used in the body; or the other way round.
            first = xs[0] @ xs[1] if before else xs[0]
            c, _ = ft.scan(
                lambda c, r: (ft.tanh((c @ xs[1]).astype("float32") + r), None), xs[0], x[:, None]
            )
            after = c @ xs[1]
        loss = ft.sum(after.astype("float32")) + ft.sum(first.astype("float32"))
        return [loss.tensor, *(g.tensor for g in ag.grad(loss, xs))]

    x, w = array(2, 2).astype("float32"), array(2, 2, seed=1).astype("float32")
    compiled = ft.compile(step, strict=True)
    for _ in range(2):
        found = compiled(x, w)
    for a, b in zip(found, step(x, w), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=2e-2, atol=2e-2)


def test_gradients_of_a_graph_are_a_graph():
    operands = array(3), array(3, seed=1)
    with ft.trace() as graph:
        for v in operands:
            graph.input(v)
        graph.output(ft.sin(operands[0]) * operands[1])
    back = vjp(graph, (0, 1), (0,))
    again = vjp(back, (0,), (1,))
    one = ft.ones((3,), dtype="float64")
    dx, dw = back(*operands, one)
    np.testing.assert_allclose(dx.numpy(), (ft.cos(operands[0]) * operands[1]).numpy())
    np.testing.assert_allclose(dw.numpy(), ft.sin(operands[0]).numpy())
    (second,) = again(*operands, one, one)
    np.testing.assert_allclose(second.numpy(), ft.cos(operands[0]).numpy())
