"""Options that several commands share."""

from __future__ import annotations

import argparse
from pathlib import Path


def list_options(parser: argparse.ArgumentParser) -> None:
    """How list files are read."""
    add = parser.add_argument
    add("--data-dir", type=Path, metavar="FOLDER", help="where relative paths of lists begin")
    add(
        "--skip-bad", action="store_true", help="leave out bad lines and recordings, and count them"
    )
