"""Shared by the tests: the environment, a place for kernels, tests of the conformance kit."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parent))  # tests import `numpy_calls` from there
# What is tested is the specification in code, unless a test or a session says otherwise.
os.environ.setdefault("FL_TENSOR_BACKEND", "numpy")
# Read when SciPy is loaded: test_array_api_consumers.py gives our tensors to it.
os.environ.setdefault("SCIPY_ARRAY_API", "1")


def run_suite_test(backend: Any, test: str) -> None:
    """Run one test of the suite on a backend, as pytest would."""
    from fl_tensor.testing import TensorBackendSuite
    from fl_tensor.testing.harness import Harness
    from fl_tensor.testing.suite.operations import operation_ids, overridden

    suite = type("TestInjected", (TensorBackendSuite,), {"backend": backend})()
    name, _, rest = test.removesuffix("]").partition("[")
    method: Callable[..., None] = getattr(suite, name)
    harness = Harness(backend())
    if name == "test_contract_is_stated_and_accepted":
        method()
        return
    if name == "test_operation":
        assert rest in operation_ids(harness.backend), f"the suite has no case {rest}"
        method(harness, rest)
    elif name == "test_derived_override":
        assert rest in overridden(harness.backend)
        method(harness, rest)
    elif name in ("test_refused", "test_large_results_are_blocks", "test_undeclared_capability"):
        method(harness, rest)
    elif name == "test_scatter_reaches_no_other_value":
        view, mode, donate = rest.split("-")
        method(harness, view, mode, donate == "donate")
    else:
        method(harness)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """``installed_backend``: the name of each installed backend that can be used here and whose
    arrays have values."""
    if "installed_backend" in metafunc.fixturenames:
        from usable_backends import USABLE

        metafunc.parametrize("installed_backend", USABLE)


@pytest.fixture(scope="session")
def kernel_files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder for compiled kernels and for choices, of this session alone. Folders of tests that
    compile have it from their first test on."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("kernels")
        patch.setenv("FL_CACHE_DIR", str(folder))
        yield folder


@pytest.fixture(scope="session")
def plans_in_the_foreground() -> Iterator[None]:
    """Plans are made when they are asked for."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FL_JIT_BACKGROUND", "0")
        yield


@pytest.fixture
def suite_test() -> Callable[[Any, str], None]:
    """``suite_test(backend_class, "test_operation[add-float32-plain]")``; raises AssertionError
    with the kit's report, or the NameError or AttributeError of a wrongly injected fault."""

    def run(backend: Any, test: str) -> None:
        try:
            run_suite_test(backend, test)
        except pytest.fail.Exception as failure:
            for mistake in (NameError, AttributeError):
                if f"raises {mistake.__name__}" in str(failure):
                    raise mistake(str(failure)) from None
            raise AssertionError(str(failure)) from None

    return run


@pytest.fixture
def catches(suite_test: Callable[[Any, str], None]) -> Callable[[Any, str], None]:
    """``catches(backend_class, test)``: the test fails on that backend, and not by a mistake in
    calling it."""

    def check(backend: Any, test: str) -> None:
        with pytest.raises(Exception) as caught:
            suite_test(backend, test)
        assert not isinstance(caught.value, (NameError, AttributeError)), caught.value

    return check


@pytest.fixture
def alarm() -> Iterator[None]:
    """The test fails if it does not end in a while."""

    def late(number: int, frame: Any) -> None:
        pytest.fail("it does not end")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, 10, 5)  # again for what tears down
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def fifo(tmp_path: Path, alarm: None) -> Path:
    """A FIFO that has no other end."""
    path = tmp_path / "fifo"
    os.mkfifo(path)
    return path
