"""The base of deferred backends: the deferral decision, and the trace that records operations."""

from __future__ import annotations

import functools
import inspect
import math
import threading
from collections.abc import Callable, Sequence
from typing import Any

from fl_jit.deferred.fast_paths import COMPUTED
from fl_jit.eager.backend import EagerBackend
from fl_jit.eager.prepacked import storage_of
from fl_jit.extensions.operations import Operation, Parameters
from fl_jit.planning.deferral_policy import DeferralPolicy
from fl_jit.planning.plan_cache import PlanCache
from fl_jit.steps.interpret import interpret
from fl_jit.traces.lazy import Lazy, Trace
from fl_tensor import Device
from fl_tensor.extend import Shape, settings
from fl_tensor.extend.numpy import Number, NumpyAdapter

Value = NumpyAdapter
#: Below it an operation costs less than recording it saves.
_MIN_SIZE = 8192


class DeferredBackend(EagerBackend):
    """The eager backend with one trace per thread and a plan cache. Derived classes defer
    operations: they call ``self._pending.record`` where ``self._should_defer(operands)``."""

    def __init__(self) -> None:
        super().__init__()
        #: Operations on at least this many elements are deferred.
        self.smallest = settings.number(
            "FL_JIT_MIN_SIZE", _MIN_SIZE, 0, "a number of elements", former="FL_JIT_SMALLEST"
        )
        self.eager = EagerBackend()
        self.policy = DeferralPolicy()
        self.plans = PlanCache(self.eager, policy=self.policy)
        self._threads = threading.local()

    def synchronize(self, device: Device) -> None:
        """Run the deferred operations of this thread. Raises the exception of a failed
        computation."""
        error = self._pending.run()
        try:
            if error is not None:
                raise error
        finally:
            del error  # breaks the reference cycle with this frame

    def evaluate(self, values: Sequence[Value]) -> None:
        """Run the deferred operations of this thread, and any others that these values need. Raises
        the exception of a value in ``values`` whose computation fails. Other values raise when they
        are read."""
        for x in values:
            x.array  # noqa: B018 - it is computed where it is missing
        self._pending.run()

    def is_ready(self, x: Value) -> bool:
        """Whether ``x`` has been computed."""
        return x.__class__ is not Lazy or x.trace is None

    @property
    def _pending(self) -> Trace:
        """The deferred operations of this thread."""
        try:
            return self._threads.trace
        except AttributeError:
            self._threads.trace = Trace(self._execute, self._interpret)
            return self._threads.trace

    def _execute(self, trace: Trace, seen: list[bool]) -> None:
        self.plans.execute(trace, seen)

    def _interpret(self, part: Any, seen: list[bool]) -> None:
        interpret(self.plans.eager, part, seen)

    def _should_defer(self, *operands: Any) -> bool:
        # Whether to defer an operation: an operand is itself deferred, or is large.
        largest = 0
        for x in operands:
            kind = x.__class__
            if kind is Lazy:
                if x.trace is not None:
                    return True
                size = x.array.size
            elif kind is NumpyAdapter:
                size = x.array.size
            elif kind is Number:
                continue
            else:
                size = storage_of(x).size
            if size > largest:
                largest = size
        return largest >= self.smallest and self.policy.records(largest)

    def _makes(self, shape: Shape) -> bool:
        # Whether to defer an operation without operands.
        size = math.prod(shape)
        return size >= self.smallest and bool(shape) and self.policy.records(size)

    def _keep_whole(
        self, operation: Operation, operands: Sequence[Value], parameters: Parameters
    ) -> Value | None:
        """Defer a registered operation as one call. None where its composition is to run."""
        if not self._should_defer(*operands):
            return None
        found = operation.result(operands, parameters)
        if found is None:
            return None
        return self._pending.record(operation.name, tuple(operands), parameters, *found)


_PUT_OFF = """\
def {name}({parameters}):
    if {few} or not self._should_defer({operands}):
        return eager({arguments})
    return record({arguments})
"""


def defer(*operands: str, name: str = "") -> Callable[[Callable[..., Value]], Any]:
    """A decorator that defers the operation ``name`` of the decorated method. The method is called
    where one of ``operands`` is large or itself deferred. Otherwise the eager backend's method is
    called. The check of small operands is inlined: a call would take a tenth of the time of
    ``x.T``."""

    def decorate(record: Callable[..., Value]) -> Any:
        operation = name or record.__name__
        given = inspect.signature(record).parameters.values()
        computed = "({0}.__class__ in COMPUTED or getattr({0}, 'trace', None) is None)"
        small = computed + " and {0}.array.size < self.smallest"
        source = _PUT_OFF.format(
            name=operation,
            parameters=", ".join(str(p.replace(annotation=p.empty)) for p in given),
            few=" and ".join(small.format(x) for x in operands),
            operands=", ".join(operands),
            arguments=", ".join(p.name for p in given),
        )
        eager = getattr(EagerBackend, operation)
        scope = {"eager": eager, "record": record, "COMPUTED": COMPUTED, "__name__": __name__}
        exec(compile(source, f"<JitBackend.{operation}>", "exec"), scope)
        return functools.update_wrapper(scope[operation], eager)

    return decorate
