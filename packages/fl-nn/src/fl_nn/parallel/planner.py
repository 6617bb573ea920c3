"""planner: how to train a model within a budget of memory, and what a step will take.

    from fl_nn.parallel import planner

    found = planner.measure(model, (x, target), nn.cross_entropy, optimizer, comm)
    plans = planner.search(found, budget=8 << 30, world_size=comm.world_size)
    print(planner.table(plans[:5]))
    trainer = plans[0].apply(model, optimizer, comm)

A plan names the units that are checkpointed, the stage of sharding, the bytes that go to a file,
and the cuts of a pipeline. Time and peak are sums of measurements. Planning is a case study of Kahn
et al., "Flashlight", 2022. The linear model of messages is Hockney's, 1994.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

import fl_dist as dist
from fl_nn.errors import ModuleError
from fl_nn.module import Module
from fl_nn.optim import Optimizer
from fl_nn.parallel.measurements import Measurements as Measurements
from fl_nn.parallel.measurements import measure as measure
from fl_nn.parallel.sharded import Sharded
from fl_nn.parallel.step_cost import StepCost
from fl_nn.parallel.step_segments import checkpoint_units

#: Up to so many candidates all are tried. Beyond, units are checkpointed in one order alone.
CANDIDATES = 1000
STAGES = 0, 1, 2, 3
HEADER = "| stage | checkpointed | cuts | off-load, MB | ms | peak, MB |\n|--:|---|---|--:|--:|--:|"


class Plan(NamedTuple):
    """How to train, and what a step takes then. `str()` is a row of `table`.

    stage                 0: nothing is sharded; 1 to 3: those of `Sharded`
    checkpointed          names of the units whose calls are under `ag.checkpoint`
    cuts                  places of the units with which the second and later pipeline stages begin
    offload               bytes that do not fit into the budget: the swapper moves them to its file
    predicted_ms          of a step
    predicted_peak_bytes  live bytes at most, on the rank that has most; with off-load the resident
    world_size            ranks in all; each pipeline stage has `world_size / (len(cuts) + 1)`
    """

    stage: int
    checkpointed: tuple[str, ...]
    cuts: tuple[int, ...]
    offload: int
    predicted_ms: float
    predicted_peak_bytes: int
    world_size: int

    def apply(
        self,
        model: Module,
        optimizer: Optimizer,
        comm: dist.Communicator | None = None,
        *,
        units: Sequence[Module] | None = None,
    ) -> Optimizer | Sharded:
        """Checkpoint the units of `model`, and shard it over `comm` at stages 1 to 3. Gives what
        has `zero_grad()` and `step()`: the `Sharded`, or at stage 0 the optimizer.

        The rest is the program's: at stage 0 with several ranks the average of gradients (Trainer,
        GradientAverage), with off-load a `fl_memory.swapping.Swapper` made before the model.

        Raises ModuleError for a plan with cuts, which needs a `Pipeline` of parts of the model, and
        for another number of ranks or other units than planned for.
        """
        if self.cuts:
            raise ModuleError(
                f"[Plan.apply] the plan cuts the model before units {_listed(self.cuts)}: build "
                "parallel.Pipeline of these parts, with ag.checkpoint around the units in "
                "plan.checkpointed, and Sharded over the ranks that have the same part"
            )
        ranks = 1 if comm is None else comm.world_size
        if ranks != self.world_size:
            raise ModuleError(
                f"[Plan.apply] {ranks} ranks, and the plan is for {self.world_size}: search again"
            )
        named = dict(model.named_modules())
        if missing := [name for name in self.checkpointed if name not in named]:
            raise ModuleError(
                f"[Plan.apply] no module {missing[0]!r} below this {type(model).__name__}: apply "
                "the plan to the model that was measured"
            )
        made: Optimizer | Sharded = optimizer
        if self.stage:
            assert comm is not None
            made = Sharded(comm, model, optimizer, self.stage, units if self.stage == 3 else None)
        # Outside of what Sharded puts around units, which gathers parameters again in their place.
        checkpoint_units([named[name] for name in self.checkpointed])
        return made

    def __str__(self) -> str:
        return (
            f"| {self.stage} | {', '.join(self.checkpointed) or '-'} | {_listed(self.cuts) or '-'} "
            f"| {self.offload / 1e6:.3g} | {self.predicted_ms:.3g} "
            f"| {self.predicted_peak_bytes / 1e6:.4g} |"
        )


def table(plans: Sequence[Plan]) -> str:
    """Plans as a table in Markdown."""
    return "\n".join([HEADER, *map(str, plans)])


def search(
    measurements: Measurements,
    budget: int,
    world_size: int,
    *,
    stages: Sequence[int] = STAGES,
    microbatches: int | None = None,
) -> list[Plan]:
    """Plans whose peak is within `budget` bytes on each rank, the fastest first.

    stages        of sharding to try; 0 alone on one rank
    microbatches  of a pipeline. Given, cuts are tried where the units were called one after
                  another. The number of pipeline stages divides `world_size`

    Off-load is tried for plans that exceed the budget, where `measure` was given a folder. Beyond
    1,000 candidates, units are checkpointed in the order of the bytes that this saves per
    millisecond, and a pipeline is cut where its slowest stage is fastest.

    Raises ModuleError where no plan fits, with the smallest peak and its plan.
    """
    if type(budget) is not int or budget <= 0:
        raise ModuleError(f"[search] a budget of {budget!r} bytes: give an integer above 0")
    if type(world_size) is not int or world_size < 1:
        raise ModuleError(f"[search] world_size={world_size!r}: give at least 1")
    if not stages or not set(stages) <= set(STAGES):
        raise ModuleError(f"[search] stages={stages!r}: give some of 0, 1, 2 and 3")
    if microbatches is not None and microbatches < 1:
        raise ModuleError(f"[search] microbatches={microbatches}: give at least 1")
    if world_size > 1 and not measurements.links:
        raise ModuleError(
            f"[search] {world_size} ranks, and no messages were measured: give measure(..., comm)"
        )
    plans = [
        predict(measurements, stage, chosen, cuts, world_size, microbatches or 1)
        for stage, chosen, cuts in _candidates(measurements, world_size, stages, microbatches)
    ]
    fitting = [plan for plan in plans if plan.predicted_peak_bytes <= budget]
    if measurements.swap is not None:
        least = _operands(measurements)
        fitting += [
            plan._replace(
                offload=excess,
                predicted_ms=plan.predicted_ms + excess / measurements.swap,
                predicted_peak_bytes=budget,
            )
            for plan in plans
            if (excess := plan.predicted_peak_bytes - budget) > 0 and least <= budget
        ]
    if not fitting:
        smallest = min(plans, key=lambda plan: (plan.predicted_peak_bytes, plan.predicted_ms))
        raise ModuleError(
            f"[search] none of {len(plans)} plans for {world_size} ranks fits into {budget} bytes. "
            f"The smallest peak is {smallest.predicted_peak_bytes} bytes, at stage "
            f"{smallest.stage} with {len(smallest.checkpointed)} of "
            f"{len(measurements.units) - 1} units checkpointed"
            f"{f' and cuts before units {_listed(smallest.cuts)}' if smallest.cuts else ''}: raise "
            "the budget, take more ranks or smaller batches, or measure with a folder for off-load"
        )
    return sorted(fitting, key=lambda plan: (plan.predicted_ms, plan.predicted_peak_bytes))


def predict(
    measurements: Measurements,
    stage: int,
    checkpointed: Sequence[int],
    cuts: Sequence[int] = (),
    world_size: int = 1,
    microbatches: int = 1,
) -> Plan:
    """The plan of these choices; units by their places."""
    m, depth = measurements, len(cuts) + 1
    bounds = [0, *cuts, len(m.units) - 1]
    parts = [
        StepCost(m, stage, world_size // depth, set(checkpointed), first, last, microbatches)
        for first, last in zip(bounds, bounds[1:])
    ]
    for number, part in enumerate(parts):
        part.step(depth, min(depth - number, microbatches))
    return Plan(
        stage,
        tuple(m.units[place].name for place in checkpointed),
        tuple(cuts),
        0,
        max(part.ms for part in parts),
        max(part.peak for part in parts),
        world_size,
    )


def _candidates(
    m: Measurements, world_size: int, stages: Sequence[int], microbatches: int | None
) -> Iterator[tuple[int, tuple[int, ...], tuple[int, ...]]]:
    count = len(m.units) - 1
    depths = [1]
    if microbatches is not None and m.chain and not m.units[-1].parameter_bytes:
        depths = [d for d in range(1, min(world_size, count) + 1) if world_size % d == 0]
    every = sum(math.comb(count - 1, depth - 1) for depth in depths) * len(stages)
    if every * (count + 1) < CANDIDATES:
        cuts = [c for depth in depths for c in combinations(range(1, count), depth - 1)]
    else:
        times = [
            m.total(place, "forward", "ms") + m.total(place, "backward", "ms")
            for place in range(count)
        ]
        cuts = [_balanced(times, depth) for depth in depths]
    kinds = [
        (stage, cut)
        for cut in cuts
        for stage in sorted(set(stages))
        if stage == 0 or world_size > len(cut) + 1
    ] or [(0, ())]
    if len(kinds) * 2**count < CANDIDATES:
        subsets = [c for size in range(count + 1) for c in combinations(range(count), size)]
    else:
        order = sorted(range(count), key=lambda place: -_saved_per_ms(m, place))
        subsets = [tuple(sorted(order[:size])) for size in range(count + 1)]
    for stage, cut in kinds:
        for subset in subsets:
            yield stage, subset, cut


def _balanced(times: Sequence[float], depth: int) -> tuple[int, ...]:
    """Where to cut such that the slowest of `depth` parts is fastest, by dynamic programming."""
    count = len(times)
    best: dict[int, tuple[float, tuple[int, ...]]] = {
        end: (sum(times[:end]), ()) for end in range(1, count + 1)
    }
    for parts in range(2, depth + 1):
        best = {
            end: min(
                (max(best[cut][0], sum(times[cut:end])), (*best[cut][1], cut))
                for cut in range(parts - 1, end)
            )
            for end in range(parts, count + 1)
        }
    return best[count][1]


def _saved_per_ms(m: Measurements, place: int) -> float:
    saved = m.total(place, "forward", "growth") - m.total(place, "forward", "growth", True)
    spent = sum(
        m.total(place, phase, "ms", True) - m.total(place, phase, "ms")
        for phase in ("forward", "backward")
    )
    return saved / max(spent, 1e-3)


def _operands(m: Measurements) -> int:
    """What must be in memory at once: the peak of a segment."""
    return max(segment.peak for segment in (*m.plain, *m.checkpointed))


def _listed(places: Sequence[int]) -> str:
    return ", ".join(map(str, places))
