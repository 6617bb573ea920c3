"""What one eager operation costs on a few elements: fl-tensor on NumPy, NumPy itself, PyTorch.

Claim: ``x + y`` on 4 elements takes at most 3.0 times NumPy's time and 0.9 times PyTorch's, with
the default memory manager. The other rows are for orientation. What is timed is the one thread, so
that other programs on the machine count for less.

    python benchmarks/eager_overhead.py [--rounds 15] [--json FILE]
"""

from __future__ import annotations

import time

from _measure import environment, interleave, options, report

import fl_tensor as ft
from cases import small

LIBRARIES = {"fl-tensor": small.our_calls, "numpy": small.numpy_calls, "torch": small.torch_calls}


def main() -> None:
    given = options(__doc__)
    ft.use("numpy")
    if not given.tiny:
        import torch

        torch.set_num_threads(1)
    names = [name for name in LIBRARIES if name != "torch" or not given.tiny]
    calls = {name: LIBRARIES[name]() for name in names}
    ours, *peers = calls
    rows = []
    for operation in calls[ours]:
        each = {name: calls[name][operation] for name in calls}
        seconds = interleave(each, given.rounds, given.moment, clock=time.thread_time)
        row = {"operation": operation} | {f"{name}, us": 1e6 * seconds[name] for name in calls}
        row |= {f"ours / {peer}": seconds[ours] / seconds[peer] for peer in peers}
        rows.append(row)
    report(given, {**environment("numpy", "torch", "fl-tensor"), "rounds": given.rounds}, rows)


if __name__ == "__main__":
    main()
