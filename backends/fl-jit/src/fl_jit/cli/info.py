"""``fl-jit info``: the processor, the kernel libraries in use and the unused ones, the folder of
cached files, and the thread pools.

``fl-jit info --choices`` prints the results of autotuning.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from fl_jit.kernels import registry
from fl_jit.kernels.codegen import target
from fl_jit.kernels.library import KernelLibrary
from fl_tensor.extend import cache_files, threads

#: The legend of ``--choices``.
LEGEND = """\
A line is a problem (dtype[shape]:strides of its operands), the kernel that was chosen, and the time
of each that was tried. Of generated kernels, rule is the choice of the heuristic, and 14x2 has
tiles of 14 rows by 2 vectors. An epilogue, elementwise work on the result, is named by 8 digits of
its digest."""


def main(arguments: list[str]) -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(
        prog="fl-jit info",
        description="The processor that kernels are generated for, the kernel libraries in the "
        "order in which they are tried, the folder of cached files, and thread pools.",
    )
    parser.add_argument("--json", action="store_true", help="the figures as JSON")
    parser.add_argument(
        "--choices", action="store_true", help="only the results of autotuning: kernels and times"
    )
    given = parser.parse_args(arguments)
    if given.choices:
        found = "\n".join(filter(None, (each.choices() for each in _libraries())))
        print(f"{found}\n\n{LEGEND}" if found else "nothing was measured yet")
        return 0
    figures = collect()
    print(json.dumps(figures, indent=1) if given.json else "\n".join(_page(figures)))
    return 0


def collect() -> dict[str, Any]:
    """All figures, ready for JSON: the kernel libraries in the order in which they are tried, the
    ``unused`` ones that are installed, the ``processor``, the ``cache``, and the pools of
    ``threads``."""
    names = registry.requested()
    unused = {name: by for name, by in registry.available().items() if name not in names}
    machine = target.host()
    return {
        "kernel_libraries": [
            {"name": each.name, "report": dict(each.report())} for each in _libraries()
        ],
        "unused": unused,
        "processor": {"name": machine.cpu, "vector_bits": machine.vector_bits},
        "cache": cache_files.state(),
        "threads": {
            "per_operation": threads.get_num_threads(),
            "pools": {pool.name: pool.state() for pool in threads.pools()},
        },
    }


def _libraries() -> list[KernelLibrary]:
    return [registry.load(name) for name in registry.requested()]


def _page(figures: dict[str, Any]) -> list[str]:
    machine, running = figures["processor"], figures["threads"]
    tried = [each["name"] for each in figures["kernel_libraries"]] + ["NumPy"]
    page = [
        f"Kernels for {machine['name']}, vectors of {machine['vector_bits']} bits",
        f"GEMM and convolution by {', then '.join(tried)}",
    ]
    for each in figures["kernel_libraries"]:
        page += [f"  {each['name']}"]
        page += [f"    {name:<12} {value}" for name, value in each["report"].items()]
    page += [
        f"  {name} of {by}: not named by {registry.ENVIRONMENT}"
        for name, by in figures["unused"].items()
    ]
    page += [
        f"Kernels and tuning choices are kept in {figures['cache']}",
        f"Threads of an operation: {running['per_operation']}",
    ]
    return page + [f"  {name:<14} {state}" for name, state in running["pools"].items()]
