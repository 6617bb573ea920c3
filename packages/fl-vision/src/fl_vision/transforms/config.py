"""Files of transforms: JSON with the names of classes and of their settings."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import fl_tensor as ft
from fl_memory.errors import FlError
from fl_tensor.annotations import checked
from fl_tensor.files import open_regular, replacing
from fl_vision.errors import DataFileError, DataMissingError, ImageError
from fl_vision.transforms import (
    affine,
    blur,
    colour,
    crops,
    erasing,
    flips,
    rand_augment,
    random_crops,
    resize,
    tones,
)
from fl_vision.transforms.normalise import Normalise
from fl_vision.transforms.transform import Compose, ImageTransform, RandomApply, RandomSelect

_KEY = "transforms"
_LARGEST = 1 << 20
_DEEPEST = 20
_MODULES = (
    *(affine, blur, colour, crops, erasing, flips, rand_augment, random_crops, resize, tones),
)


def _transforms_of(module: ModuleType) -> list[type[ImageTransform]]:
    """Those that a file can name: dataclasses that the module defines."""
    found = [each for each in vars(module).values() if dataclasses.is_dataclass(each)]
    return [each for each in found if each.__module__ == module.__name__]  # type: ignore[misc]


_OTHERS: list[type[ImageTransform]] = [RandomApply, RandomSelect, Compose, Normalise]
_KINDS = {
    kind.__name__: kind
    for kind in _OTHERS + [kind for module in _MODULES for kind in _transforms_of(module)]
}


@checked
def read_transforms(path: str | os.PathLike[str]) -> Compose:
    """The chain of a JSON file that `write_transforms` wrote.

    Raises `ImageError` that names the file, the number of the entry from 0, and the setting;
    `DataMissingError` and `DataFileError` for a file that cannot be read.
    """
    name = os.fspath(path)
    try:
        with open_regular(name) as file:
            text = file.read(_LARGEST + 1)
    except FileNotFoundError:
        raise DataMissingError(f"[transforms] {name}: no such file; check the path") from None
    except OSError as error:
        raise DataFileError("transforms", name, f"unreadable ({error})", "check it") from error
    if len(text) > _LARGEST:
        raise DataFileError("transforms", name, f"larger than {_LARGEST} bytes", "give another one")
    try:
        config = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataFileError("transforms", name, f"no JSON ({error})", "correct it") from error
    return _chain(name, config)


@checked
def write_transforms(path: str | os.PathLike[str], transforms: Compose) -> None:
    """Write a chain as JSON that `read_transforms` reads. Raises `ImageError` for transforms that
    are not of this package."""
    text = json.dumps(_described("write_transforms", transforms), indent=4)
    with replacing(path) as file:
        file.write(text.encode() + b"\n")


@checked
def create_transforms(config: Mapping[str, Any]) -> Compose:
    """The chain of `{"transforms": [{"type": "HorizontalFlip"}, {"type": "Resize", "size": [224,
    224]}, ...]}`. Raises `ImageError` as `read_transforms` does, with `config` for the file."""
    return _chain("config", config)


def _chain(where: str, config: Any) -> Compose:
    remedy = f'give {{"{_KEY}": [...]}}'
    if not isinstance(config, Mapping) or set(config) != {_KEY}:
        raise ImageError(where, f"is no block with the key {_KEY} alone", remedy)
    entries = config[_KEY]
    if not isinstance(entries, list | tuple):
        raise ImageError(where, f"{_KEY} is a {type(entries).__name__}", remedy)
    return Compose(tuple(_made(f"{where}: entry {k}", each, 0) for k, each in enumerate(entries)))


def _made(where: str, entry: Any, depth: int) -> ImageTransform:
    """One entry: its type, and its settings."""
    name = entry.get("type") if isinstance(entry, Mapping) else None
    if not isinstance(name, str) or name not in _KINDS:
        said = "is no block with a type" if name is None else f"type is {name!r}"
        raise ImageError(where, said, f"give one of {', '.join(_KINDS)}")
    if depth > _DEEPEST:
        raise ImageError(where, f"stands in more than {_DEEPEST} others", "nest less")
    kind = _KINDS[name]
    where = f"{where} ({name})"
    known = {field.name: field for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    settings = {}
    for key, value in entry.items():
        if key == "type":
            continue
        if key not in known:
            raise ImageError(where, f"{key!r} is no setting of it", f"give {sorted(known)}")
        settings[key] = _value(f"{where}.{key}", value, depth)
    for key, field in known.items():
        if key not in settings and field.default is dataclasses.MISSING:
            raise ImageError(where, f"{key} is missing", f"give {field.type}")
    try:
        if "dtype" in settings:
            settings["dtype"] = ft.dtype(settings["dtype"])
        return kind(**settings)
    except ImageError as error:
        raise ImageError(where, error.problem, error.remedy) from error
    except (FlError, TypeError, ValueError, OverflowError) as error:
        raise ImageError(where, f"cannot be made ({error})", "correct its settings") from error


def _value(where: str, value: Any, depth: int) -> Any:
    if isinstance(value, Mapping):
        return _made(where, value, depth + 1)
    if isinstance(value, list | tuple):
        return tuple(_value(f"{where}[{k}]", each, depth + 1) for k, each in enumerate(value))
    return value


def _described(where: str, transform: ImageTransform) -> dict[str, Any]:
    if type(transform) is Compose and where == "write_transforms":
        return {_KEY: [_described(f"{where}: entry {k}", t) for k, t in enumerate(transform)]}
    kind = type(transform)
    if _KINDS.get(kind.__name__) is not kind:
        raise ImageError(where, f"is a {kind.__name__}", "make a chain of this package's alone")
    fields = dataclasses.fields(transform)  # type: ignore[arg-type]
    values = {field.name: getattr(transform, field.name) for field in fields}
    return {"type": kind.__name__} | {key: _plain(where, value) for key, value in values.items()}


def _plain(where: str, value: Any) -> Any:
    if isinstance(value, ImageTransform):
        return _described(f"{where} ", value)
    if isinstance(value, tuple):
        return [_plain(where, each) for each in value]
    return value if isinstance(value, bool | int | float | str | None) else str(value)
