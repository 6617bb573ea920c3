"""The interpreter of kernels: Python itself, with int64 arithmetic and every index checked.

A function is compiled by Python from the tree of its definition, in which integer operations wrap
and arrays are ``CheckedArray``. File and lines are those of the source, so that debuggers and
tracebacks show it.
"""

from __future__ import annotations

import ast
import math
from collections import namedtuple
from collections.abc import Callable, Iterator
from typing import Any

from fl_memory import buffers
from fl_tensor.errors import IndexingError, KernelArithmeticError
from fl_tensor.kernels.binding import FORMATS
from fl_tensor.kernels.definition import Definition
from fl_tensor.kernels.expressions import wrapped
from fl_tensor.kernels.types import BOOL, INT, ArrayType, RecordType, Type

__all__ = ["CheckedArray", "interpreted"]

_HALF, _ALL = 1 << 63, (1 << 64) - 1


class CheckedArray:
    """An array of a kernel in the interpreter: reading and writing outside it is an error."""

    __slots__ = ("_data", "_dtype", "_length", "_name", "_wraps")

    def __init__(self, name: str, kind: ArrayType, address: int, length: int) -> None:
        dtype = kind.dtype
        self._name, self._dtype, self._length = name, dtype, length
        self._wraps = dtype.name == "uint64"
        if length:
            view = buffers.view(address, length * dtype.itemsize, None)
            self._data: Any = view.cast(FORMATS[dtype.name])  # type: ignore[call-overload]

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> Any:
        if not 0 <= index < self._length:
            raise self._outside(index)
        found = self._data[index]
        return wrapped(found) if self._wraps else found

    def __setitem__(self, index: int, value: Any) -> None:
        if not 0 <= index < self._length:
            raise self._outside(index)
        try:
            self._data[index] = value & _ALL if self._wraps else value
        except ValueError:
            raise KernelArithmeticError(
                f"[kernel] {self._name}[{index}] = {value}: the array is {self._dtype}"
            ) from None
        except OverflowError:  # float32
            self._data[index] = math.copysign(math.inf, value)

    def __iter__(self) -> Iterator[Any]:
        return map(self.__getitem__, range(self._length))

    def _outside(self, index: int) -> IndexingError:
        return IndexingError(
            f"[kernel] {self._name}[{index}]: the array has {self._length} elements"
        )

    def __repr__(self) -> str:
        shown = ", ".join(str(self[i]) for i in range(min(self._length, 8)))
        more = ", ..." if self._length > 8 else ""
        return f"{self._name}: Array[{self._dtype}]([{shown}{more}], {self._length} elements)"


def interpreted(definition: Definition) -> Callable[..., Any]:
    """The definition as a function of flat numbers, as compilers make it, see
    ``KernelCompiler.compile``."""
    function = _function(definition, {})
    takes = [_taking(p.name, p.type) for p in definition.parameters]

    def run(*numbers: int | float) -> Any:
        left = iter(numbers)
        return function(*[take(left) for take in takes])

    return run


def _taking(name: str, kind: Type) -> Callable[[Iterator[Any]], Any]:
    """A function that takes the numbers of one argument, and returns what the kernel gets."""
    if isinstance(kind, ArrayType):
        return lambda left: CheckedArray(name, kind, next(left), next(left))
    if isinstance(kind, RecordType):
        names = [field for field, _ in kind.fields]
        record: Any = namedtuple(kind.name, names)  # type: ignore[misc]
        takes = [_taking(f"{name}.{field}", of) for field, of in kind.fields]
        return lambda left: record(*[take(left) for take in takes])
    if kind == BOOL:
        return lambda left: bool(next(left))
    return next


def _function(definition: Definition, done: dict[int, Any]) -> Any:
    """The function that Python runs; callees are made once."""
    found = done.get(id(definition))
    if found is None:
        names: dict[str, Any] = {**_RUNTIME, **definition.constants}
        names["__name__"] = definition.module
        for name, callee in definition.callees.items():
            names[name] = _function(callee, done)
        module = ast.Module([_Checking(definition).node(definition.tree)], [])
        exec(compile(ast.fix_missing_locations(module), definition.file, "exec"), names)
        found = done[id(definition)] = names[definition.tree.name]
    return found


