"""``RecipeSettings``: settings of a JSON file, of which each is an option of a command."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from fl_nn.recipes.rules import kind_of, rule_of
from fl_tensor import untrusted_json
from fl_tensor.files import open_regular

if TYPE_CHECKING:
    from typing_extensions import Self

_MAX_BYTES = 1 << 20


@dataclass(frozen=True)
class RecipeSettings:
    """Base of recipes: frozen dataclasses whose fields `setting` makes, and which may define
    `contradictions`. What such a class names:

    PACKAGE  the package that has its recipes
    FOLDER   the folder of their files in the package
    COMMAND  the command whose help lists the settings
    ERROR    what is raised, an exception that takes a problem and keeps it as `problem`

    Values that make no sense raise an ERROR that names all of them.
    """

    PACKAGE: ClassVar[str]
    FOLDER: ClassVar[str]
    COMMAND: ClassVar[str]
    ERROR: ClassVar[type[Exception]]

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
            raise self.ERROR("; ".join(problems))

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
        names = (each.name for each in cls._folder().iterdir())
        return tuple(sorted(name[:-5] for name in names if name.endswith(".json")))

    @classmethod
    def read(cls, source: str | os.PathLike[str], **given: Any) -> Self:
        """The recipe in a JSON file, or one of those that `recipe_names` lists; settings in `given`
        that are not None take the place of its own.

        Raises ERROR, which names the file, for unknown settings and values.
        """
        path, text = cls._text_of(source)
        try:
            values = untrusted_json.parse(text)
        except ValueError as error:
            raise cls.ERROR(f"{path}: no JSON ({error})") from error
        chosen = {name: value for name, value in given.items() if value is not None}
        try:
            own = cls.of(values)  # a recipe makes sense without options
            return cls.of({**own.values(), **chosen}) if chosen else own
        except cls.ERROR as error:
            problem = getattr(error, "problem", error)
            raise cls.ERROR(f"{path}: {problem}") from error

    @classmethod
    def of(cls, values: object) -> Self:
        """The recipe of plain values, which are as untrusted as a file."""
        if not isinstance(values, Mapping):
            raise cls.ERROR(f"it is {type(values).__name__}: give an object of settings")
        unknown = [str(name) for name in values if name not in cls.names()]
        if unknown:
            raise cls.ERROR(
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
        return resources.files(cls.PACKAGE).joinpath(cls.FOLDER)

    @classmethod
    def _text_of(cls, source: str | os.PathLike[str]) -> tuple[str, bytes]:
        name, known = os.fspath(source), cls.recipe_names()
        if not Path(name).exists() and name in known:
            return name, cls._folder().joinpath(f"{name}.json").read_bytes()
        if not Path(name).exists():
            raise cls.ERROR(
                f"{name}: no such file; the recipes of the package are {', '.join(known)}"
            )
        try:
            with open_regular(name) as file:
                text = file.read(_MAX_BYTES + 1)
        except OSError as error:
            raise cls.ERROR(f"{name}: cannot be read ({error.strerror or error})") from error
        if len(text) > _MAX_BYTES:
            raise cls.ERROR(f"{name}: longer than {_MAX_BYTES} bytes")
        return name, text
