"""``fl_tensor``: operations, creation, linear algebra, transforms, wrappers."""

from __future__ import annotations

from typing import Any

import fl_tensor as ft
from cases import Target
from targets.making import Ready, ints, target, x

UNARY = """
angle absolute acos acosh asin asinh atan atanh cbrt ceil cos cosh deg2rad digamma erf erfinv exp
exp2 expm1 lgamma
floor isfinite isinf isnan isneginf isposinf log log10 log1p log2 logical_not logit negative
nonzero argwhere positive rad2deg real imag conj reciprocal relu round rsqrt sigmoid sign signbit
silu sin sinh softplus sqrt square tan tanh trunc unique_all unique_counts unique_inverse
unique_values
""".split()
BINARY = """
add subtract multiply divide power remainder floor_divide maximum minimum fmax fmin hypot atan2
copysign logaddexp equal not_equal less less_equal greater greater_equal logical_and logical_or
logical_xor isclose allclose array_equal xlogy cdist
""".split()
INTEGERS = "bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift".split()
REDUCTIONS = """
all any sum prod mean max min median std var logsumexp count_nonzero nanmax nanmean nanmedian
nanmin nanprod nanstd nansum nanvar
""".split()
ALONG_AXIS = """
argsort sort softmax log_softmax cumulative_sum cumulative_prod cumulative_max cumulative_min
cumulative_logsumexp max_with_index min_with_index nanargmax nanargmin argmax argmin unstack
cummax cummin logcumsumexp
""".split()


def _noted(value: Any, name: Any) -> Any:
    with ft.trace() as graph:
        ft.per_step(value, name)
    return graph.fixed


def _part(feeds: Any, fetches: Any) -> Any:
    given = x()
    with ft.trace() as graph:
        graph.input(given, "x")
        graph.output(ft.named(ft.exp(given), "y"))
    return ft.extract(graph, feeds=feeds, fetches=fetches)


CREATED = {"dtype": "dtype", "device": "device"}

