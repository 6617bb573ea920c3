"""``fl-tensor info``: default backend, threads, and sizes of contract and code.

Kahn et al., "Flashlight: Enabling Innovation in Tools for Machine Learning", ICML 2022, compares
frameworks by their size (Table 1). It counts operators, operators that add, convolve or sum,
lines of code, and megabytes of binaries.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
from typing import Any

from fl_tensor import cache_files, contract, threads
from fl_tensor.cli import lines
from fl_tensor.cli.survey import COUNTED, surveys
from fl_tensor.dispatch import defaults
from fl_tensor.dispatch.registry import REGISTRY, VARIABLE
from fl_tensor.kernels.compilers import compiler_name

#: Table 1 of the paper, as printed. Table 4 of its appendix counts 2,166, 1,423 and 60 operators,
#: and 17,000 lines of Flashlight. Ours is counted when the command runs.
_PRINTED = ("lines", "size", "operators", "add", "conv", "sum")
PAPER = {
    "PyTorch": dict(zip(_PRINTED, (1_798_292, 527, 2_100, 55, 85, 25))),
    "TensorFlow": dict(zip(_PRINTED, (1_306_159, 768, 1_425, 20, 30, 10))),
    "Flashlight": dict(zip(_PRINTED, (27_173, 10, 60, 1, 2, 1))),
}
ROWS = {
    "operators": "operators",
    "add": "implementations of add",
    "conv": "implementations of convolution",
    "sum": "implementations of sum",
    "lines": "lines of code",
    "size": "size of the binary, MB",
}


def main(arguments: list[str]) -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(
        prog="fl-tensor info",
        description="Count the operations of the contract, their implementations per backend and "
        "the lines of code, beside the figures of the Flashlight paper (ICML 2022). Borrowed "
        "operations are no implementations.",
    )
    parser.add_argument("--json", action="store_true", help="the figures as JSON")
    given = parser.parse_args(arguments)
    figures = collect()
    print(json.dumps(figures, indent=1) if given.json else "\n".join(_page(figures)))
    return 0


def collect() -> dict[str, Any]:
    """All figures, ready for JSON."""
    kinds = collections.Counter(op.kind for op in contract.OPERATIONS)
    optional = collections.Counter(op.capability for op in contract.OPTIONAL)
    usable = [facts for facts in surveys() if facts["error"] is None]
    code = lines.packages()
    return {
        "contract": contract.PINNED.generated()["version"],
        "operations": {**kinds, "of_capability": dict(optional), "total": kinds.total()},
        "implementations": {facts["name"]: facts["implementations"] for facts in usable},
        **settings_in_use(),
        "lines": {**code, "total": sum(code.values())},
        "distributions": lines.offering(),
        "parts_of_fl_tensor": lines.parts(),
        "paper": PAPER,
    }


def settings_in_use() -> dict[str, Any]:
    """The default backend and why it is that one (``default``), where files are kept (``cache``),
    the compiler of kernels (``kernel_compiler``), and the pools of threads whose libraries are
    loaded (``threads``)."""
    return {
        "default": _default(),
        "cache": cache_files.state(),
        "kernel_compiler": compiler_name(),
        "threads": {
            "per_operation": threads.get_num_threads(),
            "pools": {pool.name: pool.state() for pool in threads.pools()},
        },
    }


def _default() -> dict[str, Any]:
    """Found from metadata alone: the page says it also where that backend cannot be loaded."""
    found = defaults.candidates(REGISTRY)
    named = os.environ.get(VARIABLE)
    return {
        "name": named or found[0].name,
        "why": f"named by {VARIABLE}" if named else "the highest number",
        "candidates": [each._asdict() for each in found],
        "problems": defaults.problems(REGISTRY),
    }


def _page(figures: dict[str, Any]) -> list[str]:
    return [*_in_use(figures), "", *_sizes(figures)]


def _in_use(figures: dict[str, Any]) -> list[str]:
    running = figures["threads"]
    default = figures["default"]
    page = [f"Default backend: {default['name']} ({default['why']})"]
    page += [f"  {c['name']:<12} {c['number']:>3}  {c['origin']}" for c in default["candidates"]]
    page += [f"  ! {problem}" for problem in default["problems"]]
    page.append(f"Compiled code and tuning choices are kept in {figures['cache']}")
    page.append(f"Compiler of kernels: {figures['kernel_compiler']}")
    page.append(f"Threads of an operation: {running['per_operation']}")
    return page + [f"  {name:<14} {state}" for name, state in running["pools"].items()]


def _sizes(figures: dict[str, Any]) -> list[str]:
    ops = figures["operations"]
    capabilities = ", ".join(f"{n} {name}" for name, n in ops["of_capability"].items())
    page = [
        f"Contract tensor {figures['contract']}: {ops['total']} operations",
        f"  {ops['required']:>5}  required: a backend writes them (at most 64)",
        f"  {ops['derived']:>5}  derived: a backend inherits them as compositions",
        f"  {ops['optional']:>5}  optional, by capability: {capabilities}",
        "",
        "Implementations per backend",
    ]
    for name, found in figures["implementations"].items():
        counted = ", ".join(f"{op} {len(found[op])}" for op in COUNTED)
        page.append(f"  {name:<14} {counted}   (add: {(found['add'] or ['borrowed'])[0]})")
    page += ["", "Lines of code, without blank lines, comments and docstrings"]
    for name, number in figures["lines"].items():
        page.append(f"  {number:>6,}  {name}")
        if name == "fl_tensor":
            page += [f"    {n:>6,}    {part}" for part, n in figures["parts_of_fl_tensor"].items()]
    page += ["", f"Distributions that offer backends ({REGISTRY.group})"]
    for name, backends in figures["distributions"].items():
        page.append(f"  {name}: {', '.join(backends)}")
    if not figures["distributions"]:
        page.append("  none besides fl-tensor")
    return [*page, "", *_table(figures)]


def ours(figures: dict[str, Any]) -> dict[str, str]:
    """The column of the table for what is installed here."""
    per_backend = {
        op: {len(found[op]) for found in figures["implementations"].values()} for op in COUNTED
    }
    counts = {op: "-".join(map(str, sorted({min(n), max(n)}))) for op, n in per_backend.items()}
    operations = figures["operations"]
    return {
        "operators": f"{operations['total']} ({operations['required']} to write)",
        "lines": f"{figures['lines']['total']:,}",
        "size": "none",  # an interpreter runs it: there is no binary
        **{op: f"{count} per backend" for op, count in counts.items()},
    }


def _table(figures: dict[str, Any]) -> list[str]:
    mine, names = ours(figures), list(PAPER)
    head = f"  {'':<32}" + "".join(f"{name:>12}" for name in names) + f"{'here':>20}"
    page = ["Beside Table 1 of Kahn et al., ICML 2022", head]
    for key, words in ROWS.items():
        theirs = "".join(f"{PAPER[name][key]:>12,}" for name in names)
        page.append(f"  {words:<32}{theirs}{mine[key]:>20}")
    return page
