"""Ranks import the programs of these tests by name."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--faults", type=int, default=4, help="how many faults of test_faults.py")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "fault" in metafunc.fixturenames:
        metafunc.parametrize("fault", range(metafunc.config.getoption("--faults")))
