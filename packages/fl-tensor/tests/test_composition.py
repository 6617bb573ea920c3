"""``call_composition``: a backend that has it is given compositions whole, all others run them."""

from __future__ import annotations

import numpy as np
import pytest

import fl_tensor as ft
from fl_tensor.backends.delegate import DelegatingBackend
from fl_tensor.composition import cached_composition

X = np.linspace(-2.0, 2.0, 12, dtype=np.float32).reshape(3, 4)


class Plain(DelegatingBackend):
    """A backend that does not implement it."""

    CONTRACT = (1, 1)
    name = "plain"


class Noting(DelegatingBackend):
    """A backend that implements it: it notes what it is given, and runs it."""

    CONTRACT = (1, 1)
    name = "noting"

    def __init__(self):
        self._given = []

    def call_composition(self, function, arguments):
        self._given.append((function.__name__, arguments[1:]))
        return function(self, *arguments)


class Derived(Noting):
    """It may compute differently, and does not implement it anew."""

    CONTRACT = (1, 1)
    name = "derived"


@cached_composition
def scaled(ops, x, factor):
    return ops.multiply(x, ops.constant(factor, x))


@pytest.fixture
def noting():
    with ft.use(Noting()) as backend:
        yield backend


@pytest.mark.parametrize("kind", [Plain, Noting, Derived])
def test_results_are_the_same_on_every_backend(kind):
    expected = ft.softmax(ft.asarray(X, backend="numpy"), 1).tolist()
    assert ft.softmax(ft.asarray(X, backend=kind()), 1).tolist() == expected


def test_a_backend_that_has_it_is_given_the_function_and_its_arguments(noting):
    ft.softmax(ft.asarray(X), 1)
    assert noting._given == [("softmax", (1,))]


def test_compositions_of_other_packages_come_too(noting):
    found = scaled(noting, ft.asarray(X).adapter, 3.0)
    assert np.array_equal(np.asarray(noting.to_host(found)).view(np.float32), X.ravel() * 3.0)
    assert noting._given == [("scaled", (3.0,))]


def test_a_class_that_inherits_it_is_not_asked():
    backend = Derived()
    ft.softmax(ft.asarray(X, backend=backend), 1)
    assert backend._given == []


def test_what_the_contract_has_runs_the_function():
    backend = Plain()
    x = ft.asarray(X, backend=backend).adapter
    found = backend.call_composition(lambda ops, v: ops.negative(v), (x,))
    assert np.array_equal(np.asarray(backend.to_host(found)).view(np.float32), -X.ravel())


def test_under_an_override_the_composition_runs(noting):
    calls = []

    def exp(inner, x):
        calls.append(x.shape)
        return inner.exp(x)

    with ft.override(exp=exp):
        ft.softmax(ft.asarray(X), 1)
    assert calls == [(3, 4)] and noting._given == []


def test_a_wrapper_sees_the_pieces(noting):
    with ft.count() as counts:
        ft.softmax(ft.asarray(X), 1)
    assert counts["exp"] == 1 and noting._given == []


def test_arguments_by_name_run_the_function(noting):
    scaled(noting, ft.asarray(X).adapter, factor=3.0)
    assert noting._given == []


# ---- the default axis ----------------------------------------------------------------------------

#: Operations on rows of three, and what they take beside the first operand.
ALONG_AN_AXIS = {
    **dict.fromkeys(("argsort", "sort", "diff", "softmax", "log_softmax"), ()),
    **{f"cumulative_{name}": () for name in ("sum", "prod", "max", "min", "logsumexp")},
    "cross": (X.T[:1, :3],),
    "cross_entropy": (np.zeros(40_000, np.int64),),
    "take_along_axis": (np.full((40_000, 2), 2),),
    "topk": (2,),
    "vecdot": (np.ones((2, 1, 3), np.float32),),
}


@pytest.mark.parametrize("name", ALONG_AN_AXIS)
def test_the_default_axis_of_an_operation_is_the_last(name):
    backend = ft.current_backend()
    operation = getattr(ft.ops_for(backend), name)
    wide = np.tile(X.reshape(4, 3), (10_000, 1))
    given = [
        ft.asarray(v)._raw if isinstance(v, np.ndarray) else v for v in (wide, *ALONG_AN_AXIS[name])
    ]
    axis = 2 if name == "vecdot" else 1

    def results(**options):
        made = operation(*given, **options)
        made = made if isinstance(made, tuple) else (made,)
        return [backend.to_host(each).tolist() for each in made]

    assert results() == results(axis=axis)


@pytest.mark.parametrize("dtype", [ft.float32, ft.float16])
def test_a_running_sum_of_an_operation_goes_on_from_part_to_part(dtype):
    backend = ft.current_backend()
    x = ft.asarray(np.arange(200_000) % 7 == 0, dtype)
    found, wanted = ft.ops_for(backend).cumulative_sum(x._raw), ft.cumulative_sum(x, 0)._raw
    assert backend.to_host(found).tolist() == backend.to_host(wanted).tolist()
