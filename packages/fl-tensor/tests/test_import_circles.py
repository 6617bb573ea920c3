"""No circle of imports when modules load, and no import inside a function that closes one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import fl_tensor

OURS = Path(fl_tensor.__file__).parents[1]
#: All packages where the tests run in a clone, else the installed one.
SOURCES = sorted(Path(__file__).resolve().parents[2].glob("*/src")) or [OURS]

#: Imports inside functions that close a circle. "Imports of fl_tensor" in docs/design.md says why.
UPWARD = {
    ("fl_tensor.arrays.value", "fl_tensor.array_api"),
    ("fl_tensor.dispatch.frontend", "fl_tensor.functions.creation"),
    ("fl_tensor.dtypes", "fl_tensor.exchange.dtypes"),
    ("fl_tensor.graph.ir", "fl_tensor.graph.dot"),
    ("fl_tensor.graph.ir", "fl_tensor.graph.execute"),
    ("fl_tensor.graph.ir", "fl_tensor.graph.dce"),
    ("fl_tensor.graph.ir", "fl_tensor.graph.serialize"),
    ("fl_tensor.graph.ir", "fl_tensor.graph.text"),
}

#: module -> the modules that it imports
Arrows = dict[str, set[str]]


def imports(sources: list[Path], *, deferred: bool = False) -> Arrows:
    """What each module imports when it loads, or with ``deferred`` at any time; not for types
    alone."""
    files = {
        ".".join(file.relative_to(source).with_suffix("").parts).removesuffix(".__init__"): file
        for source in sources
        for file in source.rglob("*.py")
        # Where packages are installed, others are beside ours.
        if source.name != "site-packages" or file.relative_to(source).parts[0] == "fl_tensor"
    }
    found: Arrows = {}
    for name, file in files.items():
        targets = _targets(ast.parse(file.read_text(encoding="utf-8")), deferred)
        modules = {t if t in files else t.rpartition(".")[0] for t in targets}
        found[name] = (modules & files.keys()) - {name}
    return found


def _targets(node: ast.AST, deferred: bool) -> Iterator[str]:
    # ``from a import b`` gives "a.b": a module, or a name in module "a".
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            yield from (f"{child.module}.{alias.name}" for alias in child.names)
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            yield from _targets(ast.Module(child.orelse, []), deferred)
        elif deferred or not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from _targets(child, deferred)


def path(arrows: Arrows, first: str, last: str) -> list[str]:
    """The shortest way from a module to one that it imports in the end, both included; [] without
    one."""
    came: dict[str, str] = {}
    queue = [first]
    for module in queue:
        for target in sorted(arrows[module] - came.keys()):
            came[target] = module
            queue.append(target)
            if target == last:
                way = [last, module]
                while way[-1] != first:
                    way.append(came[way[-1]])
                return way[::-1]
    return []


def circles(arrows: Arrows) -> list[str]:
    found = (path(arrows, module, module) for module in sorted(arrows))
    return [" -> ".join(way) for way in found if way]


def test_modules_load_without_a_circle() -> None:
    arrows = imports(SOURCES)
    assert "fl_tensor.arrays.array" in arrows["fl_tensor.arrays.tensor"]
    assert circles(arrows) == []


def test_imports_inside_functions_that_close_a_circle_are_listed() -> None:
    at_import, all_arrows = imports([OURS]), imports([OURS], deferred=True)
    later = [(a, b) for a, targets in all_arrows.items() for b in targets - at_import[a]]
    closing = {(a, b): path(all_arrows, b, a) for a, b in later if a.startswith("fl_tensor.")}
    assert {arrow: way for arrow, way in closing.items() if way and arrow not in UPWARD} == {}
    assert {arrow for arrow in UPWARD if not closing.get(arrow)} == set(), "no longer needed"


def test_a_circle_is_told(tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    texts = {
        "__init__": "",
        "a": "from package import b",
        "b": "class B:\n    import package.c",
        "c": "if TYPE_CHECKING:\n    from package import d\nelse:\n    from package.a import name",
        "d": "def f():\n    from package.a import name",
    }
    for name, text in texts.items():
        (package / f"{name}.py").write_text(text)
    told = circles(imports([tmp_path]))
    assert told[0] == "package.a -> package.b -> package.c -> package.a" and len(told) == 3
    assert "package.a" in imports([tmp_path], deferred=True)["package.d"]
