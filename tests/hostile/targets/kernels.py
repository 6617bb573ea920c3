"""``ft.kernel``: functions outside the subset, and bad arguments of a kernel."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import fl_tensor as ft
from bad_values import Bad
from cases import Target
from fl_tensor.kernels import Array
from targets.making import Ready, target

Words = Array[ft.int32]


class Table(NamedTuple):
    keys: Words
    size: int


@ft.kernel
def fill(table: Table, values: Words, scale: float, keep: bool, out: Words) -> int:
    for i in range(min(len(values), len(out))):
        out[i] = values[i] if keep else int(scale)
    return table.size + len(table.keys)


def words() -> Any:
    return np.zeros(3, np.int32)


def filled(function: Any) -> Any:
    return ft.kernel(function).interpret(3)


def one(n: int) -> int:
    return n + 1


#: Arrays that are no contiguous, writable buffers of int32.
ARRAYS = [
    Bad("None", lambda _: None),
    Bad("a list", lambda _: [1, 2]),
    Bad("a string", lambda _: "words"),
    Bad("bytes", lambda _: b"1234"),
    Bad("float64", lambda _: np.zeros(3)),
    Bad("int64", lambda _: np.zeros(3, np.int64)),
    Bad("another byte order", lambda _: np.zeros(3, ">i4")),
    Bad("every second element", lambda _: np.zeros(6, np.int32)[::2]),
    Bad("an odd address", lambda _: np.zeros(13, np.uint8)[1:].view(np.int32)),
    Bad("objects", lambda _: np.array([None, 1])),
    Bad("a Tensor of another dtype", lambda _: ft.zeros(3, "float32")),
    Bad("a number", lambda _: 3),
]
WRITTEN = [
    *ARRAYS,
    Bad("a Tensor", lambda _: ft.zeros(3, "int32")),
    Bad("a read-only array", lambda _: np.broadcast_to(np.int32(1), (1,))),
    Bad("a read-only view", lambda _: memoryview(words()).toreadonly()),
]
RECORDS = [
    Bad("None", lambda _: None),
    Bad("a tuple", lambda _: (words(), 3)),
    Bad("too few fields", lambda _: Table(words(), 1)[:1]),
    Bad("a field of another dtype", lambda _: Table(np.zeros(2), 1)),
    Bad("a field that is no number", lambda _: Table(words(), "a")),
    Bad("a field beyond int64", lambda _: Table(words(), 1 << 64)),
]
#: Functions outside the subset.
FUNCTIONS = [
    Bad("a lambda", lambda _: lambda n: n),
    Bad("no annotations", lambda _: plain),
    Bad("a generator", lambda _: yields),
    Bad("an allocation", lambda _: allocates),
    Bad("unknown names", lambda _: unknown),
    Bad("no source", lambda _: made()),
]


def plain(n):  # type: ignore[no-untyped-def]
    return n


def yields(n: int) -> int:
    yield n  # type: ignore[misc]


def allocates(n: int) -> int:
    return len([n])


def unknown(n: int) -> int:
    return n + missing  # type: ignore[name-defined]  # noqa: F821


def made() -> Any:
    scope: dict[str, Any] = {}
    exec("def f(n: int) -> int:\n    return n\n", scope)
    return scope["f"]


TARGETS: list[Target] = [
    target("ft.kernel", {"0": Ready(one)}, _0="callable"),
    target("ft.kernel called", {"0": Ready(one)}, _0=FUNCTIONS, call=filled),
    target(
        "ft.kernel with arguments",
        {
            "table": lambda: Table(words(), 3),
            "values": words,
            "scale": 1.0,
            "keep": True,
            "out": words,
        },
        table=RECORDS,
        values=ARRAYS,
        scale="number",
        keep="flag",
        out=WRITTEN,
        call=fill.interpret,
    ),
    target("ft.kernels.empty", {"n": 3, "dtype": "int32"}, n="count", dtype="dtype"),
    target("ft.kernels.Kernel", {"0": Ready(one)}, _0="callable"),
]
UNTRIED: dict[str, str] = {
    "ft.kernels.Array": "an annotation",
    **dict.fromkeys(
        [
            f"ft.kernels.{name}"
            for name in "ArrayType Definition Parameter RecordType Scalar".split()
        ],
        "made by the library",
    ),
    "ft.kernels.Interpreter": "takes no arguments",
    "ft.kernels.KernelCompiler": "a base class",
}
