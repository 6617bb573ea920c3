"""A captured function over one backend: a call puts the results where the function would."""

from __future__ import annotations

from typing import Any

from fl_tensor.arrays.tensor import Tensor
from fl_tensor.graph import interrupts
from fl_tensor.graph.capture import Capture, State, TensorSlot, placeholder
from fl_tensor.graph.host_numbers import evaluator
from fl_tensor.graph.source import prepared

__all__ = ["MISSED", "Executable"]

#: The result where a flag that the graph takes for true is false: the state is as before.
MISSED = object()


class Executable:
    """A capture, and its graph as a function over one backend."""

    def __init__(self, captured: Capture, backend: Any, state: State) -> None:
        self.capture, self.backend = captured, backend
        self.tensors, self.numbers = state.slots()
        self.closure = [
            (place.get, tuple(place.value.shape), place.value.dtype) for place in captured.closure
        ]
        self.holds = captured.is_right()
        updates = [source for _, source in captured.updates]
        results = [expression.source for expression in captured.result.expressions]
        self.new_numbers = evaluator([*updates, *results], captured.names)
        self.assumed = len(captured.graph.outputs) - captured.assumed
        self.count = self.assumed - len(captured.written)
        self.updated = [self.numbers[i] for i, _ in captured.updates]
        self.run = prepared(captured.graph, backend, captured.names)
        #: Of the inputs of ``run``: slots whose tensors are taken out for the call, and what is in
        #: their place meanwhile.
        self.taken: list[tuple[int, TensorSlot, Tensor]] = []
        if getattr(self.run, "donates", False):
            first = len(captured.graph.inputs) - len(self.tensors) - len(self.closure)
            replaced = {slot.name for slot in captured.written}
            self.taken = [
                (first + i, slot, _absent(slot.get()))
                for i, slot in enumerate(self.tensors)
                if slot.name in replaced
            ]

    def fits(self, numbers: list[Any]) -> bool:
        """Whether it is right for these numbers, and for the arrays around the function."""
        if not self.holds(*numbers):
            return False
        for get, shape, dtype in self.closure:
            try:
                x = get()
                if x._backend is not self.backend or (tuple(x.shape), x.dtype) != (shape, dtype):
                    return False
            except (AttributeError, LookupError, NameError, ValueError):
                return False
        return True

    def __call__(self, arrays: list[Any], numbers: list[Any]) -> Any:
        """The result for these arguments. State that the backend may overwrite is taken out of its
        places meanwhile. After an error it is as before, as far as the backend left it."""
        backend, count = self.backend, self.count
        inputs = [x._tensor().adapter for x in arrays]
        inputs += [slot.get().adapter for slot in self.tensors]
        inputs += [get()._tensor().adapter for get, _, _ in self.closure]
        values = self.new_numbers(*numbers)
        interrupts.hold()
        try:
            try:
                for _, slot, absent in self.taken:
                    slot.put(absent)
                outputs = self.run(inputs, numbers)
            except BaseException:
                for i, slot, _ in self.taken:
                    slot.put(Tensor(inputs[i], backend))
                raise
            interrupts.hold()  # all of the state is replaced, or none
            written, flags = self.capture.written, outputs[self.assumed :]
            missed = not all(Tensor(flag, backend).item() for flag in flags)
            if missed:  # the graph has selected the values from before
                written, values = written[: self.capture.kept], ()
            else:
                self.capture.clear()
            for slot, adapter in zip(written, outputs[count:], strict=False):
                slot.put(Tensor(adapter, backend))
            for number, value in zip(self.updated, values, strict=False):
                number.put(value)
        finally:
            interrupts.release()
        if missed:
            return MISSED
        results = [Tensor(adapter, backend) for adapter in outputs[:count]]
        return self.capture.result.filled(results, values[len(self.updated) :])


def _absent(x: Tensor) -> Tensor:
    # Of the shape and dtype of ``x``, without data.
    return Tensor(placeholder(x).adapter, x._backend)
