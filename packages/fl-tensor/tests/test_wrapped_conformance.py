"""A wrapped backend is a backend: it passes the kit with all wrappers in front of it at once."""

from __future__ import annotations

import fl_tensor as ft
from fl_tensor.testing import TensorBackendSuite


class TestWrapped(TensorBackendSuite):
    """NaN and infinities are what some samples are about: ``check`` looks at all else."""

    backend = ft.wrapped("numpy", ft.count(), ft.check(nan=False, inf=False), ft.profile())


class TestShapesOnly(TensorBackendSuite):
    backend = ft.wrapped("null", ft.trace(whole=True), ft.check(), ft.count())
