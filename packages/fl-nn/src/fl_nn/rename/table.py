"""Rename tables: ordered rules, used in either direction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import fl_tensor as ft
from fl_nn.errors import ModuleError
from fl_nn.files.stored import Loadable, Stored, equal, loaded
from fl_nn.rename.rules import Ignore, Keep, Rule, Template, Tied, Way
from fl_tensor import FlError


@dataclass
class Renamed:
    """Tensors under their new names, and what did not fit.

    unexpected  names that no rule takes
    incomplete  new names of which only a part is there, with the names that lack
    problems    what can be no file for this table, whoever asks: names twice, shapes
    """

    tensors: dict[str, Loadable]
    unexpected: list[str]
    incomplete: dict[str, list[str]]
    problems: list[str]


class Table:
    """Rules for all names of a file, from theirs to ours; it works in both directions."""

    def __init__(self, *rules: Rule | Ignore | Keep | Tied) -> None:
        self.rules = rules
        self._ways = [rule for rule in rules if isinstance(rule, Rule)]
        self._ignored = [rule.template for rule in rules if isinstance(rule, Ignore)]
        self._kept = [rule.template for rule in rules if isinstance(rule, Keep)]
        self._tied = [rule for rule in rules if isinstance(rule, Tied)]

    @classmethod
    def of_names(cls, names: Mapping[str, str]) -> Table:
        """Their names to ours, one by one; all others stay the same."""

        def plain(name: str) -> str:
            return name.replace("{", "{{").replace("}", "}}")

        own = [Rule(plain(theirs), plain(ours)) for theirs, ours in names.items()]
        return cls(*own, Rule("{name:path}", "{name:path}"))

    def below(self, theirs: str, ours: str = "") -> Table:
        """The same with `theirs` in front of all their names, "transformer.", say, and `ours` in
        front of all of ours, for a model that is a part of another."""
        return Table(*[rule.below(theirs, ours) for rule in self.rules])

    def to_ours(self, theirs: Mapping[str, Loadable]) -> Renamed:
        """What a file holds, under the names of the model. Nothing is read but tied tensors."""
        known, problems = self._untied(theirs)
        found = _convert(known, [rule.forward for rule in self._ways], self._ignored)
        found.problems[:0] = problems
        return found

    def to_theirs(self, ours: Mapping[str, Loadable]) -> Renamed:
        """The state of a model, under the names of the file."""
        found = _convert(ours, [rule.backward for rule in self._ways], self._kept)
        for tied in self._tied:
            for name, places in _matches(tied.of_template, found.tensors):
                found.tensors[tied.alias_template.fill(places)] = found.tensors[name]
        return found

    def keeps(self, ours: str) -> bool:
        """Whether they have no such tensor."""
        return _fits(ours, self._kept)

    def origins(self, ours: str) -> list[str]:
        """Their names for what becomes `ours`; none if no rule gives it."""
        for rule in self._ways:
            for target in rule.forward.targets:
                places = target.match(ours)
                if places is not None:
                    return [source.fill(places) for source in rule.forward.sources]
        return []

    def _untied(self, theirs: Mapping[str, Loadable]) -> tuple[dict[str, Loadable], list[str]]:
        known, problems = dict(theirs), []
        for tied in self._tied:
            for alias, places in _matches(tied.alias_template, known):
                of, value = tied.of_template.fill(places), known.pop(alias)
                if not equal(known.setdefault(of, value), value):
                    problems.append(f"{alias} differs from {of}, with which it should be one")
        return known, problems


def _fits(name: str, templates: Sequence[Template]) -> bool:
    return any(template.match(name) is not None for template in templates)


def _matches(template: Template, names: Iterable[str]) -> list[tuple[str, dict[str, str]]]:
    found = ((name, template.match(name)) for name in names)
    return [(name, places) for name, places in found if places is not None]


def _convert(
    tensors: Mapping[str, Loadable], ways: Sequence[Way], left_out: Sequence[Template]
) -> Renamed:
    found = Renamed({}, [], {}, [])
    done: set[str] = set()
    for name in tensors:
        if name in done or _fits(name, left_out):
            continue
        matches = ((w, s.match(name)) for w in ways for s in w.sources)
        way, places = next(((w, p) for w, p in matches if p is not None), (None, None))
        if way is None or places is None:
            found.unexpected.append(name)
            continue
        sources = [source.fill(places) for source in way.sources]
        targets = [target.fill(places) for target in way.targets]
        done.update(sources)
        lacking = [source for source in sources if source not in tensors]
        if lacking:
            found.incomplete.update(dict.fromkeys(targets, lacking))
            continue
        try:
            made = _apply(way, [tensors[source] for source in sources], len(targets))
        except FlError as error:
            found.problems.append(f"{', '.join(sources)}: {error}")
            found.incomplete.update(dict.fromkeys(targets, sources))
            continue
        for target, tensor in zip(targets, made):
            if target in found.tensors:
                found.problems.append(f"two tensors become {target!r}; check the renaming")
            found.tensors[target] = tensor
    return found


def _apply(way: Way, sources: list[Loadable], count: int) -> list[Loadable]:
    # Shapes at once, by computing on `null`; values when they are asked for.
    if way.convert is None:
        return sources
    convert = way.convert
    with ft.use("null"):
        results = convert([ft.zeros(s.shape, s.dtype) for s in sources])
    if len(results) != count:
        raise ModuleError(f"the steps give {len(results)} tensors for {count} names")

    def load(place: int) -> Callable[[], ft.Tensor]:
        return lambda: _compact(convert([loaded(source) for source in sources])[place])

    return [Stored(r.shape, r.dtype, load(place)) for place, r in enumerate(results)]


def _compact(tensor: ft.Tensor) -> ft.Tensor:
    # In C order, and not a view that keeps the whole of which it is a part.
    return ft.frombytes(tensor.tobytes(), tensor.shape, tensor.dtype)
