"""The lines that a program may take: functions of what is known so far, which give the right-hand
side of an assignment, or None where nothing fits."""

from __future__ import annotations

import math
from collections.abc import Callable

from twins.grow import FLOATS, INTEGERS, Growing

Line = Callable[[Growing], "str | None"]

SMOOTH = (
    "exp expm1 sin cos tanh erf sigmoid silu gelu softplus square negative absolute relu "
    "log1p sqrt log rsqrt reciprocal atan asinh sinh positive"
).split()
STEPS = "floor ceil round trunc sign isnan isfinite isinf signbit".split()
ARITHMETIC = "add subtract multiply divide maximum minimum".split()
RARE_BINARY = "power atan2 floor_divide remainder hypot logaddexp fmax fmin copysign".split()
COMPARISONS = "equal not_equal less less_equal greater greater_equal".split()
BITS = "bitwise_and bitwise_or bitwise_xor".split()
SHIFTS = ("bitwise_left_shift", "bitwise_right_shift")
REDUCTIONS = "sum sum sum prod mean max min var std any all logsumexp norm count_nonzero".split()
ALONG = "softmax log_softmax argmax argmin cumulative_sum sort flip".split()


def unary(p: Growing) -> str | None:
    x = p.one(p.floats())
    return x and f"ft.{p.choose(SMOOTH if p.chance(80) else STEPS)}({x})"


def of_integers(p: Growing) -> str | None:
    x = p.one(p.kind("iub"))
    if x is None:
        return None
    if p.dtype(x) == "bool":
        return p.choose([f"ft.logical_not({x})", f"~{x}", f"ft.bitwise_invert({x})"])
    return f"ft.{p.choose('negative absolute sign bitwise_invert square floor'.split())}({x})"


def binary(p: Growing) -> str | None:
    x = p.any()
    y = p.partner(x)
    kinds = {p.values[v].dtype.kind for v in (x, y) if v in p.values}
    if p.chance(20):
        op = p.choose(COMPARISONS)
    elif kinds <= set("iub") and p.chance(50):
        op = p.choose([*BITS, *BITS, *SHIFTS, "logical_and", "logical_or", "logical_xor"])
        if op in SHIFTS:
            y = str(p.integer(0, 3))
    else:
        op = p.choose(ARITHMETIC if p.chance(80) else RARE_BINARY)
    if p.chance(30) and op not in SHIFTS:
        x, y = y, x
    if op == "power" and kinds <= set("iu"):
        y = f"ft.bitwise_and({y}, 3)"  # negative in the data of another run, it would be an error
    return f"ft.{op}({x}, {y})"


def operator(p: Growing) -> str | None:
    x, y, z = p.any(), p.any(), p.scalar()
    return p.choose([f"{x} * {z} + {y}", f"({x} - {y}) * {z}", f"{x} < {z}", f"{z} - {x}"])


def choice(p: Growing) -> str | None:
    x = p.any()
    y = p.partner(x)
    condition = p.one(p.fitting(x, "b")) or f"{x} > 0"
    return f"ft.where({condition}, {x}, {y})"


def clipped(p: Growing) -> str | None:
    return f"ft.clip({p.any()}, -1, {p.integer(0, 2)})"


def reduction(p: Growing) -> str | None:
    x = p.any()
    keep = ", keepdims=True" if p.chance(30) else ""
    return f"ft.{p.choose(REDUCTIONS)}({x}, {p.axes(p.rank(x))}{keep})"


def along(p: Growing) -> str | None:
    x = p.any()
    return f"ft.{p.choose(ALONG)}({x}, axis={p.axis(p.rank(x))})" if p.rank(x) else None


def centred(p: Growing) -> str | None:
    x = p.one(p.floats())
    if x is None or not p.rank(x):
        return None
    axes = p.axes(p.rank(x))
    what = p.choose(["mean", "max", "sum", "min"])
    return f"{x} {p.choose('-+*')} ft.{what}({x}, {axes}, keepdims=True)"


def cast(p: Growing) -> str | None:
    x, dtype = p.any(), p.any_dtype()
    if p.values[x].dtype.is_floating and dtype in INTEGERS:
        low = 0 if dtype[0] == "u" else -100
        return f"ft.cast(ft.nan_to_num(ft.clip({x}, {low}, 100)), '{dtype}')"
    if p.values[x].dtype.kind == "c" and not dtype.startswith("complex"):
        return f"ft.real({x})"
    return f"ft.cast({x}, '{dtype}')"


# ---- shapes --------------------------------------------------------------------------------------


def reshaped(p: Growing) -> str | None:
    x = p.any()
    return f"ft.reshape({x}, {p.factors(p.values[x].size)})"


def permuted(p: Growing) -> str | None:
    x = p.any()
    return f"ft.permute({x}, {tuple(p.shuffled(range(p.rank(x))))})"


def part(p: Growing) -> str | None:
    x = p.any()
    return f"{x}[{p.basic_index(p.shape(x))}]"


