"""The distributions of the repository, and what they say about themselves."""

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
#: Published as a third party publishes: they need packages, no package needs them.
BACKENDS = ["fl-jit", "fl-cupy"]
OURS = [*PACKAGES, *BACKENDS]
LIGHT_EXAMPLES = ["acme-backend", "acme-arena", "acme-ring", "acme-kernels", "onednn-kernels"]
EXAMPLES = [*LIGHT_EXAMPLES, "torch-backend"]


def folder_of(name: str) -> str:
    """Where a distribution of this repository lies: ``packages/fl-nn``."""
    kind = "examples" if name in EXAMPLES else "backends" if name in BACKENDS else "packages"
    return f"{kind}/{name}"


def project(name: str) -> dict[str, Any]:
    """The pyproject.toml of a package, a backend or an example."""
    found: dict[str, Any] = nox.project.load_toml(ROOT / folder_of(name) / "pyproject.toml")
    return found


def closure(*names: str, **extras: str) -> list[str]:
    """The distributions of this repository that `names` declare, directly or not, and themselves.

    Extras are followed: ``closure("fl-nn", fl_tensor="jit")`` has fl-jit in it, and so has a
    distribution that depends on ``fl-tensor[jit]``.
    """
    found: set[str] = set()
    queue = [(name, extras.get(name.replace("-", "_"), "")) for name in names]
    queue += [(name.replace("_", "-"), extra) for name, extra in extras.items()]
    seen = set()
    while queue:
        each = queue.pop()
        if each in seen:
            continue
        seen.add(each)
        name, chosen = each
        found.add(name)
        table = project(name)["project"]
        declared = [*table.get("dependencies", [])]
        for extra in filter(None, chosen.split(",")):
            declared += table.get("optional-dependencies", {}).get(extra, [])
        for line in declared:
            queue += [(ours, _extras(line)) for ours in OURS if _names(line, ours)]
    return [name for name in [*OURS, *EXAMPLES] if name in found and name not in EXAMPLES]


def _extras(requirement: str) -> str:
    """``jit,testing`` of ``fl-tensor[jit,testing]>=0.1``."""
    return requirement.partition("[")[2].partition("]")[0].replace(" ", "")


def _names(requirement: str, package: str) -> bool:
    rest = requirement.removeprefix(package)
    return rest != requirement and not rest[:1].isalnum() and rest[:1] not in ("-", "_", ".")


def test_requirements(*packages: str) -> list[str]:
    """pytest, and the `test` dependency group of each package."""
    needed = {"pytest>=9"}
    for package in packages:
        table = project(package)
        if "test" in table.get("dependency-groups", {}):
            needed |= set(nox.project.dependency_groups(table, "test"))
    return sorted(needed)


def editable(*names: str, **extras: str) -> list[str]:
    """Arguments of pip: ``editable("fl-memory", "fl-tensor", fl_tensor="jit")``. What an extra of
    them needs of this repository comes with it, so that no index is asked for it."""
    args: list[str] = []
    chosen = {key: extra for key, extra in extras.items() if key.replace("_", "-") in names}
    needed = closure(*names, **chosen)
    for name in [*names, *(each for each in needed if each not in names)]:
        extra = extras.get(name.replace("-", "_"))
        args += ["-e", f"./{folder_of(name)}" + (f"[{extra}]" if extra else "")]
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
    folder = f"{folder_of(package)}/tests"
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
