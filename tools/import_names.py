"""Which names our distributions import from one another: public ones only.

Distributions are released on their own, so each may use of another one only what that one promises
to keep. A module is public if no part of its path begins with an underscore, and if it says what it
offers: by ``__all__``, or by re-exports of the form ``from a import b as b``. These are violations:

* a name imported from a module that does not offer it, or a module that is not public;
* the same through an attribute: ``import fl_tensor as ft`` and then ``ft.name``;
* in ``backends/`` and ``examples/``, a module of fl-memory or fl-tensor that is not among
  ``FOR_BACKENDS``;
* ``x._name``, where ``x`` is neither ``self`` nor ``cls`` and no file of the distribution defines
  ``_name`` (types are unknown here, so the name decides).

The sources of ``packages/`` and ``backends/`` are read, and all Python files of ``examples/``.
A file ``tools/import_names.txt`` may list known violations, one a line (``PATH: NAME``). It may
only shrink: a violation that is not listed fails, and so does a line that matches none.
"""

from __future__ import annotations

import argparse
import ast
import functools
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KNOWN = "tools/import_names.txt"
#: What backends may import from, and packages from outside: these modules and those below them.
FOR_BACKENDS = {
    "fl-memory": (
        "fl_memory", "fl_memory.causes", "fl_memory.installed", "fl_memory.selection",
        "fl_memory.tags",
        "fl_memory.testing",
    ),
    "fl-tensor": (
        "fl_tensor", "fl_tensor.backend", "fl_tensor.backends.delegate",
        "fl_tensor.capability_rules", "fl_tensor.dtypes", "fl_tensor.errors", "fl_tensor.extend",
        "fl_tensor.graph", "fl_tensor.kernels", "fl_tensor.rules", "fl_tensor.testing",
    ),
}  # fmt: skip
#: Underscore names that the standard library, the C library or PyTorch documents.
DOCUMENTED = frozenset(
    "_aligned_free _asdict _current_frames _exit _field_defaults _fields _getframe _make "
    "_replace _version".split()
)


@dataclass(frozen=True)
class Distribution:
    """A folder with a ``pyproject.toml``, or the scripts of an example without one."""

    name: str
    sources: tuple[Path, ...]  # what is installed
    checked: tuple[Path, ...]  # what is read for violations
    is_outside: bool = False  # of backends/ or examples/


def distributions(root: Path) -> list[Distribution]:
    """Every distribution of the checkout."""
    found = []
    for group in ("packages", "backends", "examples"):
        for folder in sorted((root / group).glob("*/")):
            sources = tuple(sorted((folder / "src").rglob("*.py")))
            every = tuple(sorted(folder.rglob("*.py"))) if group == "examples" else sources
            if every:
                outside = group != "packages"
                found.append(Distribution(folder.name, sources, every, outside))
    return found


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


class Modules:
    """All modules that the distributions install, and what each offers."""

    def __init__(self, found: list[Distribution]) -> None:
        self.files: dict[str, Path] = {}
        self.owner: dict[str, str] = {}  # top-level package or module -> distribution
        for distribution in found:
            for path in distribution.sources:
                name = module_name(path)
                self.files[name] = path
                self.owner[name.partition(".")[0]] = distribution.name
        self._offers: dict[str, dict[str, str]] = {}

    def offers(self, module: str) -> dict[str, str]:
        """The public names of a module, each with where it comes from: empty if not public."""
        if module not in self._offers:
            self._offers[module] = {}  # while it is computed: modules import one another
            if module in self.files and not any(p.startswith("_") for p in module.split(".")):
                self._offers[module] = self._read(module)
        return self._offers[module]

    def _read(self, module: str) -> dict[str, str]:
        found: dict[str, str] = {}
        stated: list[str] | None = None
        for node in ast.walk(parsed(self.files[module])):
            if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                for alias in node.names:
                    if alias.name == "*":
                        found |= self.offers(node.module)
                    elif alias.asname == alias.name:
                        found[alias.name] = f"{node.module}.{alias.name}"
            elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                stated = list(ast.literal_eval(node.value))
        if stated is None:
            return found
        return {name: found.get(name, f"{module}.{name}") for name in stated}


def module_name(path: Path) -> str:
    """The dotted name of a file below a folder ``src``."""
    parts = path.with_suffix("").parts
    parts = parts[len(parts) - parts[::-1].index("src") :]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@dataclass(frozen=True)
