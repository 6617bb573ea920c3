"""Machine code that tests make is kept for one session; ``bfloat_pairs`` is beside the tests."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session", autouse=True)
def of_one_session(kernel_files):
    pass
