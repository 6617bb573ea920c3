"""What the front end and a backend promise one another, as functions that look at one call.

Each answers in words what is broken, or with "". ``ft.check`` asks them in a running program, the
conformance kit in its tests.
"""

from __future__ import annotations

from typing import Any

from fl_tensor.backend import TensorAdapter
from fl_tensor.calls import Options, adapters, describe, given, parameters
from fl_tensor.dtypes import DType
from fl_tensor.errors import NoDataError

#: Roles of arrays that have been promoted to one dtype (``fl_tensor.roles``).
_PROMOTED = tuple("PNFI")


def request(
    name: str, arguments: tuple[Any, ...], options: Options, dtypes: frozenset[DType]
) -> str:
    """What the front end (or a composition) did wrong in asking a backend that has ``dtypes``:
    operands that do not agree, axes out of range, shapes that are none."""
    named = given(name, arguments, options)
    arrays = adapters(named.values())
    if foreign := sorted({str(x.dtype) for x in arrays if x.dtype not in dtypes}):
        return f"operands of {', '.join(foreign)}, which the backend does not have"
    agreeing = adapters(
        named[p.name] for p in parameters(name) if p.role in _PROMOTED and p.name in named
    )
    if len(found := sorted({str(x.dtype) for x in agreeing})) > 1:
        return f"operands of several dtypes: {', '.join(found)}"
    rank = len(arrays[0].shape) if arrays else 0
    for p in parameters(name):
        if p.name not in named:
            continue
        value = named[p.name]
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
    from fl_tensor.dispatch import null_backend

    null = null_backend()
    return getattr(null, name)(
        *null.like(arguments), **{k: null.like(v) for k, v in options.items()}
    )
