"""``fl_tensor``: NumPy's functions under NumPy's names."""

from __future__ import annotations

from typing import Any

import fl_tensor as ft
from cases import Target
from targets.making import Ready, ints, target, x

UNARY = """
abs arccos arccosh arcsin arcsinh arctan arctanh conjugate degrees fabs fix radians around rint
atleast_1d atleast_2d atleast_3d common_type copy flatnonzero fliplr flipud frexp i0 iscomplex
iscomplexobj isreal isrealobj matrix_transpose modf ndim ravel real_if_close shape sinc
sort_complex spacing transpose diag_indices_from tril_indices_from triu_indices_from
""".split()
BINARY = """
arctan2 pow mod true_divide divmod fmod float_power heaviside logaddexp2 array_equiv union1d
setdiff1d setxor1d intersect1d vdot polyadd polysub convolve correlate
""".split()
INTEGERS = "left_shift right_shift gcd lcm".split()
STACKS = "hstack vstack row_stack dstack column_stack concat".split()
REDUCTIONS = "amax amin ptp cumsum cumprod nancumsum nancumprod".split()
WINDOWS = "bartlett blackman hamming hanning kaiser".split()


def flat() -> Any:
    return x(3)


def _name(n: str) -> Target:
    axis = "axis" if n in ("amax", "amin", "ptp") else "one_axis"
    return target(f"ft.{n}", {"x": x, "axis": 0}, x="required_array", axis=axis)


