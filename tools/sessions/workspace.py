"""The packages of the repository, and what they say about themselves."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nox

ROOT = Path(__file__).resolve().parent.parent.parent
DIST = ROOT / "dist"

# Bottom to top: an earlier package never needs a later one.
PACKAGES = (
    "fl-memory fl-tensor fl-dist fl-autograd fl-data fl-nn fl-speech fl-vision fl-text".split()
)
LIGHT_EXAMPLES = ["acme-backend", "acme-arena", "acme-ring", "acme-kernels"]
EXAMPLES = [*LIGHT_EXAMPLES, "torch-backend"]


def project(package: str) -> dict[str, Any]:
    """The pyproject.toml of a package or an example."""
    folder = "examples" if package in EXAMPLES else "packages"
    found: dict[str, Any] = nox.project.load_toml(ROOT / folder / package / "pyproject.toml")
    return found


def closure(*packages: str) -> list[str]:
    """The packages of this repository that `packages` declare, directly or not, and themselves."""
    found: set[str] = set()
    queue = list(packages)
    while queue:
        package = queue.pop()
        if package not in found:
            found.add(package)
            declared = project(package)["project"].get("dependencies", [])
            queue += [p for p in PACKAGES if any(_names(line, p) for line in declared)]
    return [p for p in PACKAGES if p in found]


def _names(requirement: str, package: str) -> bool:
    rest = requirement.removeprefix(package)
    return rest != requirement and not rest[:1].isalnum() and rest[:1] not in ("-", "_", ".")


def test_requirements(*packages: str) -> list[str]:
    """pytest, and the `test` dependency group of each package."""
    needed = {"pytest>=8"}
    for package in packages:
        table = project(package)
        if "test" in table.get("dependency-groups", {}):
            needed |= set(nox.project.dependency_groups(table, "test"))
    return sorted(needed)


def editable(*packages: str, **extras: str) -> list[str]:
    """Arguments of pip: ``editable("fl-memory", "fl-tensor", fl_tensor="jit")``."""
    args: list[str] = []
    for package in packages:
        extra = extras.get(package.replace("-", "_"))
        args += ["-e", f"./packages/{package}" + (f"[{extra}]" if extra else "")]
    return args


def wheel(package: str) -> str:
    """The wheel in dist/, by path: a package of the same name on an index can never win."""
    folder = DIST / "examples" if package in EXAMPLES else DIST
    (path,) = folder.glob(f"{package.replace('-', '_')}-*.whl")
    return str(path)


@contextmanager
def copied_checkout() -> Iterator[Path]:
    """A temporary folder with all files of the checkout that git does not ignore."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    with tempfile.TemporaryDirectory(prefix="fl-copy-") as name:
        for file in filter(None, listed.split("\0")):
            target = Path(name) / file
            if (ROOT / file).is_file():  # not deleted since it was committed
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / file, target)
        yield Path(name)


def suite(package: str) -> list[str]:
    """Arguments of pytest: the tests of a package, without the comparison with PyTorch."""
    folder = f"packages/{package}/tests"
    return [folder, f"--ignore={folder}/oracles"]


@contextmanager
def outside_the_checkout(*copies: Path) -> Iterator[Path]:
    """A folder that knows of the repository only `copies` and the configuration of pytest."""
    with tempfile.TemporaryDirectory(prefix="fl-outside-") as name:
        folder = Path(name).resolve()
        shutil.copy(ROOT / "pyproject.toml", folder)
        for path in copies:
            target = folder / path.parent.name
            ignore = shutil.ignore_patterns("__pycache__", "oracles")
            shutil.copytree(path, target / path.name, ignore=ignore)
            readme = path.parent / "README.md"
            if readme.is_file():  # a package's tests run the examples of its README
                shutil.copy(readme, target)
        yield folder