class File:
    """One file that is checked, and the distribution that it belongs to."""

    path: Path
    distribution: Distribution
    modules: Modules
    defined: frozenset[str]  # underscore names that the distribution defines

    def violations(self) -> Iterator[tuple[int, str]]:
        """Line and name of everything private that the file takes from elsewhere."""
        tree = parsed(self.path)
        names: dict[str, str] = {}  # local name -> module of another distribution
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    if not self._foreign(alias.name):
                        continue
                    public = self.modules.offers(alias.name) and self._may_import(alias.name)
                    if "." in alias.name and not public:
                        yield node.lineno, alias.name
                    top = alias.name.partition(".")[0]
                    names[alias.asname or top] = alias.name if alias.asname else top
            elif isinstance(node, ast.ImportFrom) and self._foreign(node.module or ""):
                for alias in node.names:
                    taken = f"{node.module}.{alias.name}"
                    if not self._is_public(taken) or not self._may_import(taken):
                        yield node.lineno, taken
                    elif module := self._module(taken):
                        names[alias.asname or alias.name] = module
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute):
                if module := self._resolved(node.value, names):
                    taken = f"{module}.{node.attr}"
                    known = taken not in self.modules.files or self._may_import(taken)
                    if not self._is_public(taken) or not known:
                        yield node.lineno, taken
                elif self._is_private(node):
                    yield node.lineno, f".{node.attr}"

    def _foreign(self, module: str) -> bool:
        name = self.distribution.name
        return self.modules.owner.get(module.partition(".")[0], name) != name

    def _may_import(self, dotted: str) -> bool:
        """Whether a backend or an outside package may import this public name or module: always,
        unless it is of a module that is not for them."""
        owner = self.modules.owner[dotted.partition(".")[0]]
        if not self.distribution.is_outside or owner not in FOR_BACKENDS:
            return True
        module, _, name = dotted.rpartition(".")
        if dotted in self.modules.files and name not in self.modules.offers(module):
            module = dotted
        top, *below = FOR_BACKENDS[owner]
        return module == top or any(f"{module}.".startswith(f"{each}.") for each in below)

    def _is_public(self, dotted: str) -> bool:
        module, _, name = dotted.rpartition(".")
        special = name.startswith("__") and name.endswith("__")
        return special or name in self.modules.offers(module) or bool(self.modules.offers(dotted))

    def _module(self, dotted: str) -> str | None:
        """The module that a public name stands for, if it is one."""
        module, _, name = dotted.rpartition(".")
        origin = self.modules.offers(module).get(name, dotted)
        return origin if origin in self.modules.files else None

    def _resolved(self, node: ast.expr, names: dict[str, str]) -> str | None:
        """The module of another distribution that an expression stands for, if any."""
        if isinstance(node, ast.Name):
            return names.get(node.id)
        if isinstance(node, ast.Attribute) and (base := self._resolved(node.value, names)):
            return self._module(f"{base}.{node.attr}")
        return None

    def _is_private(self, node: ast.Attribute) -> bool:
        if not node.attr.startswith("_") or node.attr.startswith("__"):
            return False
        own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
        return not own and node.attr not in self.defined | DOCUMENTED


def defined_names(sources: tuple[Path, ...]) -> frozenset[str]:
    """Underscore names of functions, classes, variables and attributes that the files define."""
    names: set[str] = set()
    classes = {"self", "cls"}
    set_on: list[tuple[str, str]] = []
    for path in sources:
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ClassDef):
                classes.add(node.name)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                names.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.add(node.id)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                if isinstance(node.value, ast.Name):
                    set_on.append((node.value.id, node.attr))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                names.add(node.value)  # in __slots__, or set by setattr
    names |= {attribute for owner, attribute in set_on if owner in classes}
    return frozenset(name for name in names if name.startswith("_"))


def check(root: Path) -> list[tuple[str, int, str]]:
    """Path, line and name of every violation in a checkout."""
    found = distributions(root)
    modules = Modules(found)
    rows = []
    for distribution in found:
        defined = defined_names(distribution.checked)
        for path in distribution.checked:
            file = File(path, distribution, modules, defined)
            place = path.relative_to(root).as_posix()
            rows += [(place, line, name) for line, name in file.violations()]
    return sorted(set(rows))


def main(arguments: list[str]) -> int:
    """Compare the violations with the list of known ones."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--root", type=Path, default=ROOT, help="another checkout")
    root = parser.parse_args(arguments).root
    listed = root / KNOWN
    known = listed.read_text(encoding="utf-8").splitlines() if listed.is_file() else []
    found = check(root)
    new = [(path, line, name) for path, line, name in found if f"{path}: {name}" not in known]
    for path, line, name in new:
        print(f"{path}:{line}: {name} is not a public name of another distribution")
    if new:
        print("A public module offers it by __all__ or re-exports it: docs/design.md, Layers.")
    stale = sorted(set(known) - {f"{path}: {name}" for path, _, name in found})
    for row in stale:
        print(f"{KNOWN}: nothing matches {row!r}: remove it")
    print(f"{len(found) - len(new)} known and {len(new)} new uses of names that are not public")
    return bool(new or stale)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
