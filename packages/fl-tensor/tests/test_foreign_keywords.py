"""Arguments by the names of PyTorch: the error says which ours is."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import fl_tensor as ft

X = ft.ones((2, 3))


@pytest.mark.defect("N30")
@pytest.mark.parametrize(
    ("call", "argument", "way"),
    [
        (lambda: X.sum(dim=1), "dim", "axis=1"),
        (lambda: X.max(1, keepdim=True), "keepdim", "keepdims=True"),
        (lambda: X.argmax(dim=-1), "dim", "axis=-1"),
        (lambda: ft.mean(X, dim=(0, 1)), "dim", "axis=(0, 1)"),
        (lambda: ft.softmax(X, dim=0), "dim", "axis=0"),
        (lambda: ft.concatenate([X], dim=0), "dim", "axis=0"),
        (lambda: X.std(unbiased=False), "unbiased", "correction=1, or 0 for unbiased=False"),
        (
            lambda: ft.zeros(3, requires_grad=True),
            "requires_grad",
            "ag.Variable(x, requires_grad=True)",
        ),
    ],
)
def test_an_argument_by_a_foreign_name_is_answered_with_ours(call, argument, way):
    with pytest.raises(TypeError) as caught:
        call()
    assert str(caught.value).endswith(f"] there is no argument {argument!r}: write {way}")


MASKED = "sum prod max min any all mean std var"
MASKED += " nansum nanprod nanmax nanmin nanmean nanstd nanvar"


@pytest.mark.parametrize("name", MASKED.split())
@pytest.mark.parametrize("kind", ["float64", "int64"])
def test_the_advice_for_a_mask_computes_what_numpy_does(name, kind):
    x = np.array([[0, 3, -2], [5, 0, 7]], kind)
    mask = np.array([[True, True, False], [True, False, True]])
    with pytest.raises(TypeError) as caught:
        getattr(ft, name)(ft.asarray(x), where=mask)
    way = str(caught.value).partition(": write ")[2]
    found = eval(way, {"ft": ft, "x": ft.asarray(x), "mask": ft.asarray(mask)})
    options = (
        {"initial": x.min() if "max" in name else x.max()} if name[-3:] in ("max", "min") else {}
    )
    np.testing.assert_allclose(found.item(), getattr(np, name)(x, where=mask, **options), rtol=1e-6)


def test_a_function_without_a_mask_in_numpy_has_no_advice_for_one():
    with pytest.raises(TypeError, match=r"^\[median\] there is no argument 'where'$"):
        ft.median(X, where=True)


def test_an_unknown_argument_is_refused():
    with pytest.raises(TypeError, match=r"^\[sum\] there is no argument 'nonsense'$"):
        X.sum(nonsense=1)


def test_every_function_of_an_axis_answers():
    silent = []
    for name in dir(ft):
        function = getattr(ft, name)
        if not inspect.isfunction(function) or "axis" not in inspect.signature(function).parameters:
            continue
        if function.__module__.startswith("fl_tensor.functions"):
            kinds = {p.kind for p in inspect.signature(function).parameters.values()}
            silent += [name] if inspect.Parameter.VAR_KEYWORD not in kinds else []
    assert silent == []


def test_type_checkers_see_that_no_other_argument_is_taken():
    assert inspect.signature(ft.sum).parameters["foreign"].annotation == "NoReturn"
