"""Arguments of the wrong type or out of range, in calls that are right otherwise."""

from __future__ import annotations

from fuzzing.draws import Draw
from fuzzing.operations.registry import Values, pick, step
from fuzzing.step import Step

NO_AXIS = ("'a'", "1.5", "9", "-9", "(0, 0)", "{}", "[None]", "(9,)", "1j")
NO_SHAPE = ("'a'", "1.5", "(2, 'a')", "(-1, -1)", "(2.0,)", "(7, 11)")
NO_NUMBER = ("'a'", "[0.5]", "{}", "1.5")
NO_ARRAY = ("'a'", "None", "{}", "[[1], [2, 3]]", "object()")


def some(draw: Draw, values: Values) -> str:
    """A value of several elements: with fewer, NumPy does not look at every argument."""
    several = {n: v for n, v in values.items() if v.size > 1 and v.ndim}
    return pick(draw, several, "if") if several else f"{draw.array((2, 3), 'float32')}"


@step(1)
def axis(draw: Draw, values: Values) -> Step:
    x = some(draw, values)
    wrong = draw.one(NO_AXIS)
    many = "sum prod mean var std max min any all count_nonzero squeeze".split()
    single = "cumulative_sum sort argsort argmax argmin stack concatenate expand_dims".split()
    name = draw.one(many + single)
    if name == "expand_dims":
        wrong = draw.one(NO_AXIS[:4])
    if name in ("stack", "concatenate"):
        return Step(f"ft.{name}([{x}, {x}], axis={wrong})")
    return Step(f"ft.{name}({x}, axis={wrong})")


@step(1)
def shape(draw: Draw, values: Values) -> Step:
    x = some(draw, values)
    wrong = draw.one(NO_SHAPE)
    return Step(draw.one((f"ft.reshape({x}, {wrong})", f"ft.broadcast_to({x}, {wrong})")))


@step(1)
def operand(draw: Draw, values: Values) -> Step:
    x = some(draw, values)
    wrong, times = draw.one(NO_ARRAY), draw.one(("-1", "'a'"))
    return Step(
        draw.one(
            (
                f"ft.add({x}, {wrong})",
                f"ft.exp({wrong})",
                f"ft.maximum({wrong}, {x})",
                f"{x} * {wrong}",
                f"{wrong} - {x}",
                f"{x} @ {wrong}",
                f"{x} < {wrong}",
                f"ft.matmul({x}, {wrong})",
                f"ft.concatenate([{x}, {wrong}])",
                f"ft.stack({wrong})",
                f"ft.concatenate({wrong})",
                f"ft.where({x} > 0, {x}, {wrong})",
                f"{x}.astype({draw.one(NO_NUMBER)})",
                f"ft.repeat({x}, {times})",
                f"{x}[{draw.one(NO_NUMBER)}]",
            )
        )
    )
