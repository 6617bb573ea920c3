"""The conformance kits for tensor backends and compilers of kernels (install
``fl-tensor[testing]``).

``TensorBackendSuite`` is a test class to derive from; ``python -m fl_tensor.testing NAME`` runs it
without any file. ``CASES`` is the table of operations behind it: one ``OpCase`` per operation, with
samples, a reference, tolerances and the places where gradients exist. ``needs`` says what a test of
your own asks of the backend. ``KernelCompilerSuite`` tests a compiler of kernels.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from fl_tensor import extras
from fl_tensor.testing.cases import CASES as CASES
from fl_tensor.testing.needs import needs as needs
from fl_tensor.testing.opcase import OpCase as OpCase
from fl_tensor.testing.opcase import Operand as Operand
from fl_tensor.testing.opcase import Sample as Sample
from fl_tensor.testing.opcase import Tolerance as Tolerance

if TYPE_CHECKING:
    from fl_tensor.testing.kernels.suite import KernelCompilerSuite as KernelCompilerSuite
    from fl_tensor.testing.suite import TensorBackendSuite as TensorBackendSuite

__all__ = [
    "CASES", "KernelCompilerSuite", "OpCase", "Operand", "Sample", "TensorBackendSuite",
    "Tolerance", "needs",
]  # fmt: skip

#: Suites by their module, which needs pytest; the table does not.
_SUITES = {
    "KernelCompilerSuite": "fl_tensor.testing.kernels.suite",
    "TensorBackendSuite": "fl_tensor.testing.suite",
}


def __getattr__(name: str) -> Any:
    if name in _SUITES:
        if _SUITES[name] not in sys.modules:
            try:
                import pytest
            except ModuleNotFoundError as error:
                raise extras.missing("the conformance kit", "pytest", "testing") from error
            # So that failures show both sides of a comparison.
            pytest.register_assert_rewrite(_SUITES[name])
        return getattr(importlib.import_module(_SUITES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
