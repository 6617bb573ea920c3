"""Measurements of a training step, unit by unit: what the planner adds up.

A step is a sequence of segments: the forward and the backward pass of each unit, and what lies
between. A segment has a time, the bytes that it leaves alive, and its peak.
"""

from __future__ import annotations

import ctypes
import gc
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from os import PathLike
from typing import Any, NamedTuple

import fl_autograd as ag
import fl_dist as dist
import fl_memory as mem
import fl_tensor as ft
from fl_memory.managers.system import SystemManager
from fl_memory.swapping import FileMemory
from fl_nn.errors import ModuleError
from fl_nn.module import Module
from fl_nn.optim import Optimizer
from fl_nn.parallel import placement
from fl_nn.parallel.links import as_tuple
from fl_nn.parallel.units import arrays_of

KB, MB = 1 << 10, 1 << 20
#: Bytes of the two messages that the line of a collective goes through.
MESSAGES = 64 * KB, 4 * MB
#: Bytes of the block that is written to the swapper's file and read again.
SWAPPED = 32 * MB


class Segment(NamedTuple):
    """A part of a step. `unit` is its place in `Measurements.units`, -1 for what no unit does."""

    unit: int
    phase: str  # "forward" or "backward"
    ms: float
    #: Bytes alive at the end, and at most, above those at the beginning.
    growth: int
    peak: int


class UnitSize(NamedTuple):
    """A unit, or what the model holds beside them: bytes of parameters, of those that learn, and of
    what the forward pass gives."""

    name: str
    parameter_bytes: int
    trained_bytes: int
    output_bytes: int


class Line(NamedTuple):
    """Milliseconds of a message: alpha + beta x bytes."""

    alpha: float
    beta: float

    def ms(self, nbytes: float) -> float:
        return self.alpha + self.beta * nbytes


class Measurements(NamedTuple):
    """What `measure` finds. `str()` is a table.

    units         the units, and at the end the rest of the model
    plain         segments of a step in which no unit is checkpointed
    checkpointed  the same segments where each unit is
    update_peak   bytes of the optimizer's update at most, above those before it
    largest       bytes of the largest parameter
    buckets       bytes of the buckets in which `Sharded` reduces gradients
    links         of each collective, of "send" and "copy"
    workspace     bytes that a collective allocates at most, per byte of the whole message
    swap          bytes a millisecond out of memory and back, None where no folder was given
    chain         each unit was called once, in order: the model may be cut between them
    """

    units: tuple[UnitSize, ...]
    plain: tuple[Segment, ...]
    checkpointed: tuple[Segment, ...]
    update_ms: float
    update_peak: int
    largest: int
    state_bytes: int
    batch_bytes: int
    buckets: tuple[int, ...]
    links: Mapping[str, Line]
    workspace: Mapping[str, float]
    swap: float | None
    chain: bool

    def total(self, unit: int, phase: str, what: str, checkpointed: bool = False) -> float:
        """The sum of "ms", "growth" or "peak" over the segments of a unit in a phase."""
        steps = self.checkpointed if checkpointed else self.plain
        return float(sum(getattr(s, what) for s in steps if (s.unit, s.phase) == (unit, phase)))

    def __str__(self) -> str:
        rows = [
            "| unit | forward, ms | backward, ms | parameters, MB | saved, MB | output, MB "
            "| checkpointed: backward, ms | saved, MB |",
            "|---|--:|--:|--:|--:|--:|--:|--:|",
        ]
        for place, unit in enumerate(self.units):
            number = place if place < len(self.units) - 1 else -1
            figures = (
                self.total(number, "forward", "ms"),
                self.total(number, "backward", "ms"),
                unit.parameter_bytes / 1e6,
                self.total(number, "forward", "growth") / 1e6,
                unit.output_bytes / 1e6,
                self.total(number, "backward", "ms", True),
                self.total(number, "forward", "growth", True) / 1e6,
            )
            rows.append(f"| {unit.name} | " + " | ".join(f"{x:.3g}" for x in figures) + " |")
        return "\n".join([*rows, f"update: {self.update_ms:.3g} ms"])


