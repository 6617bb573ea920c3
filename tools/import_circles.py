"""No circle of files in a package: `import` inside functions and under TYPE_CHECKING included.

python tools/import_circles.py [PACKAGE ...]

The arrows in UPWARD may stay; docs/design.md gives the reasons. Each must be deferred (inside a
function) or for types alone. One that no longer exists, or that no circle needs, fails.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Iterator
from pathlib import Path

PACKAGES = Path(__file__).resolve().parent.parent / "packages"
CHECKED = "fl_memory fl_dist fl_autograd fl_data fl_nn fl_speech fl_vision fl_text".split()
AT_IMPORT, LATER = "at import", "later"

#: Arrows that close a circle, as importer: imported. See "Circular imports" in docs/design.md.
UPWARD = {
    "fl_autograd.dispatch": ["fl_autograd.tape"],
    "fl_autograd.inplace": ["fl_autograd.variable"],
    "fl_autograd.mode": ["fl_autograd.variable"],
    "fl_autograd.node": ["fl_autograd.variable"],
    "fl_autograd.variable": [
        "fl_autograd.assignment",
        "fl_autograd.engine",
        "fl_autograd.transfer",
    ],
    "fl_data.dataset": ["fl_data.iterate"],
    "fl_data.streams.stream": ["fl_data.streams.operators"],
    "fl_dist.derived": ["fl_dist.communicator", "fl_dist.group"],
    "fl_nn.training.callback": ["fl_nn.training.trainer"],
    "fl_nn.training.report": ["fl_nn.training.trainer"],
    "fl_nn.training.checkpointing": ["fl_nn.training.trainer"],
    "fl_nn.training.step": ["fl_nn.training.trainer"],
}

#: module -> the modules that it imports -> AT_IMPORT or LATER
Imports = dict[str, dict[str, str]]


def modules(package: str) -> dict[str, Path]:
    """The modules of a package and their files."""
    source = PACKAGES / package.replace("_", "-") / "src"
    files = (source / package).rglob("*.py")
    return {".".join(f.relative_to(source).with_suffix("").parts): f for f in files}


def imports(package: str) -> Imports:
    """What the modules of a package import of the same package."""
    files = {name.removesuffix(".__init__"): file for name, file in modules(package).items()}
    found: Imports = {}
    for name, file in files.items():
        arrows = found[name] = {}
        for target, when in _imports(ast.parse(file.read_text(encoding="utf-8")), AT_IMPORT):
            module = target if target in files else target.rpartition(".")[0]
            if module in files and module != name and arrows.get(module) != AT_IMPORT:
                arrows[module] = when
    return found


def _imports(node: ast.AST, when: str) -> Iterator[tuple[str, str]]:
    # ``from a import b`` gives "a.b", which is a module or a name in module "a".
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from ((alias.name, when) for alias in child.names)
        elif isinstance(child, ast.ImportFrom) and child.module:
            yield from ((f"{child.module}.{alias.name}", when) for alias in child.names)
        deferred = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)) or (
            isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test)
        )
        yield from _imports(child, LATER if deferred else when)


def circle(found: Imports) -> list[str]:
    """The modules on one circle of imports, the first one again at the end; [] without any."""
    done: set[str] = set()

    def visit(module: str, path: list[str]) -> list[str]:
        if module in path:
            return [*path[path.index(module) :], module]
        if module in done:
            return []
        for target in found[module]:
            if closed := visit(target, [*path, module]):
                return closed
        done.add(module)
        return []

    return next((closed for module in found if (closed := visit(module, []))), [])


def problems(package: str) -> list[str]:
    """What is wrong with the imports of a package, in words."""
    found = imports(package)
    listed = [(a, b) for a, bs in UPWARD.items() for b in bs if a.partition(".")[0] == package]
    stale = [f"{a} -> {b}: is listed and no longer there" for a, b in listed if b not in found[a]]
    early = [
        f"{a} -> {b}: is listed and imported at import time"
        for a, b in listed
        if found[a].get(b) == AT_IMPORT
    ]
    if stale or early:
        return stale + early
    for a, b in listed:
        del found[a][b]
    if closed := circle(found):
        return [f"{package}: a circle: {' -> '.join(closed)}"]
    needless = []
    for a, b in listed:
        found[a][b] = LATER
        if not circle(found):
            needless.append(f"{a} -> {b}: is listed and closes no circle")
        del found[a][b]
    return needless


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("packages", nargs="*", default=CHECKED, metavar="PACKAGE")
    wrong = [line for package in parser.parse_args().packages for line in problems(package)]
    print("\n".join(wrong) or "no circle of files but those that are listed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
