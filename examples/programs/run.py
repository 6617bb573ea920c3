"""Train programs of this folder: `python examples/programs/run.py vae pinn`, or all of them."""

from __future__ import annotations

import sys
import time
from importlib import import_module
from pathlib import Path

PROGRAMS = sorted(p.stem for p in Path(__file__).parent.glob("*.py") if p.stem != "run")


def trained(name: str, steps: int | None = None) -> tuple[float, float]:
    """The figure of a program after its training, or after so many steps, and its goal."""
    program = import_module(name)
    step, figure = program.program()
    for _ in range(program.STEPS if steps is None else steps):
        step()
    return figure(), program.GOAL


def main() -> None:
    missed = []
    for name in sys.argv[1:] or PROGRAMS:
        start = time.perf_counter()
        figure, goal = trained(name)
        took = time.perf_counter() - start
        print(f"{name:18} {figure:9.4f}  goal {goal:g}  {took:.0f} s", flush=True)
        missed += [name] if not figure <= goal else []
    sys.exit(f"missed: {', '.join(missed)}" if missed else 0)


if __name__ == "__main__":
    main()
