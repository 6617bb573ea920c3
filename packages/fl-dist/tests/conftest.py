from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import fl_tensor as ft

sys.path.append(str(Path(__file__).parent))  # ranks import `process_programs` from there


@pytest.fixture(autouse=True)
def same_random_numbers_in_every_test() -> Iterator[None]:
    before = ft.default_generator().state()
    ft.seed(0)
    yield
    ft.default_generator().set_state(before)
