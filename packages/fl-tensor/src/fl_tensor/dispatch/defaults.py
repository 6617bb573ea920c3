"""Which backend is the default: the installed one with the highest number.

A distribution states an integer from 0 to 100 for a backend that it offers, among the keywords of
its metadata: ``fl.tensor.default.acme.60``. A backend without a number is never the default. Of
equal numbers the first name in alphabetical order counts. No distribution's code is imported.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from fl_memory.installed import Offer
from fl_memory.plugins import Registry

KEYWORD = "fl.tensor.default."
MOST = 100
#: The numbers of built-in backends.
BUILT_IN = {"numpy": 10}


class Candidate(NamedTuple):
    """A backend that may be the default, its number, and who states the number."""

    name: str
    number: int
    origin: str


def candidates(registry: Registry) -> list[Candidate]:
    """The backends that may be the default, the default first."""
    found = [Candidate(name, number, "built in") for name, number in BUILT_IN.items()]
    found += [each for each in _stated(registry) if isinstance(each, Candidate)]
    return sorted(found, key=lambda each: (-each.number, each.name))


def problems(registry: Registry) -> list[str]:
    """The keywords that are ignored, a line each that says why."""
    return [each for each in _stated(registry) if isinstance(each, str)]


def _stated(registry: Registry) -> Iterator[Candidate | str]:
    """What the keywords of the distributions say: candidates, and a line for each other one."""
    offered: dict[str, tuple[Offer, set[str]]] = {}  # a distribution may offer several backends
    for offer in registry.offers():
        offered.setdefault(str(offer), (offer, set()))[1].add(offer.name)
    for origin, (offer, names) in offered.items():
        numbers: dict[str, int] = {}
        for keyword in offer.keywords:
            if not keyword.startswith(KEYWORD):
                continue
            name, _, digits = keyword[len(KEYWORD) :].rpartition(".")
            why = ""
            if not (name and digits.isascii() and digits.isdigit() and int(digits) <= MOST):
                why = f"expected {KEYWORD}NAME.NUMBER, an integer from 0 to {MOST}"
            elif name not in names:
                why = f"{offer.distribution} offers no backend {name!r}"
            elif numbers.setdefault(name, int(digits)) != int(digits):
                why = f"{name!r} has the number {numbers[name]} by another keyword"
            if why:
                yield f"keyword {keyword!r} of {origin} is ignored: {why}"
        for name, number in numbers.items():
            yield Candidate(name, number, origin)
