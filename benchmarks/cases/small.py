"""Single operations on a few elements, in NumPy, in PyTorch and here; names have no spaces."""

from __future__ import annotations

from collections.abc import Callable

Calls = dict[str, Callable[[], object]]
NAMES = (
    *("x+y", "x+1.0", "x+1", "-x", "x>y", "exp(x)", "where(m,x,y)", "softmax(x)", "x+y,1024"),
    *("x.sum(0)", "x.mean()", "x@y", "x@v", "x.reshape(4)", "x.T", "x.astype(float64)"),
    *("x[0]", "x[0,1]", "x[:,1:]", "x[m]", "concatenate([x,y])", "number.item()"),
    *("zeros((2,2))", "arange(8)", "asarray([1.0,2.0])"),
)


def numpy_calls() -> Calls:
    import numpy as np

    a = np.arange(4, dtype=np.float32).reshape(2, 2)
    m, v, number, many = a > 1, a[0], a.sum(), np.ones(1024, np.float32)

    def softmax() -> object:
        e = np.exp(a - a.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    return {
        "x+y": lambda: a + a,
        "x+1.0": lambda: a + 1.0,
        "x+1": lambda: a + 1,
        "-x": lambda: -a,
        "x>y": lambda: a > a,
        "exp(x)": lambda: np.exp(a),
        "where(m,x,y)": lambda: np.where(m, a, a),
        "softmax(x)": softmax,
        "x+y,1024": lambda: many + many,
        "x.sum(0)": lambda: a.sum(0),
        "x.mean()": lambda: a.mean(),
        "x@y": lambda: a @ a,
        "x@v": lambda: a @ v,
        "x.reshape(4)": lambda: a.reshape(4),
        "x.T": lambda: a.T,
        "x.astype(float64)": lambda: a.astype(np.float64),
        "x[0]": lambda: a[0],
        "x[0,1]": lambda: a[0, 1],
        "x[:,1:]": lambda: a[:, 1:],
        "x[m]": lambda: a[m],
        "concatenate([x,y])": lambda: np.concatenate([a, a]),
        "number.item()": lambda: number.item(),
        "zeros((2,2))": lambda: np.zeros((2, 2), np.float32),
        "arange(8)": lambda: np.arange(8),
        "asarray([1.0,2.0])": lambda: np.asarray([1.0, 2.0], np.float32),
    }


def torch_calls() -> Calls:
    import torch

    t = torch.arange(4, dtype=torch.float32).reshape(2, 2)
    m, v, number, many = t > 1, t[0], t.sum(), torch.ones(1024)
    return {
        "x+y": lambda: t + t,
        "x+1.0": lambda: t + 1.0,
        "x+1": lambda: t + 1,
        "-x": lambda: -t,
        "x>y": lambda: t > t,
        "exp(x)": lambda: torch.exp(t),
        "where(m,x,y)": lambda: torch.where(m, t, t),
        "softmax(x)": lambda: torch.softmax(t, -1),
        "x+y,1024": lambda: many + many,
        "x.sum(0)": lambda: t.sum(0),
        "x.mean()": lambda: t.mean(),
        "x@y": lambda: t @ t,
        "x@v": lambda: t @ v,
        "x.reshape(4)": lambda: t.reshape(4),
        "x.T": lambda: t.T,
        "x.astype(float64)": lambda: t.to(torch.float64),
        "x[0]": lambda: t[0],
        "x[0,1]": lambda: t[0, 1],
        "x[:,1:]": lambda: t[:, 1:],
        "x[m]": lambda: t[m],
        "concatenate([x,y])": lambda: torch.cat([t, t]),
        "number.item()": lambda: number.item(),
        "zeros((2,2))": lambda: torch.zeros((2, 2)),
        "arange(8)": lambda: torch.arange(8),
        "asarray([1.0,2.0])": lambda: torch.tensor([1.0, 2.0]),
    }


def our_calls() -> Calls:
    import fl_tensor as ft

    x = ft.arange(4, dtype=ft.float32).reshape(2, 2)
    m, v, number, many = x > 1, x[0], x.sum(), ft.ones(1024)
    ft.eval(m, v, number, many)
    return {
        "x+y": lambda: x + x,
        "x+1.0": lambda: x + 1.0,
        "x+1": lambda: x + 1,
        "-x": lambda: -x,
        "x>y": lambda: x > x,
        "exp(x)": lambda: ft.exp(x),
        "where(m,x,y)": lambda: ft.where(m, x, x),
        "softmax(x)": lambda: ft.softmax(x),
        "x+y,1024": lambda: many + many,
        "x.sum(0)": lambda: x.sum(0),
        "x.mean()": lambda: x.mean(),
        "x@y": lambda: x @ x,
        "x@v": lambda: x @ v,
        "x.reshape(4)": lambda: x.reshape(4),
        "x.T": lambda: x.T,
        "x.astype(float64)": lambda: x.astype(ft.float64),
        "x[0]": lambda: x[0],
        "x[0,1]": lambda: x[0, 1],
        "x[:,1:]": lambda: x[:, 1:],
        "x[m]": lambda: x[m],
        "concatenate([x,y])": lambda: ft.concatenate([x, x]),
        "number.item()": lambda: number.item(),
        "zeros((2,2))": lambda: ft.zeros((2, 2)),
        "arange(8)": lambda: ft.arange(8),
        "asarray([1.0,2.0])": lambda: ft.asarray([1.0, 2.0]),
    }
