"""Single operations on a few elements, in NumPy, in PyTorch and here."""

from __future__ import annotations

from collections.abc import Callable

Calls = dict[str, Callable[[], object]]
NAMES = ("x+y", "x+1.0", "-x", "exp(x)", "x.sum(0)", "x@y", "x.reshape(4)", "x[0]", "softmax(x)")


def numpy_calls() -> Calls:
    import numpy as np

    a = np.arange(4, dtype=np.float32).reshape(2, 2)

    def softmax() -> object:
        e = np.exp(a - a.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    return {
        "x+y": lambda: a + a,
        "x+1.0": lambda: a + 1.0,
        "-x": lambda: -a,
        "exp(x)": lambda: np.exp(a),
        "x.sum(0)": lambda: a.sum(0),
        "x@y": lambda: a @ a,
        "x.reshape(4)": lambda: a.reshape(4),
        "x[0]": lambda: a[0],
        "softmax(x)": softmax,
    }


def torch_calls() -> Calls:
    import torch

    t = torch.arange(4, dtype=torch.float32).reshape(2, 2)
    return {
        "x+y": lambda: t + t,
        "x+1.0": lambda: t + 1.0,
        "-x": lambda: -t,
        "exp(x)": lambda: torch.exp(t),
        "x.sum(0)": lambda: t.sum(0),
        "x@y": lambda: t @ t,
        "x.reshape(4)": lambda: t.reshape(4),
        "x[0]": lambda: t[0],
        "softmax(x)": lambda: torch.softmax(t, -1),
    }


def our_calls() -> Calls:
    import fl_tensor as ft

    x = ft.arange(4, dtype=ft.float32).reshape(2, 2)
    return {
        "x+y": lambda: x + x,
        "x+1.0": lambda: x + 1.0,
        "-x": lambda: -x,
        "exp(x)": lambda: ft.exp(x),
        "x.sum(0)": lambda: x.sum(0),
        "x@y": lambda: x @ x,
        "x.reshape(4)": lambda: x.reshape(4),
        "x[0]": lambda: x[0],
        "softmax(x)": lambda: ft.softmax(x),
    }
