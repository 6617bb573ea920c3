"""A program: lines of Python over ``v0, v1, ...``, and what is left of it at the end."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import fl_tensor as ft
from fl_jit import JitBackend
from fl_jit.planning.plan_future import JitWarning
from twins import runtime

NAMES = ("array", "indices", "refused", "look", "variable")


@dataclass
class Program:
    """``outputs`` are names of values, or expressions, that are compared at the end; ``smallest``
    is from how many elements on ``jit`` defers operations, ``compile_after`` when it makes a plan,
    ``background`` whether it goes on meanwhile."""

    lines: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    smallest: int = 1
    compile_after: int = 2
    background: bool = False
    seed: int = 0

    def prepare(self, jit: JitBackend) -> None:
        """Have ``jit`` work as the program wants it."""
        jit.smallest = self.smallest
        jit.plans.compile_after, jit.plans.background = self.compile_after, self.background
        jit.plans.policy.patience = 0

    def run(self, backend: Any, number: int) -> list[Any]:
        """The outputs of run ``number``, as NumPy arrays or the names of errors."""
        kept = [x for x in self.lines if number != runtime.KEPT or not x.startswith("del ")]
        text = "\n".join([*kept, f"results = [{', '.join(self.outputs)}]"])
        scope = environment(self.seed, number)
        with ft.use(backend), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", JitWarning)  # a plan that cannot be made
            exec(compile(text, "<program>", "exec"), scope)
            results = scope.pop("results")
            scope.clear()
            results = [getattr(x, "tensor", x) for x in results]
            ft.eval(*[x for x in results if isinstance(x, ft.Tensor)])
            return [np.asarray(x) if isinstance(x, ft.Tensor) else x for x in results]

    def script(self) -> str:
        """The program as a file that prints what both backends make of it."""
        body = "\n".join("    " + line for line in [*self.lines])
        return "\n".join(
            [
                inspect.getsource(runtime),
                "",
                f"def program():\n    g = ft.Generator({self.seed})\n{body}",
                f"    return [{', '.join(self.outputs)}]",
                "",
                "from fl_jit import JitBackend",
                "",
                f"jit = JitBackend()\njit.smallest = {self.smallest}",
                f"jit.plans.compile_after = {self.compile_after}",
                f"jit.plans.background = {self.background}",
                "jit.plans.policy.patience = 0",
                "for RUN in range(4):",
                '    for backend in ("numpy", jit):',
                "        with ft.use(backend):",
                "            for x in program():",
                "                print(RUN, getattr(backend, 'name', backend), x)",
            ]
        )


def environment(seed: int, number: int) -> dict[str, Any]:
    """What the lines of a program see."""
    runtime.RUN = number
    return {"ft": ft, "g": ft.Generator(seed), **{n: getattr(runtime, n) for n in NAMES}}


def without(program: Program, dropped: Sequence[int]) -> Program:
    """The program less some of its lines, and less the outputs that are no more."""
    lines = [line for i, line in enumerate(program.lines) if i not in dropped]
    made = {line.partition(" = ")[0] for line in lines}
    names = {name.strip() for part in made for name in part.split(",")}
    kept = [o for o in program.outputs if o.partition(".")[0] in names]
    return replace(program, lines=lines, outputs=kept)
