"""Options of the tests with hostile inputs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("hostile")
    group.addoption(
        "--hostile-share", type=float, default=1.0, help="share of the cases, drawn by seed"
    )
    group.addoption("--hostile-seed", type=int, default=0, help="draws bad values and cases")
