"""Recordings that the tests make, and the real ones if they are there."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

sys.path.append(str(Path(__file__).parent))  # tests import modules of this folder

from runs import ASG, train
from spoken_tones import write_task


@pytest.fixture
def tone() -> Callable[..., np.ndarray]:
    """A seeded mixture of tones and noise in [-1, 1], float64 (samples,)."""

    def make(samples: int, sample_rate: int = 16000, seed: int = 0) -> np.ndarray:
        rng = np.random.default_rng(seed)
        t = np.arange(samples) / sample_rate
        sweep = np.sin(2 * np.pi * (200 + 900 * t) * t)
        return (
            0.4 * sweep + 0.2 * np.sin(2 * np.pi * 2500 * t) + 0.05 * rng.standard_normal(samples)
        )

    return make


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write an array (samples,) or (samples, channels) to a file; gives its path."""

    def make(name: str, values: Any, sample_rate: int = 16000, **options: Any) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(path, np.asarray(values), sample_rate, **options)
        return path

    return make


@pytest.fixture(scope="session")
def recordings() -> Path:
    """The folder of spoken digits."""
    root = os.environ.get("FL_TEST_DATA")
    if not root:
        pytest.skip("FL_TEST_DATA is not set")
    return Path(root) / "fsdd" / "recordings"


@pytest.fixture(scope="session")
def task(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tones")
    write_task(folder)
    return folder


@pytest.fixture(scope="session")
def run(task: Path) -> Path:
    assert train(task, "run", *ASG, "--epochs", "14", "--normalise", "global") == 0
    return task / "run"
