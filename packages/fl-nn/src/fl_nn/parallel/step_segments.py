"""Segments of a training step: the forward and the backward pass of each unit, and what lies
between, with their times and bytes.

Hooks on the units, their inputs and their outputs tell where segments begin.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import fl_autograd as ag
import fl_dist as dist
import fl_tensor as ft
from fl_nn.errors import ModuleError
from fl_nn.module import Module
from fl_nn.optim import Optimizer
from fl_nn.parallel.counting_manager import CountingManager
from fl_nn.parallel.links import as_tuple
from fl_nn.parallel.units import arrays_of


class Segment(NamedTuple):
    """A part of a step. `unit` is its place in `Measurements.units`, -1 for what no unit does."""

    unit: int
    phase: str  # "forward" or "backward"
    ms: float
    #: Bytes alive at the end, and at most, above those at the beginning.
    growth: int
    peak: int


@contextmanager
def checkpointed(units: Sequence[Module]) -> Iterator[None]:
    """Inside, each call of one of the modules is under `ag.checkpoint`."""
    before = [unit.__dict__.get("forward") for unit in units]
    checkpoint_units(units)
    try:
        yield
    finally:
        for unit, forward in zip(units, before):
            if forward is None:
                del unit.forward
            else:
                unit.forward = forward  # type: ignore[method-assign]


def checkpoint_units(units: Sequence[Module]) -> None:
    """Let each call of one of the modules be under `ag.checkpoint`, from now on."""
    for unit in units:
        unit.forward = partial(ag.checkpoint, unit.forward)  # type: ignore[method-assign]


class SegmentedStep:
    """A training step that notes where its segments begin."""

    def __init__(
        self,
        model: Module,
        batch: tuple[Any, Any],
        loss: Callable[[Any, Any], Any],
        optimizer: Optimizer,
        units: Sequence[Module],
        memory: CountingManager,
    ) -> None:
        x, target = batch
        self.batch = [_read(value) for value in as_tuple(x)], _read(target)
        self.model, self.loss, self.optimizer, self.units = model, loss, optimizer, units
        self.outputs = [0] * len(units)
        self.called: list[int] = []
        self.found: list[Segment] = []
        self._part, self._began, self._base = (-1, "forward"), 0.0, 0
        self._memory = memory

    def segments(
        self, rounds: int, comm: dist.Communicator | None
    ) -> tuple[tuple[Segment, ...], Segment]:
        """The segments of a step, and its update: bytes of one step, median times of several."""
        for _ in range(2):  # the state of the optimizer; what is built once
            self.run()
        whole: list[float] = []
        times: list[list[float]] = []
        with self._hooked():
            self.run()
        for _ in range(rounds):
            if comm is not None:
                comm.barrier()
            whole.append(sum(segment.ms for segment in self.run()))
            with self._hooked():
                times.append([segment.ms for segment in self.run()])
        bytes_of = self._counted()
        self._check({len(bytes_of), *map(len, times)})
        medians = [statistics.median(column) for column in zip(*times, strict=True)]
        # What is computed unit by unit takes another time on a deferred backend.
        scale = statistics.median(whole) / sum(medians)
        made = [s._replace(ms=ms * scale) for s, ms in zip(bytes_of, medians, strict=True)]
        return tuple(made[:-1]), made[-1]

    def _check(self, lengths: Collection[int]) -> None:
        name = type(self.model).__name__
        for place, unit in enumerate(self.units):
            if place not in self.called:
                raise ModuleError(
                    f"[measure] unit {place}, a {type(unit).__name__}, is not called by {name}: "
                    "give units=[...] that are called as functions"
                )
        if len(lengths) > 1:
            raise ModuleError(
                f"[measure] steps of this {name} call its units differently each time: turn that "
                "off (layer_drop=0), or give units=[...] that are called in every step"
            )

    def _counted(self) -> list[Segment]:
        """A step, its bytes counted. Cycles that wait for the collector would be counted, too."""
        gc.collect()
        collects = gc.isenabled()
        gc.disable()
        self.called = []
        try:
            with self._hooked():
                return self.run()
        finally:
            if collects:
                gc.enable()

    @contextmanager
    def _hooked(self) -> Iterator[None]:
        removals = [
            remove
            for place, unit in enumerate(self.units)
            for remove in (
                unit.register_forward_pre_hook(partial(self._enter, place)),
                unit.register_forward_hook(partial(self._leave, place)),
            )
        ]
        try:
            yield
        finally:
            for remove in removals:
                remove()

    def run(self) -> list[Segment]:
        """One step; its segments, the last of which is the update."""
        inputs, target = self.batch
        self.optimizer.zero_grad()
        self.found = []
        self._part, self._began = (-1, "forward"), time.perf_counter()
        self._base = self._memory.begin()
        value = self.loss(self.model(*inputs), target)
        ft.eval(value)
        self._begin(-1, "backward")
        value.backward()
        ft.eval(*[p.grad for p in self.model.parameters() if isinstance(p.grad, ft.Array)])
        del value
        self._begin(-1, "update")
        self.optimizer.step()
        self._begin(-1, "end")
        return self.found

    def _begin(self, unit: int, phase: str) -> None:
        now = time.perf_counter()
        self.found.append(
            Segment(
                *self._part,
                1e3 * (now - self._began),
                self._memory.live - self._base,
                self._memory.peak - self._base,
            )
        )
        self._part, self._base = (unit, phase), self._memory.begin()
        self._began = time.perf_counter()

    def _enter(self, place: int, module: Module, inputs: tuple[Any, ...]) -> None:
        for x in arrays_of(inputs):
            if isinstance(x, ag.Variable) and x.requires_grad:
                x.register_hook(partial(self._passed_on, place))
        self.called.append(place)
        self._begin(place, "forward")

    def _leave(self, place: int, module: Module, inputs: tuple[Any, ...], output: Any) -> None:
        arrays = arrays_of(output)
        ft.eval(*arrays)
        self.outputs[place] = sum(x.nbytes for x in arrays)
        for x in arrays:
            if isinstance(x, ag.Variable) and x.requires_grad:
                x.register_hook(partial(self._reached, place))
        self._begin(-1, "forward")

    def _reached(self, place: int, gradient: ag.Variable) -> None:
        ft.eval(gradient)
        if self._part != (place, "backward"):
            self._begin(place, "backward")

    def _passed_on(self, place: int, gradient: ag.Variable) -> None:
        # What one unit takes is what another gives, most often, and its hook comes first.
        if self._part == (place, "backward"):
            ft.eval(gradient)
            self._begin(-1, "backward")


def _read(value: Any) -> ft.Array:
    return value if isinstance(value, ft.Array) else ft.asarray(value)
