"""Cases: a public callable with good arguments, one of which is replaced by a bad value."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bad_values import KINDS, Bad

#: Of each argument at most so many bad values are tried in one run.
DRAWN = 5


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

    def call(self, folder: Path, **replaced: Any) -> Any:
        arguments = {**self.good(folder), **replaced}
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
        return self.target.call(folder, **{self.argument: self.bad.make(folder)})


def cases_of(targets: list[Target], seed: int, share: float = 1.0) -> list[Case]:
    """The cases that a seed draws, always in the same order."""
    found: list[Case] = []
    for target in targets:
        for argument, kind in target.kinds.items():
            bad = KINDS[kind] if isinstance(kind, str) else kind
            key = zlib.crc32(f"{target.name}/{argument}".encode()) ^ seed
            chosen = random.Random(key).sample(bad, min(DRAWN, len(bad)))
            found += [Case(target, argument, one) for one in chosen]
    if share < 1:
        chosen_cases = random.Random(seed).sample(range(len(found)), round(share * len(found)))
        found = [found[i] for i in sorted(chosen_cases)]
    return found