def measure(
    model: Module,
    batch: tuple[Any, Any],
    loss: Callable[[Any, Any], ft.Array],
    optimizer: Optimizer,
    comm: dist.Communicator | None = None,
    *,
    units: Sequence[Module] | None = None,
    rounds: int = 5,
    folder: str | PathLike[str] | None = None,
) -> Measurements:
    """Time and memory of a step, of which parameters and optimizer see nothing afterwards.

    batch      `(x, target)`; the loss is `loss(model(x), target)`. A tuple `x` is several inputs
    optimizer  a new one over the parameters of the model
    comm       whose collectives are timed, too. All its ranks call this; rank 0's figures count
    units      modules that are called once each; by default those directly below the model
    rounds     steps whose median time counts
    folder     where the swapper would keep its file: measured for plans with off-load

    Makes about 2 x (rounds + 3) steps, half with each unit under `ag.checkpoint`. Gradients are
    dropped, generators move on. On a deferred backend each unit is computed by itself.

    Raises ModuleError for a model without units or parameters that learn, and where a unit is not
    called.
    """
    children = [(name, child) for name, child in model.named_children()]
    if units is not None:
        names = {id(module): name for name, module in model.named_modules()}
        children = [(names.get(id(unit), ""), unit) for unit in units]
        if not all(name for name, _ in children):
            raise ModuleError(
                f"[measure] units hold a module that is not below this {type(model).__name__}: "
                "take them from model.named_modules()"
            )
    if not children:
        raise ModuleError(
            f"[measure] this {type(model).__name__} has no modules below it, and so no units: put "
            "its layers into nn.Sequential, or plan for the model that holds it"
        )
    if rounds < 1:
        raise ModuleError(f"[measure] rounds={rounds}: give at least 1")
    buckets = placement.bucketed(model, placement.group_numbers(model, optimizer))
    if not buckets:
        raise ModuleError("[measure] no parameter of the optimizer learns: unfreeze some")
    step = _Step(model, batch, loss, optimizer, [unit for _, unit in children])
    with _restored(model, optimizer), mem.use(SystemManager()) as manager:
        plain, update = step.segments(manager, rounds, comm)
        outputs, chain = step.outputs, step.order == list(range(len(children)))
        with checkpointed([unit for _, unit in children]):
            again, _ = step.segments(manager, rounds, comm)
        state = sum(x.nbytes for s in optimizer.state for x in s.values() if isinstance(x, ft.Tensor))
        links, workspace = _links(comm, manager, rounds) if comm is not None else ({}, {})
    found = Measurements(
        units=_sizes(model, children, outputs),
        plain=plain,
        checkpointed=again,
        update_ms=update.ms,
        update_peak=update.peak,
        largest=max(p.nbytes for p in model.parameters()),
        state_bytes=state,
        batch_bytes=sum(x.nbytes for x in arrays_of(step.batch)),
        buckets=tuple(sum(p.nbytes for _, p in bucket) for bucket in buckets),
        links=links,
        workspace=workspace,
        swap=_swap_speed(folder) if folder is not None else None,
        chain=chain,
    )
    return found if comm is None else _from_rank_0(comm, found)


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


class _Step:
    """A training step that notes where its segments begin."""

    def __init__(
        self,
        model: Module,
        batch: tuple[Any, Any],
        loss: Callable[[Any, Any], ft.Array],
        optimizer: Optimizer,
        units: Sequence[Module],
    ) -> None:
        x, target = batch
        self.batch = [_read(value) for value in as_tuple(x)], _read(target)
        self.model, self.loss, self.optimizer, self.units = model, loss, optimizer, units
        self.outputs = [0] * len(units)
        self.order: list[int] = []
        self.found: list[Segment] = []
        self._part, self._began = (-1, "forward"), 0.0
        self._live = self._peak = 0

    def segments(
        self, manager: mem.MemoryManager, rounds: int, comm: dist.Communicator | None
    ) -> tuple[tuple[Segment, ...], Segment]:
        """The segments of a step, and its update: bytes of one step, median times of several."""
        removals = [
            remove
            for place, unit in enumerate(self.units)
            for remove in (
                unit.register_forward_pre_hook(partial(self._enter, place)),
                unit.register_forward_hook(partial(self._leave, place)),
            )
        ]
        try:
            for _ in range(2):  # the state of the optimizer; what is built once
                self.run()
            gc.collect()
            collects = gc.isenabled()
            gc.disable()  # bytes that wait for the collector would be counted
            remove = manager.on_event(self._count)
            try:
                bytes_of = self.run()
            finally:
                remove()
                if collects:
                    gc.enable()
            if comm is not None:
                comm.barrier()
            times = [[segment.ms for segment in self.run()] for _ in range(rounds)]
        finally:
            for remove in removals:
                remove()
        medians = [statistics.median(column) for column in zip(*times, strict=True)]
        made = [s._replace(ms=ms) for s, ms in zip(bytes_of, medians, strict=True)]
        for place, unit in enumerate(self.units):
            if place not in self.order:
                raise ModuleError(
                    f"[measure] unit {place}, a {type(unit).__name__}, is not called by "
                    f"{type(self.model).__name__}: give units=[...] that are called as functions"
                )
        return tuple(made[:-1]), made[-1]

    def run(self) -> list[Segment]:
        """One step; its segments, the last of which is the update."""
        inputs, target = self.batch
        self.optimizer.zero_grad()
        self.found, self.order = [], []
        self._part, self._began, self._peak = (-1, "forward"), time.perf_counter(), self._live
        self._base = self._live
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
                self._live - self._base,
                self._peak - self._base,
            )
        )
        self._part, self._base, self._peak = (unit, phase), self._live, self._live
        self._began = time.perf_counter()

    def _enter(self, place: int, module: Module, inputs: tuple[Any, ...]) -> None:
        for x in arrays_of(inputs):
            if isinstance(x, ag.Variable) and x.requires_grad:
                x.register_hook(partial(self._passed_on, place))
        self.order.append(place)
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

    def _count(self, event: mem.Event) -> None:
        if event.kind == "alloc":
            self._live += event.nbytes
            self._peak = max(self._peak, self._live)
        elif event.kind == "free":
            self._live -= event.nbytes


