"""The campaign's own modules lie in ``campaigns``; kernels and choices are kept for one session."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session", autouse=True)
def kernel_files(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FL_CACHE_DIR", str(tmp_path_factory.mktemp("kernels")))
        yield