def turned(p: Growing) -> str | None:
    x = p.any()
    if not p.rank(x):
        return f"ft.expand_dims({x}, 0)"
    a = p.axis(p.rank(x))
    return p.choose(
        [
            f"ft.expand_dims({x}, {a})",
            f"ft.flip({x}, {a})",
            f"ft.roll({x}, {p.integer(-3, 3)}, {a})",
            f"ft.swapaxes({x}, {a}, 0)",
            f"ft.moveaxis({x}, {a}, 0)",
            f"ft.squeeze({x}, {a})",
            f"ft.repeat({x}, {p.integer(0, 2)}, {a})",
            f"ft.tile({x}, {p.integer(1, 2)})",
        ]
    )


def broadcast(p: Growing) -> str | None:
    x = p.any()
    shape = tuple(n if n != 1 else p.integer(0, 4) for n in p.shape(x))
    shape = (p.integer(1, 3), *shape) if p.chance(50) else shape
    return f"ft.broadcast_to({x}, {shape})" if math.prod(shape) <= p.most else None


def joined(p: Growing) -> str | None:
    x = p.any()
    if not p.rank(x):
        return f"ft.stack([{x}, {x}])"
    same = [v for v in p.values if p.shape(v) == p.shape(x)]
    y = p.choose(same)
    if p.chance(30):
        return f"ft.stack([{x}, {y}], {p.axis(p.rank(x))})"
    return f"ft.concatenate([{x}, {y}{', ' + x if p.chance(20) else ''}], {p.axis(p.rank(x))})"


def padded(p: Growing) -> str | None:
    x = p.any()
    if not p.rank(x):
        return None
    widths = [(p.integer(0, 2), p.integer(0, 2)) for _ in p.shape(x)]
    mode = p.choose(["'constant'", "'constant'", "'edge'", "'reflect'", "'circular'"])
    value = f", value={p.integer(0, 2)}" if mode == "'constant'" and p.chance(50) else ""
    return f"ft.pad({x}, {widths}, {mode}{value})"


def triangle(p: Growing) -> str | None:
    x = p.one([v for v in p.values if p.rank(v) >= 2])
    what = p.choose(["tril", "triu", "diagonal"])
    return x and f"ft.{what}({x})"


# ---- contractions --------------------------------------------------------------------------------


def product(p: Growing) -> str | None:
    x = p.one([v for v in p.numbers() if p.rank(v)])
    if x is None:
        return None
    *outer, k = p.shape(x)
    n = p.size()
    dtype = p.dtype(x)
    form = p.integer(0, 5)
    if form == 0:
        return f"{x} @ {p.array((k,), dtype)}"
    if form == 1 and p.rank(x) >= 2:
        return f"ft.matmul({x}, ft.swapaxes({x}, -1, -2))"
    if form == 2:
        return f"ft.matmul(ft.swapaxes({p.array((n, k), dtype)}, 0, 1).T, {x}[..., None])"
    if form == 3 and p.values[x].dtype.is_floating:
        return f"ft.linear({x}, {p.array((n, k), dtype)}, {p.array((n,), dtype)})"
    if form == 4 and p.rank(x) >= 3:
        return f"{x} @ {p.array((outer[0] if p.chance(50) else 1, k, n), dtype)}"
    if form == 5:
        return f"ft.tensordot({x}, {p.array((k, n), dtype)}, 1)"
    return f"{x} @ {p.array((k, n), dtype)}"


def image(p: Growing, spatial: int) -> tuple[str, tuple[int, ...]] | None:
    # A value as images: (batch, channels, ...).
    x = p.one(p.floats())
    size = p.values[x].size if x else 0
    if not x or not size:
        return None
    shape = p.factors(size, spatial + 2)
    return f"ft.reshape({x}, {shape})", shape


