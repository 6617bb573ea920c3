"""Lines of code against the limits in ``sizes.toml``.

Lines are counted as ``fl-tensor info`` counts them: without blank lines, comments and docstrings.
The sources of ``packages/*`` and ``backends/*`` are counted: each distribution, each folder
directly in its import package (``.``: files beside them), and each file. These fail:

* a distribution, a folder or a file above its limit, or one that has none;
* a limit that belongs to nothing.

A limit is raised where code is added on purpose, in the same commit. ``--remaining`` shows how much
is left.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from fl_tensor.cli import lines

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
LIMITS = "tools/sizes.toml"


def count(root: Path) -> tuple[dict[tuple[str, str], int], dict[str, int]]:
    """The lines of code of (distribution, folder), with the folder "total" for all of it, and of
    each file by its path in the checkout."""
    folders: Counter[tuple[str, str]] = Counter()
    files = {}
    for path in sorted(
        [*root.glob("packages/*/src/**/*.py"), *root.glob("backends/*/src/**/*.py")]
    ):
        place = path.relative_to(root)
        files[place.as_posix()] = size = lines.of_files([path])
        inside = place.parts[4:-1]  # packages/NAME/src/PACKAGE/...
        folders[place.parts[1], inside[0] if inside else "."] += size
        folders[place.parts[1], "total"] += size
    return dict(folders), files


def problems(root: Path, limits: dict[str, Any]) -> list[str]:
    """What breaks a limit, one line each."""
    folders, files = count(root)
    stated = {
        (name, folder): most for name, of in limits["code"].items() for folder, most in of.items()
    }
    found = []
    for key in sorted(folders.keys() | stated.keys()):
        where, size, most = " ".join(key), folders.get(key), stated.get(key)
        if size is None:
            found.append(f"{where}: there is no such folder, and a limit of {most}")
        elif most is None:
            found.append(f"{where}: {size} lines of code and no limit; add one to {LIMITS}")
        elif size > most:
            found.append(f"{where}: {size} lines of code, the limit is {most}")
    exceptions = limits["file"]["exceptions"]
    for path in sorted(files.keys() | exceptions.keys()):
        most = exceptions[path]["most"] if path in exceptions else limits["file"]["most"]
        if path not in files:
            found.append(f"{path}: an exception for a file that is not there")
        elif files[path] > most:
            found.append(f"{path}: {files[path]} lines of code, the limit is {most}")
        elif path in exceptions and files[path] <= limits["file"]["most"]:
            found.append(f"{path}: {files[path]} lines of code need no exception")
    return found


def remaining(root: Path, limits: dict[str, Any]) -> list[str]:
    """Lines of code, limit and what is left, for each limit."""
    folders, _ = count(root)
    stated = [
        (name, folder, most) for name, of in limits["code"].items() for folder, most in of.items()
    ]
    rows = [
        (folders.get((name, folder), 0), most, f"{name} {folder}") for name, folder, most in stated
    ]
    return [
        f"{size:>7,} of {most:>7,}  {most - size:>6,} left  {name}" for size, most, name in rows
    ]


def main(arguments: list[str]) -> int:
    """Print what breaks a limit."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--root", type=Path, default=ROOT, help="another checkout")
    parser.add_argument("--remaining", action="store_true", help="show all limits and what is left")
    options = parser.parse_args(arguments)
    limits = tomllib.loads((options.root / LIMITS).read_text(encoding="utf-8"))
    found = problems(options.root, limits)
    print(*(remaining(options.root, limits) if options.remaining else []), *found, sep="\n")
    print(f"{len(found)} limits of {LIMITS} are broken")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
