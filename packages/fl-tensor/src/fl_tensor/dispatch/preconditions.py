"""Pre- and postconditions of an operation's call.

``ft.check`` and the conformance kit test them. User-defined compositions run once under ``Asked``.
"""

from __future__ import annotations

from typing import Any

from fl_tensor.backend import TensorAdapter
from fl_tensor.dispatch.calls import Options, adapters, describe, given, operands, parameters
from fl_tensor.dispatch.frontend import KINDS
from fl_tensor.dispatch.stack import Operation, Wrapper
from fl_tensor.dtypes import DType
from fl_tensor.errors import AxisError, DTypeError, FlError, NoDataError, ShapeError

_KIND_NAMES = {"b": "bool", "iu": "integer", "f": "floating", "c": "complex"}
#: Kinds of arrays that are taken as they are, where only some will do.
_AS_THEY_ARE = {"condition": "b", "indices": "iu"}


def request(
    name: str, arguments: tuple[Any, ...], options: Options, dtypes: frozenset[DType]
) -> FlError | None:
    """What the front end (or a composition) did wrong in asking a backend that has ``dtypes``, as
    an error whose text does not name the operation: operands of unfit dtypes or that do not agree,
    axes out of range, shapes that are none."""
    named = given(name, arguments, options)
    arrays = operands(name, arguments, options)
    if foreign := sorted({str(x.dtype) for _, x in arrays if x.dtype not in dtypes}):
        return DTypeError(f"operands of {', '.join(foreign)}, which the backend does not have")
    agreeing = []
    for p in parameters(name):
        kinds = _AS_THEY_ARE.get(p.name) if p.role == "A" else KINDS.get(p.role)
        if p.name not in named or kinds is None:
            continue
        found = adapters((named[p.name],))
        if unfit := [x.dtype for x in found if x.dtype.kind not in kinds]:
            return DTypeError(f"{p.name} is {unfit[0]}: expected {_listed(kinds)} here")
        agreeing += found if p.role != "A" else []
    if len(several := sorted({str(x.dtype) for x in agreeing})) > 1:
        return DTypeError(f"operands of several dtypes: {', '.join(several)}")
    rank = len(arrays[0][1].shape) if arrays else 0
    for p in parameters(name):
        if p.name not in named:
            continue
        value = named[p.name]
        if p.kind in ("Axis", "Axes", "NewAxis"):
            end = rank + (p.kind == "NewAxis")
            every = value if isinstance(value, tuple) else (value,)
            if bad := [a for a in every if not 0 <= a < end]:
                known = f"is not in 0 .. {end - 1}" if end else "of an array without axes"
                return AxisError(f"{p.name} {bad[0]} {known}")
        elif p.kind == "Shape" and any(type(n) is not int or n < 0 for n in value):
            return ShapeError(f"{p.name} {value} is not made of non-negative ints")
        elif p.kind == "DType" and value not in dtypes:
            return DTypeError(f"{p.name} {value}, which the backend does not have")
    return None


def _listed(kinds: str) -> str:
    # "a floating or complex dtype"
    found = [name for letters, name in _KIND_NAMES.items() if letters in kinds]
    *first, last = found
    words = f"{', '.join(first)} or {last}" if first else last
    return f"{'an' if words[0] in 'aeiou' else 'a'} {words} dtype"


class Preconditions(Wrapper):
    """Refuses calls that no front end would make, before a backend is asked: of compositions from
    outside, which have none in front of their pieces."""

    watches = True

    def call(self, operation: Operation, /, *arguments: Any, **options: Any) -> Any:
        name, backend = operation.name, operation.backend
        problem = request(name, arguments, options, backend.dtypes)
        if problem is not None:
            raise type(problem)(f"[{name}] {problem}")
        if backend.has_values and not operation.composed:
            try:
                rule(name, arguments, options)
            except NoDataError:
                return operation.run(*arguments, **options)  # the shape depends on data
        return operation.run(*arguments, **options)


def answer(name: str, arguments: tuple[Any, ...], options: Options, result: Any) -> str:
    """What the backend did wrong in answering: another shape, dtype or device than the rule's."""
    if name == "to_host":
        whole = isinstance(result, memoryview) and result.readonly and result.format == "B"
        return "" if whole else "to_host must give read-only bytes"
    results = list(result) if isinstance(result, (list, tuple)) else [result]
    for part in results:
        if not isinstance(part, TensorAdapter):
            return f"gave a {type(part).__name__}, which is no TensorAdapter"
    if name == "nonzero":
        fine = len(results) == len(arguments[0].shape)
        fine = fine and all(r.dtype.name == "int64" and len(r.shape) == 1 for r in results)
        return "" if fine else "nonzero must give one int64 array of one axis per axis"
    try:
        ruled = rule(name, arguments, options)
    except NoDataError:
        return ""  # the shape depends on data
    wanted = list(ruled) if isinstance(ruled, (list, tuple)) else [ruled]
    if len(results) != len(wanted):
        return f"gave {len(results)} results, the rule says {len(wanted)}"
    for got, want in zip(results, wanted, strict=True):
        if (got.shape, got.dtype, got.device) != (want.shape, want.dtype, want.device):
            return f"gave {describe(got)}, the rule says {describe(want)}"
    return ""


def rule(name: str, arguments: tuple[Any, ...], options: Options) -> Any:
    """What the shape and dtype rule gives for these arguments: values without data. Raises what a
    user would see for arguments that do not fit, NoDataError where the shape depends on data."""
    from fl_tensor.dispatch.registry import null_backend

    null = null_backend()
    return getattr(null, name)(
        *null.like(arguments), **{k: null.like(v) for k, v in options.items()}
    )
