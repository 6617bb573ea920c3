"""Every name of ``ft.array_api`` is in ``ft``, too, where it accepts the standard's parameters."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

import fl_tensor as ft


def standard() -> dict[str, list[str]]:
    """The parameters of each function of the standard, with ``/`` and ``*``."""
    text = Path(__file__).with_name("array_api_2025_12.txt").read_text()
    lines = text.partition("[namespace]\n")[2].partition("\n\n")[0].splitlines()
    found = {}
    for line in lines:
        name, _, rest = line.partition("(")
        found[name] = [p.strip() for p in rest.removesuffix(")").split(",") if p.strip()]
    del found["__array_namespace_info__"]  # of the namespace, not of arrays
    return found


STANDARD = standard()


@pytest.mark.parametrize("name", STANDARD)
def test_a_function_accepts_the_standards_parameters(name):
    """By position those in front of ``*``, by name those behind ``/``."""
    names = [p.partition("=")[0].lstrip("*") for p in STANDARD[name]]
    last = names.index("") if "" in names else len(names)
    first = names.index("/") + 1 if "/" in names else 0
    by_position = [n for n in names[:last] if n != "/"]
    only_by_position = names[: max(first - 1, 0)]
    by_name = [n for n in names[first:] if n and f"*{n}" not in STANDARD[name]]
    signature = inspect.signature(getattr(ft, name))
    signature.bind(*by_position)
    signature.bind(*only_by_position, **dict.fromkeys(by_name))


def test_constants_and_dtypes_are_there():
    dtypes = ft.array_api.__array_namespace_info__().dtypes()
    for name in ("e", "inf", "newaxis", "pi", *dtypes):
        assert getattr(ft, name) is getattr(ft.array_api, name)
    assert ft.nan != ft.nan


def test_bounds_have_two_names():
    x = ft.asarray([1.0, 5.0, 9.0])
    assert ft.clip(x, min=2, max=6).tolist() == ft.clip(x, 2, high=6).tolist() == [2.0, 5.0, 6.0]
    assert ft.clip(x, max=ft.asarray([0.0, 9.0, 9.0])).tolist() == [0.0, 5.0, 9.0]
    with pytest.raises(ft.ArgumentError, match=r"\[clip\] low and min are the same argument"):
        ft.clip(x, 2, min=3)


def test_ddof_is_a_name_of_correction():
    x = [1.0, 2.0, 4.0]
    for function in (ft.std, ft.var, ft.nanstd, ft.nanvar):
        assert function(x, ddof=1).item() == function(x, correction=1).item() > function(x).item()
    with pytest.raises(ft.ArgumentError, match=r"\[std\] correction and ddof are the same"):
        ft.std(x, correction=1, ddof=1)


def test_parameters_that_change_nothing_are_accepted():
    x = ft.asarray([2, 1, 2])
    assert ft.sort(x, stable=False).tolist() == [1, 2, 2]
    assert ft.argsort(x, stable=True, descending=True).tolist() == [0, 2, 1]
    assert ft.reshape(x, (3, 1), copy=True).shape == (3, 1)
    assert ft.full((2,), fill_value=7).tolist() == [7, 7]


def test_a_running_sum_of_a_vector_needs_no_axis():
    assert ft.cumulative_sum([1, 2, 3], axis=None).tolist() == [1, 3, 6]
    with pytest.raises(ft.ArgumentError, match=r"x \(1, 2\): several axes, so say which"):
        ft.cumulative_prod([[1, 2]], axis=None)
