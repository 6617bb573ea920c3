from __future__ import annotations

from collections.abc import Iterator

import pytest

import fl_tensor as ft


@pytest.fixture(autouse=True)
def same_random_numbers_in_every_test() -> Iterator[None]:
    before = ft.default_generator().state()
    ft.seed(0)
    yield
    ft.default_generator().set_state(before)
