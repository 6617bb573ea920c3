"""Nested sequences that have no end, or hardly one."""

from __future__ import annotations

import pytest

import fl_tensor as ft


def own(*others):
    made = list(others)
    made.append(made)
    return made


def deep(levels, value=1.0):
    for _ in range(levels):
        value = [value]
    return value


ENDLESS = {
    "in itself": own(),
    "in itself twice": own(own()),
    "beside a tensor": own(ft.ones(2)),
    "2000 deep": deep(2000),
    "a tensor 2000 deep": deep(2000, ft.ones(2)),
}


@pytest.mark.defect("V13", "V18")
@pytest.mark.parametrize("nested", ENDLESS.values(), ids=ENDLESS)
@pytest.mark.parametrize(
    "use", [ft.asarray, ft.stack, lambda x: ft.ones(3) + x, ft.ones(3).__getitem__]
)
def test_sequences_without_an_end_are_refused(nested, use, alarm):
    with pytest.raises(ft.ShapeError, match="nested more than 64 deep, or one contains itself"):
        use(nested)


@pytest.mark.defect("V18")
def test_a_shape_that_is_nested_deeply_is_refused():
    with pytest.raises(ft.DTypeError, match="expected ints"):
        ft.ones(deep(2000))


def test_as_many_axes_as_an_array_may_have():
    assert ft.asarray(deep(64)).shape == (1,) * 64
