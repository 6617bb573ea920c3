"""``RecipeSettings``: what all recipes have in common, settings with rules and files of them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from fl_nn.extend import kind_of, rule_of
from fl_tensor import untrusted_json
from fl_tensor.files import open_regular
from fl_text.errors import RecipeError

if TYPE_CHECKING:
    from typing_extensions import Self

_MAX_BYTES = 1 << 20


@dataclass(frozen=True)
class RecipeSettings:
    """Base of recipes: dataclasses whose fields `fl_nn.extend.setting` makes.

    `FOLDER` has the recipes of the package, `COMMAND` lists the settings. Raises `RecipeError`,
    which names all settings that make no sense.
    """

    FOLDER: ClassVar[str]
    COMMAND: ClassVar[str]

    def __post_init__(self) -> None:
        problems = []
        for each in fields(self):
            value, kind = getattr(self, each.name), kind_of(each)
            if kind is float and isinstance(value, int) and not isinstance(value, bool):
                object.__setattr__(self, each.name, float(value))
            problem = rule_of(each).problem(value, kind)
            if problem is not None:
                problems.append(f"{each.name} is {value!r}: {problem}")
        if not problems:
            problems += self._contradictions()
        if problems:
            raise RecipeError("; ".join(problems))

    def _contradictions(self) -> list[str]:
        """What is wrong with settings together, in words."""
        return []

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """The names of the settings."""
        return tuple(each.name for each in fields(cls))

    @classmethod
    def published(cls) -> tuple[str, ...]:
        """The names of the recipes of the package: what `read` takes in place of a path."""
        files = (each.name for each in cls._folder().iterdir())
        return tuple(sorted(name[:-5] for name in files if name.endswith(".json")))

    @classmethod
    def read(cls, source: str | os.PathLike[str], **given: Any) -> Self:
        """The recipe in a JSON file, or one of those that `published` names; settings in `given`
        that are not None go before it.

        Raises `RecipeError`, which names the file, for unknown settings and values.
        """
        path, text = cls._text_of(source)
        try:
            values = untrusted_json.parse(text)
        except ValueError as error:
            raise RecipeError(f"{path}: no JSON ({error})") from error
        chosen = {name: value for name, value in given.items() if value is not None}
        try:
            return cls.of({**values, **chosen} if isinstance(values, dict) else values)
        except RecipeError as error:
            raise RecipeError(f"{path}: {error.problem}") from error

    @classmethod
    def of(cls, values: object) -> Self:
        """The recipe of plain values, which are as untrusted as a file."""
        if not isinstance(values, Mapping):
            raise RecipeError(f"it is {type(values).__name__}: give an object of settings")
        unknown = [str(name) for name in values if name not in cls.names()]
        if unknown:
            raise RecipeError(
                f"unknown settings {', '.join(map(repr, unknown[:5]))}: `{cls.COMMAND} --help` "
                "lists all, with - in place of _"
            )
        return cls(**values)

    def changed(self, **values: Any) -> Self:
        """This recipe with other values of some settings."""
        return replace(self, **values) if values else self

    def values(self) -> dict[str, Any]:
        """All settings as plain values."""
        return asdict(self)

    @classmethod
    def _folder(cls) -> Any:
        return resources.files("fl_text").joinpath(cls.FOLDER)

    @classmethod
    def _text_of(cls, source: str | os.PathLike[str]) -> tuple[str, bytes]:
        name = os.fspath(source)
        if not Path(name).exists() and name in cls.published():
            return name, cls._folder().joinpath(f"{name}.json").read_bytes()
        if not Path(name).exists():
            raise RecipeError(
                f"{name}: no such file; the recipes of the package are {', '.join(cls.published())}"
            )
        with open_regular(name) as file:
            text = file.read(_MAX_BYTES + 1)
        if len(text) > _MAX_BYTES:
            raise RecipeError(f"{name}: longer than {_MAX_BYTES} bytes")
        return name, text
