"""Measurements of a training step, unit by unit: what the planner adds up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from typing import Any, NamedTuple

import fl_dist as dist
import fl_memory as mem
import fl_tensor as ft
from fl_nn.errors import ModuleError
from fl_nn.module import Module
from fl_nn.optim import Optimizer
from fl_nn.parallel import placement
from fl_nn.parallel.counting_manager import CountingManager
from fl_nn.parallel.message_costs import Line, measure_links, swap_speed
from fl_nn.parallel.step_segments import Segment, SegmentedStep, checkpointed
from fl_nn.parallel.units import arrays_of


class UnitSize(NamedTuple):
    """A unit, or what the model holds beside them: bytes of parameters, of those that learn, and of
    what the forward pass gives."""

    name: str
    parameter_bytes: int
    trained_bytes: int
    output_bytes: int


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
    loss: Callable[[Any, Any], Any],
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

    Makes 2 x (2 rounds + 4) steps, half of them with each unit under `ag.checkpoint`. Gradients are
    dropped, generators move on. A deferred backend computes each unit by itself in steps that tell
    the shares of the units, and as ever in those that tell the time of all.

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
    memory = CountingManager()
    step = SegmentedStep(model, batch, loss, optimizer, [unit for _, unit in children], memory)
    with _restored(model, optimizer), mem.use(memory):
        plain, update = step.segments(rounds, comm)
        outputs, chain = step.outputs, step.called == list(range(len(children)))
        with checkpointed([unit for _, unit in children]):
            again, _ = step.segments(rounds, comm)
        if [s[:2] for s in plain] != [s[:2] for s in again]:
            raise ModuleError(
                f"[measure] units of this {type(model).__name__} are called differently under a "
                "checkpoint: give units=[...] whose gradients come in the reverse of their order"
            )
        state = sum(
            x.nbytes for s in optimizer.state for x in s.values() if isinstance(x, ft.Tensor)
        )
        links, workspace = measure_links(comm, memory, rounds) if comm is not None else ({}, {})
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
        swap=swap_speed(folder) if folder is not None else None,
        chain=chain,
    )
    return found if comm is None else _from_rank_0(comm, found)


@contextmanager
def _restored(model: Module, optimizer: Optimizer) -> Iterator[None]:
    # Parameters and state are replaced by a step, never written to.
    tensors = [(p, p.tensor) for p in model.parameters()]
    entries = model.state_dict()
    state = [dict(one) for one in optimizer.state]
    try:
        yield
    finally:
        model.zero_grad()
        model.load_state_dict(entries)
        for parameter, tensor in tensors:
            parameter.tensor = tensor
        optimizer.state = state


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
