"""Backends by name, the default backend, and overrides that reach everywhere."""

from __future__ import annotations

import threading

import pytest

import fl_tensor as ft
from fl_tensor.backends.delegate import DelegatingBackend


class Counter:
    def __init__(self, op):
        self.op = op
        self.calls = 0

    def __call__(self, inner, *arguments):
        self.calls += 1
        return getattr(inner, self.op)(*arguments)


def test_builtin_backends_are_listed_and_made_once():
    assert {"numpy", "null"} <= set(ft.available_backends())
    assert ft.get_backend("numpy") is ft.get_backend("numpy") is ft.current_backend()


class Kelp(DelegatingBackend):
    CONTRACT = (1, 0)
    name = "kelp"


def test_a_class_stands_for_its_one_instance():
    backend = ft.get_backend(Kelp)
    assert type(backend) is Kelp and ft.get_backend(Kelp) is backend
    with ft.use(Kelp) as found:
        assert found is backend is ft.zeros(2).backend
    assert ft.asarray([1.0], backend=Kelp).backend is backend
    assert ft.ones(2).to(Kelp).backend is backend
    assert ft.asarray([1.0], backend="null").backend is ft.get_backend("null")
    assert ft.get_backend(type(ft.get_backend("numpy"))) is ft.get_backend("numpy")


class Unfinished(ft.TensorBackend):
    CONTRACT = (1, 0)
    name = "unfinished"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (3, "3 is no backend: expected a name"),
        (int, "class int has no CONTRACT"),
        (type("Silent", (Kelp,), {}), "CONTRACT"),
        (Unfinished, "abstract"),
    ],
)
def test_what_is_no_backend_is_refused_at_once(given, words):
    before = ft.current_backend()
    with pytest.raises((ft.FlError, TypeError), match=words):
        ft.use(given)
    assert ft.current_backend() is before


def test_unknown_backend_names_the_known():
    with pytest.raises(ft.FlError, match="numpy"):
        ft.use("nonsense")


def test_use_as_a_block_and_as_a_call():
    with ft.use("null") as null:
        assert ft.zeros(2).backend is null is ft.current_backend()
    assert ft.zeros(2).backend.name == "numpy"
    try:
        ft.use("null")
        seen = []
        thread = threading.Thread(target=lambda: seen.append(ft.current_backend().name))
        thread.start()
        thread.join()
        assert seen == ["null"], "a plain call is for the whole process"
    finally:
        ft.use("numpy")


