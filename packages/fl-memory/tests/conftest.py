"""Fixtures: a fake set of installed distributions, and a clean choice of manager."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Hashable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fl_memory import Account, AccountingManager, selection


@pytest.fixture
def fresh_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    """No manager chosen yet, no environment variable; restored afterwards."""
    monkeypatch.delenv(selection.ENVIRONMENT, raising=False)
    monkeypatch.setattr(selection, "_choices", ())
    monkeypatch.setattr(selection, "_instances", {})


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """``install("acme", "1.0", {"fl.memory.v1": {"acme": "acme:Acme"}}, acme="code")``.

    Writes real metadata and modules into a folder on sys.path, as an installer does.
    """
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(tmp_path))

    def add(
        name: str,
        version: str,
        groups: dict[str, dict[str, str]],
        keywords: str = "",
        **modules: str,
    ) -> None:
        info = tmp_path / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        (info / "METADATA").write_text(metadata + (f"Keywords: {keywords}\n" if keywords else ""))
        lines = []
        for group, points in groups.items():
            lines += [f"[{group}]", *(f"{key} = {value}" for key, value in points.items()), ""]
        (info / "entry_points.txt").write_text("\n".join(lines))
        for module, code in modules.items():
            (tmp_path / f"{module}.py").write_text(code)
        importlib.invalidate_caches()

    yield add
    for module in set(sys.modules) - before:
        if getattr(sys.modules[module], "__file__", None) and str(tmp_path) in str(
            sys.modules[module].__file__
        ):
            del sys.modules[module]


@pytest.fixture
def two_mib() -> type[AccountingManager[Account]]:
    """A manager whose figures are easy to foresee: sizes in steps of 512 bytes, one after the other
    in a buffer of 2 MiB."""

    class TwoMiB(AccountingManager[Account]):
        CONTRACT = (1, 0)
        name = "two_mib"

        def allocate_chunk(
            self, account: Account, nbytes: int, alignment: int, stream: Hashable, tag: object
        ) -> tuple[int, int, None]:
            if not account.device_allocs:
                self.top, _ = self.device_allocate(account, 2 << 20, 4096)
            address = self.top
            size = max((nbytes + 511) & -512, 512)
            self.top += size
            return address, size, None

        def free_chunk(self, account: Account, address: int, capacity: int, handle: Any) -> None:
            pass

        def trim(self, account: Account) -> int:
            return 0

    return TwoMiB
