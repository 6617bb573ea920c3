"""Fused kernels of the generator and the same functions of PyTorch, eager, on two threads.

Claim: at no row slower than PyTorch, and at least 3 times as fast at GELU, dropout + residual and
cross entropy. Ratios above 1 are in favour of the kernels. Each library runs in a process of its
own, and the two take turns. Kernels write to memory that is there; PyTorch returns new tensors, as
its functions do, but for ``adam``, which updates in place in both (``fused=True`` in PyTorch). All
of it comes from each library's own allocator, as their tensors' does.

    python benchmarks/kernels.py [--rounds 15] [--only softmax] [--json FILE]
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from _measure import OneAtATime, Worker, environment, options, report, serve, take_turns

from cases.fused import CASES, Shape, kind_of, shape_of, torch_call

THREADS = 2
#: From sizes to a program and its scalars.
ProgramFactory = Callable[[Shape], tuple[Any, tuple[float, ...]]]


def kernel_call(case: str, shape: Shape, make: ProgramFactory) -> Callable[[], object]:
    """A launch of the case's kernel on arrays of random numbers."""
    import numpy as np

    from fl_jit.kernels.codegen.kernel import Kernel
    from fl_tensor.backends.numpy import memory

    flat = case.partition("-")[0] in ("gelu", "dropout+residual", "adam")
    sizes = (math.prod(shape),) if flat else shape
    program, scalars = make(sizes)
    rng = np.random.default_rng(0)
    arrays = []
    for value in program.inputs:
        dtype, axes = program.instructions[value].parameter
        extent = tuple(1 if letter == "." else n for letter, n in zip(axes, sizes))
        if dtype.is_floating:
            arrays.append(memory.owned(rng.random(extent, np.float32)))
        else:
            arrays.append(memory.owned(rng.integers(0, sizes[-1], extent)))
    for number, (_, axes, _) in enumerate(program.outputs):
        extent = tuple(1 if letter == "." else n for letter, n in zip(axes, sizes))
        made = np.zeros(extent, np.float32)
        arrays.append(arrays[number] if case == "adam" else memory.owned(made))
    strides = [tuple(step // a.itemsize for step in a.strides) for a in arrays]
    launch = Kernel.of(program).bind(sizes, strides)
    addresses = [a.__array_interface__["data"][0] for a in arrays]

    def call(owners: object = arrays) -> None:
        launch(addresses, scalars)

    return call


def _programs() -> dict[str, ProgramFactory]:
    from fl_jit.kernels.codegen.program import Builder
    from fl_tensor.dtypes import float32, int32, int64

    class Formula(Builder):
        """Instructions on float32, with numbers as constants."""

        def __call__(self, op: str, *operands: Any, parameter: Any = None) -> int:
            known = [x if type(x) is int else self.constant(x, float32) for x in operands]
            return super().__call__(op, *known, parameter=parameter)

        def mean(self, x: int, n: int) -> int:
            return self("divide", self.reduce("sum", x), float(n))

    def gelu(sizes: Shape, backward: bool = False) -> Any:
        b = Formula(1)
        g = b.input(float32, "c") if backward else None
        x = b.input(float32, "c")
        square, scale = b("multiply", x, x), math.sqrt(2 / math.pi)
        inner = b("multiply", x, b("add", b("multiply", square, 0.044715), 1.0))
        tanh = b("tanh", b("multiply", inner, scale))
        weight = b("multiply", b("add", tanh, 1.0), 0.5)
        if g is None:
            b.output(b("multiply", x, weight), "c")
            return b.program(), ()
        steep = b("multiply", b("add", b("multiply", square, 3 * 0.044715), 1.0), scale)
        flank = b("multiply", x, b("subtract", 1.0, b("multiply", tanh, tanh)))
        slope = b("add", weight, b("multiply", b("multiply", flank, steep), 0.5))
        b.output(b("multiply", g, slope), "c")
        return b.program(), ()

    def dropout(sizes: Shape) -> Any:
        b = Formula(1)
        x, residual = b.input(float32, "c"), b.input(float32, "c")
        seed, offset = b.scalar(int64), b.scalar(int64)
        bits = b("random_bits", seed, offset, parameter=(1, 0))
        top = b("bitwise_right_shift", bits, b.constant(8, int32))
        top = b("bitwise_and", top, b.constant((1 << 24) - 1, int32))
        uniform = b("multiply", b.cast(top, float32), 2.0**-24)
        scaled = b("where", b("less", uniform, 0.9), b("divide", x, 0.9), b.constant(0.0, float32))
        b.output(b("add", scaled, residual), "c")
        return b.program(), (1, 0)

    def normalized(b: Formula, x: int, n: int) -> tuple[int, int]:
        centred = b("subtract", x, b.mean(x, n))
        variance = b.mean(b("multiply", centred, centred), n)
        scale = b("rsqrt", b("add", variance, 1e-5))
        return b("multiply", centred, scale), scale

    def layer_norm(sizes: Shape) -> Any:
        b = Formula(2)
        x, weight, bias = b.input(float32, "sc"), b.input(float32, ".c"), b.input(float32, ".c")
        unit, _ = normalized(b, x, sizes[1])
        b.output(b("add", b("multiply", unit, weight), bias), "sc")
        return b.program(), ()

    def layer_norm_backward(sizes: Shape) -> Any:
        b, n = Formula(2), sizes[1]
        g, x, weight = b.input(float32, "sc"), b.input(float32, "sc"), b.input(float32, ".c")
        unit, scale = normalized(b, x, n)
        weighted = b("multiply", g, weight)
        along = b("multiply", unit, b.mean(b("multiply", weighted, unit), n))
        to_x = b("subtract", b("subtract", weighted, b.mean(weighted, n)), along)
        b.output(b("multiply", to_x, scale), "sc")
        b.output(b.reduce("sum", b("multiply", g, unit), "column"), ".c")
        b.output(b.reduce("sum", g, "column"), ".c")
        return b.program(), ()

    def softmax(sizes: Shape) -> Any:
        b = Formula(2)
        x = b.input(float32, "sc")
        e = b("exp", b("subtract", x, b.reduce("max", x)))
        b.output(b("divide", e, b.reduce("sum", e)), "sc")
        return b.program(), ()

    def softmax_backward(sizes: Shape) -> Any:
        b = Formula(2)
        g, y = b.input(float32, "sc"), b.input(float32, "sc")
        inner = b.reduce("sum", b("multiply", g, y))
        b.output(b("multiply", y, b("subtract", g, inner)), "sc")
        return b.program(), ()

    def cross_entropy(sizes: Shape) -> Any:
        b, share = Formula(2), 1 / sizes[0]
        x, wanted = b.input(float32, "sc"), b.input(int64, "s.")
        shifted = b("subtract", x, b.reduce("max", x))
        e = b("exp", shifted)
        total = b.reduce("sum", e)
        hit = b("equal", b.index(1), wanted)
        picked = b.reduce("sum", b("where", hit, shifted, b.constant(0.0, float32)))
        loss = b.reduce("sum", b("subtract", b("log", total), picked), "all")
        b.output(b("multiply", loss, share), "..")
        one = b("where", hit, b.constant(1.0, float32), b.constant(0.0, float32))
        b.output(b("multiply", b("subtract", b("divide", e, total), one), share), "sc")
        return b.program(), ()

    def adam(sizes: Shape) -> Any:
        b = Formula(1)
        p, m, v, g = (b.input(float32, "c") for _ in range(4))
        rate, correction = b.scalar(float32), b.scalar(float32)
        m = b("add", b("multiply", m, 0.9), b("multiply", g, 0.1))
        v = b("add", b("multiply", v, 0.999), b("multiply", b("multiply", g, g), 0.001))
        size = b("add", b("multiply", b("sqrt", v), correction), 1e-8)
        b.output(b("subtract", p, b("divide", b("multiply", m, rate), size)), "c")
        b.output(m, "c")
        b.output(v, "c")
        return b.program(), (1e-3, 1.0)

    return {
        "gelu": gelu,
        "gelu-backward": lambda sizes: gelu(sizes, backward=True),
        "dropout+residual": dropout,
        "layer-norm": layer_norm,
        "layer-norm-backward": layer_norm_backward,
        "softmax": softmax,
        "softmax-backward": softmax_backward,
        "cross-entropy-forward+backward": cross_entropy,
        "adam": adam,
    }


def main() -> None:
    given = options(__doc__)
    shapes = {case: shape_of(case, given.tiny) for case in CASES}
    if given.serve == "kernel":
        programs = _programs()
        serve(OneAtATime(lambda case: kernel_call(case, shapes[case], programs[kind_of(case)])))
    if given.serve == "torch":
        serve(OneAtATime(lambda case: torch_call(kind_of(case), shapes[case])))
    if given.serve:
        return
    libraries = ("kernel",) if given.tiny else ("kernel", "torch")
    rows = []
    with ExitStack() as stack:
        workers = {
            name: stack.enter_context(Worker(name, THREADS, tiny=given.tiny)) for name in libraries
        }
        for case in given.only or CASES:
            seconds = take_turns(workers, case, given.rounds, given.moment)
            row = {"case": case, "shape": "x".join(map(str, shapes[case]))}
            row |= {f"{name}, ms": 1e3 * seconds[name] for name in workers}
            row |= {f"{peer} / kernel": seconds[peer] / seconds["kernel"] for peer in libraries[1:]}
            rows.append(row)
    about = environment("llvmlite", "torch", "fl-tensor")
    report(given, {**about, "threads": THREADS, "rounds": given.rounds}, rows)


if __name__ == "__main__":
    main()