def test_environment_names_the_default(monkeypatch):
    import subprocess
    import sys

    code = "import fl_tensor as ft; print(ft.zeros(1).backend.name)"
    found = subprocess.run(
        [sys.executable, "-c", code],
        env={"FL_TENSOR_BACKEND": "null"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.strip() == "null"


def test_override_sees_operators_functions_and_derived_operations():
    x = ft.ones((3, 3))
    add = Counter("add")
    with ft.override(add=add):
        y = x + x
        assert add.calls == 1
        ft.add(x, 1)
        assert add.calls == 2
        ft.linear(x, x, ft.ones(3))
        assert add.calls == 3, "the bias of linear is added by add"
        x += 1
        assert add.calls == 4
    _ = y + y
    assert add.calls == 4, "outside the block nothing is counted"


def test_override_replaces_results():
    def minus(inner, x, y):
        return inner.subtract(x, y)

    with ft.override(add=minus):
        assert (ft.asarray([5.0]) + 2).tolist() == [3]
        assert ft.softplus(ft.asarray([0.0])).item() < 0, "max(x, 0) - log(2) instead of +"


def test_overrides_nest_and_call_what_they_replace():
    order = []

    def named(name):
        def add(inner, x, y):
            order.append(name)
            return inner.add(x, y)

        return add

    with ft.override(add=named("outer")), ft.override(add=named("inner")):
        assert (ft.ones(1) + 1).item() == 2
    assert order == ["inner", "outer"]


def test_override_of_a_derived_operation():
    with ft.override(softmax=lambda inner, x, axis: inner.full(x.shape, 0.5, x.dtype, x.device)):
        assert ft.softmax(ft.zeros(4)).tolist() == [0.5] * 4


def test_override_is_local_to_the_context():
    add = Counter("add")
    with ft.override(add=add):
        thread = threading.Thread(target=lambda: ft.ones(2) + 1)
        thread.start()
        thread.join()
    assert add.calls == 0


def test_override_of_no_operation_suggests_names():
    with pytest.raises(ft.ArgumentError, match="'ad'; did you mean .*add"):
        ft.override(ad=print)


def test_an_error_inside_leaves_the_stack_clean():
    def broken(inner, x, y):
        raise RuntimeError("boom")

    with pytest.raises(RuntimeError, match="boom"), ft.override(add=broken):
        ft.ones(1) + 1
    assert (ft.ones(1) + 1).item() == 2


def test_a_replaced_derived_operation_stays_replaced_in_all_inner_blocks():
    calls = []

    def softmax(inner, x, axis):
        calls.append(axis)
        return inner.softmax(x, axis)

    def through(name):
        return ft.override(**{name: lambda inner, x, y: getattr(inner, name)(x, y)})

    with ft.override(softmax=softmax), through("add"), through("multiply"), through("subtract"):
        ft.softmax(ft.ones(3))
    assert calls == [0]


def test_reading_a_tensor_in_the_middle_of_its_own_assignment_is_a_clear_error():
    x = ft.arange(3)

    def slice_update(inner, *arguments, **options):
        x.tolist()

    with ft.override(slice_update=slice_update):
        with pytest.raises(ft.BackendError, match="is being assigned to"):
            x[0] = 1
    assert x.tolist() == [0, 1, 2]


def test_eval_reaches_a_deferred_backend_that_lends():
    seen = []

    class Deferred(Kelp):
        CONTRACT = (1, 1)
        name = "deferred"

        def evaluate(self, values):
            seen.append([x.shape for x in values])

        def is_ready(self, x):
            return bool(seen)

    class Borrower(Kelp):
        CONTRACT = (1, 1)
        name = "borrower"
        lent_by = Deferred

    with ft.use(Borrower()):
        arrays = ft.ones(2), ft.ones((3, 1))
        assert not ft.is_ready(*arrays)
        ft.eval(*arrays)
        assert ft.is_ready(*arrays)
    assert seen == [[(2,), (3, 1)]]


def test_eval_and_is_ready_of_what_is_no_array_are_refused():
    with pytest.raises(ft.DTypeError, match=r"\[is_ready\] a int: expected Tensors or Variables$"):
        ft.is_ready(3)
    with pytest.raises(ft.DTypeError, match=r"\[eval\] a int: expected Tensors or Variables$"):
        ft.eval(3)
    with pytest.raises(ft.DTypeError, match=r"\[eval\] a list: .*one by one, ft.eval\(\*x\)"):
        ft.eval([ft.ones(2)])


@pytest.mark.parametrize(
    ("operation", "apply", "expected"),
    [
        ("add", lambda x: 3.0 + x, [5.0, 7.0]),
        ("subtract", lambda x: 3.0 - x, [1.0, -1.0]),
        ("multiply", lambda x: 3.0 * x, [6.0, 12.0]),
        ("divide", lambda x: 8.0 / x, [4.0, 2.0]),
        ("power", lambda x: 2.0**x, [4.0, 16.0]),
    ],
)
def test_a_number_before_an_operator_is_the_first_operand(operation, apply, expected):
    x = ft.asarray([2.0, 4.0])
    assert apply(x).tolist() == pytest.approx(expected)
    assert apply(x).dtype is x.dtype
    seen = []

    def replaced(inner, a, b):
        seen.append((a.shape, b.shape))
        return getattr(inner, operation)(a, b)

    with ft.override(**{operation: replaced}):
        assert apply(x).tolist() == pytest.approx(expected)
    assert seen == [((), (2,))]
