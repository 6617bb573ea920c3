"""How wide the vectors of kernels are: FL_VECTOR_BITS."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from kernel_programs import run

import fl_tensor as ft
from fl_jit.kernels.codegen import target
from fl_jit.kernels.codegen.kernel import Kernel
from fl_jit.kernels.codegen.program import Builder
from fl_tensor.dtypes import float32

WIDTHS = [str(bits) for bits in (128, 256, 512) if bits <= target.processor().vector_bits]


def program():
    b = Builder(2)
    x = b.input(float32, "sc")
    b.output(b("exp", x), "sc")
    b.output(b.reduce("sum", x), "s.")
    return b.program()


def info(width):
    """What `fl-jit info` says about the processor."""
    program = "import json; from fl_jit.cli import info; print(json.dumps(info.collect()))"
    env = {**os.environ, "FL_VECTOR_BITS": width}
    command = [sys.executable, "-c", program]
    found = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    return json.loads(found.stdout)["processor"]


@pytest.mark.parametrize("width", WIDTHS)
def test_info_shows_the_width_that_is_requested(width):
    assert info(width) == {"name": target.processor().cpu, "vector_bits": int(width)}


def test_generic_is_any_processor_of_the_kind():
    found = info("generic")
    assert found["vector_bits"] == 128
    assert found["name"] == target.generic().cpu != target.processor().cpu


@pytest.mark.parametrize("width", ["64", "1024", "avx2", "0"])
def test_what_there_is_not_is_an_error(width):
    with pytest.raises(ft.ArgumentError, match=r"\[FL_VECTOR_BITS\] .*expected 128.* or generic"):
        target.chosen(width, target.processor())


def test_wider_than_the_processor_is_an_error():
    narrow = target.Target("old", "", 128)
    assert target.chosen("128", narrow) == narrow == target.chosen("", narrow)
    with pytest.raises(ft.ArgumentError, match="vectors of old have 128 bits"):
        target.chosen("256", narrow)


def test_every_width_has_a_file_and_a_kernel_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("FL_CACHE_DIR", str(tmp_path))
    x = np.random.default_rng(1).standard_normal((5, 77)).astype(np.float32)
    for number, width in enumerate([*WIDTHS, "generic"], 1):
        machine = target.chosen(width, target.processor())
        e, total = run(program(), [x], x.shape, kernel=Kernel(program(), machine))
        np.testing.assert_allclose(e, np.exp(x), rtol=2e-7)
        np.testing.assert_allclose(total[:, 0], x.sum(1, dtype=float), atol=1e-5)
        assert len(list(tmp_path.rglob("*.o"))) == number
