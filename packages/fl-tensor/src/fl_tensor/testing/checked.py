"""``checked(backend)``: a backend that asserts the contract from both sides in a real run.

Every call of a primitive, or of an optional operation that is declared, is looked at on its way in
(what the front end promises: operands of the backend, of one dtype, axes in range and non-negative)
and on its way out (what the backend promises: shape, dtype and device of the rule). Slow; for
tests, and for hunting a fault in a run:

    ft.use(checked(ft.get_backend("acme")))
"""

from __future__ import annotations

import inspect
from typing import Any

from fl_tensor import contract
from fl_tensor.backend import TensorAdapter, TensorBackend
from fl_tensor.errors import BackendError
from fl_tensor.testing.harness import rule
from fl_tensor.testing.opcase import Sample

#: Operands of these need not agree in dtype.
MIXED = frozenset({"gather", "scatter", "where"})


def checked(backend: TensorBackend) -> TensorBackend:
    """A backend of the same class and state whose primitives check each call.

    A broken promise raises BackendError that says whose it was: "front end" or "backend".
    """
    cls = type(backend)
    offered = [op for op in contract.OPTIONAL if op.capability in backend.capabilities]
    checked_ops = (*contract.PRIMITIVES, *offered)
    methods = {op.name: _checked(op.name, getattr(cls, op.name)) for op in checked_ops}
    made = type(f"Checked{cls.__name__}", (cls,), {"CONTRACT": cls.CONTRACT, **methods})
    wrapper: TensorBackend = object.__new__(made)
    wrapper.__dict__.update(vars(backend))
    return wrapper


def _checked(name: str, method: Any) -> Any:
    signature = inspect.signature(getattr(TensorBackend, name))

    def operation(self: Any, *args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(self, *args, **kwargs)
        if problem := _request(name, bound.arguments):
            raise BackendError(f"[{name}] front end: {problem}")
        result = method(self, *args, **kwargs)
        if problem := _answer(name, Sample("checked", args, kwargs), result):
            raise BackendError(f"[{name}] backend {self.name!r}: {problem}")
        return result

    operation.__name__ = name
    operation.__doc__ = method.__doc__
    return operation


def _request(name: str, arguments: dict[str, Any]) -> str:
    values = list(arguments.values())[1:]
    arrays = [v for v in values if isinstance(v, TensorAdapter)]
    for value in values:
        if isinstance(value, (list, tuple)):
            arrays += [v for v in value if isinstance(v, TensorAdapter)]
    found = {str(x.dtype) for x in arrays}
    if name not in MIXED and len(found) > 1:
        return f"operands of several dtypes: {', '.join(sorted(found))}"
    axis = arguments.get("axis", ())
    rank = len(arrays[0].shape) if arrays else 0
    if bad := [a for a in (axis if isinstance(axis, tuple) else (axis,)) if not 0 <= a < rank]:
        return f"axis {bad[0]} is not in 0 .. {rank - 1}"
    for key in ("shape", "sizes", "starts"):
        if any(type(n) is not int or n < 0 for n in arguments.get(key, ())):
            return f"{key} {arguments[key]} is not made of non-negative ints"
    return ""


def _answer(name: str, call: Sample, result: Any) -> str:
    if name == "to_host":
        whole = isinstance(result, memoryview) and result.readonly and result.format == "B"
        return "" if whole else "to_host must give read-only bytes"
    if name == "nonzero":
        rank = len(call.args[0].shape)
        fine = len(result) == rank and all(str(r.dtype) == "int64" for r in result)
        return "" if fine else "nonzero must give one int64 array per axis"
    results, wanted = (r if isinstance(r, tuple) else (r,) for r in (result, rule(name, call)))
    for got, want in zip(results, wanted, strict=False):
        if not isinstance(got, TensorAdapter):
            return f"gave a {type(got).__name__}, which is no TensorAdapter"
        seen = (got.shape, got.dtype, got.device)
        expected = (want.shape, want.dtype, want.device)
        if seen != expected:
            return f"gave {_words(seen)}, the rule says {_words(expected)}"
    if len(results) != len(wanted):
        return f"gave {len(results)} results, the rule says {len(wanted)}"
    return ""


def _words(value: tuple[Any, ...]) -> str:
    return f"{value[1]}{value[0]} on {value[2]}"
