"""``ft.check``: detection of NaN, infinities and violations of the contract."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping
from typing import Any

from fl_tensor import dtypes
from fl_tensor.arguments import flag_of
from fl_tensor.dispatch import calls, preconditions
from fl_tensor.dispatch.stack import Operation, Wrapper
from fl_tensor.errors import BackendError, NonFiniteError
from fl_tensor.wrappers import caller

_FORMATS = {"float16": "e", "float32": "f", "float64": "d", "complex64": "2f", "complex128": "2d"}


class check(Wrapper):
    """``with ft.check():`` looks at every operation of the block, backward and optimizers included.

    nan       NonFiniteError for any result with a NaN
    inf       NonFiniteError for a result with an infinity that no operand had: one that was made
              here, by overflow or a division by zero (infinities that are passed on, or asked for
              as in ``full(2, -inf)``, are often meant: masks, starts of a maximum)
    contract  BackendError where the backend's result is not of the rule's shape, dtype and device,
              or the front end asked for what it promises not to
    operands  BackendError where an operation changed an operand (its bytes are read before and
              after: the dearest of the checks)

    A message names the operation, its operands and what they had already, the composition that it
    is a part of, and the user's line. Results are read at once, so an asynchronous backend waits
    after every operation. Donated operands are not overwritten in the block.
    """

    watches = True

    def __init__(
        self, nan: bool = True, inf: bool = True, contract: bool = True, operands: bool = True
    ) -> None:
        self.nan = flag_of("check", nan, "nan")
        self.inf = flag_of("check", inf, "inf")
        self.contract = flag_of("check", contract, "contract")
        self.operands = flag_of("check", operands, "operands")
        self._thread = _Thread()

    def call(self, operation: Operation, /, *arguments: Any, **options: Any) -> Any:
        if operation.composed:  # the pieces are looked at
            self._thread.inside.append(operation.name)
            try:
                return operation.run(*arguments, **options)
            finally:
                self._thread.inside.pop()
        name, backend = operation.name, operation.backend
        if self.contract:
            problem = preconditions.request(name, arguments, options, backend.dtypes)
            if problem is not None:
                raise BackendError(f"[{name}] front end: {problem}{self._place()}")
        before = self._prints(operation, arguments, options)
        result = operation.run(*arguments, **options)
        if self.contract:
            broken = preconditions.answer(name, arguments, options, result)
            if broken:
                raise BackendError(f"[{name}] backend {backend.name!r}: {broken}{self._place()}")
        if before and before != self._prints(operation, arguments, options):
            raise BackendError(
                f"[{name}] backend {backend.name!r}: an operand was changed by the call: "
                f"{_listed(name, arguments, options)}{self._place()}"
            )
        if backend.has_values:
            for x in calls.adapters((result,)):
                if (self.nan or self.inf) and not _surely_finite(backend, x):
                    self._look(operation, arguments, options, x)
        return result

    def _look(
        self, operation: Operation, arguments: tuple[Any, ...], options: Mapping[str, Any], x: Any
    ) -> None:
        backend, name = operation.backend, operation.name
        numbers = [v for v in (*arguments, *options.values()) if isinstance(v, (float, complex))]
        given = calls.operands(name, arguments, options)
        for what, test, wanted in (("NaN", "isnan", self.nan), ("infinity", "isinf", self.inf)):
            found = _count(backend, test, x) if wanted else 0
            if not found or any(_matches(test, number) for number in numbers):
                continue
            had = [bool(_count(backend, test, v)) for _, v in given]
            if what == "infinity" and (any(had) or name == "from_host"):
                continue
            lines = [
                f"\n    {label} {calls.describe(v)}: "
                + (f"has {what} already" if bad else f"no {what}")
                + _other(backend, what, v)
                for (label, v), bad in zip(given, had, strict=True)
            ]
            raise NonFiniteError(
                f"[{name}] {what} in {found} of {math.prod(x.shape)} elements of the result "
                f"{calls.describe(x)}{''.join(lines)}{self._place()}"
            )

    def _prints(
        self, operation: Operation, arguments: tuple[Any, ...], options: Mapping[str, Any]
    ) -> list[int]:
        # A checksum per operand, without one that is given up.
        backend = operation.backend
        if not self.operands or not backend.has_values:
            return []
        import zlib

        given = calls.adapters((*arguments, *options.values()))
        if operation.name in ("scatter", "slice_update") and (
            options.get("donate") or arguments[-1] is True
        ):
            del given[0]
        return [zlib.crc32(backend.to_host(x)) for x in given]

    def _place(self) -> str:
        inside, line = self._thread.inside, caller.line()
        return (f"\n    inside {' > '.join(inside)}" if inside else "") + (
            f"\n    at {line}" if line else ""
        )


class _Thread(threading.local):
    def __init__(self) -> None:
        self.inside: list[str] = []  # compositions that are running, outermost first


def _listed(name: str, arguments: tuple[Any, ...], options: Mapping[str, Any]) -> str:
    given = calls.operands(name, arguments, options)
    return ", ".join(f"{label} {calls.describe(x)}" for label, x in given)


def _axes(x: Any) -> tuple[int, ...]:
    return tuple(range(len(x.shape)))


def _surely_finite(backend: Any, x: Any) -> bool:
    # One pass: a sum is finite only if all terms are (and may overflow where they are).
    if x.dtype.kind not in "fc":
        return True
    total = backend.sum(x, _axes(x))
    if x.dtype.name not in _FORMATS:
        total = backend.cast(total, dtypes.float32)
    return all(map(math.isfinite, _read(backend, total, _FORMATS[total.dtype.name])))


def _count(backend: Any, test: str, x: Any) -> int:
    if x.dtype.kind not in "fc" or _surely_finite(backend, x):
        return 0
    hits = backend.count_nonzero(getattr(backend, test)(x), _axes(x))
    return int(_read(backend, hits, "q")[0])


def _read(backend: Any, x: Any, form: str) -> tuple[float, ...]:
    import struct

    return struct.unpack(form, backend.to_host(x))


def _matches(test: str, number: complex) -> bool:
    parts = (number.real, number.imag)
    return any(map(math.isnan if test == "isnan" else math.isinf, parts))


def _other(backend: Any, what: str, x: Any) -> str:
    # A NaN is often made of infinities: inf - inf, 0 * inf.
    return ", has infinity" if what == "NaN" and _count(backend, "isinf", x) else ""
