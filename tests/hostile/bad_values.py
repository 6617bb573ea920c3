"""Values that no argument of a kind may take.

Every kind is a list of makers: a value is made in the process that uses it, since some cannot be
sent anywhere (lists that contain themselves, named pipes).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import fl_tensor as ft


class Bad(NamedTuple):
    """``make(folder)`` gives the value; ``folder`` is empty and may be written to."""

    label: str
    make: Callable[[Path], Any]


def value(x: Any, label: str = "") -> Bad:
    return Bad(label or repr(x)[:60], lambda folder: x)


def made(label: str, make: Callable[[], Any]) -> Bad:
    return Bad(label, lambda folder: make())


class Opaque:
    """An object of nobody's protocol."""

    def __repr__(self) -> str:
        return "an object"


class Broken:
    """An object whose protocols raise."""

    def __array__(self, *args: Any, **options: Any) -> Any:
        raise RuntimeError("no array today")

    def __len__(self) -> int:
        raise RuntimeError("no length today")

    def __index__(self) -> int:
        raise TypeError("no index today")


def _self_containing() -> list[Any]:
    x: list[Any] = [1.0]
    x.append(x)
    return x


def _deep(depth: int = 2000) -> list[Any]:
    x: list[Any] = [1.0]
    for _ in range(depth):
        x = [x]
    return x


OPAQUE = value(Opaque(), "an object")
TEXT = value("text")
FUNCTION = value(len, "len")

#: No array, and nothing that can be read as one.
ARRAY = [
    OPAQUE,
    TEXT,
    value({"a": 1}),
    value({1, 2}),
    FUNCTION,
    value(ft, "a module"),
    value(["a", "b"]),
    value([[1.0], [1.0, 2.0]], "a ragged list"),
    value([None, 1.0]),
    made("a list that contains itself", _self_containing),
    made("a list 2000 deep", _deep),
    value(int, "a class"),
    value([Opaque()], "a list of an object"),
    value(range, "range"),
    value(Exception("x"), "an exception"),
]
#: As ARRAY, for operands that may not be None either.
REQUIRED_ARRAY = [*ARRAY, value(None)]
AXIS = [
    value(99),
    value(-99),
    value(1.5),
    TEXT,
    OPAQUE,
    value(10**30),
    value([0, 99]),
    value((0, 0)),
    value([0.5]),
    value(math.nan),
    value({"a": 0}),
]
#: For operations along exactly one axis.
ONE_AXIS = [value(99), value(-99), value(1.5), TEXT, OPAQUE, value(10**30), value({"a": 0})]
SHAPE = [
    value((-1, 3)),
    value((2.5,)),
    TEXT,
    OPAQUE,
    value((10**12, 10**12)),
    value((1,) * 1000, "(1,) * 1000"),
    value((2, "x")),
    value(((2,), 3)),
    value(-5),
    value(2.5),
    value(10**30),
    value((10**18,)),
    value({"a": 1}),
    value((math.nan,)),
    value((None,)),
]
#: Shapes that six elements do not fill.
OTHER_SHAPE = [bad for bad in SHAPE if bad.label != "(-1, 3)"]
DTYPE = [
    value("float33"),
    value(3),
    OPAQUE,
    value("x" * 1000),
    value(("float32",)),
    value(b"float32"),
    value(object, "object"),
    value("float32 "),
    value(3.5),
    value([]),
]
DEVICE = [
    value("toaster"),
    value(3),
    OPAQUE,
    value("cuda:99"),
    value("cpu:-1"),
    value(""),
    value(":0"),
]
#: No axis of any array.
NO_AXIS = [value(1.5), TEXT, OPAQUE, value({"a": 0}), value(math.nan), value(None), value(b"1")]
COUNT = [
    value(-1),
    value(1.5),
    TEXT,
    OPAQUE,
    value(math.nan),
    value(math.inf),
    value([2]),
    value("2"),
    value(-(10**30)),
    value(2 + 1j),
]
#: As COUNT where 0 is too few.
POSITIVE = [*COUNT, value(0), value(None)]
#: Positive integers whose use would need more memory than there is.
ABSURD = [value(10**13), value(10**30)]
NUMBER = [TEXT, OPAQUE, value([1.0, 2.0], "a list"), value({"a": 1}), FUNCTION, value(b"1")]
#: Numbers that must be finite and not negative.
RATE = [*NUMBER, value(-1.0), value(math.nan), value(math.inf), value(None), value(2 + 1j)]
#: Numbers from 0 to 1.
FRACTION = [*RATE, value(1.5)]
SEED = [
    value(-1),
    value(1 << 64),
    value(1.5),
    TEXT,
    OPAQUE,
    value(None),
    value(math.nan),
    value(10**30),
]
CHOICE = [value("median-ish"), value(3), OPAQUE, value(""), value(["mean"]), value(b"mean")]
#: No number and no word that means anything.
TEXT_ONLY = [value("median-ish"), OPAQUE, value(""), value(["mean"]), value(b"mean"), value(1.5)]
FLAG = [TEXT, OPAQUE, value(2), value([]), value(0.5), value("True")]
CALLABLE = [value(3), TEXT, OPAQUE, value([]), value((1, 2))]
ITERABLE = [value(3), OPAQUE, value(1.5), FUNCTION]
MAPPING = [value(3), TEXT, OPAQUE, value([1]), value([("a",)]), FUNCTION]
GENERATOR = [value(3), TEXT, OPAQUE, value([]), FUNCTION]
MODULE = [value(3), TEXT, OPAQUE, FUNCTION, value([]), value(int, "a class")]
PARAMETERS = [value(3), TEXT, OPAQUE, value([]), value([3]), value(["w"]), value([None])]
STRING = [value(3), OPAQUE, value(b"x"), value(["x"]), value(1.5), FUNCTION]


def _missing(folder: Path) -> Path:
    return folder / "missing" / "file"


def _folder(folder: Path) -> Path:
    return folder


def _fifo(folder: Path) -> Path:
    os.mkfifo(folder / "pipe")
    return folder / "pipe"


NO_PATH = [
    value(None),
    value(3.5),
    OPAQUE,
    value("\0"),
    value("x" * 5000, "5000 letters"),
    value([]),
    value({"a": 1}),
    value(b"\xff\0", "bytes with a zero"),
]
#: What cannot be opened to read.
INPUT_PATH = [
    *NO_PATH,
    value(""),
    Bad("a missing file", _missing),
    Bad("a folder", _folder),
    Bad("a named pipe", _fifo),
]
#: What cannot be written.
OUTPUT_PATH = [
    *NO_PATH,
    Bad("a folder", _folder),
    Bad("a named pipe", _fifo),
    Bad("below a missing folder", _missing),
]

KINDS: dict[str, list[Bad]] = {
    name.lower(): found
    for name, found in list(globals().items())
    if name.isupper() and isinstance(found, list)
}
