"""The base class of all conformance suites, two marks, and a guard against edited tests.

A suite is shipped in a wheel. Third parties derive from it and run it:

    class TestAcme(MemoryManagerSuite):
        manager = AcmeManager
        known_failures = {"test_streams": "acme#12"}

``class MySuite(Suite, official=True)`` seals the tests of a suite. A subclass may
add tests and define ``hooks``. It may not override, empty or delete existing tests.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, ClassVar

import pytest

from fl_memory.contract import Version, negotiate, stated_version

_sealed: dict[type, dict[str, object]] = {}


def requires(*capabilities: str) -> pytest.MarkDecorator:
    """Run a test only where the implementation declares these capabilities; else a visible skip."""
    return pytest.mark.fl_requires(*capabilities)


def since(major: int, minor: int) -> pytest.MarkDecorator:
    """Run a test only where the implementation states at least this contract version."""
    return pytest.mark.fl_since(major, minor)


def hide(error: pytest.ExceptionInfo[BaseException]) -> bool:
    """``__tracebackhide__`` of a module of a suite: its lines are nobody's business when an
    implementation fails. A skip has no other place than the kit's own."""
    return not error.errisinstance(pytest.skip.Exception)


__tracebackhide__ = hide


class Suite:
    """Base class of conformance suites.

    A suite sets ``subject``, the name of the attribute that holds the implementation under test
    (a class, with ``CONTRACT`` and perhaps ``capabilities`` and ``dtypes``), ``what`` and ``host``
    (see ``negotiate``) and ``hooks``, the names that those who derive from it may define.
    A test with an argument ``dtype`` runs for each of the subject's dtypes, or of ``dtypes``.
    A suite with cases of its own defines ``__fl_generate__``.
    """

    __fl_suite__: ClassVar[bool] = True

    subject: ClassVar[str] = ""
    what: ClassVar[str] = ""
    host: ClassVar[Version] = Version(1, 0)
    host_package: ClassVar[str | None] = None
    hooks: ClassVar[tuple[str, ...]] = ()
    dtypes: ClassVar[tuple[Any, ...] | None] = None
    known_failures: ClassVar[Mapping[str, str]] = {}

    #: ``classmethod(metafunc) -> names it parametrised, or None``; called for each test function.
    __fl_generate__: ClassVar[Callable[..., Any] | None] = None

    def __init_subclass__(cls, official: bool = False, **options: Any) -> None:
        super().__init_subclass__(**options)
        if official:
            _seal(cls)

    @classmethod
    def __fl_advice__(cls, failed: Sequence[str]) -> str:
        """A line for the end of the report, from the names of the tests that failed, or ""."""
        return ""

    @classmethod
    def __fl_quick__(cls, names: Sequence[str]) -> Collection[str]:
        """Which of these tests a quick run leaves out."""
        return ()

    @classmethod
    def __fl_problems__(cls) -> list[str]:
        """What makes results of this class worthless; the plugin reports it as an error."""
        problems = []
        if cls.subject and getattr(cls, cls.subject, None) is None:
            problems.append(f"say what is tested: {cls.subject} = YourClass in the class body")
        claimed = getattr(getattr(cls, cls.subject, None), "dtypes", cls.dtypes)
        if claimed is not None and not tuple(claimed):
            problems.append("dtypes is empty, so that no test would run")
        sealed = [base for base in cls.__mro__ if base in _sealed]
        allowed = {name for base in sealed for name in vars(base).get("hooks", ())}
        for base in sealed:
            for name, original in _sealed[base].items():
                if vars(base).get(name) is not original:
                    problems.append(f"{base.__name__}.{name} was replaced or deleted")
                elif name not in allowed:
                    owner = next(c for c in cls.__mro__ if name in vars(c))
                    if vars(owner)[name] is not original:
                        problems.append(
                            f"{owner.__name__} overrides {name} of {base.__name__}; a failure that "
                            f"is known belongs in known_failures, with its reason"
                        )
        return problems

    def test_contract_is_stated_and_accepted(self) -> None:
        """CONTRACT stands in the class body, and this process hosts it."""
        implementation = getattr(type(self), self.subject)
        cls = implementation if isinstance(implementation, type) else type(implementation)
        stated = stated_version(cls, self.what, cls.__qualname__)
        negotiate(self.what, self.host, stated, cls.__qualname__, self.host_package)


def _seal(cls: type) -> None:
    # Fixtures are callables or pytest's own objects, so everything that is not plain data counts.
    plain = (str, int, float, tuple, list, dict, frozenset, set, type(None))
    _sealed[cls] = {
        name: member
        for name, member in vars(cls).items()
        if (not name.startswith("__") or name == "__fl_generate__")
        and not isinstance(member, plain)
    }


_seal(Suite)
