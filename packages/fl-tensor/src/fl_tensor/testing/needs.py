"""``needs``: a test's requirements of the default backend."""

from __future__ import annotations

from typing import Any

from fl_tensor import dtypes, extras
from fl_tensor.capabilities import CAPABILITIES
from fl_tensor.dispatch.registry import current_backend


def needs(*names: str) -> Any:
    """``@needs("float16", "linalg")`` skips a test, visibly, where the default backend (see
    ``ft.use``, ``FL_TENSOR_BACKEND``) lacks one of these dtypes and capabilities. Also as
    ``marks=needs(...)`` of a ``pytest.param`` and as a module's ``pytestmark``.

    Raises DTypeError for a name that is neither.
    """
    try:
        import pytest
    except ModuleNotFoundError as error:
        raise extras.missing("needs", "pytest", "testing") from error
    backend = current_backend()
    missing = [name for name in names if not _has(backend, name)]
    reason = f"backend {backend.name!r} has no {', '.join(missing)}"
    return pytest.mark.skipif(bool(missing), reason=reason)


def _has(backend: Any, name: str) -> bool:
    if name in CAPABILITIES:
        return name in backend.capabilities
    return dtypes.dtype(name) in backend.dtypes
