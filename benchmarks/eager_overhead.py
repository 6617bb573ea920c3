"""What one eager operation costs on a few elements: fl-tensor on NumPy, NumPy itself, PyTorch.

Claim: ``x + y`` on 4 elements takes at most 3.0 times NumPy's time and 0.9 times PyTorch's, with
the default memory manager. The other rows are for orientation.

    python benchmarks/eager_overhead.py [--rounds 15] [--json FILE]
"""

from __future__ import annotations

import numpy as np
import torch
from _measure import environment, interleave, options, report

import fl_tensor as ft

LIBRARIES = ("numpy", "torch", "fl-tensor")


def cases() -> dict[str, dict[str, object]]:
    """Operation -> library -> a call of it."""
    a = np.arange(4, dtype=np.float32).reshape(2, 2)
    t = torch.from_numpy(a.copy())
    x = ft.asarray(a)
    return {
        "x + y": {
            "numpy": lambda: a + a,
            "torch": lambda: t + t,
            "fl-tensor": lambda: x + x,
        },
        "x + 1.0": {
            "numpy": lambda: a + 1.0,
            "torch": lambda: t + 1.0,
            "fl-tensor": lambda: x + 1.0,
        },
        "-x": {"numpy": lambda: -a, "torch": lambda: -t, "fl-tensor": lambda: -x},
        "exp(x)": {
            "numpy": lambda: np.exp(a),
            "torch": lambda: torch.exp(t),
            "fl-tensor": lambda: ft.exp(x),
        },
        "x.sum(0)": {
            "numpy": lambda: a.sum(0),
            "torch": lambda: t.sum(0),
            "fl-tensor": lambda: x.sum(0),
        },
        "x @ y": {
            "numpy": lambda: a @ a,
            "torch": lambda: t @ t,
            "fl-tensor": lambda: x @ x,
        },
        "x.reshape(4)": {
            "numpy": lambda: a.reshape(4),
            "torch": lambda: t.reshape(4),
            "fl-tensor": lambda: x.reshape(4),
        },
        "x[0]": {"numpy": lambda: a[0], "torch": lambda: t[0], "fl-tensor": lambda: x[0]},
        "softmax(x)": {
            "numpy": lambda: softmax(a),
            "torch": lambda: torch.softmax(t, -1),
            "fl-tensor": lambda: ft.softmax(x),
        },
    }


def softmax(a: np.ndarray) -> np.ndarray:
    e = np.exp(a - a.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def main() -> None:
    given = options(__doc__)
    torch.set_num_threads(1)
    rows = []
    for operation, calls in cases().items():
        seconds = interleave(calls, given.rounds)
        ours = seconds["fl-tensor"]
        rows.append(
            {
                "operation": operation,
                **{f"{name} us": 1e6 * seconds[name] for name in LIBRARIES},
                "x numpy": ours / seconds["numpy"],
                "x torch": ours / seconds["torch"],
            }
        )
    report(given, environment("numpy", "torch", "fl-tensor"), rows)


if __name__ == "__main__":
    main()
