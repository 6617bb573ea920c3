"""pytest plugin: ``--every N`` keeps each N-th test of every file, for sessions that repeat tests.

Which tests are kept depends on their order in the file alone, so every run keeps the same.
"""

from __future__ import annotations

from collections import Counter

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--every", type=int, default=1, metavar="N", help="run each N-th test")


@pytest.hookimpl(trylast=True)  # of those that `-k` has chosen
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    seen: Counter[object] = Counter()
    kept: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        (left_out if seen[item.path] % config.getoption("--every") else kept).append(item)
        seen[item.path] += 1
    items[:] = kept
    config.hook.pytest_deselected(items=left_out)
