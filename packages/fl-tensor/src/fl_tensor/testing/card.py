"""Report cards: the results of the kit for every operation of a backend."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from fl_memory.testing.command import OUTCOMES
from fl_tensor._version import __version__
from fl_tensor.backend import TensorBackend

PREFIX = "test_operation["


def operations(tests: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Per operation how many of its cases passed, failed and were skipped, and which failed."""
    table: dict[str, dict[str, Any]] = {}
    for test in tests:
        if not test["name"].startswith(PREFIX):
            continue
        case = test["name"][len(PREFIX) : -1]
        row = table.setdefault(case.split("-")[0], dict.fromkeys(OUTCOMES, 0))
        row[test["outcome"]] += 1
        if test["outcome"] == "failed":
            row.setdefault("failures", []).append(case)
    return dict(sorted(table.items()))


def completed(report: dict[str, Any], cls: type[TensorBackend]) -> dict[str, Any]:
    """``report`` with what only the tensor kit knows; the list of single tests comes last."""
    tests = report.pop("tests")
    return {
        **report,
        "dtypes": sorted(str(d) for d in cls.dtypes),
        "capabilities": sorted(cls.capabilities),
        "has_values": cls.has_values,
        "versions": {"fl-tensor": __version__, "numpy": np.__version__, **_distribution(cls)},
        "operations": operations(tests),
        "tests": tests,
    }


def complete(path: Path, cls: type[TensorBackend]) -> None:
    """Rewrite the report at ``path``; an interruption leaves the old one."""
    report = completed(json.loads(path.read_text(encoding="utf-8")), cls)
    draft = path.with_name(path.name + ".new")
    draft.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    os.replace(draft, path)


def _distribution(cls: type) -> dict[str, str]:
    """The installed distribution that the class comes from, with its version."""
    from importlib.metadata import packages_distributions, version

    owners = packages_distributions().get(cls.__module__.partition(".")[0], [])
    return {name: version(name) for name in sorted(set(owners))}
