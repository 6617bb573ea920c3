"""The marker ``row(library, typed)``: which row of docs/interoperability.md a test shows."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "row(library, typed): a row of docs/interoperability.md")


@pytest.fixture
def x():
    import fl_tensor as ft

    return ft.asarray([1.0, 2.0, 4.0])


@pytest.fixture
def v(x):
    import fl_autograd as ag

    return ag.Variable(x, requires_grad=True)


@pytest.fixture
def y(v):
    """The result of a recorded operation."""
    return v * 2
