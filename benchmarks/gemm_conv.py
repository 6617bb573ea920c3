"""Products and convolutions of the generated kernels, of oneDNN and of PyTorch, on two threads.

Claims: float32, at least 0.98 times the speed of oneDNN in the geometric mean of products and of
each of the three passes of convolutions, nowhere less than 0.85 times; at least as fast as
PyTorch, with channels last where that is faster. Ratios are times of the peer divided by ours.

The lists are those of well-known networks; `depthwise` are all three passes of depthwise and
grouped convolutions. Generated kernels and those of oneDNN, from `examples/onednn-kernels`, are
called with addresses in this process, as they share their threads. PyTorch has two processes of its
own, of which the faster one counts: with channels last, and without. All take turns. oneDNN has
measured its own kernels before (``KernelLibrary.tune``), generated kernels take their heuristic.
Before a turn the threads of the last one get the time to go to sleep. Weights are packed
beforehand, ours and oneDNN's (``--given``: they are packed in every call). Products are measured
both ways, PyTorch's never packed. Before anything is timed the results of the two are compared.

    python benchmarks/gemm_conv.py [--only products packed forward data weights depthwise CASE]
        [--dtype bfloat16] [--threads 1 --cpu] [--peers onednn torch] [--given] [--rounds 9]

``--cpu`` counts the time that the one thread computes, for a machine that does other work, too.
"""

from __future__ import annotations

import argparse
import difflib
import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from typing import Any

import numpy as np
from _measure import (
    OneAtATime,
    TakesTurns,
    Worker,
    environment,
    parsed,
    parser_of,
    report,
    serve,
    take_turns,
    timed,
)
from _peers import require

import fl_tensor as ft
from cases import contractions, descriptors
from fl_jit.kernels import KernelLibrary, KernelLibraryError
from fl_jit.kernels.llvm.library import GeneratedKernels

GROUPS = ("products", "packed", "forward", "data", "weights", "depthwise")
PEERS = ("onednn", "torch", "numpy")
ONEDNN = "python -m pip install ./examples/onednn-kernels"
#: Cases of other benchmarks that the claims are not about.
BESIDES = ("gemm-512x768x768", "bmm-96x128x128x64", "conv-Alex-11x11/4-3-64@224-forward")
BESIDES += ("conv-Alex-11x11/4-3-64@224-weights",)
#: Seconds before each turn: libgomp's threads look for work for some milliseconds.
PAUSE = 0.01
#: What the results of two libraries may differ by, as a part of the largest element.
TOLERANCE = {"float64": 1e-12, "float32": 2e-5, "float16": 1e-2, "bfloat16": 5e-2}


def cases_of(group: str, wanted: list[str]) -> Iterator[str]:
    """The cases of a group that are wanted: all, those of wanted groups, or by name."""
    passes = {case: about.which for case, about in contractions.convolutions().items()}
    passes |= dict.fromkeys(contractions.grouped(), "depthwise")
    for case in contractions.operations():
        fits = group in (("products", "packed") if case not in passes else (passes[case],))
        selected = case in wanted or ((not wanted or group in wanted) and case not in BESIDES)
        if fits and selected and not (group == "packed" and case.startswith("bmm")):
            yield case


class InProcess:
    """A kernel library of this process, which takes turns with workers."""

    def __init__(
        self, library: KernelLibrary, given: argparse.Namespace, tune: bool = False
    ) -> None:
        self.library, self._tune = library, tune and not given.tiny
        self._given = given
        self.prepared: descriptors.Prepared | str = "nothing is prepared"

    def prepare(self, case: str, packed: bool) -> None:
        """Make the kernel of a case, by measurement with ``tune``, and call it once."""
        if self._tune:
            self.library.tune(descriptors.descriptor_of(case, self._given.dtype, packed))
        self.prepared = descriptors.prepare(self.library, case, self._given.dtype, packed)
        if not isinstance(self.prepared, str):
            self.prepared()

    def timed(self, case: str, count: int) -> float:
        """Seconds per call of the case that was prepared."""
        assert not isinstance(self.prepared, str)
        return timed(self.prepared, count, self._given.clock)


def compare(case: str, made: dict[str, descriptors.Prepared], tolerance: float) -> None:
    """Leaves the program where results differ."""
    results = {name: kernel.result() for name, kernel in made.items()}
    for name, found in results.items():
        first, expected = next(iter(results.items()))
        found = found.reshape(expected.shape)  # weights may have an axis of groups, or none
        error = np.abs(found - expected).max() / np.abs(expected).max()
        if not error <= tolerance:
            raise SystemExit(f"{case}: {name} and {first} differ by {error:.1e} of the maximum")


def measured(
    group: str,
    case: str,
    ours: dict[str, InProcess],
    workers: dict[str, Worker],
    given: argparse.Namespace,
) -> dict[str, Any]:
    """The row of a case: our speed, and times of the peers as parts of ours."""
    row: dict[str, Any] = {"case": case, "group": group}
    made, turns = {}, dict[str, TakesTurns]()
    for name, library in ours.items():
        library.prepare(case, packed=group == "packed" or (group != "products" and not given.given))
        if isinstance(library.prepared, str):
            row[f"{name}, GF/s"] = library.prepared
        else:
            made[name], turns[name] = library.prepared, library
    compare(case, made, TOLERANCE[str(given.dtype)])
    row["packed"] = " ".join(name for name, kernel in made.items() if kernel.packed) or "none"
    turns |= {
        name: worker
        for name, worker in workers.items()
        if group not in ("products", "packed") or name != "channels last"
    }
    pause = 0.0 if given.tiny else PAUSE
    seconds = take_turns(turns, case, given.rounds, given.moment, pause)
    work = contractions.operations()[case]
    row |= {f"{name}, GF/s": work / seconds[name] / 1e9 for name in seconds}
    if "generated" in seconds:
        own = seconds.pop("generated")
        ratios = {name: s / own for name, s in seconds.items()}
        torch = [ratio for name, ratio in ratios.items() if name in ("torch", "channels last")]
        row |= {f"{name} / ours": ratio for name, ratio in ratios.items() if name not in workers}
        row |= {"torch / ours": min(torch)} if torch else {}
        row |= {"numpy / ours": ratios["numpy"]} if "numpy" in ratios else {}
    return row