TARGETS: list[Target] = [
    *(target(f"ft.{n}", {"x": x}, x="required_array") for n in UNARY),
    *(target(f"ft.{n}", {"x": x, "y": x}, x="required_array", y="required_array") for n in BINARY),
    *(
        target(f"ft.{n}", {"x": ints, "y": ints}, x="required_array", y="required_array")
        for n in INTEGERS
    ),
    target("ft.bitwise_invert", {"x": ints}, x="required_array"),
    *(
        target(f"ft.{n}", {"x": x, "axis": 0}, x="required_array", axis="axis", keepdims="flag")
        for n in REDUCTIONS
    ),
    *(
        target(f"ft.{n}", {"x": x, "axis": 0}, x="required_array", axis="one_axis")
        for n in ALONG_AXIS
    ),
    target("ft.zeros", {"shape": (2, 3)}, shape="shape", **CREATED),
    target("ft.ones", {"shape": (2, 3)}, shape="shape", **CREATED),
    target("ft.empty", {"shape": (2, 3)}, shape="shape", **CREATED),
    target(
        "ft.full",
        {"shape": (2, 3), "fill_value": 1.0},
        shape="shape",
        fill_value="number",
        **CREATED,
    ),
    target("ft.zeros_like", {"x": x}, x="required_array", **CREATED),
    target("ft.ones_like", {"x": x}, x="required_array", **CREATED),
    target("ft.empty_like", {"x": x}, x="required_array", dtype="dtype"),
    target(
        "ft.full_like",
        {"x": x, "fill_value": 1.0},
        x="required_array",
        fill_value="number",
        **CREATED,
    ),
    target(
        "ft.arange",
        {"start": 0, "stop": 5, "step": 1},
        start="number",
        stop="number",
        step="number",
        **CREATED,
    ),
    target("ft.arange absurd", {"start": 0}, start="absurd"),
    target(
        "ft.linspace",
        {"start": 0, "stop": 1, "num": 5},
        start="number",
        stop="number",
        num="count",
        **CREATED,
    ),
    target("ft.linspace absurd", {"start": 0, "stop": 1, "num": 5}, num="absurd"),
    target(
        "ft.logspace", {"start": 0, "stop": 1, "num": 5}, start="number", num="count", base="number"
    ),
    target("ft.geomspace", {"start": 1, "stop": 2, "num": 5}, start="number", num="count"),
    target("ft.eye", {"rows": 3}, rows="count", columns="count", **CREATED),
    target("ft.eye absurd", {"rows": 3}, rows="absurd"),
    target("ft.asarray", {"obj": [1.0]}, obj="array", **CREATED),
    target("ft.from_dlpack", {"obj": x}, obj="required_array"),
    target(
        "ft.frombytes",
        {"data": bytes(8), "shape": (2,), "dtype": "float32"},
        data="required_array",
        shape="shape",
        dtype="dtype",
    ),
    target("ft.tril_indices", {"rows": 3}, rows="count"),
    target("ft.triu_indices", {"rows": 3}, rows="count"),
    target(
        "ft.meshgrid",
        {"0": lambda: x(2), "1": lambda: x(3)},
        _0="required_array",
        indexing="choice",
    ),
    target("ft.rand", {"shape": (2,)}, shape="shape", generator="generator", dtype="dtype"),
    target("ft.randn", {"shape": (2,)}, shape="shape", generator="generator", dtype="dtype"),
    target("ft.seed", {"n": 1}, n="seed"),
    target("ft.polygamma", {"n": 1, "x": x}, n="count", x="required_array"),
    *(
        target(
            f"ft.segment_{n}",
            {"x": x, "ids": lambda: ints(2), "num_segments": 9},
            x="required_array",
            ids="required_array",
            num_segments="count",
        )
        for n in ("sum", "mean", "max", "min", "softmax")
    ),
    target(
        "ft.random.categorical",
        {"logits": x, "shape": (2,)},
        logits="required_array",
        shape="shape",
        axis="one_axis",
        generator="generator",
    ),
    target(
        "ft.random.multinomial",
        {"weights": lambda: ft.ones((2, 3)), "n": 2},
        weights="required_array",
        n="count",
        replace="flag",
        generator="generator",
    ),
    *(
        target(
            f"ft.random.{n}",
            {"0": 2.0, "shape": (2,)},
            _0="required_array",
            shape="shape",
            dtype="dtype",
            generator="generator",
        )
        for n in ("exponential", "poisson", "gamma")
    ),
    target("ft.random.gamma scale", {"concentration": 2.0}, scale="required_array"),
    target("ft.linalg.norm", {"x": x}, x="required_array", ord="choice", axis="axis"),
    target(
        "ft.linalg.solve_triangular",
        {"x": lambda: x(3, 3), "y": lambda: x(3, 2)},
        x="required_array",
        y="required_array",
        lower="flag",
    ),
    target("ft.linalg.cond", {"x": lambda: x(3, 3)}, x="required_array", p="choice"),
    *(
        target(f"ft.fft.{n}", {"x": x}, x="required_array", s="shape", norm="choice")
        for n in ("fft2", "ifft2", "rfft2", "irfft2")
    ),
    target(
        "ft.random.beta",
        {"a": 2.0, "b": 1.0},
        b="required_array",
        shape="shape",
        dtype="dtype",
        generator="generator",
    ),
    target("ft.random.integers", {"low": 0, "high": 5}, low="number", high="number", shape="shape"),
    target("ft.random.permutation", {"x": x}, axis="one_axis", generator="generator"),
    target("ft.random.choice", {"x": 5, "shape": (2,)}, shape="shape", generator="generator"),
    target(
        "ft.random.categorical_log_prob",
        {"logits": x, "values": lambda: ints(2)},
        logits="required_array",
        values="required_array",
        axis="one_axis",
    ),
    target("ft.Generator", {"seed": 1}, seed="seed"),
    target("ft.set_default_generator", {"generator": ft.default_generator}, generator="generator"),
    target("ft.average", {"x": x, "axis": 0}, x="required_array", axis="axis", weights="array"),
    target("ft.norm", {"x": x, "axis": 0}, x="required_array", axis="axis"),
    target(
        "ft.quantile",
        {"x": x, "q": 0.5},
        x="required_array",
        q="fraction",
        axis="axis",
        method="choice",
    ),
    target("ft.nanquantile", {"x": x, "q": 0.5}, x="required_array", q="fraction", axis="axis"),
    target("ft.percentile", {"x": x, "q": 50}, x="required_array", q="rate", axis="axis"),
    target(
        "ft.histogram", {"x": x, "bins": 5}, x="required_array", bins="positive", weights="array"
    ),
    target("ft.bincount", {"x": lambda: ints(3)}, x="required_array", minlength="count"),
    target("ft.topk", {"x": x, "k": 2}, x="required_array", k="count", axis="one_axis"),
    target(
        "ft.searchsorted",
        {"x": lambda: x(3), "values": x},
        x="required_array",
        values="required_array",
        side="choice",
    ),
    target("ft.unique", {"x": x}, x="required_array", axis="one_axis"),
    target("ft.isin", {"x": x, "values": x}, x="required_array", values="required_array"),
    target(
        "ft.where",
        {"condition": lambda: x() > 0, "x": x, "y": x},
        condition="required_array",
        x="required_array",
    ),
    target("ft.clip", {"x": x, "low": 0}, x="required_array", low="array"),
    target("ft.nan_to_num", {"x": x}, x="required_array", nan="number"),
    target("ft.nextafter", {"x": x, "y": x}, x="required_array"),
    target("ft.gelu", {"x": x}, x="required_array", approximate="choice"),
    target("ft.diff", {"x": x, "n": 1}, x="required_array", n="count", axis="one_axis"),
    target("ft.cast", {"x": x, "dtype": "float32"}, x="required_array", dtype="dtype"),
    target("ft.reshape", {"x": x, "shape": (3, 2)}, x="required_array", shape="other_shape"),
    target("ft.broadcast_to", {"x": x, "shape": (2, 3)}, x="required_array", shape="shape"),
    target("ft.broadcast_shapes", {"0": (2, 3), "1": (3,)}, _0="shape"),
    target("ft.broadcast_arrays", {"0": x, "1": x}, _0="required_array"),
    target("ft.permute", {"x": x, "axes": (1, 0)}, x="required_array", axes="axis"),
    target(
        "ft.moveaxis", {"x": x, "source": 0, "destination": 1}, x="required_array", source="axis"
    ),
    target("ft.swapaxes", {"x": x, "axis1": 0, "axis2": 1}, x="required_array", axis1="one_axis"),
    target("ft.expand_dims", {"x": x, "axis": 0}, x="required_array", axis="axis"),
    target("ft.squeeze", {"x": lambda: x(1, 3), "axis": 0}, x="required_array", axis="axis"),
    target("ft.concatenate", {"xs": lambda: [x(), x()]}, xs="iterable", axis="one_axis"),
    target("ft.stack", {"xs": lambda: [x(), x()]}, xs="iterable", axis="one_axis"),
    target("ft.split", {"x": x, "sizes": 1}, x="required_array", sizes="positive", axis="one_axis"),
    target("ft.tile", {"x": x, "repeats": 2}, x="required_array", repeats="count"),
    target("ft.tile absurd", {"x": x, "repeats": 2}, repeats="absurd"),
    target(
        "ft.repeat", {"x": x, "repeats": 2}, x="required_array", repeats="rate", axis="one_axis"
    ),
    target("ft.roll", {"x": x, "shift": 1}, x="required_array", shift="number", axis="axis"),
    target("ft.flip", {"x": x}, x="required_array", axis="axis"),
    target("ft.pad", {"x": x, "widths": 1}, x="required_array", widths="number", mode="choice"),
    target("ft.pad absurd", {"x": x, "widths": 1}, widths="absurd"),
    target("ft.tril", {"x": x}, x="required_array", k="number"),
    target("ft.triu", {"x": x}, x="required_array", k="number"),
    target("ft.diag", {"x": x}, x="required_array", k="number"),
    target("ft.diagonal", {"x": x}, x="required_array", offset="number", axis1="one_axis"),
    target("ft.kron", {"x": x, "y": x}, x="required_array"),
    target(
        "ft.take",
        {"x": x, "indices": lambda: ints(2), "axis": 0},
        x="required_array",
        indices="required_array",
        axis="one_axis",
    ),
    target(
        "ft.take_along_axis",
        {"x": x, "indices": lambda: ft.zeros((2, 3), dtype="int64")},
        x="required_array",
        indices="required_array",
        axis="one_axis",
    ),
    target(
        "ft.gather",
        {"x": x, "indices": lambda: ints(2)},
        x="required_array",
        indices="required_array",
    ),
    target(
        "ft.scatter",
        {"x": x, "indices": lambda: ints(1), "updates": lambda: x(1, 3)},
        x="required_array",
        indices="required_array",
        updates="required_array",
        mode="choice",
    ),
    target(
        "ft.one_hot", {"x": lambda: ints(2), "classes": 3}, x="required_array", classes="positive"
    ),
    target(
        "ft.embedding",
        {"weight": x, "indices": lambda: ints(2)},
        weight="required_array",
        indices="required_array",
    ),
    target("ft.matmul", {"x": x, "y": lambda: x(3, 2)}, x="required_array", y="required_array"),
    target("ft.dot", {"x": lambda: x(3), "y": lambda: x(3)}, x="required_array"),
    target("ft.inner", {"x": x, "y": x}, x="required_array"),
    target("ft.outer", {"x": lambda: x(3), "y": lambda: x(3)}, x="required_array"),
    target("ft.vecdot", {"x": x, "y": x}, x="required_array", axis="one_axis"),
    target("ft.cross", {"x": x, "y": x}, x="required_array", axis="one_axis"),
    target(
        "ft.tensordot", {"x": x, "y": lambda: x(3, 2), "axes": 1}, x="required_array", axes="count"
    ),
    target(
        "ft.einsum", {"0": "ij,jk", "1": x, "2": lambda: x(3, 2)}, _0="string", _1="required_array"
    ),
    target(
        "ft.linear",
        {"x": x, "weight": lambda: x(4, 3)},
        x="required_array",
        weight="required_array",
        bias="array",
    ),
    target(
        "ft.conv",
        {"x": lambda: x(1, 2, 5, 5), "w": lambda: x(3, 2, 3, 3)},
        x="required_array",
        w="required_array",
        stride="positive",
        groups="positive",
    ),
    target(
        "ft.max_pool",
        {"x": lambda: x(1, 2, 5, 5), "window": 2},
        x="required_array",
        window="positive",
    ),
    target(
        "ft.avg_pool",
        {"x": lambda: x(1, 2, 5, 5), "window": 2},
        x="required_array",
        window="positive",
    ),
    target(
        "ft.layer_norm", {"x": x}, x="required_array", weight="array", axis="axis", eps="number"
    ),
    target(
        "ft.attention",
        {k: lambda: x(1, 2, 3, 4) for k in ("query", "key", "value")},
        query="required_array",
        key="required_array",
        bias="array",
        allowed="array",
    ),
    target(
        "ft.cross_entropy",
        {"0": lambda: ft.log_softmax(x()), "1": lambda: ints(2)},
        _0="required_array",
        _1="required_array",
        axis="one_axis",
    ),
    target(
        "ft.nll_loss",
        {"0": lambda: ft.log_softmax(x()), "1": lambda: ints(2)},
        _0="required_array",
        _1="required_array",
        axis="one_axis",
    ),
    target(
        "ft.per_step",
        {"0": 1.0, "1": "rate"},
        _0="number",
        _1="string",
        call=_noted,
    ),
    target("ft.named", {"0": x, "1": "hidden"}, _0="required_array", _1="string"),
    target(
        "ft.extract of a graph",
        {"feeds": ["x"], "fetches": ["y"]},
        call=_part,
        feeds="iterable",
        fetches="iterable",
    ),
    target(
        "ft.batch_norm",
        {"x": x, "mean": lambda: x(3), "variance": lambda: x(3)},
        x="required_array",
        mean="required_array",
        weight="array",
        axis="one_axis",
        eps="number",
    ),
    target("ft.batch_norm_training", {"x": x}, x="required_array", weight="array", axis="one_axis"),
    target(
        "ft.batch_norm_gradient",
        {"gradient": x, "x": x, "mean": lambda: x(3), "variance": lambda: x(3)},
        gradient="required_array",
        x="required_array",
    ),
    target(
        "ft.conv_data_gradient",
        {
            "gradient": lambda: x(1, 3, 3, 3),
            "w": lambda: x(3, 2, 3, 3),
            "shape": (1, 2, 5, 5),
        },
        gradient="required_array",
        w="required_array",
        shape="shape",
        stride="positive",
        groups="positive",
    ),
    target(
        "ft.conv_weight_gradient",
        {
            "gradient": lambda: x(1, 3, 3, 3),
            "x": lambda: x(1, 2, 5, 5),
            "shape": (3, 2, 3, 3),
        },
        gradient="required_array",
        x="required_array",
        shape="shape",
        stride="positive",
        groups="positive",
    ),
    target(
        "ft.max_pool_gradient",
        {"gradient": lambda: x(1, 1, 2, 2), "x": lambda: x(1, 1, 4, 4), "window": 2},
        gradient="required_array",
        x="required_array",
        window="positive",
    ),
    target(
        "ft.avg_pool_gradient",
        {"gradient": lambda: x(1, 1, 2, 2), "shape": (1, 1, 4, 4), "window": 2},
        gradient="required_array",
        shape="shape",
        window="positive",
    ),
    target(
        "ft.recurrent",
        {"x": lambda: x(4, 2, 5), "state": lambda: x(1, 2, 5), "weight": lambda: x(5, 5)},
        x="required_array",
        state="required_array",
        weight="required_array",
        cell="choice",
    ),
    target("ft.promote", {"x": ft.float32, "y": ft.int64}, x="dtype", y="dtype"),
    target("ft.ops_for", {"base": ft.current_backend}, base="device"),
    target("ft.reproducible", {}, on="flag"),
    target("ft.trace", {}, whole="string"),
    target("ft.check", {}, nan="flag", inf="flag"),
    target("ft.eval", {"0": x}, _0="required_array"),
    target("ft.finfo", {"dtype": "float32"}, dtype="dtype"),
    target("ft.iinfo", {"dtype": "int32"}, dtype="dtype"),
    target("ft.dtype", {"name": "float32"}, name="dtype"),
    target("ft.get_backend", {"backend": "numpy"}, backend="device"),
    target("ft.use", {"0": "numpy"}, _0="device"),
    target("ft.override", {"add": Ready(lambda inner, a, b: inner.add(a, b))}, add="callable"),
    target("ft.set_default_dtype", {"dtype": "float32"}, dtype="dtype"),
    target("ft.default_dtype", {"dtype": "float64"}, dtype="dtype"),
    *(
        target(
            f"ft.{name}",
            {"precision": 8},
            precision="count",
            threshold="count",
            edgeitems="positive",
            linewidth="positive",
            sign="choice",
            floatmode="choice",
        )
        for name in ("printoptions", "set_printoptions")
    ),
    target("ft.set_num_threads", {"count": 2}, count="positive"),
    *(
        target(f"ft.linalg.{n}", {"x": lambda: ft.eye(3)}, x="required_array")
        for n in "cholesky det eig eigh eigvals eigvalsh inv qr slogdet svd svdvals matrix_rank "
        "pinv matrix_norm matrix_transpose trace diagonal".split()
    ),
    target("ft.linalg.vector_norm", {"x": x}, x="required_array", axis="axis", ord="number"),
    target(
        "ft.linalg.matrix_power", {"x": lambda: ft.eye(3), "n": 2}, x="required_array", n="number"
    ),
    target(
        "ft.linalg.solve",
        {"x": lambda: ft.eye(3), "y": lambda: x(3)},
        x="required_array",
        y="required_array",
    ),
    target("ft.linalg.lstsq", {"x": lambda: ft.eye(3), "y": lambda: x(3)}, x="required_array"),
    *(
        target(
            f"ft.fft.{n}",
            {"x": lambda: x(8)},
            x="required_array",
            n="count",
            axis="one_axis",
            norm="choice",
        )
        for n in "fft ifft rfft irfft hfft ihfft".split()
    ),
    *(
        target(
            f"ft.fft.{n}", {"x": lambda: x(4, 8)}, x="required_array", axes="axis", norm="choice"
        )
        for n in "fftn ifftn rfftn irfftn".split()
    ),
    *(
        target(f"ft.fft.{n}", {"x": lambda: x(8)}, x="required_array", axes="axis")
        for n in ("fftshift", "ifftshift")
    ),
    *(target(f"ft.fft.{n}", {"n": 8}, n="positive", d="number") for n in ("fftfreq", "rfftfreq")),
]
UNTRIED: dict[str, str] = {
    "ft.random.Draws": "takes no arguments",
    **dict.fromkeys(
        [
            "ft.count",
            "ft.default_generator",
            "ft.get_default_dtype",
            "ft.get_num_threads",
            "ft.get_printoptions",
        ],
        "takes no arguments",
    ),
    **dict.fromkeys(
        ["ft.Array", "ft.DerivedOps", "ft.TensorAdapter", "ft.TensorBackend"],
        "an interface or a base class",
    ),
    "ft.DType": "the dtypes are its instances; ft.dtype finds them",
}
