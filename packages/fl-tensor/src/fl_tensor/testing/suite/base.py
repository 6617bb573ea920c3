"""What all parts of the backend suite share: the backend under test and the reasons to skip."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from fl_memory.testing.kit import Suite

from fl_tensor.backend import TensorBackend
from fl_tensor.errors import ArgumentError
from fl_tensor.testing.harness import Harness
from fl_tensor.testing.opcase import OpCase


class TensorSuite(Suite):
    """``backend``: the class, an instance, a registered name, or ``"module:Class"``."""

    backend: ClassVar[Any] = None
    _harness: ClassVar[Harness]

    @classmethod
    def make_backend(cls) -> TensorBackend:
        """The backend object that all tests of this class use."""
        from fl_tensor.dispatch import REGISTRY, get_backend

        given = cls.backend
        if isinstance(given, TensorBackend):
            return given
        if isinstance(given, str):
            return REGISTRY.load(given)() if ":" in given else get_backend(given)
        if isinstance(given, type) and issubclass(given, TensorBackend):
            return given()
        raise ArgumentError(
            f"{cls.__name__}.backend is {given!r}: set it to a TensorBackend class, to an instance, "
            f"to the name of an installed backend, or to 'module:Class'"
        )

    @pytest.fixture
    def harness(self) -> Harness:
        """One backend object for all tests of a class."""
        cls = type(self)
        if "_harness" not in vars(cls):
            cls._harness = Harness(cls.make_backend())
        return cls._harness

    def need(self, harness: Harness, case: OpCase) -> None:
        """Skip, visibly, what the backend does not declare or what is newer than its contract."""
        backend = harness.backend
        if case.capability and case.capability not in backend.capabilities:
            pytest.skip(f"capability {case.capability!r} is not declared")
        if tuple(type(backend).CONTRACT) < case.since:
            stated = ".".join(map(str, type(backend).CONTRACT))
            pytest.skip(f"{case.name} is newer than the backend's contract {stated}")

    def need_values(self, harness: Harness) -> None:
        """Skip where a backend that declares ``has_values = False`` has nothing to show."""
        if not harness.backend.has_values:
            pytest.skip("the backend computes shapes only (has_values = False)")
