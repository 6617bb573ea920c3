"""Options of the comparison with PyTorch's OpInfo database."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("opinfo")
    group.addoption(
        "--opinfo-share",
        type=float,
        default=1.0,
        help="compare at most this share of the samples of each operation (drawn by seed)",
    )
    group.addoption("--opinfo-seed", type=int, default=0, help="draws values and samples")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    comparison = sys.modules.get("comparison")
    if comparison is not None and comparison.TALLY.operations:
        terminalreporter.write_line(str(comparison.TALLY))
