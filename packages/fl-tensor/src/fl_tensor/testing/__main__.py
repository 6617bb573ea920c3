"""``python -m fl_tensor.testing NAME [options]``: the conformance suite without a test file.

* ``--report FILE`` writes a report card, ``-k EXPR`` selects tests;
* ``--quick`` runs one sample of each operation and dtype;
* ``--device D`` selects another device than the backend's first (``cuda:1``);
* ``--under WRAPPERS`` puts wrappers in front of the backend (``profile,check,count,trace``).
"""

from __future__ import annotations

import argparse
import os
import sys
from importlib.util import find_spec
from pathlib import Path

from fl_memory.testing.command import run
from fl_tensor import extras
from fl_tensor.dispatch.registry import REGISTRY
from fl_tensor.errors import FlError


def main(arguments: list[str] | None = None, prog: str = "python -m fl_tensor.testing") -> int:
    """Run the command; the last line printed is ``N passed, M failed``."""
    if find_spec("pytest") is None:
        print(extras.missing("the conformance kit", "pytest", "testing"), file=sys.stderr)
        return 2
    from fl_tensor.testing import under

    ours = argparse.ArgumentParser(add_help=False)
    ours.add_argument(
        "--device", default="", help="another device than the backend's first: cuda:1"
    )
    ours.add_argument(
        "--under",
        default="",
        metavar="WRAPPERS",
        help=f"wrappers in front of the backend, first one outermost: {','.join(under.NAMES)}",
    )
    ours.add_argument(
        "--quick",
        action="store_true",
        help="one sample of each operation and dtype: for backends that compile each shape",
    )
    options, arguments = ours.parse_known_args(arguments)
    if options.quick:
        arguments.append("--fl-quick")
    try:
        under.layers(options.under)
    except FlError as error:
        print(error, file=sys.stderr)
        return 2
    # The tests run in a process of their own.
    os.environ[under.ENVIRONMENT] = options.under
    os.environ[under.DEVICE] = options.device
    try:
        status = run(
            arguments,
            registry=REGISTRY,
            suite="fl_tensor.testing:TensorBackendSuite",
            attribute="backend",
            prog=prog,
            parents=[ours],
        )
    finally:
        del os.environ[under.ENVIRONMENT], os.environ[under.DEVICE]
    reader = argparse.ArgumentParser(add_help=False)
    reader.add_argument("name")
    reader.add_argument("--report", type=Path)
    given, _ = reader.parse_known_args(arguments)
    if status != 2 and given.report is not None:
        from fl_tensor.testing import card

        card.complete(given.report, REGISTRY.load(given.name))
    return status


if __name__ == "__main__":
    sys.exit(main())
