"""The entry points of installed distributions, read without importing ``importlib.metadata``.

That module takes 13 ms or more to import, which the first tensor of a process would pay; reading
the files of 100 distributions takes 2 ms. The rules are the same: distributions lie in folders of
``sys.path``, and the first one of a name counts. Where a distribution may lie elsewhere (archives,
finders of other packages), ``importlib.metadata`` is asked.

Formats: https://packaging.python.org/specifications/entry-points/ and
https://packaging.python.org/specifications/core-metadata/.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from typing import NamedTuple

__all__ = ["Offer", "offers"]


class Offer(NamedTuple):
    """An entry point, and what the metadata of its distribution says. ``str`` gives the
    distribution with its version."""

    name: str
    value: str  # "module:attribute"
    distribution: str
    version: str
    keywords: tuple[str, ...]

    @property
    def module(self) -> str:
        """The module part of the value, without attribute and extras."""
        return self.value.partition(":")[0].partition("[")[0].strip()

    def __str__(self) -> str:
        return f"{self.distribution} {self.version}"


def offers(group: str) -> list[Offer]:
    """The entry points of a group, in the order of ``sys.path``. Imports no implementation."""
    return list(_from_folders(group) if _are_in_folders() else _from_importlib(group))


def _are_in_folders() -> bool:
    """Whether every installed distribution is a folder in a folder of ``sys.path``."""
    finders = [finder for finder in sys.meta_path if hasattr(finder, "find_distributions")]
    if [getattr(finder, "__name__", None) for finder in finders] != ["PathFinder"]:
        return False
    return not any(path.endswith(".egg") or os.path.isfile(path) for path in sys.path)


def _from_importlib(group: str) -> Iterator[Offer]:
    from importlib.metadata import entry_points

    for point in entry_points(group=group):
        if point.dist is not None:
            about = point.dist.metadata
            words = _keywords(about.get_all("Keywords") or ())
            yield Offer(point.name, point.value, about["Name"], point.dist.version, words)


def _from_folders(group: str) -> Iterator[Offer]:
    seen: set[str] = set()
    for path in dict.fromkeys(sys.path):
        try:
            names = os.listdir(path or os.curdir)
        except OSError:
            continue  # not there, or no folder
        for name in names:
            stem, kind = os.path.splitext(name)
            if kind in (".dist-info", ".egg-info"):
                project = stem.partition("-")[0].lower().replace(".", "_").replace("-", "_")
                if project not in seen:
                    seen.add(project)
                    yield from _of_distribution(os.path.join(path, name), group)


def _of_distribution(folder: str, group: str) -> Iterator[Offer]:
    points = _read(folder, "entry_points.txt")
    if f"[{group}]" not in points:
        return
    about = _header(_read(folder, "METADATA") or _read(folder, "PKG-INFO"))
    name, version = about.get("name", [""])[0], about.get("version", [""])[0]
    words = _keywords(about.get("keywords", ()))
    section = ""
    for line in map(str.strip, points.splitlines()):
        if line.startswith("["):
            section = line[1:-1]
        elif section == group and "=" in line and not line.startswith("#"):
            point, _, value = line.partition("=")
            yield Offer(point.strip(), value.strip(), name, version, words)


def _header(text: str) -> dict[str, list[str]]:
    """The fields of a metadata file by their names in lower case; the body is left out."""
    fields: dict[str, list[str]] = {}
    last: list[str] = []
    for line in text.splitlines():
        if not line:
            break
        if line[0] in " \t" and last:  # a continuation of the field before
            last[-1] += " " + line.strip()
        else:
            key, _, value = line.partition(":")
            last = fields.setdefault(key.strip().lower(), [])
            last.append(value.strip())
    return fields


def _keywords(lines: Iterable[str]) -> tuple[str, ...]:
    return tuple(" ".join(lines).replace(",", " ").split())


def _read(folder: str, name: str) -> str:
    try:
        with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
