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
from fl_jit.extensions.operations import Operation, Parameters
from fl_jit.planning.deferral_policy import DeferralPolicy
from fl_jit.planning.plan_cache import PlanCache
from fl_jit.steps.interpret import interpret
from fl_jit.traces.lazy import Lazy, Trace, computed
from fl_jit.traces.prepacked import PrepackedArray
from fl_tensor import Device, DType
from fl_tensor.extend import Shape, settings
from fl_tensor.extend.numpy import Number, NumpyAdapter

Value = NumpyAdapter
#: Below it an operation costs less than recording it saves.
_MIN_SIZE = 8192
#: Arrays of others with at least this many elements become values that can be prepacked. Packing
#: of smaller weights takes no noticeable time.
_MIN_PREPACKABLE = 1024


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
        return x.__class__ is not Lazy or x.trace is None or x.trace.__class__ is PrepackedArray

    def from_host(
        self,
        data: memoryview,
        shape: Shape,
        dtype: DType,
        device: Device,
        blocking: bool = True,
    ) -> Value:
        made = super().from_host(data, shape, dtype, device, blocking)
        return made if math.prod(shape) < _MIN_PREPACKABLE else computed(made.array, dtype)

    def from_dlpack(self, source: Any, device: Device) -> Value | None:
        made = super().from_dlpack(source, device)
        if made is None or made.array.size < _MIN_PREPACKABLE:
            return made
        return computed(made.array, made.dtype)

    @property
    def _pending(self) -> Trace:
        """The deferred operations of this thread."""
        try:
            return self._threads.trace
        except AttributeError:
            self._threads.trace = Trace(self._execute, self._interpret)
            return self._threads.trace

    def _execute(self, trace: Trace, live: list[bool]) -> None:
        self.plans.execute(trace, live)

    def _interpret(self, trace: Any, live: list[bool]) -> None:
        interpret(self.plans.eager, trace, live)

    def _should_defer(self, *operands: Any) -> bool:
        # Whether to defer an operation: an operand is itself deferred, or is large.
        largest = 0
        for x in operands:
            kind = x.__class__
            if kind is Number:
                continue
            if kind is Lazy and (trace := x.trace) is not None:
                if trace.__class__ is not PrepackedArray:
                    return True
                size = trace.size
            else:
                size = x.array.size
            if size > largest:
                largest = size
        return largest >= self.smallest and self.policy.records(largest)

    def _should_defer_creation(self, shape: Shape) -> bool:
        # Whether to defer an operation without operands.
        size = math.prod(shape)
        return size >= self.smallest and bool(shape) and self.policy.records(size)

    def _record_operation(
        self, operation: Operation, operands: Sequence[Value], parameters: Parameters
    ) -> Value | None:
        """Defer a registered operation as one call. None where its composition is to run."""
        if not self._should_defer(*operands):
            return None
        result = operation.result(operands, parameters)
        if result is None:
            return None
        return self._pending.record(operation.name, tuple(operands), parameters, *result)


_DEFERRED_METHOD = """\
def {name}({parameters}):
    if {few} or not self._should_defer({operands}):
        return eager({arguments})
    return record({arguments})
"""


def defer(*operands: str, name: str = "") -> Callable[[Callable[..., Value]], Any]:
    """A decorator that defers the operation ``name`` of the decorated method. The method is called
    with all arguments, by position, where one of ``operands`` is large or itself deferred.
    Otherwise the eager backend's method is called, which has the parameters. The check of small
    operands is inlined: a call would take a tenth of the time of ``x.T``."""

    def decorate(record: Callable[..., Value]) -> Any:
        operation = name or record.__name__
        eager = getattr(EagerBackend, operation)
        signature = inspect.signature(eager).parameters.values()
        computed = "({0}.__class__ in COMPUTED or getattr({0}, 'trace', None) is None)"
        small = computed + " and {0}.array.size < self.smallest"
        source = _DEFERRED_METHOD.format(
            name=operation,
            parameters=", ".join(str(p.replace(annotation=p.empty)) for p in signature),
            few=" and ".join(small.format(x) for x in operands),
            operands=", ".join(operands),
            arguments=", ".join(p.name for p in signature),
        )
        scope = {"eager": eager, "record": record, "COMPUTED": COMPUTED, "__name__": __name__}
        exec(compile(source, f"<JitBackend.{operation}>", "exec"), scope)
        return functools.update_wrapper(scope[operation], eager)

    return decorate
