"""``python -m fl_tensor.testing.kernels NAME [options]``: the suite of compilers of kernels without
a test file. The options are those of ``python -m fl_memory.testing``."""

from __future__ import annotations

import sys

from fl_memory.testing.command import run
from fl_tensor.kernels.compilers import REGISTRY


def main(arguments: list[str] | None = None) -> int:
    """Run the command; the last line printed is ``N passed, M failed``."""
    return run(
        arguments,
        registry=REGISTRY,
        suite="fl_tensor.testing:KernelCompilerSuite",
        attribute="compiler",
        prog="python -m fl_tensor.testing.kernels",
    )


if __name__ == "__main__":
    sys.exit(main())
