"""The fuzz's own modules lie in ``fuzzing`` and ``twins``; kernels are kept for one session."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session", autouse=True)
def of_one_session(kernel_files):
    pass
