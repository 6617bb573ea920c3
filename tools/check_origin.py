"""Fail if a distribution of this repository was installed from an index.

Run by the interpreter of an environment. pip writes ``direct_url.json`` for what it installed from
a path; a distribution without it came from an index, under a name that is ours.
"""

from __future__ import annotations

import sys
from importlib.metadata import distributions
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("packages", "backends", "examples")


def main() -> int:
    ours = {
        path.parent.name for folder in FOLDERS for path in ROOT.glob(f"{folder}/*/pyproject.toml")
    }
    strangers = sorted(
        found.metadata["Name"]
        for found in distributions()
        if found.metadata["Name"] in ours and found.read_text("direct_url.json") is None
    )
    if strangers:
        print(f"installed from an index: {', '.join(strangers)}. Name its path or its wheel, too")
    return bool(strangers)


if __name__ == "__main__":
    sys.exit(main())
