"""Machine code that tests make is kept for one session only."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session", autouse=True)
def kernel_files(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("kernels")
        patch.setenv("FL_CACHE_DIR", str(folder))
        yield folder
