"""``fl-tensor new-backend NAME``: a publishable package with a backend that passes the kit.

The files are those of ``template/`` with ``@words@`` replaced. Their backend borrows every
operation (``fl_tensor.backends.delegate``), so that its author overrides one after the other.
"""

from __future__ import annotations

import argparse
import datetime
import keyword
import re
import sys
from importlib.util import find_spec
from pathlib import Path

from fl_tensor._version import __version__
from fl_tensor.dispatch import registry
from fl_tensor.errors import ArgumentError

TEMPLATE = Path(__file__).parent / "template"

#: Template -> file of the package.
FILES = {
    "pyproject.toml": "pyproject.toml",
    "README.md": "README.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "LICENSE": "LICENSE",
    "gitignore": ".gitignore",
    "ci.yml": ".github/workflows/test.yml",
    "init.py": "src/@module@/__init__.py",
    "backend.py": "src/@module@/backend.py",
    "adapter.py": "src/@module@/adapter.py",
    "py.typed": "src/@module@/py.typed",
    "test_conformance.py": "tests/test_conformance.py",
}


def main(arguments: list[str]) -> int:
    """Write the package and say what comes next."""
    parser = argparse.ArgumentParser(
        prog="fl-tensor new-backend",
        description="Write a package, ready to be published, with a backend that passes the "
        "conformance kit: it borrows every operation from the NumPy backend, until you write "
        "yours. The folder fl-tensor-NAME must not exist yet.",
    )
    parser.add_argument("name", help="what users will write: ft.use(NAME)")
    parser.add_argument("--out", type=Path, default=Path(), help="where its folder goes (here)")
    given = parser.parse_args(arguments)
    try:
        folder = create(given.name, given.out)
    except ArgumentError as error:
        print(f"fl-tensor new-backend: {error}", file=sys.stderr)
        return 2
    print(
        f"{folder}: backend {given.name!r}, which borrows every operation from 'numpy'\n\n"
        f"  cd {folder}\n"
        f"  python -m pip install -e '.[test]'\n"
        f"  pytest\n\n"
        f"Then write your first operation: {Path('src') / _module(given.name) / 'backend.py'}"
    )
    return 0


def create(name: str, out: Path) -> Path:
    """Write the package of backend ``name`` into a new folder in ``out``; that folder.

    Raises ArgumentError for a name that cannot be used and for a folder that exists.
    """
    _check(name)
    words = _words(name)
    folder = out / words["distribution"]
    if folder.exists():
        raise ArgumentError(f"{folder} exists: nothing is overwritten, choose another --out")
    for template, target in FILES.items():
        path = folder / _filled(target, words)
        path.parent.mkdir(parents=True, exist_ok=True)
        text = (TEMPLATE / f"{template}.in").read_text(encoding="utf-8")
        path.write_text(_filled(text, words), encoding="utf-8")
    return folder


def _check(name: str) -> None:
    if not re.fullmatch(r"[a-z][a-z0-9]*([_-][a-z0-9]+)*", name) or keyword.iskeyword(name):
        raise ArgumentError(
            f"{name!r} is no name for a backend: lower-case letters and digits, words joined by "
            f"'-' or '_', beginning with a letter, such as 'acme'"
        )
    taken = {installed.replace("-", "_") for installed in registry.available_backends()}
    if name.replace("-", "_") in taken:
        raise ArgumentError(f"a backend {name!r} is installed already: choose another name")
    if find_spec(_module(name)) is not None:
        raise ArgumentError(
            f"a module {_module(name)} can be imported already: choose another name"
        )


def _module(name: str) -> str:
    return f"fl_tensor_{name.replace('-', '_')}"


def _words(name: str) -> dict[str, str]:
    major, minor, *_ = __version__.split(".")
    # Before 1.0 a minor release may break; from then on only a major one.
    upper = f"0.{int(minor) + 1}" if major == "0" else str(int(major) + 1)
    return {
        "name": name,
        "module": _module(name),
        "distribution": _module(name).replace("_", "-"),
        "Name": "".join(part.capitalize() for part in re.split("[-_]", name)),
        "range": f">={major}.{minor},<{upper}",
        "year": str(datetime.date.today().year),
    }


def _filled(text: str, words: dict[str, str]) -> str:
    return re.sub(r"@(\w+)@", lambda match: words[match.group(1)], text)
