"""Arrays from nothing, from Python's numbers and sequences, and from all kinds of NumPy array."""

from __future__ import annotations

from typing import Any

from fuzzing.draws import COMPLEX, FLOATS, INTEGERS, Draw
from fuzzing.operations.registry import Values, step
from fuzzing.step import Step

BOUNDS = (0, 1, 5, -3, 2, 7, 0.5, -2.5, 4.0, 12.0, True)
NUMBERS = (0, 1, -2, 7, 300, 2**31, 2**63, -(2**63), 2**64, True, False, 0.5, -1.5, 1e30, 2 + 1j)
ODD = ("None", "'a'", (), {}, "np.int64(3)", "np.array(2)", "np.True_", "range(2)")
SHAPES = (
    "()",
    "3",
    "(2, 3)",
    "[2, 0]",
    "(1,)",
    "np.int64(2)",
    "(2, -1)",
    "2.0",
    "'a'",
    "(True, 2)",
)


@step(1)
def counted(draw: Draw, values: Values) -> Step:
    a, b = draw.one(BOUNDS), draw.one(BOUNDS)
    by = draw.one((1, 2, -1, 0.5, 0.75, 3, -0.25))
    whole = all(isinstance(v, int) for v in (a, b, by))
    dtype = _dtype(draw, (*FLOATS, *(("int32", "uint8", "int64") if whole else ())))
    n = draw.one((0, 1, 2, 5, -1, "2.5"))
    end = draw.one(("", ", endpoint=False"))
    spaced = _dtype(draw, (*FLOATS, "int32", *COMPLEX))
    return Step(
        draw.one(
            (
                f"ft.arange({a}{dtype})" if isinstance(a, int) else f"ft.arange({a})",
                f"ft.arange({a}, {b}{dtype})",
                f"ft.arange({a}, {b}, {by}{dtype})",
                f"ft.linspace({a}, {b}, {n}{end}{spaced})",
                f"ft.eye({n}{_dtype(draw, INTEGERS)})",
                f"ft.eye(3, {n}, k={draw.integer(-3, 3)})",
            )
        )
    )


@step(1)
def filled(draw: Draw, values: Values) -> Step:
    shape, dtype = draw.one(SHAPES), _dtype(draw, (*FLOATS, *INTEGERS, *COMPLEX, "bool"))
    value = draw.one((*NUMBERS[:6], 0.5, "np.nan", "1j"))
    lines = (
        f"ft.zeros({shape}{dtype})",
        f"ft.ones({shape}{dtype})",
        f"ft.full({shape}, {value}{dtype})",
    )
    return Step(draw.one(lines))


@step(1)
def sequence(draw: Draw, values: Values) -> Step:
    """Nested lists and tuples of one kind of number, or mixed, or uneven."""
    dtype = _dtype(draw, ("int8", "int64", "uint8", "bool", *FLOATS, *COMPLEX))
    return Step(f"ft.asarray({_nested(draw, draw.integer(0, 3))}{dtype})")


def _nested(draw: Draw, depth: int) -> str:
    if not depth:
        some = draw.one((NUMBERS[:5], NUMBERS, (0.5, 1, -2.5), (True, False)))
        return str(draw.one(ODD) if draw.chance(3) else draw.one(some))
    size = draw.one((2, 1, 3, 0))
    if draw.chance(85):  # even: parts of one shape
        part = _nested(draw, depth - 1)
        parts = [part] * size if depth > 1 else [_nested(draw, 0) for _ in range(size)]
    else:
        parts = [_nested(draw, depth - 1) for _ in range(size)]
    return f"[{', '.join(parts)}]" if draw.chance(70) else f"({''.join(p + ', ' for p in parts)})"


@step(1)
def foreign(draw: Draw, values: Values) -> Step:
    """A NumPy array of any dtype, byte order and layout; or something else with a buffer."""
    dtype: Any = draw.one((*INTEGERS, *FLOATS, *COMPLEX, "bool", "longdouble", "S2", "O", "M8[s]"))
    order = draw.one("=<>")
    if dtype in (*INTEGERS, *FLOATS, *COMPLEX):
        dtype = f"np.dtype('{dtype}').newbyteorder('{order}')"
    else:
        dtype = repr(dtype)
    base = f"np.arange(12).astype({dtype})"
    layout = draw.one(
        (
            "",
            ".reshape(3, 4)",
            ".reshape(3, 4).T",
            ".reshape(3, 4)[::-1, ::2]",
            ".reshape(2, 3, 2)[:, 1]",
            ".reshape(3, 4, order='F')",
            "[::-3]",
            "[:0]",
            "[3]",
            "[:1].reshape(())",
            ".view(np.ndarray)",
        )
    )
    other = draw.one(
        ("bytearray(b'ab')", "memoryview(b'ab')", "__import__('array').array('h', [1, -2])")
    )
    source = f"np.broadcast_to({base}, (2, 12))" if draw.chance(10) else f"{base}{layout}"
    return Step(f"ft.asarray({other if draw.chance(8) else source})")


def _dtype(draw: Draw, names: tuple[str, ...]) -> str:
    return f", dtype={draw.one(names)!r}" if draw.chance(50) else ""
