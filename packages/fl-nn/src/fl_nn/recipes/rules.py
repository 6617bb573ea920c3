"""Rules of settings: fields of a dataclass with limits, a group and a help text."""

from __future__ import annotations

from dataclasses import Field, field
from typing import Any, NamedTuple

_GREATEST = 1e15


class SettingRule(NamedTuple):
    """What a setting may be: numbers from `least` (or above it) to `most` (or below it), or one of
    `choices`. `group` and `help` are for the list of options."""

    group: str
    help: str
    least: float = 0.0
    most: float = _GREATEST
    above: bool = False
    below: bool = False
    choices: tuple[str, ...] = ()

    def problem(self, value: Any, kind: type) -> str | None:
        """What is wrong with a value, in words."""
        if kind is bool:
            return None if isinstance(value, bool) else "give true or false"
        if kind is str:
            if not isinstance(value, str) or "\0" in value:
                return "give text"
            if self.choices and value not in self.choices:
                return f"give one of {', '.join(self.choices)}"
            return None
        expected = int if kind is int else (int, float)
        if isinstance(value, bool) or not isinstance(value, expected):
            return f"give {'a whole' if kind is int else 'a'} number"
        inside = self.least <= value <= self.most
        if (
            not inside
            or (self.above and value == self.least)
            or (self.below and value == self.most)
        ):
            most = f", and {'below' if self.below else 'at most'} {self.most:g}"
            most = "" if self.most == _GREATEST else most
            return f"give {'more than' if self.above else 'at least'} {self.least:g}{most}"
        return None


def setting(default: Any, group: str, help: str, *limits: Any, **more: Any) -> Any:
    """A field of str, int, float or bool, with a rule whose other arguments are those of
    `SettingRule`."""
    return field(default=default, metadata={"rule": SettingRule(group, help, *limits, **more)})


def rule_of(each: Field[Any]) -> SettingRule:
    """What a field that `setting` made may be."""
    rule: SettingRule = each.metadata["rule"]
    return rule


def kind_of(each: Field[Any]) -> type:
    """The type of a field that `setting` made: str, int, float or bool."""
    return type(each.default)
