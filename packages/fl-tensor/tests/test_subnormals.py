"""Subnormal numbers: a backend may flush them to zero; ours keep them."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fl_tensor as ft

FLUSHING = """
import numpy as np
from fl_tensor.backends.delegate import DelegatingBackend
from fl_tensor.backends.numpy.adapter import NumpyAdapter


class Flushing(DelegatingBackend):
    '''Every value that is made has zeros in place of subnormal numbers.'''

    CONTRACT = (1, 1)
    name = "flushing"

    def adopt(self, value, device):
        x = np.asarray(value.array)
        if x.dtype.kind == "f":
            tiny = np.abs(x) < np.finfo(x.dtype).smallest_normal
            value = NumpyAdapter(np.where(tiny, np.copysign(x.dtype.type(0), x), x))
        return super().adopt(value, device)
"""


@pytest.mark.defect("O8", "item 8")
def test_a_backend_without_subnormals_passes_the_kit(tmp_path: Path) -> None:
    (tmp_path / "flushing.py").write_text(FLUSHING)
    done = subprocess.run(
        [sys.executable, "-m", "fl_tensor.testing", "flushing:Flushing", "-k", "float32"],
        cwd=tmp_path,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    assert int(done.stdout.splitlines()[-1].split()[0]) > 900


def test_installed_backends_have_them(installed_backend: str) -> None:
    powers = [2.0**e for e in (-149, -148, -127, -126, -125, -103, -102)]
    values = [0.0, -0.0, *powers, *(-p for p in powers), 3 * 2.0**-149, 1.0]
    x, y = (np.array(v, np.float32) for v in zip(*itertools.product(values, repeat=2)))
    found = ft.nextafter(*(ft.asarray(v, backend=installed_backend) for v in (x, y)))
    wanted = np.nextafter(x, y)
    assert np.array_equal(np.asarray(found), wanted)
    assert np.array_equal(np.signbit(np.asarray(found)), np.signbit(wanted))