def summary(group: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Geometric means and worst cases of a group's ratios."""
    columns = dict.fromkeys(c for row in rows for c in row if c.endswith(" / ours"))
    ratios = {c: [row[c] for row in rows if c in row] for c in columns}
    means = {c: math.exp(sum(map(math.log, x)) / len(x)) for c, x in ratios.items()}
    return [
        {"case": f"{group.upper()}, geometric mean", "group": group} | means,
        {"case": f"{group.upper()}, worst", "group": group}
        | {c: min(x) for c, x in ratios.items()},
    ]


def summarised(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The cases of each group, with their summary behind them where the whole list is there."""
    found = []
    for group in GROUPS:
        cases = [r for r in rows if r["group"] == group and not r["case"].startswith(group.upper())]
        listed = set(cases_of(group, []))
        claimed = [row for row in cases if row["case"] in listed]
        compared = any(" / ours" in column for row in claimed for column in row)
        whole = compared and len(claimed) == len(listed)
        found += cases + (summary(group, claimed) if whole else [])
    return found


def peer_call(library: str, case: str, dtype: str) -> Callable[[], object]:
    """A case in PyTorch or in NumPy."""
    if library == "numpy":
        draws = np.random.default_rng(0)
        x, y = (draws.random(shape).astype(dtype) for shape in contractions.PRODUCTS[case])
        return lambda: x @ y
    import torch

    torch.set_default_dtype(getattr(torch, dtype))
    return contractions.torch_call(case, library == "channels last")


def libraries(given: argparse.Namespace) -> dict[str, InProcess]:
    """The generated kernels, and the peer oneDNN of the example onednn-kernels."""
    found = {"generated": InProcess(GeneratedKernels(), given)}
    if "onednn" in given.peers:
        require(["onednn_kernels"], f"{ONEDNN}, or name other --peers")
        from onednn_kernels import OneDNN

        try:
            found["oneDNN"] = InProcess(OneDNN(), given, tune=True)
        except KernelLibraryError as error:
            raise SystemExit(f"{error}; or name other --peers") from error
    return found


def options() -> argparse.Namespace:
    """The command line."""
    parser = parser_of(__doc__, rounds=9)
    parser.add_argument("--only", nargs="+", default=[], metavar="CASE")
    parser.add_argument("--dtype", type=ft.dtypes.dtype, default=ft.float32)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cpu", action="store_true", help="time of the thread, not of the clock")
    parser.add_argument("--peers", nargs="*", default=["onednn", "torch"], choices=PEERS)
    parser.add_argument("--given", action="store_true", help="weights are not packed beforehand")
    parser.add_argument("--serve", metavar="LIBRARY", help=argparse.SUPPRESS)
    given = parsed(parser)
    given.clock = time.thread_time if given.cpu else time.perf_counter
    if given.cpu and given.threads != 1:
        parser.error("--cpu counts the time of one thread: give --threads 1")
    known = [*GROUPS, *contractions.operations()]
    for name in given.only:
        if name not in known:
            near = difflib.get_close_matches(name, known, 3) or GROUPS
            parser.error(
                f"--only {name}: there is no such case or group, such as {', '.join(near)}"
            )
    if "torch" in given.peers and not given.tiny and not given.serve:
        require(["torch"], "install it, or name other --peers (none: ours alone)")
    return given


def main() -> None:
    given = options()
    if given.tiny:
        contractions.make_tiny()
        found = find_spec("onednn_kernels") is not None
        given.peers = [name for name in given.peers if name == "onednn" and found]
    if given.serve:
        call = OneAtATime(lambda case: peer_call(given.serve, case, str(given.dtype)))
        serve(call, given.clock)
        return
    ft.set_num_threads(given.threads)
    ours = libraries(given)
    rows = []
    with ExitStack() as stack:
        names = {"torch": ("torch", "channels last"), "numpy": ("numpy",), "onednn": ()}
        arguments = ["--dtype", str(given.dtype), "--threads", str(given.threads)]
        arguments += ["--cpu"] if given.cpu else []
        workers = {
            name: stack.enter_context(Worker(name, given.threads, arguments=arguments))
            for peer in given.peers
            for name in names[peer]
        }
        for group in GROUPS:
            cases = list(cases_of(group, given.only))
            taking_part = {
                name: worker
                for name, worker in workers.items()
                if name != "numpy" or group == "products"
            }
            for number, case in enumerate(cases):
                print(f"{group} {number + 1} of {len(cases)}: {case}", file=sys.stderr)
                rows.append(measured(group, case, ours, taking_part, given))
    about = environment("numpy", "torch", "llvmlite", "onednn-cpu-gomp", "fl-tensor")
    settings = {"threads": given.threads, "dtype": str(given.dtype), "rounds": given.rounds}
    settings["clock"] = "cpu" if given.cpu else "wall"
    report(given, {**about, **settings}, rows, key=("case", "group"), finish=summarised)


if __name__ == "__main__":
    main()
