"""Operations of the tests, as a package would bring them, kernels for them, and what is asked of
backends that run them."""

from __future__ import annotations

import ctypes

import numpy as np

import fl_tensor as ft

GENERATOR = ft.Generator(5)
X, GATE = (np.asarray(GENERATOR.normal((96, 128))) for _ in range(2))


def compose(ops, x, gate):
    return ops.multiply(x, ops.silu(gate))


swiglu = ft.jit.operation("tests.swiglu", compose)
#: x times y plus z, with nothing of its own: it can be found in a graph.
fma = ft.jit.operation("tests.fma", lambda ops, x, y, z: ops.add(ops.multiply(x, y), z))


def build(b, x, gate):
    return b("multiply", x, b("multiply", gate, b("sigmoid", gate)))


def callback(request):
    """A kernel without NumPy and without LLVM: x + gate, so that it can be told from the truth."""
    if request.result.dtype is not ft.float32:
        return None
    count = request.result.elements
    assert all(operand.shape == request.result.shape for operand in request.operands)
    if any(operand.strides != request.result.strides for operand in request.operands):
        return None

    def run(x, gate, out):
        kind = ctypes.c_float * count
        a, b, c = (kind.from_address(place) for place in (x, gate, out))
        for i in range(count):
            c[i] = a[i] + b[i]

    return run


def repeated_runs(backend, function, *arrays, times=3):
    """The results of a function of arrays, called so often."""
    found = []
    for _ in range(times):
        with ft.use(backend):
            found.append(np.asarray(function(*map(ft.asarray, arrays))))
    return found


def steps(backend):
    """(kind, operations) of each step of the newest plan."""
    return [(s.kind, [n.op for n in s.nodes]) for s in ft.jit.plans(backend)[-1].steps]


def truth(function, *arrays):
    with ft.use("numpy"):
        return np.asarray(function(*map(ft.asarray, arrays)))
