"""Many programs, and what became of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import Any

from fl_jit import JitBackend
from twins.compare import Verdict, compare, is_exact
from twins.grow import grow
from twins.noise import noise
from twins.program import Program, without

#: A program runs so many times: call by call, by a plan, and as ``runtime.RUN`` says.
RUNS = 5
#: Different roundings that are tried, and how many where these changed nothing but ``jit`` differs:
#: sums in half precision seldom round to a neighbour, and another operation may hide it.
NOISES, MANY_NOISES = 4, 64


class DisagreementError(AssertionError):
    """The backends differ. Prints as a script."""


@dataclass
class Report:
    """How often what happened."""

    counts: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        return "\n".join(f"{n:8d} {what}" for what, n in sorted(self.counts.items()))


def _steps(jit: JitBackend) -> Iterator[str]:
    # What its plans are made of.
    for plan in jit.plans.entries():
        yield "plans"
        for step in plan.steps:
            yield "kernels" if type(step).__name__ == "Launch" else "operations"


def check(program: Program, jit: JitBackend) -> list[Verdict]:
    """What became of each output of each run; ends with the first that is different."""
    program.prepare(jit)
    verdicts = []
    for number in range(RUNS):
        wanted = program.run("numpy", number)
        noisy = [_noisy(program, number, seed) for seed in range(NOISES)]
        try:
            found = program.run(jit, number)
        except Exception as error:
            text = f"run {number}: jit raises {type(error).__name__}: {error}"
            return [*verdicts, Verdict("different", text)]
        jit.plans.wait()
        for i, output in enumerate(program.outputs):
            verdict = compare(found[i], wanted[i], [n[i] for n in noisy])
            if verdict.kind == "different" and is_exact(wanted[i], [n[i] for n in noisy]):
                noisy += [_noisy(program, number, n) for n in range(len(noisy), MANY_NOISES)]
                verdict = compare(found[i], wanted[i], [n[i] for n in noisy])
            verdicts.append(verdict)
            if verdict.kind == "different":
                text = f"run {number}, {output}: {verdict.text}"
                return [*verdicts[:-1], Verdict("different", text)]
    return verdicts


def _noisy(program: Program, number: int, seed: int) -> list[Any]:
    with noise(seed):
        return program.run("numpy", number)


def shorter(program: Program, backend: Callable[[], JitBackend] = JitBackend) -> Program:
    """The program less every line that it fails without; halves of it are tried first."""
    size = len(program.lines) // 2
    while size:
        for first in range(len(program.lines) - size, -1, -size):
            less = without(program, range(first, first + size))
            if less.outputs and _fails(less, backend()):
                program = less
        size //= 2
    for output in program.outputs:
        less = replace(program, outputs=[o for o in program.outputs if o != output])
        if less.outputs and _fails(less, backend()):
            program = less
    return program


def _fails(program: Program, jit: JitBackend) -> bool:
    try:
        for number in range(RUNS):
            program.run("numpy", number)
    except Exception:  # something that it needs is gone
        return False
    return check(program, jit)[-1].kind == "different"


def run(
    programs: int,
    seed: int = 0,
    start: int = 0,
    progress: Callable[[int], None] | None = None,
    failed: Callable[[str], None] | None = None,
) -> Report:
    """Run programs ``start`` to ``start + programs - 1`` of ``seed``. Raises the
    DisagreementError of the first that fails, made short; or goes on and tells ``failed``."""
    gradients = find_spec("fl_autograd") is not None
    report = Report()
    for number in range(start, start + programs):
        program = grow(seed, number, gradients)
        jit = JitBackend()
        verdicts = check(program, jit)
        report.counts["programs"] += 1
        report.counts.update(_steps(jit))
        report.counts["lines"] += len(program.lines)
        report.counts["gradients"] += any(".grad" in o for o in program.outputs)
        report.counts.update(f"results {v.kind}" for v in verdicts)
        if verdicts and verdicts[-1].kind == "different":
            short = shorter(program)
            text = check(short, JitBackend())[-1].text
            text = f"program {number} of seed {seed}\n{text}\n\n{short.script()}"
            if failed is None:
                raise DisagreementError(text)
            failed(text)
        if progress and (number - start + 1) % 250 == 0:
            progress(number - start + 1)
    return report
