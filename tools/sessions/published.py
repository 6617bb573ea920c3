"""Tests of the wheels, as third parties use them, without the checkout."""

from __future__ import annotations

import shutil

import nox

from sessions.checkout import each_package
from sessions.environments import BUILD, install_wheels
from sessions.workspace import (
    BACKENDS,
    LIGHT_EXAMPLES,
    ROOT,
    closure,
    folder_of,
    outside_the_checkout,
    test_requirements,
    wheel,
)


@nox.session(requires=["wheels"])
@each_package
def isolated(session: nox.Session, package: str) -> None:
    """A fresh environment, one wheel and what it declares, its tests, outside the checkout.

    `tests` runs all of them, so each tenth test of a file will do here (`-- --every 1`: all).
    """
    install_wheels(session, *map(wheel, closure(package)), *test_requirements(package))
    if package not in BACKENDS:  # a library of a backend is none of what is above the contract
        code = "import importlib.util as u; assert u.find_spec('llvmlite') is None"
        session.run("python", "-c", code)
    with outside_the_checkout(ROOT / folder_of(package) / "tests") as folder:
        shutil.copy(ROOT / "tools" / "sample_plugin.py", folder)
        session.chdir(folder)
        sample = ["-p", "sample_plugin", "--every", "10"]
        options = ["-q", "-p", "no:cacheprovider", *sample, *session.posargs]
        session.run("python", "-m", "pytest", *options, package)


@nox.session(requires=["wheels"], tags=LIGHT_EXAMPLES)
def thirdparty(session: nox.Session) -> None:
    """Outside packages against our wheels: their kits, and one epoch of training through them."""
    install_wheels(
        session,
        *map(wheel, [*closure(*LIGHT_EXAMPLES, "fl-nn"), *LIGHT_EXAMPLES]),
        wheel("fl-vision") + "[digits]",
        *test_requirements(*LIGHT_EXAMPLES),
    )
    examples = ROOT / "examples"
    copies = [*(examples / name / "tests" for name in LIGHT_EXAMPLES), examples / "thirdparty"]
    with outside_the_checkout(*copies) as folder:
        session.chdir(folder)
        for name in LIGHT_EXAMPLES:
            session.run("pytest", "-q", "-p", "no:cacheprovider", name)
        # Once more by the name of the entry point, as a user finds them; a part of the kit will do.
        for kit, name, part in (
            ("fl_tensor", "acme", "random or value"),
            ("fl_memory", "arena", "stat"),
            ("fl_dist", "acme-ring", "barrier"),
        ):
            session.run("python", "-m", f"{kit}.testing", name, "-k", part)
        readmes = [f"{name}/README.md" for name in LIGHT_EXAMPLES]
        session.run("python", str(ROOT / "tools" / "run_readmes.py"), *readmes)
        session.run("python", "examples/thirdparty/train_digits.py", *session.posargs)


@nox.session(requires=["wheels"], tags=["fl-autograd", "fl-nn", "acme-backend"])
def portability(session: nox.Session) -> None:
    """The tests of fl-autograd and fl-nn on a backend in pure Python, without NumPy above it.

    `tests` runs all of them on NumPy. Here each fifth test of a file will do, and of the cases
    marked fl_heavy a quarter (`-- --every 1 --fl-sample 1`: all).
    """
    packages = ["fl-autograd", "fl-nn"]
    install_wheels(
        session,
        *map(wheel, [*closure(*packages), "acme-backend"]),
        *test_requirements(*packages),
    )
    with outside_the_checkout(*(ROOT / "packages" / name / "tests" for name in packages)) as folder:
        shutil.copy(ROOT / "tools" / "sample_plugin.py", folder)
        session.chdir(folder)
        sample = ["-p", "sample_plugin", "--every", "5", "--fl-sample", "0.25"]
        options = ["-q", "-p", "no:cacheprovider", *sample, *session.posargs]
        command = ["python", "-m", "pytest", *options, *packages]
        session.run(*command, env={"FL_TENSOR_BACKEND": "acme"})


@nox.session(requires=["wheels"], tags=["fl-tensor"])
def new_backend(session: nox.Session) -> None:
    """A stranger's first hour: `fl-tensor new-backend`, then the whole of writing-a-backend.md.

    What the command writes passes with two of our wheels and nothing else; the page is followed to
    the letter.
    """
    session.install("pip", *BUILD, wheel("fl-memory"), wheel("fl-tensor") + "[testing]")
    # From here on pip finds what is installed, or nothing: an index can offer no other package.
    alone = {
        "PIP_NO_INDEX": "1",
        "PIP_NO_BUILD_ISOLATION": "0",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    with outside_the_checkout() as folder:
        session.chdir(folder)
        session.run("fl-tensor", "new-backend", "half-moon")
        session.run(
            "python", "-m", "pip", "install", "-q", "./fl-tensor-half-moon[test]", env=alone
        )
        session.chdir(folder / "fl-tensor-half-moon")
        session.run("python", "-m", "pytest", "-q", "-p", "no:cacheprovider")
        session.chdir(ROOT)
    session.install(*map(wheel, closure("fl-nn")), wheel("fl-vision") + "[digits]")
    page = str(ROOT / "docs" / "writing-a-backend.md")
    session.run("python", str(ROOT / "tools" / "follow.py"), page, *session.posargs, env=alone)
