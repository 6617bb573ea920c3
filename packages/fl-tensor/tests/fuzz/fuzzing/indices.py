"""The index language: ints, slices, None, '...', integer arrays in all their forms, masks."""

from __future__ import annotations

from collections.abc import Sequence

from fuzzing.draws import INTEGERS, Draw, literal

#: Shapes of index arrays that stand in one index: mostly of one line, which broadcast together.
FORMS = (
    ((3,), (1,), (), (3,)),
    ((2, 1), (3,), (2, 3), (1, 1)),
    ((2,), (2,), (2,)),
    ((0,), (1,), (0,)),
    ((2,), (3,)),
)
WRONG = ("1.5", "'a'", "[0.5]", "np.array([1.0])", "1j", "{}", "[None]")


def index(draw: Draw, shape: Sequence[int]) -> str:
    """What stands between the brackets, for an array of ``shape``."""
    if draw.chance(6):
        return mask(draw, shape)
    if shape and draw.chance(1):
        return "::0"  # alone: of several mistakes each library may tell another one
    forms = draw.one(FORMS)
    items: list[str] = []
    axis = 0
    end = draw.integer(0, len(shape)) + draw.chance(3)
    while axis < end:
        rest = shape[axis:] or (1,)
        kind = draw.one("int slice slice array all list mask int slice".split())
        if kind == "int":
            items.append(position(draw, rest[0]))
        elif kind == "slice":
            items.append(part(draw, rest[0]))
        elif kind == "all":
            items.append(":")
        elif kind == "mask":
            covered = 2 if len(rest) > 1 and draw.chance(30) else 1
            items.append(mask(draw, rest[:covered]))
            axis += covered - 1
        else:
            items.append(positions(draw, rest[0], draw.one(forms), kind == "list"))
        axis += 1
    for extra, percent in (("None", 20), ("...", 25), ("True", 2), ("False", 1), ("...", 3)):
        if draw.chance(percent):
            items.insert(draw.integer(0, len(items)), extra)
    if draw.chance(3):
        items.insert(draw.integer(0, len(items)), draw.one(WRONG))
    if not items:
        return draw.one(("...", "()", ":" if shape else "..."))
    return items[0] if len(items) == 1 and draw.chance(80) else ", ".join(items) + ","


def position(draw: Draw, size: int) -> str:
    if draw.chance(4) or not size:
        return str(draw.one((size, -size - 1, 99)))
    value = draw.integer(-size, size - 1)
    form = draw.one(("{}", "{}", "{}", "np.int64({})", "ft.asarray({})", "np.array({})"))
    return str(form).format(value)


def part(draw: Draw, size: int) -> str:
    bounds = ["", "", *range(-size - 1, size + 2), 2**70]
    step = draw.one(("", "", "", 1, 2, -1, -2, 5, -7) if draw.chance(10) else ("", 1, -1, 2))
    return f"{draw.one(bounds)}:{draw.one(bounds)}" + (f":{step}" if step != "" else "")


def positions(draw: Draw, size: int, form: Sequence[int], as_list: bool) -> str:
    count = 1
    for n in form:
        count *= n
    wrong = draw.chance(3)
    if (not size and count) or wrong:
        values = [size + (1 if i % 2 else 0) for i in range(count)]
    else:
        values = [draw.integer(-size, size - 1) for _ in range(count)]
    if as_list and len(form) == 1:
        return str(values) if not values or draw.chance(80) else f"({', '.join(map(str, values))},)"
    unsigned = bool(values) and min(values) >= 0
    dtype = draw.one(("int64", "int32", *(INTEGERS if unsigned else ("int8", "int16"))))
    made = literal(values, form, str(dtype))
    return f"ft.asarray({made})" if draw.chance(60) else made


def mask(draw: Draw, shape: Sequence[int]) -> str:
    """A boolean array of that shape, or nearly."""
    shape = tuple(shape)
    if shape and draw.chance(4):
        shape = (shape[0] + 1, *shape[1:])
    count = 1
    for n in shape:
        count *= n
    values = draw.values(count, "bool")
    if len(shape) == 1 and draw.chance(40) and values:
        return str(values)
    made = literal(values, shape, "bool")
    return f"ft.asarray({made})" if draw.chance(60) else made
