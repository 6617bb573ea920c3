"""Communicators whose ranks are processes, each really started, with the packages it needs."""

from __future__ import annotations

import sys

import nox

from sessions.environments import install_editable
from sessions.workspace import closure, test_requirements

HERE = f"{sys.version_info[0]}.{sys.version_info[1]}"
#: pygloo has no wheels for a later Python.
PYTHONS = {"processes": HERE, "mpi": HERE, "gloo": "3.10"}


@nox.session(default=False, reuse_venv=True, tags=["fl-dist"])
@nox.parametrize(
    "python,communicator", [nox.param(python, name, id=name) for name, python in PYTHONS.items()]
)
def communicators(session: nox.Session, communicator: str) -> None:
    """The whole kit on a communicator, and one training script in each way to start its ranks.

    What is not installed is an error, not a skip. `-- --fl-quick` takes a sample of the kit.
    """
    extras = {} if communicator == "processes" else {"fl_dist": communicator}
    install_editable(session, *closure("fl-nn"), *test_requirements("fl-nn"), **extras)
    folder = "tests/communicators"
    tests = [f"{folder}/test_{communicator}.py", f"{folder}/test_training.py"]
    env = {"FL_TEST_COMMUNICATOR": communicator}
    session.run("pytest", "-q", *tests, *session.posargs, env=env)
