"""Unit: a module whose parameters are on all ranks together, and whole while it computes.

The forward of the module gathers them before and drops them after. The graph drops them, too: the
backward pass gathers them again when it comes to the module, and sends the gradients to their
owners. (ZeRO stage 3: Rajbhandari et al., 2020; units as in PyTorch's FSDP: Zhao et al., 2023.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import fl_autograd as ag
import fl_tensor as ft
from fl_autograd import extend
from fl_nn.errors import ModuleError
from fl_nn.files.lazy import Loadable, load_tensor
from fl_nn.module import Module
from fl_nn.parallel.flat_parameter import FlatParameter
from fl_nn.parallel.sharded_parameter import own_part
from fl_nn.values import like, tensor_of

#: ``reduce(flat, gradients)``: begin to send gradients, by place, to their owners.
Reduce = Callable[[FlatParameter, dict[int, ft.Tensor]], None]


class Unit:
    """A module, the flat parameters of what it holds, and its forward, which this replaces.

    Between calls the parameters are on the backend `null`: they have a shape, and whoever computes
    with them gets an error and no wrong numbers.
    """

    def __init__(
        self, name: str, module: Module, flats: Sequence[FlatParameter], reduce: Reduce
    ) -> None:
        self.name, self.module, self.flats, self.reduce = name, module, list(flats), reduce
        #: Gradients of calls of which some are missing.
        self.incomplete: list[_Gradients] = []
        with ft.use("null"):
            self._dropped = [
                [ft.zeros(shape, dtype=flat.dtype) for shape in flat.shapes] for flat in self.flats
            ]
        #: What the graph keeps in place of gradients: one element for all.
        self.nothing = [
            [ag.Variable(ft.broadcast_to(flat.zeros(()), shape)) for shape in flat.shapes]
            for flat in self.flats
        ]
        self._compute = module.forward
        module.forward = self._forward  # type: ignore[method-assign]
        self._drop()

    def gather(self) -> list[list[ft.Tensor]]:
        """The tensors of all parameters. All ranks call it."""
        return [flat.unflatten(flat.gather(flat.share.tensor)) for flat in self.flats]

    def take(self, values: Mapping[str, Loadable]) -> None:
        """Take over this rank's part of whole parameters, by name."""
        for flat in self.flats:

            def part(index: int, flat: FlatParameter = flat) -> ft.Tensor:
                value = load_tensor(values[flat.names[index]])
                return like(own_part(flat.parameters[index], value), flat.share.tensor)

            flat.share.tensor = flat.own_elements(part)

    def flush(self) -> None:
        """Send the gradients of calls of which some are missing."""
        incomplete, self.incomplete = self.incomplete, []
        for gradients in incomplete:
            gradients.send()

    def _forward(self, *inputs: Any, **options: Any) -> Any:
        tensors = self.gather()
        try:
            self._fill(tensors)
            # What runs again under `checkpoint` is needed at once.
            if not ag.is_grad_enabled() or ag.is_recomputing():
                return self._compute(*inputs, **options)
            with _Forget(self, tensors):
                result = self._compute(*inputs, **options)
            ft.eval(*arrays_of(result))  # what is put off would hold the parameters
            return result
        except (ft.BackendError, AttributeError) as error:
            # Operations of a Variable and a Tensor of two backends end in an AttributeError.
            if "null" not in str(error).lower():
                raise
            raise ModuleError(
                f"[Sharded] {self.name or type(self.module).__name__} computes with a parameter of "
                "another unit, which has no values now: call the module that holds it, or choose "
                "units=[...] such that one holds both"
            ) from error
        finally:
            self._drop()

    def _fill(self, tensors: list[list[ft.Tensor]]) -> None:
        gradients = _Gradients(self)
        for number, flat in enumerate(self.flats):
            for index, parameter in enumerate(flat.parameters):
                parameter.replace(tensors[number][index])
                if parameter.requires_grad:
                    parameter.register_hook(gradients.hook(number, index))

    def _drop(self) -> None:
        for flat, tensors in zip(self.flats, self._dropped):
            for parameter, tensor in zip(flat.parameters, tensors):
                parameter.replace(tensor)


