"""No circle of imports among the files of a package.

    python tools/import_circles.py [PACKAGE ...]

Imports inside functions count. Imports under TYPE_CHECKING count as well, except in TYPES_MAY. The
arrows in UPWARD may stay; docs/design.md gives the reasons. Each must be inside a function or for
types. One that no longer exists, or that no circle needs, fails.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted([*ROOT.glob("packages/*/src"), *ROOT.glob("backends/*/src")])
CHECKED = [source.parent.name.replace("-", "_") for source in SOURCES]
#: Packages where imports for types alone may close a circle.
TYPES_MAY = ["fl_tensor", "fl_jit"]
AT_IMPORT, IN_FUNCTION, FOR_TYPES = "at import", "in a function", "for types"

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
    "fl_dist.communicator": ["fl_dist.launch"],
    "fl_dist.derived": ["fl_dist.communicator", "fl_dist.group", "fl_dist.transport"],
    "fl_dist.messages": ["fl_dist.transport"],
    "fl_dist.transport": ["fl_dist.communicator"],
    "fl_jit.kernels.codegen.program": ["fl_jit.kernels.codegen.text"],
    "fl_nn.module": ["fl_nn.summary"],
    "fl_nn.training.callback": ["fl_nn.training.trainer"],
    "fl_nn.training.clip": ["fl_nn.training.trainer"],
    "fl_nn.training.compiled_step": ["fl_nn.training.trainer"],
    "fl_nn.training.report": ["fl_nn.training.trainer"],
    "fl_nn.training.checkpointing": ["fl_nn.training.trainer"],
    "fl_nn.training.step": ["fl_nn.training.trainer"],
    "fl_nn.training.work": ["fl_nn.training.trainer"],
    "fl_tensor.arrays.numpy_methods": ["fl_tensor.numpy_functions.statistics"],
    "fl_tensor.arrays.value": [
        "fl_tensor.array_api",
        "fl_tensor.arrays.display",
        "fl_tensor.ufuncs",
    ],
    "fl_tensor.backend": ["fl_tensor.graph.control"],
    "fl_tensor.dispatch.frontend": ["fl_tensor.functions.creation"],
    "fl_tensor.dtypes": ["fl_tensor.exchange.dtypes"],
    "fl_tensor.graph.ir": [
        "fl_tensor.graph.dce",
        "fl_tensor.graph.dot",
        "fl_tensor.graph.execute",
        "fl_tensor.graph.extract",
        "fl_tensor.graph.serialize",
        "fl_tensor.graph.text",
    ],
    "fl_text.decoder.stream": ["fl_text.decoder.search"],
}

#: module -> the modules that it imports -> AT_IMPORT, IN_FUNCTION or FOR_TYPES
Imports = dict[str, dict[str, str]]


def modules(folder: Path) -> dict[str, Path]:
    """The modules of the package in ``folder``, and their files."""
    names = {file: file.relative_to(folder.parent).with_suffix("") for file in folder.rglob("*.py")}
    return {".".join(name.parts).removesuffix(".__init__"): file for file, name in names.items()}


def imports(folder: Path) -> Imports:
    """The imports between modules of the package in ``folder``. Of several, the earliest counts."""
    files = modules(folder)
    earliest = [AT_IMPORT, IN_FUNCTION, FOR_TYPES].index
    types_may = folder.name in TYPES_MAY
    found: Imports = {}
    for name, file in files.items():
        arrows = found[name] = {}
        for target, when in _imports(ast.parse(file.read_text(encoding="utf-8")), AT_IMPORT):
            module = target if target in files else target.rpartition(".")[0]
            if module not in files or module == name or (when == FOR_TYPES and types_may):
                continue
            arrows[module] = min(when, arrows.get(module, when), key=earliest)
    return found


def _imports(node: ast.AST, when: str) -> Iterator[tuple[str, str]]:
    # ``from a import b`` gives "a.b", which is a module or a name in module "a".
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from ((alias.name, when) for alias in child.names)
        elif isinstance(child, ast.ImportFrom) and child.module:
            yield from ((f"{child.module}.{alias.name}", when) for alias in child.names)
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            yield from _imports(ast.Module(child.body, []), FOR_TYPES)
            yield from _imports(ast.Module(child.orelse, []), when)
        elif isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)) and when == AT_IMPORT:
            yield from _imports(child, IN_FUNCTION)
        else:
            yield from _imports(child, when)


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
    """The faults of the imports of a package, one line each."""
    (source,) = (s for s, name in zip(SOURCES, CHECKED, strict=True) if name == package)
    found = imports(source / package)
    listed = [(a, b) for a, bs in UPWARD.items() for b in bs if a.partition(".")[0] == package]
    stale = [f"{a} -> {b}: is listed and no longer there" for a, b in listed if b not in found[a]]
    early = [
        f"{a} -> {b}: is listed and imported at import time"
        for a, b in listed
        if found[a].get(b) == AT_IMPORT
    ]
    if stale or early:
        return stale + early
    kinds = {(a, b): found[a].pop(b) for a, b in listed}
    if closed := circle(found):
        return [f"{package}: a circle: {' -> '.join(closed)}"]
    needless = []
    for (a, b), kind in kinds.items():
        found[a][b] = kind
        if not circle(found):
            needless.append(f"{a} -> {b}: is listed and closes no circle")
        del found[a][b]
    return needless


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("packages", nargs="*", default=CHECKED, metavar="PACKAGE")
    wrong = [line for package in parser.parse_args().packages for line in problems(package)]
    print("\n".join(wrong) or "no circle of files but those that are listed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
