"""Optional dependencies: their names, and how to install them."""

from __future__ import annotations

from fl_tensor.errors import MissingError


def install(extra: str) -> str:
    """The command that installs an extra."""
    return f"python -m pip install './packages/fl-tensor[{extra}]' in a clone of the repository"


def missing(what: str, package: str, extra: str) -> MissingError:
    """The error to raise where ``what`` takes a package that is not installed."""
    return MissingError(f"{what} takes {package}: {install(extra)}")
