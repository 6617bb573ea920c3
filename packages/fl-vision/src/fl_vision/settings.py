"""``Settings``: a dataclass whose fields are options of a command and names of a JSON file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from importlib import resources
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from fl_nn.extend import SettingRule as Rule
from fl_nn.extend import kind_of, rule_of, setting
from fl_tensor import untrusted_json
from fl_tensor.files import open_regular
from fl_vision.errors import RecipeError

__all__ = ["Rule", "Settings", "kind_of", "rule_of", "setting"]

_MAX_BYTES = 1 << 20
_Any = TypeVar("_Any", bound="Settings")


@dataclass(frozen=True)
class Settings:
    """Settings that have defaults and rules. A class that derives from it is a frozen dataclass
    with fields made by `setting`, of str, int, float or bool; it names the `folder` of its files in
    the package and its `command`, and may define `contradictions`.

    Raises `RecipeError`, which names all settings that make no sense.
    """

    folder: ClassVar[str] = ""
    command: ClassVar[str] = ""

    def __post_init__(self) -> None:
        problems = []
        for each in fields(self):
            value, kind = getattr(self, each.name), kind_of(each)
            if kind is float and isinstance(value, int) and not isinstance(value, bool):
                object.__setattr__(self, each.name, float(value))
            problem = rule_of(each).problem(value, kind)
            if problem is not None:
                problems.append(f"{each.name} is {value!r}: {problem}")
        problems = problems or self.contradictions()
        if problems:
            raise RecipeError("; ".join(problems))

    def contradictions(self) -> list[str]:
        """What is wrong with settings that do not fit together, in words."""
        return []

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """The names of the settings."""
        return tuple(each.name for each in fields(cls))

    @classmethod
    def recipe_names(cls) -> tuple[str, ...]:
        """The recipes of the package: what `read` takes in place of a path."""
        folder = resources.files("fl_vision") / "recipes" / cls.folder
        names = [p.name for p in folder.iterdir()] if folder.is_dir() else []
        return tuple(sorted(name[:-5] for name in names if name.endswith(".json")))

    @classmethod
    def read(cls: type[_Any], source: str | os.PathLike[str], **given: Any) -> _Any:
        """The settings in a JSON file, or in one of the recipes of the package; those in `given`
        that are not None go before it.

        Raises `RecipeError`, which names the file, for unknown settings and values.
        """
        path, text = cls._text_of(source)
        try:
            values = untrusted_json.parse(text)
        except ValueError as error:
            raise RecipeError(f"{path}: no JSON ({error})") from error
        try:
            return cls.of(values).changed(**given)
        except RecipeError as error:
            raise RecipeError(f"{path}: {error.problem}") from error

    @classmethod
    def of(cls: type[_Any], values: object) -> _Any:
        """The settings of plain values, which are as untrusted as a file."""
        if not isinstance(values, Mapping):
            raise RecipeError(f"it is {type(values).__name__}: give an object of settings")
        unknown = [str(name) for name in values if name not in cls.names()]
        if unknown:
            raise RecipeError(
                f"unknown settings {', '.join(map(repr, unknown[:5]))}: `{cls.command} --help` "
                "lists all, with - in place of _"
            )
        return cls(**values)

    def changed(self: _Any, **values: Any) -> _Any:
        """These settings with other values, those that are not None."""
        chosen = {name: value for name, value in values.items() if value is not None}
        return replace(self, **chosen) if chosen else self

    def values(self) -> dict[str, Any]:
        """All settings as plain values."""
        return asdict(self)

    @classmethod
    def _text_of(cls, source: str | os.PathLike[str]) -> tuple[str, bytes]:
        name, known = os.fspath(source), cls.recipe_names()
        if not Path(name).exists() and name in known:
            inside = resources.files("fl_vision") / "recipes" / cls.folder / f"{name}.json"
            return name, inside.read_bytes()
        if not Path(name).exists():
            raise RecipeError(
                f"{name}: no such file; the recipes of the package are {', '.join(known)}"
            )
        try:
            with open_regular(name) as file:
                text = file.read(_MAX_BYTES + 1)
        except OSError as error:
            raise RecipeError(f"{name}: cannot be read ({error.strerror or error})") from error
        if len(text) > _MAX_BYTES:
            raise RecipeError(f"{name}: longer than {_MAX_BYTES} bytes")
        return name, text
