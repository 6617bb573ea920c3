"""What the front end and a backend promise one another, as functions that look at one call.

Each answers in words what is broken, or with "". ``ft.check`` asks them in a running program, the
conformance kit in its tests.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from fl_tensor.backend import TensorAdapter
from fl_tensor.dtypes import DType
from fl_tensor.errors import NoDataError


class _Parameter(NamedTuple):
    name: str
    kind: str  # the annotation: "Axis", "Shape", ...
    promoted: bool  # an array that agrees in dtype with the others


@functools.cache
def _parameters(name: str) -> tuple[_Parameter, ...]:
    from fl_tensor import contract

    found = {op.name: op for op in contract.OPERATIONS}.get(name)
    if found is None:  # constant, scalar
        return ()
    return tuple(
        _Parameter(p.name, str(p.annotation), contract.role(p) in tuple("PNFI"))
        for p in found.parameters
    )


def adapters(values: Iterable[Any]) -> list[Any]:
    """The adapters among arguments or results, those in lists and tuples included, in order."""
    found: list[Any] = []
    for value in values:
        if isinstance(value, TensorAdapter):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += [v for v in value if isinstance(v, TensorAdapter)]
    return found


def operands(
    name: str, arguments: tuple[Any, ...], options: Mapping[str, Any]
) -> list[tuple[str, Any]]:
    """The adapters with the names that messages use: ``x``, ``xs[1]``."""
    found = []
    for label, value in _given(name, arguments, options).items():
        if isinstance(value, TensorAdapter):
            found.append((label, value))
        else:
            found += [(f"{label}[{i}]", v) for i, v in enumerate(adapters((value,)))]
    return found


def _given(name: str, arguments: tuple[Any, ...], options: Mapping[str, Any]) -> dict[str, Any]:
    names = [p.name for p in _parameters(name)] or ["value", "like"]
    return {**dict(zip(names, arguments, strict=False)), **options}


def request(
    name: str, arguments: tuple[Any, ...], options: Mapping[str, Any], dtypes: frozenset[DType]
) -> str:
    """What the front end (or a composition) did wrong in asking a backend that has ``dtypes``:
    operands that do not agree, axes out of range, shapes that are none."""
    parameters = _parameters(name)
    given = _given(name, arguments, options)
    arrays = adapters(given.values())
    if foreign := sorted({str(x.dtype) for x in arrays if x.dtype not in dtypes}):
        return f"operands of {', '.join(foreign)}, which the backend does not have"
    agreeing = adapters(given[p.name] for p in parameters if p.promoted and p.name in given)
    if len(found := sorted({str(x.dtype) for x in agreeing})) > 1:
        return f"operands of several dtypes: {', '.join(found)}"
    rank = len(arrays[0].shape) if arrays else 0
    for p in parameters:
        if p.name not in given:
            continue
        value = given[p.name]
        if p.kind in ("Axis", "Axes", "NewAxis"):
            end = rank + (p.kind == "NewAxis")
            every = value if isinstance(value, tuple) else (value,)
            if bad := [a for a in every if not 0 <= a < end]:
                return f"{p.name} {bad[0]} is not in 0 .. {end - 1}"
        elif p.kind == "Shape" and any(type(n) is not int or n < 0 for n in value):
            return f"{p.name} {value} is not made of non-negative ints"
        elif p.kind == "DType" and value not in dtypes:
            return f"{p.name} {value}, which the backend does not have"
    return ""


def answer(name: str, arguments: tuple[Any, ...], options: Mapping[str, Any], result: Any) -> str:
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


def rule(name: str, arguments: tuple[Any, ...], options: Mapping[str, Any]) -> Any:
    """What the shape and dtype rule gives for these arguments: values without data. Raises what a
    user would see for arguments that do not fit, NoDataError where the shape depends on data."""
    from fl_tensor.dispatch import null_backend

    null = null_backend()
    return getattr(null, name)(
        *null.like(arguments), **{k: null.like(v) for k, v in options.items()}
    )


def describe(x: Any) -> str:
    """``float32(2, 3) on cpu``."""
    return f"{x.dtype}{tuple(x.shape)} on {x.device}"
