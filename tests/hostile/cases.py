"""Cases: a public callable with good arguments, one of which is replaced by a bad value."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bad_values import KINDS, Bad


@dataclass(frozen=True)
class Target:
    """A callable, how to make good arguments for it, and the kinds of its arguments.

    ``good(folder)`` gives arguments by name; those whose names are numbers are positional.
    ``kinds`` maps names of arguments to names of ``bad_values.KINDS``, or to lists of ``Bad``.
    """

    name: str
    function: Callable[..., Any]
    good: Callable[[Path], Mapping[str, Any]]
    kinds: Mapping[str, str | list[Bad]] = field(default_factory=dict)

    def call(self, folder: Path, /, **bad: Bad) -> Any:
        # The good ones first: a bad file replaces a good one of its name.
        arguments = dict(self.good(folder))
        arguments |= {name: one.make(folder) for name, one in bad.items()}
        positional = sorted((k for k in arguments if k.isdigit()), key=int)
        named = {k: v for k, v in arguments.items() if not k.isdigit()}
        return self.function(*(arguments[k] for k in positional), **named)


@dataclass(frozen=True)
class Case:
    target: Target
    argument: str
    bad: Bad

    @property
    def name(self) -> str:
        return f"{self.target.name}({self.argument}={self.bad.label})"

    def run(self, folder: Path) -> Any:
        return self.target.call(folder, **{self.argument: self.bad})


def cases_of(targets: list[Target], seed: int, share: float = 1.0) -> list[Case]:
    """Every target with every bad value, or the share of these that a seed draws; always in the
    same order."""
    found = [
        Case(target, argument, bad)
        for target in targets
        for argument, kind in target.kinds.items()
        for bad in (KINDS[kind] if isinstance(kind, str) else kind)
    ]
    if share < 1:
        chosen = random.Random(seed).sample(range(len(found)), round(share * len(found)))
        found = [found[i] for i in sorted(chosen)]
    return found
