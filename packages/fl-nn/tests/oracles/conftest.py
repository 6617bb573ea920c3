"""Makes `torch_twins` importable here, and prints the seed of random configurations at the end."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))


def pytest_terminal_summary(terminalreporter):
    twins = sys.modules.get("torch_twins")
    if twins is not None and twins.compared:
        terminalreporter.write_line(
            f"{twins.compared:,} random configurations agreed with PyTorch; "
            f"FL_ORACLE_SEED={twins.SEED} draws them again"
        )
