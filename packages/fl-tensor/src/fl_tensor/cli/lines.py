"""Counting lines of code, without comments, docstrings and blank lines."""

from __future__ import annotations

import ast
import functools
import io
import pkgutil
import tokenize
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from fl_tensor.dispatch.registry import REGISTRY

_EMPTY = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
    tokenize.ENCODING, tokenize.ENDMARKER,
}  # fmt: skip

#: What the files of fl_tensor are, by the beginning of their path; the rest is the front end.
PARTS = {
    "contract": "backend.py capabilities.py capability_rules.py roles.py rules.py dtypes.py "
    "device.py errors.py dispatch/preconditions.py contract.py operations.py",
    "derived operations": "derived/",
    "generated": "functions/generated.py derived_ops.py",
    "backend numpy": "backends/numpy/",
    "backend null": "backends/null.py",
    "other backends": "backends/",
    "conformance kit": "testing/",
    "command line": "cli/ __main__.py _generate.py",
    "graph and wrappers": "graph/ wrappers/ dispatch/stack.py",
    "array API": "array_api/",
    "kernels": "kernels/",
}


def count(source: str) -> int:
    """The lines of code in a Python file."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _EMPTY:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(node, _WITH_DOCSTRING):
            first = body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                if isinstance(first.value.value, str):
                    lines -= set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return len(lines)


_WITH_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def of_files(paths: list[Path]) -> int:
    return sum(map(_of_file, paths))


@functools.cache  # both tables below ask for the files of fl_tensor
def _of_file(path: Path) -> int:
    return count(path.read_text(encoding="utf-8"))


def packages() -> dict[str, int]:
    """The lines of code of every installed package whose name begins with ``fl_``, or that belongs
    to a distribution which offers a backend."""
    names = {m.name for m in pkgutil.iter_modules() if m.name.startswith("fl_")}
    names |= {name for modules in offering().values() for name in modules.values()}
    return {name: size for name in sorted(names) if (size := _of_package(name)) is not None}


def offering() -> dict[str, dict[str, str]]:
    """The installed distributions with entry points in the group of backends, each as "NAME
    VERSION" with its backends and the top-level package of each. Imports none of them."""
    found: dict[str, dict[str, str]] = {}
    for point in metadata.entry_points(group=REGISTRY.group):
        if point.dist is not None:
            backends = found.setdefault(f"{point.dist.name} {point.dist.version}", {})
            backends[point.name] = point.value.partition(":")[0].partition(".")[0].strip()
    return dict(sorted(found.items()))


def _of_package(name: str) -> int | None:
    """The lines of a package or module; None if it is not there or has no source."""
    spec = find_spec(name)
    if spec is not None and spec.submodule_search_locations:
        (folder,) = list(spec.submodule_search_locations)[:1]
        return of_files(sorted(Path(folder).resolve().rglob("*.py")))
    if spec is not None and spec.origin and spec.origin.endswith(".py"):
        return of_files([Path(spec.origin)])
    return None


def parts() -> dict[str, int]:
    """The lines of fl_tensor by what they are for."""
    root = Path(__file__).resolve().parent.parent
    files: dict[str, list[Path]] = {part: [] for part in (*PARTS, "front end")}
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root).as_posix()
        at = (part for part, starts in PARTS.items() if name.startswith(tuple(starts.split())))
        files[next(at, "front end")].append(path)
    return {part: of_files(paths) for part, paths in files.items() if paths}
