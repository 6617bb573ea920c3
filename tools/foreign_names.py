"""The tables of foreign names, and what is made of them.

python tools/foreign_names.py [--check | --write | --lists]

--check  each name of ours in the tables exists, and the generated parts of pages and code are up to
         date (default)
--write  write the generated parts
--lists  write the lists of names that the tests use, from the installed NumPy, PyTorch and JAX
"""

from __future__ import annotations

import argparse
import importlib
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from fl_tensor.foreign_names import tables

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ROOT / "packages"
#: Each table with how its names are called in the other library, and in ours.
TABLES = {
    tables.FUNCTIONS[0]: ("np.", "ft."),
    tables.FUNCTIONS[1]: ("torch.", "ft."),
    tables.FUNCTIONS[2]: ("jax.", "ft."),
    tables.METHODS: ("x.", "x."),
}
for package, theirs in (
    ("fl-nn", ("nn.", "nn.")),
    ("fl-autograd", ("autograd.", "ag.")),
    ("fl-data", ("data.", "data.")),
):
    source = PACKAGES / package / "src" / package.replace("-", "_")
    TABLES[source / "foreign_names.txt"] = theirs
PYTORCH = [path for path in TABLES if path.name not in ("numpy.txt", "jax.txt")]
#: The modules whose public names are lists in tests.
LISTS = {
    "fl-tensor": ("numpy", "torch", "torch.Tensor", "numpy.ndarray", "jax.numpy"),
    "fl-nn": ("torch.nn", "torch.nn.functional", "torch.optim"),
    "fl-autograd": ("torch.autograd",),
    "fl-data": ("torch.utils.data",),
}
OURS = {"ft": "fl_tensor", "nn": "fl_nn", "ag": "fl_autograd", "data": "fl_data", "dist": "fl_dist"}
NAME = re.compile(r"(?<![\w.])(ft|nn|ag|data|x)\.(\w+(?:\.\w+)*)")
BLOCK = re.compile(r"(<!-- names: (\w+) -->\n).*?(?=<!-- end -->)", re.DOTALL)
NAMES = re.compile(r'(?<=^NAMES = """\n).*?(?=\n""")', re.DOTALL | re.MULTILINE)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    for option in ("--check", "--write", "--lists"):
        parser.add_argument(option, action="store_true")
    given = parser.parse_args(argv)
    if given.lists:
        write_lists()
    problems = list(unknown_names())
    for path, text in generated().items():
        if path.read_text(encoding="utf-8") != text:
            if given.write:
                path.write_text(text, encoding="utf-8")
            else:
                problems.append(
                    f"{path.name} is out of date: python tools/foreign_names.py --write"
                )
    print(*problems, sep="\n", end="\n" if problems else "")
    return 1 if problems else 0


def unknown_names() -> Iterator[str]:
    """Rows whose way has a name of ours that does not exist."""
    expected = {row.name for path in TABLES for row in tables.rows(path) if row.way is None}
    for path in TABLES:
        for row in tables.rows(path):
            way = f"ft.{row.text}" if row.section == "synonyms" else row.way or ""
            for alias, name in NAME.findall(way):
                if not exists(alias, name) and name not in expected:
                    yield f"{path.parent.name}/{path.name}: {row.name}: there is no {alias}.{name}"


def exists(alias: str, name: str) -> bool:
    import fl_autograd as ag

    if alias == "x":
        return hasattr(ag.Variable, name.split(".")[0])
    found: object = importlib.import_module(OURS[alias])
    for part in name.split("."):
        if not hasattr(found, part):
            return False
        found = getattr(found, part)
    return True


def generated() -> dict[Path, str]:
    """The files that contain something made from the tables, as they should be."""
    found = {}
    for page in sorted((ROOT / "docs").glob("from-*.md")):
        text = page.read_text(encoding="utf-8")
        found[page] = BLOCK.sub(lambda block: block[1] + page_table(block[2]), text)
    code = Path(tables.__file__).parent.parent / "arrays" / "foreign_methods.py"
    names = {row.name for row in tables.rows(tables.METHODS) if row.section != "expected"}
    wrapped = textwrap.fill(" ".join(sorted(names)), 98, break_on_hyphens=False)
    found[code] = NAMES.sub(lambda _: wrapped, code.read_text(encoding="utf-8"))
    return found


def page_table(library: str) -> str:
    """The rows of one library that are on its page, as a table of Markdown."""
    paths = PYTORCH if library == "pytorch" else [p for p in TABLES if p.name == f"{library}.txt"]
    lines = [f"| {'PyTorch' if library == 'pytorch' else 'JAX'} | here |", "|---|---|"]
    for path in paths:
        for row in tables.rows(path):
            if row.section == "write: on the page":
                of = "F." if path.parent.name == "fl_nn" and row.name.islower() else TABLES[path][0]
                lines.append(f"| `{of}{row.name}` | {marked(row.text)} |")
    return "\n".join(lines) + "\n"


def marked(way: str) -> str:
    """A way with its code, what is before a semicolon, in backticks."""
    code, sign, remark = way.partition("; ")
    return f"`{code}`{sign}{remark}" if re.search(r"[.(=@[]", code) else way


def write_lists() -> None:
    for package, modules in LISTS.items():
        for module in modules:
            text = textwrap.fill(" ".join(names_of(module)), 98, break_on_hyphens=False)
            path = PACKAGES / package / "tests" / "foreign_names" / f"{module}.txt"
            path.write_text(text + "\n", encoding="utf-8")


def names_of(module: str) -> list[str]:
    """The public names of a module or class, without what its files import from elsewhere."""
    root = module.split(".")[0]
    if module in ("torch.Tensor", "numpy.ndarray"):
        where = getattr(importlib.import_module(root), module.split(".")[1])
    else:
        where = importlib.import_module(module)
    found = []
    for name in sorted({*dir(where), *getattr(where, "__all__", ())}):
        value = getattr(where, name, None)
        home = getattr(value, "__name__" if isinstance(value, ModuleType) else "__module__", root)
        foreign = isinstance(value, ModuleType) or home in (
            "typing",
            "functools",
            "collections.abc",
        )
        own = not foreign or str(home).split(".")[0] == root
        if name[0] != "_" and name != "TYPE_CHECKING" and own:
            found.append(name)
    return found


if __name__ == "__main__":
    sys.exit(main())
