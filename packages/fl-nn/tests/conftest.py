"""Helpers of this folder are imported by name; what several tests share."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def fifo(tmp_path: Path) -> Iterator[Path]:
    """A FIFO that has no other end: who waits for it fails after a while."""
    if not hasattr(os, "mkfifo"):
        pytest.skip("FIFOs are of POSIX")

    def waited(number: int, frame: Any) -> None:
        pytest.fail("it waits for the other end of a FIFO")

    path = tmp_path / "fifo"
    os.mkfifo(path)
    before = signal.signal(signal.SIGALRM, waited)
    signal.alarm(20)
    yield path
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)
    assert path.is_fifo()
