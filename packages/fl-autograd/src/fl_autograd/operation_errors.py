"""Messages for errors of an operation or a rule with numbers, tensors or NumPy's calls in it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from fl_tensor import Array, Operation, TensorAdapter, Wrapper, contract
from fl_tensor.array_classes import VALUES
from fl_tensor.errors import BackendError, DTypeError, FlError

_OPERANDS = {op.name: ([p.name for p in op.parameters], op.operands) for op in contract.OPERATIONS}


def explain(where: str, error: Exception, again: Callable[[], Any]) -> Exception:
    """The error to raise for a failed operation ``where``, which ``again`` computes once more: ours
    for what is no backend's value, else the error itself."""
    try:
        with _Operands(where):
            again()
    except FlError as better:
        return better
    except Exception:
        pass
    if str(error).startswith(f"[{where}] "):  # its result is no value
        numpy = " gave a ndarray" in str(error)
        way = ": write ops.exp(x), not np.exp(x), or give the array to ops.from_host"
        return BackendError(str(error) + way * numpy)
    named = set(re.findall(r"\w+", str(error))) & {kind.__name__ for kind in VALUES}
    if named or str(error).startswith("a value of backend "):
        return DTypeError(
            f"[{where}] {error}: a backend's value has no operators and methods; write "
            f"ops.multiply(x, ops.constant(2.0, x)) for 2.0 * x, ops.exp(x) for ft.exp(x)"
        )
    return error


class _Operands(Wrapper):
    """Refuses operands that are no values of a backend."""

    def __init__(self, where: str) -> None:
        self._where = where

    def call(self, operation: Operation, /, *arguments: Any, **options: Any) -> Any:
        parameters, operands = _OPERANDS[operation.name]
        given = dict(zip(parameters, arguments)) | options
        for name in operands:
            value = given.get(name)
            for part in value if isinstance(value, (list, tuple)) else (value,):
                if part is not None and not isinstance(part, TensorAdapter):
                    raise DTypeError(self._refusal(operation.name, name, part))
        return operation.run(*arguments, **options)

    def _refusal(self, operation: str, name: str, value: Any) -> str:
        what = f"[{self._where}] ops.{operation}: {name} is a {type(value).__name__}"
        if isinstance(value, Array):
            return f"{what}, expected a backend's value: use functions of ops in place of ft's"
        if isinstance(value, (bool, int, float, complex)):
            return f"{what}: write ops.constant({value!r}, x), x being the operand beside it"
        return f"{what}, expected a backend's value, as functions of ops give it"