class _Checking:
    """Copies a tree, with what checks and wraps put in. The names of ``_RUNTIME`` begin with a dot,
    so that none of the source is the same."""

    def __init__(self, definition: Definition) -> None:
        self._definition = definition

    def node(self, node: Any) -> Any:
        if isinstance(node, list):
            return [self.node(n) for n in node]
        if not isinstance(node, ast.AST):
            return node
        fields = {name: self.node(value) for name, value in ast.iter_fields(node)}
        made: Any = ast.copy_location(type(node)(**fields), node)
        if isinstance(node, ast.BinOp):
            return self._operation(node, made)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return self._wrap(made) if self._is_int(node) else made
        if isinstance(node, ast.Call):
            return self._call(node, made)
        if isinstance(node, ast.For):
            made.iter.func = _name("range", node)
        return made

    def _is_int(self, node: ast.expr) -> bool:
        return self._definition.type_of(node) == INT

    def _operation(self, node: ast.BinOp, made: Any) -> Any:
        kind = type(node.op)
        if kind is ast.Div or kind in (ast.FloorDiv, ast.Mod, ast.LShift, ast.RShift):
            called = ast.Call(_name(kind.__name__, node), [made.left, made.right], [])
            return ast.copy_location(called, node)
        if kind in (ast.Add, ast.Sub, ast.Mult) and self._is_int(node):
            return self._wrap(made)
        return made

    def _wrap(self, made: Any) -> Any:
        # (x + 2**63 & 2**64 - 1) - 2**63, in place of a call: it is most of the time of a kernel
        half, every = ast.Constant(_HALF), ast.Constant(_ALL)
        lifted = ast.BinOp(ast.BinOp(made, ast.Add(), half), ast.BitAnd(), every)
        return ast.copy_location(ast.BinOp(lifted, ast.Sub(), half), made)

    def _call(self, node: ast.Call, made: Any) -> Any:
        if isinstance(node.func, ast.Attribute):
            made.func = _name(node.func.attr, node)
        elif isinstance(node.func, ast.Name) and node.func.id not in self._definition.callees:
            made.func = _name(node.func.id, node)
        return made


def _name(name: str, like: ast.AST) -> ast.expr:
    return ast.copy_location(ast.Name(f".{name}", ast.Load()), like)


# ---- what the operations mean ------------------------------------------------------------------


def _divide(x: float, y: float) -> float:
    if y:
        return x / y
    if x != x or x == 0:
        return math.nan
    return math.copysign(math.inf, x) * math.copysign(1.0, y)


def _floor_divide(x: int, y: int) -> int:
    if not y:
        raise KernelArithmeticError(f"[kernel] {x} // 0: division by zero")
    return wrapped(x // y)


def _modulo(x: int, y: int) -> int:
    if not y:
        raise KernelArithmeticError(f"[kernel] {x} % 0: division by zero")
    return x % y


def _left_shift(x: int, count: int) -> int:
    if count < 0:
        raise KernelArithmeticError(f"[kernel] {x} << {count}: a shift by a negative count")
    return wrapped(x << count) if count < 64 else 0


def _right_shift(x: int, count: int) -> int:
    if count < 0:
        raise KernelArithmeticError(f"[kernel] {x} >> {count}: a shift by a negative count")
    return x >> count


def _truncate(x: Any) -> int:
    try:
        found = int(x)
    except (ValueError, OverflowError):
        found = _HALF  # NaN, or infinite
    if not -_HALF <= found < _HALF:
        raise KernelArithmeticError(f"[kernel] int({x}): no int64 holds it")
    return found


def _absolute(x: Any) -> Any:
    return wrapped(abs(x)) if type(x) is int else abs(x)


def _exponential(x: float) -> float:
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf


def _logarithm(x: float) -> float:
    return math.log(x) if x > 0 else -math.inf if x == 0 else math.nan


def _logarithm_1p(x: float) -> float:
    return math.log1p(x) if x > -1 else -math.inf if x == -1 else math.nan


def _square_root(x: float) -> float:
    return math.sqrt(x) if x >= 0 else math.nan


_RUNTIME: dict[str, Any] = {
    ".Div": _divide, ".FloorDiv": _floor_divide, ".Mod": _modulo, ".LShift": _left_shift,
    ".RShift": _right_shift, ".int": _truncate, ".float": float, ".abs": _absolute, ".min": min,
    ".max": max, ".len": len, ".range": range, ".exp": _exponential, ".log": _logarithm,
    ".log1p": _logarithm_1p, ".sqrt": _square_root,
}  # fmt: skip
