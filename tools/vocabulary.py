"""No private names for things that have a standard name: the lists of vocabulary.toml.

    python tools/vocabulary.py [--root CHECKOUT]

Checked are

* paths of modules;
* names that the source defines: classes, functions, arguments, variables and attributes;
* docstrings and other strings of the source, names of tests, pages of docs/ and READMEs.

Excepted are docs/renaming.md, generated pages, frozen sources and ``former="..."``, the old name of
a setting.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
LIST = "tools/vocabulary.toml"
SOURCES = [f"{top}/**/*.py" for top in ("packages", "backends", "examples", "benchmarks", "tools")]
PAGES = ["*.md", "docs/**/*.md", "packages/*/README.md", "backends/*/README.md", "benchmarks/*.md"]
MODULES = ("packages/fl-tensor/src/", "backends/")
KERNELS = ("backends", "benchmarks")
EXCEPTED = re.compile(r"docs/(renaming\.md|contracts/)|/compat/")

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
#: patterns and what to write instead
Terms = list[tuple[re.Pattern[str], str]]


class Vocabulary:
    """The lists of a TOML file."""

    def __init__(self, text: str) -> None:
        lists = tomllib.loads(text)
        self.paths = _terms(lists["paths"], r"^(?:{})$")
        self.classes = _terms(lists["classes"], r"^_*(?:{})$")
        self.names = _terms(lists["names"], r"(?:^|_)(?:{})(?:_|$)")
        self.kernel_names = _terms(lists["kernel_names"], r"(?:^|_)(?:{})(?:_|$)")
        self.text = _terms(lists["text"], r"(?:\b|(?<=_))(?:{})(?:\b|(?=_))")

    def faults(self, place: Path, text: str) -> list[str]:
        """The faults of a file, one line each; ``place`` is its path in the checkout."""
        if place.suffix != ".py":
            lines = enumerate(text.splitlines(), 1)
            return [f"line {n}: {fault}" for n, line in lines for fault in _faults(self.text, line)]
        names = self.names + (self.kernel_names if place.parts[0] in KERNELS else [])
        if "tests" in place.parts:
            names = self.text + names[len(self.names) :]
        found = []
        if place.as_posix().startswith(MODULES):
            parts = place.with_suffix("").parts[4:]
            found += [fault for part in parts for fault in _faults(self.paths, part)]
        for line, name, is_class in _defined(ast.parse(text), "tests" in place.parts):
            faults = _faults(names, _CAMEL.sub("_", name).lower())
            faults += _faults(self.classes, name) if is_class else []
            found += [f"line {line}: {name}: {fault}" for fault in faults]
        if "tests" not in place.parts:
            for line, string in _strings(ast.parse(text)):
                found += [f"line {line}: {fault}" for fault in _faults(self.text, string)]
        return found


def _terms(entries: dict[str, Any], frame: str) -> Terms:
    return [
        (re.compile(frame.replace("{}", pattern)), standard)
        for pattern, standard in entries.items()
    ]


def _faults(terms: Terms, text: str) -> list[str]:
    found = ((pattern.search(text), standard) for pattern, standard in terms)
    return [f"{match[0].strip('_')!r}: write {standard}" for match, standard in found if match]


def _defined(tree: ast.AST, is_test: bool) -> Iterator[tuple[int, str, bool]]:
    """Line and name of each definition, and whether it is of a class."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.lineno, node.name, isinstance(node, ast.ClassDef)
        elif is_test:
            continue
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg, False
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id, False
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr, False


def _strings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and text of each string, except the former names of settings."""
    former = {
        id(keyword.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg == "former"
    }
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in former
        ):
            yield node.lineno, node.value


def main(arguments: list[str]) -> int:
    """Print the faults of the checkout."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--root", type=Path, default=ROOT, help="another checkout")
    root = parser.parse_args(arguments).root
    vocabulary = Vocabulary((root / LIST).read_text(encoding="utf-8"))
    failed = 0
    paths = {path for pattern in (*SOURCES, *PAGES) for path in root.glob(pattern)}
    for path in sorted(paths):
        place = path.relative_to(root)
        if EXCEPTED.search(place.as_posix()):
            continue
        faults = vocabulary.faults(place, path.read_text(encoding="utf-8"))
        failed += bool(faults)
        for fault in faults:
            print(f"{place.as_posix()}: {fault}")
    print(f"{len(paths)} files, {failed} failed")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
