"""The front end between public functions and operations: conversion, promotion, errors."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any, TypeAlias

from fl_memory.errors import OutOfMemoryError
from fl_tensor import dtypes
from fl_tensor.arguments import SCALARS, scalar
from fl_tensor.arrays.value import ArrayValue
from fl_tensor.backend import TensorAdapter
from fl_tensor.capabilities import not_offered
from fl_tensor.dispatch import registry, stack
from fl_tensor.dtypes import DType
from fl_tensor.errors import (
    ArgumentError,
    BackendError,
    DTypeError,
    FlError,
    NoDataError,
    ShapeError,
)

#: A Tensor or Variable, a Python scalar, nested lists, or anything with a buffer or DLPack.
ArrayLike: TypeAlias = Any

#: Kinds of dtype that an operand of a role has without being cast.
KINDS = {"A": "biufc", "P": "biufc", "N": "iufc", "F": "fc", "I": "biu", "Z": "iu"}
KINDS |= {"Q": "biuf", "R": "iuf", "S": "f"}
# As names of this module they are found at once.
new, layers = object.__new__, stack.current
KINDS |= {role.lower(): kinds for role, kinds in KINDS.items()}


def raw(x: ArrayValue | None) -> Any:
    return None if x is None else x._raw


def run(op: str, lead: ArrayValue, *arguments: Any) -> Any:
    """Run an operation in the namespace of ``lead`` and wrap what comes out."""
    backend = lead._backend
    plain = lead._is_handle and layers() is None
    ops = backend if plain else lead._ops()  # a call less in the usual case
    if not backend.checks_shapes:
        check(op, backend, arguments)
    try:
        result = getattr(ops, op)(*arguments)
    except FlError:
        raise
    except Exception as error:
        raise explain(op, lead, arguments, error) from error
    if type(result) not in VALUES:
        try:
            if isinstance(result, (tuple, list)):
                wrapped = [lead._wrap(answer(op, backend, r)) for r in result]
                return wrapped if isinstance(result, list) else tuple(wrapped)
            answer(op, backend, result)
        except BackendError as error:
            raise explain(op, lead, arguments, error) from None
    if plain:
        made: Any = new(type(lead))
        made._adapter = result
        made._backend = backend
        return made
    made = lead._wrap(result)
    return same_value(made) if made is lead else made


#: While a function is captured: what takes the place of an array from outside (``graph.capture``).
ADOPT: ContextVar[Callable[[ArrayValue], ArrayValue] | None] = ContextVar(
    "fl_tensor_adopt", default=None
)
#: The classes of results seen so far that are values of a backend or of a tape.
VALUES: set[type] = set()


def answer(op: str, backend: Any, result: Any) -> Any:
    """What a backend gave for an operation. Raises BackendError if it is no TensorAdapter."""
    kind = type(result)
    if kind not in VALUES:
        if not issubclass(kind, (TensorAdapter, ArrayValue)):
            lost = ": is a return missing?" if result is None else ""
            raise BackendError(
                f"[{op}] backend {backend.name!r} gave a {kind.__name__}, expected a "
                f"TensorAdapter{lost}"
            )
        VALUES.add(kind)
    return result


def check(op: str, backend: Any, arguments: tuple[Any, ...]) -> None:
    """Raise what the shape rule of ``op`` says about these arguments; data is not looked at."""
    null = registry.null_backend()
    if backend is null:
        return
    try:
        getattr(null, op)(*null.like(arguments))
    except NoDataError:
        return  # the result's shape depends on data: there is nothing to check beforehand


class Answers(stack.Wrapper):
    """Refuses what is no value where it comes from: inside a composition or a gradient rule. For
    computing once more what has failed."""

    def call(self, operation: stack.Operation, /, *arguments: Any, **options: Any) -> Any:
        result = operation.run(*arguments, **options)
        for part in result if isinstance(result, (tuple, list)) else (result,):
            if not isinstance(part, memoryview):
                answer(operation.name, operation.backend, part)
        return result


def explain(op: str, lead: ArrayValue, arguments: tuple[Any, ...], error: Exception) -> Exception:
    """The error to raise for a failed operation: what its shape rule says, what the backend gave
    instead of a value, that the result is too large, or the error itself."""
    try:
        check(op, lead._backend, arguments)
        if isinstance(error, (AttributeError, TypeError, ValueError, BackendError)):
            with Answers():
                getattr(lead._ops(), op)(*arguments)
    except FlError as better:
        return better
    except Exception:
        pass
    return too_large(op, lead._backend, arguments, error) or error


def too_large(
    op: str, backend: Any, arguments: tuple[Any, ...], error: Exception
) -> FlError | None:
    """The error for a result with more axes than the backend has, or more bytes than the machine;
    None where ``error`` has another reason."""
    null = registry.null_backend()
    try:
        made = getattr(null, op)(*null.like(arguments))
    except Exception:
        return None
    for result in made if isinstance(made, (tuple, list)) else (made,):
        if backend.max_ndim is not None and len(result.shape) > backend.max_ndim:
            return ShapeError(
                f"[{op}] the result has {len(result.shape)} axes: backend {backend.name!r} has at "
                f"most {backend.max_ndim}"
            )
        nbytes = math.prod(result.shape) * result.dtype.itemsize
        if isinstance(error, MemoryError) or nbytes > sys.maxsize:
            hint = f"{op} gives {result.shape} of {result.dtype}"
            return OutOfMemoryError(nbytes, str(result.device), hint=hint)
    return None


def unary(op: str, role: str, x: ArrayLike) -> Any:
    if isinstance(x, ArrayValue) and (raw := x._raw).dtype.kind in KINDS[role]:
        return run(op, x, raw)
    (x,) = operands_of(op, role, x)
    return run(op, x, x._raw)


def binary(op: str, role: str, x: ArrayLike, y: ArrayLike) -> Any:
    if isinstance(x, ArrayValue) and x.dtype.kind in KINDS[role]:
        # The usual cases need no preparing: two arrays alike, or a float array and a number.
        if isinstance(y, ArrayValue) and x._operand_class is y._operand_class:
            if x.dtype is y.dtype and x._backend is y._backend:
                return run(op, x, x._raw, y._raw)
        elif x.dtype.is_floating and (type(y) is float or type(y) is int):
            if x._promoted(op, x.dtype) is x.dtype:
                return run(op, x, x._raw, x._constant(scalar(op, y, x.dtype), x.dtype)._raw)
    x, y = operands_of(op, role * 2, x, y)
    return run(op, x, x._raw, y._raw)


def operand(op: str, role: str, x: ArrayLike) -> Any:
    """As ``operands_of``, of one."""
    if isinstance(x, ArrayValue) and (role == "A" or x.dtype.kind in KINDS[role]):
        return x
    return operands_of(op, role, x)[0]


def prepare_all(op: str, role: str, xs: Sequence[ArrayLike]) -> list[Any]:
    if type(xs) is not list and (not isinstance(xs, Sequence) or isinstance(xs, str)):
        raise DTypeError(f"[{op}] expected a sequence of arrays, got {type(xs).__name__}")
    if not xs:
        raise ArgumentError(f"[{op}] expected at least one array")
    return operands_of(op, role * len(xs), *xs)


def prepare(op: str, roles: str, *operands: ArrayLike) -> list[Any]:
    """As ``operands_of``, for an operation whose operands may all be None."""
    return operands_of(op, roles.lower(), *operands)


def operands_of(op: str, roles: str, *operands: ArrayLike) -> list[Any]:
    """The operands as arrays of one class on one backend, promoted as their roles ask.

    ``roles`` has a letter per operand, see ``fl_tensor.roles``; a small letter lets the operand be
    None, which stays None. Raises DTypeError for what is no array.
    """
    # The usual case in one pass, without a call: arrays of one backend and one dtype.
    lead: Any = None
    common, mixed = None, False
    for role, x in zip(roles, operands):
        if not isinstance(x, ArrayValue):
            if x is None and role in "apnfizqrs":
                continue
            break
        if lead is None:
            lead, backend = x, x._backend
        elif x._backend is not backend:
            break
        elif x._operand_class is not lead._operand_class:
            mixed = True
            lead = x if x._priority > lead._priority else lead
        if role not in "Aa":
            dtype = x._adapter.dtype
            if common is None and dtype.kind in KINDS[role]:
                common = dtype
            elif dtype is not common:
                break
    else:
        arrays = list(operands)
        if mixed:
            for i, x in enumerate(arrays):
                if x is not None and x._operand_class is not lead._operand_class:
                    arrays[i] = lead._lift(x)
        return arrays
    return _promoted(op, roles, operands)


def apply_operation(name: str, roles: str, run: Callable[..., Any], *operands: ArrayLike) -> Any:
    """``run(ops, x, ...)`` applied to arrays in the way of the front end's functions.

    The operands are promoted as ``roles`` ask, a capital letter for each (``fl_tensor.roles``).
    ``run`` gets the namespace of operations of this context and an adapter per operand, and returns
    one adapter. The result is a Tensor, a Variable or what else the operands are. Messages begin
    with ``name``. Raises DTypeError for what is no array, BackendError for operands on several
    backends.
    """
    lead, *rest = operands_of(name, roles, *operands)
    return lead._wrap(run(lead._ops(), lead._raw, *[x._raw for x in rest]))


def _promoted(op: str, roles: str, operands: Sequence[ArrayLike]) -> list[Any]:
    # ``operands_of`` for operands that are not alike.
    adopt = ADOPT.get()
    if adopt is not None:
        operands = [adopt(x) if isinstance(x, ArrayValue) else x for x in operands]
    lead = _leader(op, roles, operands)
    roles = roles.upper()
    made: list[Any] = []
    found: list[DType] = []
    weak: list[int] = []
    for i, (role, x) in enumerate(zip(roles, operands, strict=True)):
        if isinstance(x, SCALARS) and role != "A":
            weak.append(i)
            made.append(x)
            continue
        if x is not None:
            x = _same_class(op, lead, x)
            if role != "A":
                found.append(x.dtype)
        made.append(x)
    group = [i for i, role in enumerate(roles) if role != "A" and made[i] is not None]
    if not group:
        return made
    common = dtypes.promote_all(found, op) if found else None
    common = _common(op, roles[group[0]], common, [made[i] for i in weak], lead)
    common = lead._promoted(op, common)
    if weak:
        supported(op, common, lead._backend)
    for i in group:
        x = made[i]
        if i in weak:
            made[i] = lead._constant(scalar(op, x, common), common)
        elif x.dtype is not common:
            made[i] = cast(x, common)
    return made


def converted(obj: Any, like: ArrayValue | None = None, dtype: DType | None = None) -> Any:
    """``asarray(obj)``, on the device and backend of ``like`` if there is one."""
    # The one import that runs upwards: operations take Python's numbers and lists, and it takes
    # operations to make arrays of these.
    from fl_tensor.functions.creation import asarray

    if like is None:
        return asarray(obj, dtype)
    return asarray(obj, dtype, like.device, like._backend)


def beside(x: ArrayLike, *others: Any) -> Any:
    """``x``, or for what is no array yet one on the device and backend of the first array among
    ``others``: those of an operand that is only read."""
    like = next((other for other in others if isinstance(other, ArrayValue)), None)
    return x if like is None or isinstance(x, ArrayValue) else converted(x, like)


def cast(x: ArrayValue, dtype: DType) -> Any:
    """``x`` in another dtype, which its backend must support and which must hold complex numbers if
    ``x`` does (DTypeError otherwise)."""
    if x.dtype is dtype:
        return x
    if x.dtype.kind == "c" and dtype.kind not in "bc":
        raise DTypeError(
            f"[cast] {x.dtype} to {dtype} would lose the imaginary part: take real(x), imag(x) or "
            f"absolute(x)"
        )
    supported("cast", dtype, x._backend)
    return x._wrap(answer("cast", x._backend, x._ops().cast(x._raw, dtype)))


def same_value(x: Any) -> Any:
    """Another handle on the value of ``x``: what a function returns that has nothing to do, so that
    an assignment to its result does not reach ``x``."""
    x.dtype  # noqa: B018 - raises where an assignment has taken the value out
    made = x._wrap(x._raw)
    return run("reshape", x, x._raw, x.shape) if made is x else made


def supported(op: str, dtype: DType, backend: Any) -> DType:
    """``dtype``, if the backend has it; DTypeError otherwise."""
    if dtype not in backend.dtypes:
        have = ", ".join(sorted(d.name for d in backend.dtypes))
        hint = backend.dtype_hints.get(dtype)
        raise DTypeError(
            f"[{op}] backend {backend.name!r} has no dtype {dtype}; it has {have}"
            + (f" ({dtype}: {hint})" if hint else "")
        )
    return dtype


def complex_for(op: str, x: ArrayValue, capability: str) -> DType:
    """The complex dtype beside that of ``x``, for an operation of ``capability`` that gives it;
    CapabilityError or DTypeError where the backend lacks the one or the other."""
    backend, dtype = x._backend, dtypes.complex_of(x.dtype)
    if dtype not in backend.dtypes and capability not in backend.capabilities:
        raise not_offered(op, backend, capability)
    return supported(op, dtype, backend)


def _leader(op: str, roles: str, operands: Sequence[Any]) -> ArrayValue:
    lead = None
    for i, x in enumerate(operands):
        if x is None and roles[i].isupper():
            raise DTypeError(
                f"[{op}] operand {i + 1} of {len(operands)} is None: expected an array or a number"
            )
        if isinstance(x, ArrayValue):
            if lead is None or x._priority > lead._priority:
                lead = x
            if x._backend is not lead._backend:
                raise registry.mixed(op, lead, x)
    if lead is None:
        lead = converted(next(x for x in operands if x is not None))
    return lead


def _same_class(op: str, lead: ArrayValue, x: Any) -> ArrayValue:
    if not isinstance(x, ArrayValue):
        x = converted(x, lead)
    return x if x._operand_class is lead._operand_class else lead._lift(x)


def _common(
    op: str, role: str, common: DType | None, scalars: list[Any], lead: ArrayValue
) -> DType:
    if common is None:
        common = dtypes.bool if isinstance(scalars[0], bool) else lead.dtype
        if lead.dtype.kind == "b" and not isinstance(scalars[0], bool):
            common = dtypes.of_number(type(scalars[0]))
    if role in "FS" and common.kind not in "fc":  # before the scalars, which need to fit it alone
        common = dtypes.default_float()
    for value in scalars:
        common = dtypes.result_for_scalar(common, value, op)
    if common.kind == "c" and role in "QRS":
        raise DTypeError(
            f"[{op}] operands are {common}: {op} is for real numbers; take absolute(x), real(x) or "
            f"imag(x)"
        )
    if role in "NR" and common.kind == "b":
        raise DTypeError(f"[{op}] operands are bool: use a logical operation, or astype first")
    if role == "I" and not (common.is_integer or common.kind == "b"):
        raise DTypeError(f"[{op}] operands are {common}: expected integers or bools")
    if role == "Z" and not common.is_integer:
        raise DTypeError(f"[{op}] operands are {common}: expected integers")
    return common
