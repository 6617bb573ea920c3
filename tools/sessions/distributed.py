"""Communicators whose ranks are processes, each really started, with the packages it needs."""

from __future__ import annotations

import sys

import nox

from sessions.environments import install_editable
from sessions.workspace import closure, test_requirements

HERE = f"{sys.version_info[0]}.{sys.version_info[1]}"
#: pygloo has no wheels for a later Python.
PYTHONS = {"processes": HERE, "mpi": HERE, "gloo": "3.10"}
started = nox.parametrize(
    "python,communicator", [nox.param(python, name, id=name) for name, python in PYTHONS.items()]
)


@nox.session(default=False, reuse_venv=True, tags=["fl-dist"])
@started
def communicators(session: nox.Session, communicator: str) -> None:
    """The whole kit on a communicator, and one training script in each way to start its ranks.

    What is not installed is an error, not a skip. `-- --fl-quick` takes a sample of the kit.
    """
    _test(session, communicator, f"test_{communicator}.py", "test_training.py")


@nox.session(default=False, reuse_venv=True, tags=["fl-dist"])
@started
def faults(session: nox.Session, communicator: str) -> None:
    """Ranks are killed, stopped, cut off or without space at random moments, 60 times.

    Some ten minutes for each communicator. `-- --faults 4` takes a sample.
    """
    _test(session, communicator, "test_faults.py", "--faults", "60")


def _test(session: nox.Session, communicator: str, *arguments: str) -> None:
    extras = {} if communicator == "processes" else {"fl_dist": communicator}
    install_editable(session, *closure("fl-nn"), *test_requirements("fl-nn"), **extras)
    env = {"FL_TEST_COMMUNICATOR": communicator}
    with session.chdir("tests/communicators"):
        session.run("pytest", "-q", *arguments, *session.posargs, env=env)
