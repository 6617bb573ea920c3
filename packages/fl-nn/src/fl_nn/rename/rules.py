"""Rename rules: patterns that map names of one side to the other."""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import fl_tensor as ft
from fl_nn.errors import ModuleError
from fl_nn.rename.steps import Step


class Template:
    """A name with places to fill in."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.fields: set[str] = set()
        try:
            self._pieces = list(string.Formatter().parse(text))
        except ValueError as error:
            raise ModuleError(f"[rename] template {text!r}: {error}") from error
        pattern = ""
        for literal, field, kind, _ in self._pieces:
            pattern += re.escape(literal)
            if field is None:
                continue
            if not field.isidentifier() or kind not in ("", "path") or field in self.fields:
                raise ModuleError(
                    f"[rename] template {text!r}: write {{name}} or {{name:path}}, each name once"
                )
            self.fields.add(field)
            pattern += f"(?P<{field}>{'.+' if kind else '[^.]+'})"
        self._pattern = re.compile(pattern, re.DOTALL)

    def match(self, name: str) -> dict[str, str] | None:
        """What stands in the places of `name`, or None if it is none of these names."""
        found = self._pattern.fullmatch(name)
        return None if found is None else found.groupdict()

    def fill(self, places: Mapping[str, str]) -> str:
        """The name with these in its places."""
        return "".join(
            literal + (places[field] if field is not None else "")
            for literal, field, _, _ in self._pieces
        )


@dataclass(frozen=True)
class Way:
    """One direction of a rule: from the tensors called `sources` to those called `targets`;
    `convert` is None where nothing happens to them."""

    sources: tuple[Template, ...]
    targets: tuple[Template, ...]
    convert: Callable[[list[ft.Tensor]], list[ft.Tensor]] | None


class Rule:
    """Their names, what happens to the tensors, our names.

    theirs, ours  a template, or several where a step merges or splits; all with the same places
    steps         what theirs go through, one after another, to become ours
    """

    def __init__(self, theirs: str | Sequence[str], ours: str | Sequence[str], *steps: Step):
        self.theirs = [theirs] if isinstance(theirs, str) else list(theirs)
        self.ours = [ours] if isinstance(ours, str) else list(ours)
        self.steps = steps
        sources, targets = (tuple(map(Template, side)) for side in (self.theirs, self.ours))
        fields = {frozenset(template.fields) for template in (*sources, *targets)}
        if not sources or not targets or len(fields) != 1:
            raise ModuleError(
                f"[rename] {self.theirs} and {self.ours}: all need at least one name, and the same "
                "places in braces"
            )
        if (len(sources), len(targets)) != (1, 1) and not steps:
            raise ModuleError(f"[rename] {self.theirs} to {self.ours}: add a Merge or a Split")
        self.forward = Way(sources, targets, self._through if steps else None)
        self.backward = Way(targets, sources, self._back if steps else None)

    def below(self, theirs: str, ours: str = "") -> Rule:
        """The same with these in front of their names and ours."""
        names = ([theirs + name for name in self.theirs], [ours + name for name in self.ours])
        return Rule(*names, *self.steps)

    def _through(self, tensors: list[ft.Tensor]) -> list[ft.Tensor]:
        for step in self.steps:
            tensors = step.forward(tensors)
        return tensors

    def _back(self, tensors: list[ft.Tensor]) -> list[ft.Tensor]:
        for step in reversed(self.steps):
            tensors = step.backward(tensors)
        return tensors


class Ignore:
    """Tensors of theirs that a model has no place for, such as masks that are always the same: not
    loaded, and not written."""

    def __init__(self, theirs: str) -> None:
        self.theirs = theirs
        self.template = Template(theirs)

    def below(self, theirs: str, ours: str = "") -> Ignore:
        """The same with `theirs` in front."""
        return Ignore(theirs + self.theirs)


class Keep:
    """Tensors of ours that they do not have: those of the model stay, and are not written."""

    def __init__(self, ours: str) -> None:
        self.ours = ours
        self.template = Template(ours)

    def below(self, theirs: str, ours: str = "") -> Keep:
        """The same with `ours` in front."""
        return Keep(ours + self.ours)


class Tied:
    """A second name, `alias`, that they have for the tensor `of`. A file may have either or both,
    which then must be equal; both are written. Rules are about `of`."""

    def __init__(self, alias: str, of: str) -> None:
        self.alias, self.of = alias, of
        self.alias_template, self.of_template = Template(alias), Template(of)
        if self.alias_template.fields != self.of_template.fields:
            raise ModuleError(f"[rename] {alias!r} and {of!r}: the same places in braces")

    def below(self, theirs: str, ours: str = "") -> Tied:
        """The same with `theirs` in front."""
        return Tied(theirs + self.alias, theirs + self.of)
