"""A program that two libraries run step by step, and what must hold after every step.

* Both gave the same shape, dtype and values, or both raised an error of the same kind.
* No value but the one assigned to has changed: handles are values (NumPy's side copies results).

What differs must be explained by an entry of the table of documented differences. A program in
which something is not prints as a script.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

import fl_tensor as ft
from fuzzing import step as steps
from fuzzing.differences import TABLE, Difference
from fuzzing.step import Outcome, Step


class DisagreementError(AssertionError):
    """The libraries differ, and no documented difference says why. Prints as a script."""


class Program:
    """The values of both sides by name (``v0``, ``v1``, ...), and how they came to be."""

    def __init__(self, table: Sequence[Difference] = TABLE) -> None:
        self.table = table
        self.ours: dict[str, Any] = {}
        self.theirs: dict[str, Any] = {}
        #: operations, errors that agreed
        self.counts: Counter[str] = Counter()
        #: by name of the documented difference
        self.differences: Counter[str] = Counter()
        self._script: list[str] = []

    def run(self, step: Step) -> None:
        """Take a step on both sides. Raises DisagreementError."""
        name = step.target or f"v{len(self.ours)}"
        wanted = steps.theirs(step.theirs, self.theirs)
        found = steps.ours(step, self.ours)
        self.counts["operations"] += 1
        tolerance = self._tolerance(step)
        why = steps.disagreement(found, wanted, tolerance)
        known = self._explain(step, found, wanted, tolerance) if why else None
        self._write(step, name, found.error)
        if why and not known:
            raise DisagreementError(
                f"{why}\n{step.line}\n  ours:    {found}\n  NumPy's: {wanted}\n\n"
                f"{self.source(name)}"
            )
        if known:
            self.differences[known] += 1
        elif found.error is not None:
            self.counts["errors that agreed"] += 1
        if isinstance(found.value, ft.Tensor):
            self._take(name, found.value, wanted, known)
        for other, value in self.theirs.items():
            if not steps.same(self.ours[other].numpy(), value):
                raise DisagreementError(f"{other} has changed\n\n{self.source(other)}")

    def _tolerance(self, step: Step) -> float:
        # How large the numbers are whose rounding errors add up.
        if not step.degree:
            return 1.0
        sizes = [np.abs(a[np.isfinite(a)].astype(np.complex128)) for a in step.arrays(self.theirs)]
        with np.errstate(over="ignore"):
            return max(1.0, *(float(a.sum()) for a in sizes)) ** step.degree

    def _explain(self, step: Step, found: Outcome, wanted: Outcome, tolerance: float) -> str | None:
        for entry in self.table:
            expected = entry.expect(step, self.theirs, wanted)
            if expected and not steps.disagreement(found, expected, tolerance):
                return entry.name
        return None

    def _take(self, name: str, value: Any, wanted: Outcome, known: str | None) -> None:
        self.ours[name] = value
        copied = np.array(value.numpy())
        if known or not steps.same(copied, wanted.value):
            # Both sides go on from our value, or small differences would grow into large ones.
            x, y = _in("x", name), _in("y", name)
            self._script.append(f"{y} = {x}.numpy().copy()  # {known or 'rounding'}")
        self.theirs[name] = copied

    # ---- the script --------------------------------------------------------------------------

    def _write(self, step: Step, name: str, error: BaseException | None) -> None:
        for letter, line in (("x", step.line), ("y", step.theirs)):
            text = line if step.target else f"{name} = {line}"
            self._script.append(_in(letter, f"# raises: {text}" if error else text))

    def source(self, last: str) -> str:
        """The program as a script that ends with the value ``last`` of both sides: ours are x0,
        x1, ..., NumPy's y0, y1, ...."""
        body = self._script
        for i in (len(body) - 1, len(body) - 2):
            body[i] = body[i].removeprefix("# raises: ")
        return "\n".join(
            [
                "import numpy as np",
                "import fl_tensor as ft",
                "",
                *body,
                f"print(repr({_in('x', last)}))",
                f"print(repr({_in('y', last)}))",
            ]
        )


def _in(letter: str, line: str) -> str:
    return re.sub(r"\bv(\d+)\b", rf"{letter}\1", line)
