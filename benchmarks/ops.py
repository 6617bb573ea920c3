"""Operations through the public functions, on two threads, against PyTorch: products, convolutions
and their gradients, what can be fused, and operations on 4 elements.

For orientation; the claims are those of `kernels.py` and `eager_overhead.py`, which time the same
cases. Ours are the backends `jit`, with the installed kernel libraries (generated kernels first,
unless `FL_KERNEL_LIBRARIES` says otherwise), and `numpy`, which is NumPy alone. PyTorch has images
row-major, as a user makes them, or with channels last, in and out. Ratios above 1 are in favour of
`jit`; a row in capitals is a geometric mean. Each library runs in a process of its own, and they
take turns.

    python benchmarks/ops.py [--only products convolutions fused small CASE] [--rounds 7]
        [--json FILE [--add]] [--markdown]
"""

from __future__ import annotations

import math
from contextlib import ExitStack
from typing import Any

from _measure import OneAtATime, Worker, environment, options, report, serve, take_turns

from cases import contractions, fused, settle, small
from cases.contractions import Call

THREADS = 2
#: Library -> what is in its environment.
LIBRARIES = {
    "jit": {"FL_TENSOR_BACKEND": "jit"},
    "numpy": {"FL_TENSOR_BACKEND": "numpy"},
    "torch": {},
    "channels last": {},
}
PEERS = ("torch", "channels last")


def groups() -> dict[str, list[str]]:
    """Group -> its cases."""
    return {
        "products": list(contractions.PRODUCTS),
        "convolutions": list(contractions.convolutions()),
        "fused": list(fused.CASES),
        "small": list(small.NAMES),
    }


def settled_call(library: str, case: str, tiny: bool) -> Call:
    """The call of a case in a library, which has seen it a few times."""
    call = call_of(library, case, tiny)
    for _ in range(3):
        call()
        if library not in PEERS:
            settle()
    return call


def call_of(library: str, case: str, tiny: bool) -> Call:
    """The call of a case in a library."""
    ours = library not in PEERS
    if case in small.NAMES:
        return (small.our_calls if ours else small.torch_calls)()[case]
    if case in fused.CASES:
        make = fused.our_call if ours else fused.torch_call
        return make(fused.kind_of(case), fused.shape_of(case, tiny))
    if ours:
        return contractions.our_call(case)
    return contractions.torch_call(case, library == "channels last")


def row_of(case: str, seconds: dict[str, float]) -> dict[str, Any]:
    """The times of a case, and what they are of ours; speed where operations can be counted."""
    row: dict[str, Any] = {"case": case} | {f"{name}, ms": 1e3 * s for name, s in seconds.items()}
    work = contractions.operations().get(case)
    row["jit, GF/s"] = work / seconds["jit"] / 1e9 if work else ""
    others = [name for name in seconds if name != "jit"]
    return row | {f"{name} / jit": seconds[name] / seconds["jit"] for name in others}


def mean_of(group: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Geometric means of the ratios of a group."""
    ratios = [column for column in rows[0] if column.endswith(" / jit")]
    logs = {c: [math.log(row[c]) for row in rows] for c in ratios}
    return {"case": group.upper()} | {c: math.exp(sum(x) / len(x)) for c, x in logs.items()}


def main() -> None:
    given = options(__doc__, rounds=7)
    if given.tiny:
        contractions.make_tiny()
    if given.serve:
        serve(OneAtATime(lambda case: settled_call(given.serve, case, given.tiny)))
        return
    rows = []
    with ExitStack() as stack:
        workers = {
            name: stack.enter_context(Worker(name, THREADS, tiny=given.tiny, **own))
            for name, own in LIBRARIES.items()
            if name not in PEERS or not given.tiny
        }
        for group, cases in groups().items():
            found = []
            for case in cases:
                if given.only and group not in given.only and case not in given.only:
                    continue
                taking_part = {
                    name: worker
                    for name, worker in workers.items()
                    if group == "convolutions" or name != "channels last"
                }
                found.append(
                    row_of(case, take_turns(taking_part, case, given.rounds, given.moment))
                )
            if len(found) > 1:
                found.append(mean_of(group, found))
            rows += found
    about = environment("numpy", "torch", "llvmlite", "onednn-cpu-gomp", "fl-tensor")
    report(given, {**about, "threads": THREADS, "rounds": given.rounds}, rows)


if __name__ == "__main__":
    main()
