"""Where sessions run: the shared workshop, and the wheels that are built once."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import nox

from sessions.workspace import (
    BACKENDS,
    DIST,
    EXAMPLES,
    OURS,
    PACKAGES,
    ROOT,
    editable,
    folder_of,
    test_requirements,
)

BUILD = ["hatchling>=1.24,<2", "editables"]
TOOLS = ["ruff>=0.14", "mypy>=1.18", "import-linter>=2.3", "pytest>=9", "pytest-xdist>=3.6"]
EXTRAS = {"fl_data": "arrow", "fl_nn": "plot", "fl_vision": "digits"}
#: An outside package beside ours in the workshop. `jit` uses it only where a session names it.
KERNEL_LIBRARY = "onednn-kernels"

Env: TypeAlias = Mapping[str, str]
NOTHING: Env = {}
#: Options of a session that runs in the workshop.
shared: dict[str, Any] = {"requires": ["workshop"], "venv_backend": "none"}
_workshop_bin = ""


@nox.session(default=False, reuse_venv=True)
def workshop(session: nox.Session) -> None:
    """The shared environment: packages and backends editable, an outside kernel library, tools."""
    global _workshop_bin
    _workshop_bin = session.bin
    digest = hashlib.sha256(repr((sys.version, BUILD, TOOLS, EXTRAS)).encode())
    ours = [*OURS, KERNEL_LIBRARY]
    for name in ours:
        digest.update((ROOT / folder_of(name) / "pyproject.toml").read_bytes())
    stamp = Path(session.bin).parent / "workshop.sha256"
    if stamp.is_file() and stamp.read_text() == digest.hexdigest():
        session.log("the workshop is up to date")
        return
    install_editable(session, *ours, *TOOLS, *test_requirements(*ours), **EXTRAS)
    stamp.write_text(digest.hexdigest())


def in_workshop(session: nox.Session, program: str, *args: str, env: Env = NOTHING) -> None:
    """Run a program of the workshop."""
    path = os.pathsep.join([_workshop_bin, os.environ.get("PATH", "")])
    tool = os.path.join(_workshop_bin, program)
    session.run(tool, *args, env={"PATH": path, **env}, external=True)


def ask_workshop(session: nox.Session, code: str) -> str:
    """What a line of Python prints in the workshop."""
    python = os.path.join(_workshop_bin, "python")
    return str(session.run(python, "-c", code, silent=True, external=True) or "")


def pytest_in_workshop(
    session: nox.Session, *args: str, workers: int = 1, every: int = 1, env: Env = NOTHING
) -> None:
    """`python -m pytest -q` in the workshop, with what stands after `--`.

    Several workers share the tests out among processes, unless anything stands there. Threads
    of one do not spin while they wait, which would keep the processor from the other. Sessions that
    repeat tests run each `every`-th test of a file, unless anything stands there (`-- --every 1`:
    all).
    """
    path = os.pathsep.join(filter(None, [str(ROOT / "tools"), os.environ.get("PYTHONPATH")]))
    env = {"PYTHONPATH": path, **env}
    args = ("-p", "sample_plugin", *args)
    if every > 1 and not session.posargs:
        args = (*args, "--every", str(every))
    if workers > 1 and not session.posargs:
        args = (*args, "-n", str(workers), "--dist", "worksteal")
        env = {"OMP_WAIT_POLICY": "passive", **env}
    in_workshop(session, "python", "-m", "pytest", "-q", *args, *session.posargs, env=env)


def install_editable(session: nox.Session, *names: str, **extras: str) -> None:
    """Install packages of this repository as they lie in the checkout, others by their names."""
    ours = editable(*(name for name in names if name in (*OURS, *EXAMPLES)), **extras)
    others = [name for name in names if name not in (*OURS, *EXAMPLES)]
    session.install(*BUILD)
    session.install("--no-build-isolation", *ours, *others)
    session.run("python", str(ROOT / "tools" / "check_origin.py"), silent=True)


def install_wheels(session: nox.Session, *requirements: str) -> None:
    """Install wheels of this repository, by path, with what else is named."""
    session.install(*requirements)
    session.run("python", str(ROOT / "tools" / "check_origin.py"), silent=True)


@nox.session(default=False, reuse_venv=True)
def wheels(session: nox.Session) -> None:
    """Build every wheel once: packages and backends into dist/, examples into dist/examples/."""
    session.install("pip", *BUILD)
    shutil.rmtree(DIST, ignore_errors=True)
    for folder, names, target in (
        ("packages", PACKAGES, DIST),
        ("backends", BACKENDS, DIST),
        ("examples", EXAMPLES, DIST / "examples"),
    ):
        sources = [f"./{folder}/{name}" for name in names if (ROOT / folder / name).is_dir()]
        options = ["-q", "--no-deps", "--no-build-isolation", "--no-cache-dir", "-w", str(target)]
        if sources:
            session.run("python", "-m", "pip", "wheel", *options, *sources)