TARGETS: list[Target] = [
    *(target(f"ft.{n}", {"0": lambda: x(2, 2)}, _0="required_array") for n in UNARY),
    *(
        target(f"ft.{n}", {"0": flat, "1": flat}, _0="required_array", _1="required_array")
        for n in BINARY
    ),
    *(
        target(f"ft.{n}", {"0": ints, "1": ints}, _0="required_array", _1="required_array")
        for n in INTEGERS
    ),
    *(
        target(f"ft.{n}", {"0": ints}, _0="required_array")
        for n in ("invert", "bitwise_not", "bitwise_count")
    ),
    *(target(f"ft.{n}", {"xs": lambda: [x(), x()]}, xs="iterable") for n in STACKS),
    *(_name(n) for n in REDUCTIONS),
    *(
        target(
            f"ft.{n}",
            {"m": 4} | ({"beta": 2.0} if n == "kaiser" else {}),
            m="rate",
            dtype="dtype",
            device="device",
        )
        for n in WINDOWS
    ),
    # data types
    target("ft.asanyarray", {"obj": [1.0]}, obj="array"),
    target("ft.ascontiguousarray", {"obj": [1.0]}, obj="array"),
    target("ft.array", {"obj": [1.0]}, obj="array", dtype="dtype", ndmin="rate"),
    target("ft.asarray_chkfinite", {"obj": [1.0]}, obj="array"),
    target("ft.astype", {"x": x, "dtype": "int32"}, x="required_array", dtype="dtype"),
    target("ft.can_cast", {"0": ft.int8, "1": ft.int16}, _0="dtype"),
    target("ft.isdtype", {"dtype": ft.int8, "kind": "integral"}, dtype="dtype", kind="choice"),
    target("ft.promote_types", {"x": ft.float32, "y": ft.int64}, x="dtype", y="dtype"),
    target("ft.size", {"x": x}, x="required_array", axis="one_axis"),
    # elementwise
    target("ft.ldexp", {"x": x, "n": ints}, x="required_array", n="required_array"),
    target("ft.unwrap", {"x": x}, x="required_array", axis="one_axis", period="number"),
    # shapes
    target("ft.permute_dims", {"x": x, "axes": (1, 0)}, x="required_array", axes="axis"),
    target("ft.resize", {"x": x, "shape": (2, 2)}, x="required_array", shape="shape"),
    target("ft.rollaxis", {"x": x, "axis": 1}, x="required_array", axis="one_axis"),
    target("ft.rot90", {"x": x}, x="required_array", k="rate", axes="axis"),
    target("ft.trim_zeros", {"x": x}, x="required_array", trim="choice", axis="axis"),
    target("ft.append", {"x": x, "values": x, "axis": 0}, x="required_array", axis="one_axis"),
    target("ft.block", {"xs": lambda: [x(), x()]}, xs="required_array"),
    target("ft.array_split", {"x": x, "parts": 2}, x="required_array", axis="one_axis"),
    target("ft.hsplit", {"x": x, "parts": 3}, x="required_array", parts="rate"),
    target("ft.vsplit", {"x": x, "parts": 2}, x="required_array", parts="rate"),
    target("ft.dsplit", {"x": lambda: x(1, 1, 2), "parts": 2}, x="required_array"),
    target("ft.delete", {"x": x, "index": 0, "axis": 0}, index="one_axis", axis="one_axis"),
    target("ft.insert", {"x": x, "index": 0, "values": 1.0, "axis": 0}, axis="one_axis"),
    target("ft.ediff1d", {"x": x}, x="required_array", to_end="array"),
    # creation
    target("ft.identity", {"n": 3}, n="count"),
    target("ft.tri", {"rows": 3}, rows="count", columns="count", k="number"),
    target("ft.diagflat", {"x": x}, x="required_array", k="number"),
    target("ft.vander", {"x": flat}, x="required_array", n="number"),
    target("ft.indices", {"dimensions": (2, 3)}, dimensions="shape", dtype="dtype"),
    target("ft.ix_", {"0": lambda: ints(2)}, _0="required_array"),
    target("ft.frombuffer", {"buffer": bytes(8)}, buffer="required_array", dtype="dtype"),
    target(
        "ft.fromfunction",
        {"function": Ready(lambda i, j: i + j), "shape": (2, 3)},
        function="callable",
        shape="shape",
    ),
    target("ft.fromiter", {"numbers": lambda: [1.0]}, numbers="iterable", dtype="dtype"),
    target("ft.diag_indices", {"n": 3}, n="rate", ndim="rate"),
    target("ft.mask_indices", {"n": 3, "function": Ready(ft.triu)}, function="callable"),
    # indexing
    target("ft.unravel_index", {"indices": ints, "shape": (2, 3)}, indices="required_array"),
    target(
        "ft.ravel_multi_index",
        {"indices": lambda: [ints(2), ints(2)], "shape": (2, 3)},
        indices="iterable",
        mode="choice",
    ),
    target("ft.put", {"x": x, "indices": ints, "values": 1.0}, x="required_array", mode="choice"),
    target(
        "ft.put_along_axis",
        {"x": x, "indices": lambda: ints(1, 3), "values": 1.0, "axis": 0},
        x="required_array",
        indices="required_array",
        values="required_array",
        axis="one_axis",
    ),
    target("ft.place", {"x": x, "mask": ints, "values": 1.0}, x="required_array"),
    target("ft.putmask", {"x": x, "mask": ints, "values": 1.0}, x="required_array"),
    target("ft.fill_diagonal", {"x": x, "value": 1.0}, x="required_array", value="required_array"),
    target("ft.extract", {"condition": x, "x": x}, condition="required_array"),
    target("ft.compress", {"condition": [1], "x": x}, x="required_array", axis="one_axis"),
    target(
        "ft.select",
        {"conditions": lambda: [x() > 0], "choices": lambda: [x()]},
        choices="iterable",
        default="required_array",
    ),
    target("ft.choose", {"x": ints, "choices": lambda: [x(), x()]}, mode="choice"),
    target(
        "ft.piecewise",
        {"x": x, "conditions": lambda: [x() > 0], "functions": [1.0]},
        x="required_array",
    ),
    target(
        "ft.apply_along_axis",
        {"function": Ready(ft.sort), "axis": 0, "x": x},
        function="callable",
        axis="one_axis",
    ),
    target(
        "ft.apply_over_axes",
        {"function": Ready(ft.sum), "x": x, "axes": 0},
        function="callable",
        axes="one_axis",
    ),
    # order
    *(
        target(f"ft.{n}", {"x": x, "kth": 0}, x="required_array", kth="rate", axis="one_axis")
        for n in ("partition", "argpartition")
    ),
    target("ft.lexsort", {"keys": lambda: [ints(2)]}, axis="one_axis"),
    target("ft.digitize", {"x": x, "bins": flat}, x="required_array", bins="required_array"),
    # statistics
    target("ft.nanpercentile", {"x": x, "q": 50}, x="required_array", q="rate", axis="axis"),
    target("ft.cov", {"x": x}, x="required_array", y="array", aweights="array"),
    target("ft.corrcoef", {"x": x}, x="required_array", y="array"),
    target("ft.histogram_bin_edges", {"x": x, "bins": 5}, x="required_array", bins="positive"),
    target("ft.histogram2d", {"x": flat, "y": flat}, x="required_array", y="required_array"),
    target("ft.histogramdd", {"sample": x}, weights="array"),
    # signals and polynomials
    target("ft.gradient", {"x": x}, x="required_array", axis="axis", edge_order="choice"),
    target("ft.interp", {"x": x, "xp": flat, "fp": flat}, x="required_array", left="array"),
    target("ft.trapezoid", {"y": x}, y="required_array", x="array", axis="one_axis"),
    target("ft.polyval", {"p": flat, "x": x}, p="required_array", x="required_array"),
    target("ft.polymul", {"p": flat, "q": flat}, p="required_array", q="required_array"),
    target("ft.polydiv", {"p": flat, "q": flat}, p="required_array", q="required_array"),
    target("ft.polyder", {"p": flat}, p="required_array", m="rate"),
    target("ft.polyint", {"p": flat}, p="required_array", m="rate", k="array"),
    target("ft.poly", {"x": flat}, x="required_array"),
    target("ft.roots", {"p": flat}, p="required_array"),
    target("ft.polyfit", {"x": flat, "y": flat, "deg": 1}, x="required_array", w="array"),
    # products and bits
    target("ft.matvec", {"x": x, "y": flat}, x="required_array", y="required_array"),
    target("ft.vecmat", {"x": flat, "y": lambda: x(3, 2)}, x="required_array"),
    target("ft.einsum_path", {"0": "ij,jk", "1": x, "2": lambda: x(3, 2)}, _0="string"),
    target("ft.packbits", {"x": x}, x="required_array", axis="one_axis", bitorder="choice"),
    target("ft.unpackbits", {"x": lambda: ft.zeros(2, "uint8")}, x="required_array"),
]

UNTRIED = {
    "ft.isscalar": "an answer about any object",
    "ft.iterable": "an answer about any object",
    "ft.result_type": "dtypes and arrays of any number",
}