def convolution(p: Growing) -> str | None:
    spatial = p.choose([1, 2, 2, 3])
    found = image(p, spatial)
    if found is None:
        return None
    x, shape = found
    groups = p.choose([g for g in (1, 1, 2, 3) if shape[1] % g == 0])
    window = tuple(p.integer(1, 3) for _ in range(spatial))
    weight = (groups * p.integer(1, 4), shape[1] // groups, *window)
    dtype = x[x.index("(") + 1 : x.index(",")]
    extra = f", groups={groups}"
    if p.chance(40):
        extra += f", stride={p.integer(1, 2)}"
    if p.chance(20):
        extra += f", {p.choose(['kernel_dilation', 'input_dilation'])}=2"
    return f"ft.conv({x}, {p.array(weight, p.dtype(dtype))}, padding={p.integer(0, 3)}{extra})"


def pool(p: Growing) -> str | None:
    spatial = p.choose([1, 2, 2])
    found = image(p, spatial)
    if found is None:
        return None
    window = tuple(p.integer(1, min(3, n)) for n in found[1][2:])
    rest = f", stride={p.integer(1, 2)}" if p.chance(50) else ""
    if p.chance(30):
        rest += f", padding={tuple((0, w // 2) for w in window)}"
    op = p.choose(["max_pool", "avg_pool"])
    if op == "avg_pool" and p.chance(30):
        rest += ", count_include_pad=False"
    return f"ft.{op}({found[0]}, {window}{rest})"


# ---- indices -------------------------------------------------------------------------------------


def chosen(p: Growing) -> str | None:
    x = p.one([v for v in p.values if p.rank(v) and 0 not in p.shape(v)])
    if x is None:
        return None
    axis = p.axis(p.rank(x))
    size = p.shape(x)[axis]
    dtype = p.choose(["int64", "int32"])
    form = p.integer(0, 5)
    if form == 0:
        return f"ft.gather({x}, {p.indices(size, (p.integer(0, 5),), dtype)}, {axis})"
    if form == 1:
        return f"ft.take({x}, {p.indices(size, (2, 3), dtype)}, {axis})"
    if form == 2:
        shape = [*p.shape(x)]
        shape[axis] = p.integer(1, 3)
        return f"ft.take_along_axis({x}, {p.indices(size, tuple(shape))}, {axis})"
    if form == 3:
        return f"{x}[{p.indices(p.shape(x)[0], (p.integer(0, 4),), dtype)}]"
    if form == 4:
        return f"ft.embedding({x}, {p.indices(p.shape(x)[0], (2, 2))})" if p.rank(x) == 2 else None
    return f"ft.one_hot({p.indices(5, (3, 2))}, 5) * {p.scalar()}"


def scattered(p: Growing) -> str | None:
    x = p.one([v for v in p.numbers() if p.rank(v) and 0 not in p.shape(v)])
    if x is None:
        return None
    axis = p.axis(p.rank(x))
    count = p.integer(1, 4)
    shape = [*p.shape(x)]
    where = p.indices(shape[axis], (count,))
    shape[axis] = count
    mode = p.choose(["add", "add", "max", "min"])
    updates = p.array(tuple(shape), p.dtype(x))
    return f"ft.scatter({x}, {where}, {updates}, {axis}, '{mode}')"


# ---- what models are made of ---------------------------------------------------------------------


def layer(p: Growing) -> str | None:
    x = p.one([v for v in p.floats() if p.rank(v) >= 1 and p.values[v].size])
    if x is None:
        return None
    n, dtype = p.shape(x)[-1], p.dtype(x)
    form = p.integer(0, 5)
    if form == 0:
        return f"ft.layer_norm({x}, {p.array((n,), dtype)}, {p.array((n,), dtype)})"
    if form == 1:
        return f"ft.layer_norm({x}, axis={p.axes(p.rank(x))})"
    if form == 2 and p.rank(x) == 2:
        rows = p.shape(x)[0]
        return f"ft.cross_entropy({x}, {p.indices(n, (rows,))})"
    if form == 3 and p.rank(x) >= 2:
        c = p.shape(x)[1]
        axes = tuple(a for a in range(p.rank(x)) if a != 1)
        return (
            f"ft.batch_norm({x}, ft.mean({x}, {axes}), ft.var({x}, {axes}), {p.array((c,), dtype)})"
        )
    if form == 4 and p.rank(x) >= 3:
        return f"ft.attention({x}, {x}, {x}, causal={p.chance(50)})"
    return f"ft.where(g.uniform({p.shape(x)}) < 0.5, {x} / 0.5, 0)"


def drawn(p: Growing) -> str | None:
    shape = p.some_shape()
    dtype = p.choose(["float32", "float32", "float64", "float16"])
    return p.choose(
        [
            f"g.uniform({shape}, dtype='{dtype}')",
            f"g.normal({shape}, dtype='{dtype}')",
            f"g.integers(-3, 9, {shape})",
            f"g.bernoulli(0.3, {shape})",
        ]
    )


def created(p: Growing) -> str | None:
    shape, dtype = p.some_shape(), p.any_dtype()
    x = p.any()
    return p.choose(
        [
            f"ft.full({shape}, {p.integer(0, 3)}, dtype='{dtype}')",
            f"ft.zeros_like({x})",
            f"ft.ones_like({x}) * {p.scalar()}",
            f"ft.arange({p.size()}, dtype='{p.choose(FLOATS)}')",
            f"ft.eye({p.integer(1, 5)}, dtype='float32')",
            p.array(shape, dtype, special=p.chance(30)),
        ]
    )


#: How often each is tried.
LINES: dict[Line, int] = {
    unary: 12, of_integers: 2, binary: 16, operator: 8, choice: 4, clipped: 2, reduction: 10,
    along: 5, centred: 4, cast: 5, reshaped: 5, permuted: 5, part: 8, turned: 5, broadcast: 2,
    joined: 3, padded: 2, triangle: 1, product: 6, convolution: 3, pool: 2, chosen: 4,
    scattered: 3, layer: 6, drawn: 3, created: 3,
}  # fmt: skip
