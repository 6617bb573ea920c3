"""Conversion of module inputs.

Foreign arrays are converted to the dtype of the parameters. Tensors of double precision are refused
where the parameters have less.
"""

from __future__ import annotations

from array import array
from typing import Any

import fl_autograd as ag
import fl_tensor as ft
from fl_nn.parameter import Parameter
from fl_nn.tree import ModuleTree, members
from fl_tensor import dtypes

#: Classes of inputs that nothing has to be done with.
PLAIN = frozenset({type(None), bool, int, float, str})
#: How deep inputs may be nested for their first element to be looked for.
_DEPTH = 16


def convert_inputs(
    module: ModuleTree, inputs: tuple[Any, ...], options: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The inputs and options of a call of `module` as `forward` gets them.

    Arrays of other libraries and nested lists of floats become Tensors beside the parameters, where
    the module or one below it has some; in the first place nested lists of integers, too. Floating
    values get the dtype of the first floating parameter, complex ones the complex dtype of that
    precision; integers and bools keep theirs. Arrays in lists and tuples are read. The option
    `lengths` and everything else stay as they are.

    Raises DTypeError for a float64 or complex128 Tensor where the parameters of `module` itself
    have less precision, unless `autocast` is active.
    """
    like = next((p for p in module.parameters() if p.dtype.is_floating), None)
    if like is None:
        return inputs, options
    read = tuple(_converted(module, i, x, like) for i, x in enumerate(inputs))
    return read, {
        name: x if name == "lengths" else _converted(module, name, x, like)
        for name, x in options.items()
    }


def _converted(module: ModuleTree, place: Any, x: Any, like: Parameter) -> Any:
    if isinstance(x, ft.Array):
        _check(module, place, x)
        return x
    if type(x) in (list, tuple):
        first = _first(x)
        if isinstance(first, (float, complex)) or (place == 0 and isinstance(first, int)):
            return _read(x, like, like.dtype if isinstance(first, float) else None)
        if isinstance(first, ft.Array) or _is_array(first):
            return type(x)(_converted(module, place, part, like) for part in x)
    return _read(x, like) if _is_array(x) else x


def _first(x: Any) -> Any:
    for _ in range(_DEPTH):
        if not isinstance(x, (list, tuple)) or not x:
            break
        x = x[0]
    return x


def _is_array(x: Any) -> bool:
    # Of another library, with an axis: its scalars are numbers.
    known = any(hasattr(x, p) for p in ("__dlpack__", "__array__", "__array_interface__"))
    return (known and getattr(x, "shape", ()) != ()) or isinstance(x, (array, memoryview))


def _read(x: Any, like: Parameter, dtype: ft.DType | None = None) -> Any:
    try:
        found = ft.asarray(x, dtype, like.device, like.backend)
    except (ft.DTypeError, ft.ShapeError):
        return x  # text, ragged lists: `forward` knows what to do with them
    if found.dtype.is_floating:
        return found.astype(like.dtype)
    return found.astype(dtypes.complex_of(like.dtype)) if found.dtype.kind == "c" else found


def _check(module: ModuleTree, place: Any, x: ft.Array) -> None:
    if x.dtype is not ft.float64 and x.dtype is not ft.complex128:
        return
    own = (p.dtype for _, p in members(module) if isinstance(p, Parameter) and p.dtype.is_floating)
    narrow = next((dtype for dtype in own if dtype is not ft.float64), None)
    if narrow is None or ag.is_autocast_enabled():
        return
    name = f"input {place}" if isinstance(place, int) else place
    fitting = dtypes.complex_of(narrow) if x.dtype.kind == "c" else narrow
    raise ft.DTypeError(
        f"[{type(module).__name__}] {name} is {x.dtype} and the parameters are {narrow}: cast the "
        f'input, x.astype("{fitting}"), or compute in double precision, model.astype("float64")'
    )