class _Gradients:
    """The gradients of one call, on their way to their owners."""

    def __init__(self, unit: Unit) -> None:
        self.unit = unit
        self.pending: list[dict[int, ft.Tensor]] = [{} for _ in unit.flats]

    def hook(self, number: int, index: int) -> Callable[[ag.Variable], ag.Variable]:
        def arrived(gradient: ag.Variable) -> ag.Variable:
            pending, flat = self.pending[number], self.unit.flats[number]
            add(pending, index, dense(gradient))
            if len(pending) == len(flat.parameters):
                self.pending[number] = {}
                self.unit.reduce(flat, pending)
            incomplete = self.unit.incomplete
            if any(self.pending) and self not in incomplete:
                incomplete.append(self)
            elif not any(self.pending) and self in incomplete:
                incomplete.remove(self)
            return self.unit.nothing[number][index]

        return arrived

    def send(self) -> None:
        for flat, pending in zip(self.unit.flats, self.pending):
            if pending:
                self.unit.reduce(flat, pending)


class _Forget(extend.Recorder):
    """While the module computes: nodes that save a parameter save a promise in its place."""

    def __init__(self, unit: Unit, tensors: list[list[ft.Tensor]]) -> None:
        self.gathered = _GatheredAgain(unit)
        self.places = {
            id(tensor.adapter): (number, index)
            for number, of_flat in enumerate(tensors)
            for index, tensor in enumerate(of_flat)
        }

    def recorded(self, node: extend.Node, result: ag.Variable) -> extend.Node:
        saved = node.saved
        if saved.__class__ is tuple:
            places = {
                position: self.places[id(value)]
                for position, value in enumerate(saved)
                if id(value) in self.places
            }
            if places:
                kept = tuple(None if i in places else value for i, value in enumerate(saved))
                node.saved = _Promise(self.gathered, kept, places)
        return node


class _GatheredAgain:
    """The parameters in the backward pass of one call; they die with the last promise."""

    def __init__(self, unit: Unit) -> None:
        self.unit = unit
        self.tensors: list[list[ft.Tensor]] | None = None

    def adapter(self, number: int, index: int) -> Any:
        if self.tensors is None:
            self.tensors = self.unit.gather()
        return self.tensors[number][index].adapter


class _Promise:
    """Stands in ``Node.saved``: see `fl_autograd.extend.Node`."""

    __slots__ = ("gathered", "kept", "places")

    def __init__(
        self,
        gathered: _GatheredAgain,
        kept: tuple[Any, ...],
        places: dict[int, tuple[int, int]],
    ) -> None:
        self.gathered, self.kept, self.places = gathered, kept, places

    def restore(self) -> tuple[Any, ...]:
        return tuple(
            self.gathered.adapter(*self.places[i]) if i in self.places else value
            for i, value in enumerate(self.kept)
        )


def add(gradients: dict[int, ft.Tensor], index: int, gradient: ft.Tensor) -> None:
    """Add a gradient to the one that is there."""
    before = gradients.get(index)
    gradients[index] = gradient if before is None else before + gradient


def dense(gradient: ag.Variable) -> ft.Tensor:
    """The values of a gradient, with all rows."""
    if isinstance(gradient, ag.SparseGradient):
        gradient = gradient.to_dense()
    return tensor_of(gradient)


def arrays_of(value: Any) -> list[Any]:
    """The arrays in what a module takes or gives: in tuples, lists and dicts."""
    if isinstance(value, ft.Array):
        return [value]
    parts = value.values() if isinstance(value, dict) else value
    return (
        [x for v in parts for x in arrays_of(v)] if isinstance(value, (tuple, list, dict)) else []
    )
