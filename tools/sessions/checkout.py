"""Checks of every change, in the workshop."""

from __future__ import annotations

import os
import sys

import nox

from sessions.environments import in_workshop, install_editable, pytest_in_workshop, shared
from sessions.workspace import OURS, ROOT, closure, copied_checkout, suite

CONTRACTS = ["fl-memory", "fl-tensor", "fl-dist"]
#: Packages whose tests take minutes.
LONG = ["fl-memory", "fl-tensor", "fl-data", "fl-nn", "fl-vision", "fl-jit"]

#: What runs notebooks without a browser.
JUPYTER = ["nbclient>=0.10", "ipykernel>=6.29"]

each_package = nox.parametrize("package", [nox.param(p, id=p, tags=[p]) for p in OURS])


@nox.session(tags=["quick"], **shared)
def lint(session: nox.Session) -> None:
    """Style and likely mistakes (ruff)."""
    in_workshop(session, "ruff", "check", *(session.posargs or ["."]))


@nox.session(tags=["quick"], **shared)
def types(session: nox.Session) -> None:
    """Type check every package, every example and the tools (mypy)."""
    in_workshop(session, "mypy", *session.posargs)


@nox.session(tags=["quick"], **shared)
def layers(session: nox.Session) -> None:
    """Who may import whom: an arrow up, or a circle of files that is not listed, is a failure."""
    in_workshop(session, "lint-imports", "--no-cache", *session.posargs)
    in_workshop(session, "python", "tools/import_circles.py")


@nox.session(tags=["quick"], **shared)
def public_names(session: nox.Session) -> None:
    """Does a distribution use a name of another one that is not public?"""
    in_workshop(session, "python", "tools/import_names.py", *session.posargs)


@nox.session(tags=["quick"], **shared)
def sizes(session: nox.Session) -> None:
    """Lines of code of each distribution, folder and file against `tools/sizes.toml`."""
    in_workshop(session, "python", "tools/sizes.py", *session.posargs)


@nox.session(tags=["quick", *CONTRACTS], **shared)
def contracts(session: nox.Session) -> None:
    """Regenerate pinned contracts and their cards and compare (`-- --write` to write them)."""
    options = session.posargs or ["--check"]
    for package in CONTRACTS:
        in_workshop(session, "python", "-m", package.replace("-", "_") + ".contract", *options)
    in_workshop(session, "python", "-m", "fl_tensor.kernels.contract", *options)
    in_workshop(session, "python", "tools/contract_cards.py", *options)
    in_workshop(session, "python", "tools/foreign_names.py", *options)


@nox.session(tags=["fl-tensor"], **shared)
def add_operation(session: nox.Session) -> None:
    """ "Add an operation" of CONTRIBUTING.md, followed to the letter in a copy of the checkout."""
    with copied_checkout() as copy:
        found = [*copy.glob("packages/*/src"), *copy.glob("backends/*/src")]
        sources = os.pathsep.join(map(str, found))
        page = [str(copy / "CONTRIBUTING.md"), "--section", "Add an operation"]
        command = [str(ROOT / "tools" / "follow.py"), *page, "--folder", str(copy)]
        in_workshop(session, "python", *command, env={"PYTHONPATH": sources})


@nox.session(**shared)
@each_package
def tests(session: nox.Session, package: str) -> None:
    """The tests of one package, in the workshop."""
    pytest_in_workshop(session, *suite(package), workers=2 if package in LONG else 1)


@nox.session(**shared)
def tools(session: nox.Session) -> None:
    """The tests of the checks in tools/: they find what they look for."""
    pytest_in_workshop(session, "tests/tools")


@nox.session(**shared)
def benchmark_models(session: nox.Session) -> None:
    """The models of the benchmarks: their sizes, that they learn; every benchmark in miniature, and
    some steps of every program of examples/programs."""
    folder = "benchmarks/tests"
    paths = [folder, "tests/programs", f"--ignore={folder}/oracles"]
    pytest_in_workshop(session, *paths, workers=2)


@nox.session(**shared)
def readmes(session: nox.Session) -> None:
    """The Python in every README and page of docs/ runs, but for the tutorials."""
    in_workshop(session, "python", "tools/run_readmes.py", *session.posargs)


@nox.session(**shared)
def tutorials(session: nox.Session) -> None:
    """Every tutorial runs from its first block to its last, shell commands included."""
    pages = session.posargs or ["--tutorials"]
    in_workshop(session, "python", "tools/run_readmes.py", *pages)


@nox.session(default=False, reuse_venv=True)
def notebooks(session: nox.Session) -> None:
    """The notebooks of docs/tutorials run, and a Jupyter kernel shows tables, figures and progress.

    `-- --pictures FOLDER` writes the pictures of the notebooks.
    """
    ours = closure("fl-nn", "fl-data")
    install_editable(session, *ours, *JUPYTER, "pytest>=8", fl_nn="plot")
    session.run("python", "tools/run_notebooks.py", *session.posargs)
    session.run("pytest", "-q", "-p", "no:cacheprovider", "tests/notebooks")


@nox.session(**shared)
def prose(session: nox.Session) -> None:
    """READMEs, docs, changelogs and module docstrings keep to the limits of tools/prose.py, names
    and strings to those of tools/vocabulary.py."""
    in_workshop(session, "python", "tools/prose.py", *session.posargs)
    in_workshop(session, "python", "tools/vocabulary.py")
    in_workshop(session, "python", "-m", "pytest", "-q", "tests/prose")


@nox.session(reuse_venv=True)
def docs(session: nox.Session) -> None:
    """The pages and the API reference as a site in .nox/site: no broken link, no missing object."""
    session.install("mkdocs>=1.6,<2", "mkdocstrings[python]>=1.0,<2")
    session.run("mkdocs", "build", "--strict", *session.posargs)


@nox.session(venv_backend="none", tags=["quick", "fl-tensor"])
def import_cost(session: nox.Session) -> None:
    """`import fl_tensor` loads only modules of a checked-in list (`-- --write` extends it)."""
    session.run(sys.executable, "tools/import_cost.py", *session.posargs, external=True)
