"""The base class of all parts of the backend suite: the backend under test, and skips."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, ClassVar

import pytest

from fl_memory.contract import Version
from fl_memory.testing.kit import Suite, hide
from fl_tensor.backend import TensorBackend
from fl_tensor.errors import ArgumentError
from fl_tensor.testing.harness import Harness
from fl_tensor.testing.opcase import LABELS, OpCase
from fl_tensor.testing.under import placed

__all__ = ["TensorSuite", "resolve"]

__tracebackhide__ = hide


def resolve(given: Any) -> TensorBackend:
    """The backend of a name, of ``"module:Class"`` or of a class; an instance is itself.

    Raises PluginError or ContractError for a name that cannot be loaded, ArgumentError for what is
    no backend at all.
    """
    from fl_tensor.dispatch.registry import REGISTRY, get_backend

    found = given
    if isinstance(found, str):
        found = REGISTRY.load(found) if ":" in found else get_backend(found)
    if isinstance(found, type) and issubclass(found, TensorBackend):
        found = found()
    if not isinstance(found, TensorBackend):
        raise ArgumentError(f"{given!r} is neither a TensorBackend nor the name of one")
    return found


class _Resolved:
    """``cls.implementation``: what ``cls.backend`` means, made once per class; None if unset."""

    def __get__(self, instance: object, owner: Any) -> Any:
        if "_made" not in vars(owner):
            found = None if owner.backend is None else resolve(owner.backend)
            owner._made = found if found is None else placed(found, owner.device)
        return owner._made


class TensorSuite(Suite, official=True):
    """``backend``: the class, an instance, a registered name, or ``"module:Class"``; ``device``:
    where to test it."""

    subject = "implementation"
    what = "tensor backend"
    host = Version(*TensorBackend.CONTRACT)
    host_package = "fl-tensor"

    backend: ClassVar[Any] = None
    #: The device to test on, such as ``"cuda:1"``; the backend's first by default.
    device: ClassVar[str | None] = None
    implementation = _Resolved()
    _made: ClassVar[TensorBackend | None]
    _harness: ClassVar[Harness]

    @classmethod
    def under_test(cls) -> TensorBackend:
        """The backend; a plain failure of the collection where there is none."""
        if cls.backend is None:
            pytest.fail(
                f"{cls.__name__}: set backend = YourBackend in the class body", pytrace=False
            )
        try:
            return cls.implementation
        except Exception as error:  # whatever a stranger's module or constructor raises
            reason = str(error)
        pytest.fail(f"{cls.__name__}: backend = {cls.backend!r}: {reason}", pytrace=False)

    @classmethod
    def __fl_quick__(cls, names: Sequence[str]) -> Collection[str]:
        """Where there are several kinds of samples for one thing, all but the first."""
        seen: set[str] = set()
        more = []
        for name in names:
            label = next((label for label in LABELS if name.endswith(f"-{label}]")), None)
            if label is None:
                continue
            called = name.removesuffix(f"{label}]")
            if called in seen:
                more.append(name)
            seen.add(called)
        return frozenset(more)

    @pytest.fixture
    def harness(self, pytestconfig: pytest.Config) -> Harness:
        """One backend object for all tests of a class."""
        cls = type(self)
        if "_harness" not in vars(cls):
            ask = pytestconfig.getoption
            debugging = bool(ask("usepdb", False) or ask("fulltrace", False))
            cls._harness = Harness(cls.under_test(), debugging, quick=ask("--fl-quick"))
        return cls._harness

    def need(self, harness: Harness, case: OpCase) -> None:
        """Skip, visibly, what the backend does not declare or what is newer than its contract."""
        backend = harness.backend
        if case.capability and case.capability not in backend.capabilities:
            pytest.skip(f"capability {case.capability!r} is not declared")
        self.need_contract(harness, case.name, case.since)

    def need_contract(self, harness: Harness, what: str, since: tuple[int, int]) -> None:
        """Skip, visibly, where ``what`` came with a later contract than the backend's."""
        contract = type(harness.backend).CONTRACT
        if tuple(contract) < since:
            stated = ".".join(map(str, contract))
            pytest.skip(f"{what} is newer than the backend's contract {stated}")

    def need_values(self, harness: Harness) -> None:
        """Skip where a backend that declares ``has_values = False`` has nothing to show."""
        if not harness.backend.has_values:
            pytest.skip("the backend computes shapes only (has_values = False)")
