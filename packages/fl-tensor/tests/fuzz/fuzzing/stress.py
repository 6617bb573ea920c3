"""Many programs, and what became of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from fuzzing import operations
from fuzzing.draws import Draw
from fuzzing.lockstep import Program

#: Operations of a program, at most.
LENGTH = 12
#: Hypothesis remembers all it tried: it starts afresh after so many programs.
BATCH = 1000


@dataclass
class Report:
    """How often what happened."""

    counts: Counter[str] = field(default_factory=Counter)
    differences: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        lines = [f"{number:8d} {what}" for what, number in sorted(self.counts.items())]
        lines += ["documented differences:"]
        lines += [f"{number:8d} {name}" for name, number in self.differences.most_common()]
        return "\n".join(lines)


@st.composite
def finished_programs(draw: Callable[[Any], Any]) -> Program:
    """Programs that have run: a step is drawn once the values before it are known."""
    program, choices = Program(), Draw(draw)
    for _ in range(choices.integer(2, LENGTH)):
        program.run(operations.next_step(choices, program.theirs))
    return program


def run(
    programs: int,
    start: int = 0,
    shrink: bool = True,
    progress: Callable[[int], None] | None = None,
) -> Report:
    """Run so many random programs; the same ``start`` gives the same ones. Raises the
    DisagreementError of the first that fails, made as short as possible."""
    report = Report()
    phases = (Phase.generate, Phase.shrink) if shrink else (Phase.generate,)
    done = 0
    while done < programs:
        batch = min(BATCH, programs - done)

        @seed(start * 1_000_003 + done)
        @settings(
            max_examples=batch,
            phases=phases,
            database=None,
            deadline=None,
            print_blob=False,
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        )
        @given(finished_programs())
        def one(program: Program) -> None:
            report.counts.update(program.counts, programs=1)
            report.differences.update(program.differences)

        one()
        done += batch
        if progress:
            progress(done)
    return report