@contextmanager
def _restored(model: Module, optimizer: Optimizer) -> Iterator[None]:
    # Parameters and state are replaced by a step, never written to.
    tensors = [(p, p.tensor) for p in model.parameters()]
    buffers = {name: x for name, x in model.state_dict().items()}
    state = [dict(one) for one in optimizer.state]
    try:
        yield
    finally:
        model.zero_grad()
        model.load_state_dict(buffers)
        for parameter, tensor in tensors:
            parameter.tensor = tensor
        optimizer.state = state


def _read(value: Any) -> ft.Array:
    return value if isinstance(value, ft.Array) else ft.asarray(value)


def _sizes(
    model: Module, children: Sequence[tuple[str, Module]], outputs: Sequence[int]
) -> tuple[UnitSize, ...]:
    seen: set[int] = set()
    found = []
    for (name, module), output in zip([*children, ("(rest)", model)], [*outputs, 0]):
        own = [p for p in module.parameters() if id(p) not in seen]
        seen |= {id(p) for p in own}
        trained = sum(p.nbytes for p in own if p.requires_grad)
        found.append(UnitSize(name, sum(p.nbytes for p in own), trained, output))
    return tuple(found)


def _links(
    comm: dist.Communicator, manager: mem.MemoryManager, rounds: int
) -> tuple[dict[str, Line], dict[str, float]]:
    """The line through two sizes of every message and of a copy, and its bytes per byte."""
    lines, workspace = {}, {}
    calls: dict[str, Callable[[ft.Tensor], Any]] = {
        "all_reduce": comm.all_reduce,
        "reduce_scatter_tensor": comm.reduce_scatter_tensor,
        "all_gather_tensor": lambda x: comm.all_gather_tensor(x[: x.shape[0] // comm.world_size]),
        "send": partial(_send_on, comm),
        "copy": lambda x: ft.eval(ft.concatenate([x[:1], x[1:]])),
    }
    for name, call in calls.items():
        times = []
        for nbytes in MESSAGES:
            x = ft.zeros((nbytes // 4,))
            ft.eval(x)
            call(x)
            spent = []
            for _ in range(rounds):
                comm.barrier()
                began = time.perf_counter()
                call(x)
                spent.append(1e3 * (time.perf_counter() - began))
            times.append(statistics.median(spent))
        beta = max(times[1] - times[0], 0.0) / (MESSAGES[1] - MESSAGES[0])
        lines[name] = Line(max(times[0] - beta * MESSAGES[0], 0.0), beta)
        workspace[name] = _allocated(manager, partial(call, x)) / MESSAGES[1]
    return lines, workspace


def _send_on(comm: dist.Communicator, x: ft.Tensor) -> None:
    if comm.world_size > 1:
        comm.send(x, (comm.rank + 1) % comm.world_size)
        comm.recv((comm.rank - 1) % comm.world_size)


def _allocated(manager: mem.MemoryManager, call: Callable[[], Any]) -> int:
    """Bytes alive at most during a call, above those before."""
    live = peak = 0

    def count(event: mem.Event) -> None:
        nonlocal live, peak
        if event.kind in ("alloc", "free"):
            live += event.nbytes if event.kind == "alloc" else -event.nbytes
            peak = max(peak, live)

    remove = manager.on_event(count)
    try:
        call()
    finally:
        remove()
    return peak


def _swap_speed(folder: str | PathLike[str]) -> float:
    """Bytes a millisecond that leave memory for a file in `folder` and come back."""
    memory = FileMemory(folder)
    block = SystemManager(memory).alloc(SWAPPED)
    ctypes.memset(block.address, 1, SWAPPED)
    began = time.perf_counter()
    memory.advise(block.address, SWAPPED, "cold")
    ctypes.memset(block.address, 2, SWAPPED)
    return SWAPPED / (1e3 * (time.perf_counter() - began))


def _from_rank_0(comm: dist.Communicator, found: Measurements) -> Measurements:
    given = dist.broadcast_object(comm, found._asdict())
    return Measurements(
        **{
            **given,
            "units": tuple(UnitSize(*one) for one in given["units"]),
            "plain": tuple(Segment(*one) for one in given["plain"]),
            "checkpointed": tuple(Segment(*one) for one in given["checkpointed"]),
            "buckets": tuple(given["buckets"]),
            "links": {name: Line(*one) for name, one in given["links"].items()},
        }
    )
