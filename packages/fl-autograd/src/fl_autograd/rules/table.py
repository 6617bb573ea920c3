"""The table of gradient rules: one entry per operation.

A rule has one function per differentiable operand (a vector-Jacobian product). It is written with
differentiable operations of ``ops``: over adapters for first order, over variables when the
gradient itself is to be differentiated. Its first parameters are ``ops`` and ``g``, the gradient of
the result; the names of the others say what it needs, and only that is kept alive until the
backward pass:

    out              the result
    x                the value of operand ``x``
    x_shape, x_dtype its shape and dtype (kept instead of the value)
    axis, ...        any argument of the operation that is not an array
    index, xs_shapes for an operand that is a sequence ``xs``: which element, and all their shapes
    result           for an operation with several results: whose gradient ``g`` is, 0, 1, ...
    result_1, ...    another of several results; kept for the gradient of the first, else None

    rule("multiply", x=lambda ops, g, y: ops.multiply(g, y), y=lambda ops, g, x: ops.multiply(g, x))

keeps ``y`` alone when only ``x`` needs a gradient. The result may have the broadcast shape: the
engine sums it to the shape of the operand. The gradient of a slice is a ``SliceGradients``, which
the engine collects. ``joint=f`` instead of the single functions gives one
function ``f(ops, g, needs, ...)`` that returns a gradient (or None) per operand named in
``operands``; it alone may ask for other results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fl_autograd.errors import GradError

Vjp = Callable[..., Any]


class Rule:
    """How one operation is differentiated.

    ``backward(ops, g, saved, ins)``, ``names`` and ``lifts`` are filled in when the operation is
    first used (``fl_autograd.compile``); ``forward`` replaces the backend's method for operations
    that no backend has; ``partial`` says that its gradients may be ``SliceGradients`` or a
    ``SparseGradient``, not arrays. The table knows that of its rules; of others it is assumed.
    """

    __slots__ = (
        "backward",
        "forward",
        "joint",
        "lifts",
        "name",
        "names",
        "operands",
        "partial",
        "vjps",
    )

    def __init__(
        self,
        name: str,
        vjps: dict[str, Vjp],
        joint: Vjp | None = None,
        operands: Sequence[str] = (),
        forward: Callable[..., Any] | None = None,
        partial: bool = True,
    ) -> None:
        self.name = name
        self.vjps = vjps
        self.joint = joint
        #: The differentiable operands, in the order of ``Node.ins``.
        self.operands = tuple(operands) if joint is not None else tuple(vjps)
        self.forward = forward
        self.partial = partial
        self.backward: Callable[..., tuple[Any, ...]] = _not_compiled
        #: The names of what is saved, in its order.
        self.names: tuple[str, ...] = ()
        #: (position in saved, operand number or -1 for the result) of every saved array.
        self.lifts: tuple[tuple[int, int], ...] = ()


def _not_compiled(*arguments: Any) -> tuple[Any, ...]:
    raise GradError("this rule was never attached to a tape")


def passed_on(ops: Any, g: Any) -> Any:
    """The gradient as it came. The compiler writes ``g`` for a call of this."""
    return g


RULES: dict[str, Rule] = {}

#: Operations whose results never need a gradient: they are piecewise constant, or give indices,
#: truth values, or data that depends on no operand.
NON_DIFFERENTIABLE: frozenset[str] = frozenset(
    # creation
    "full arange from_host random_bits uniform normal truncated_normal one_hot "
    # piecewise constant
    "floor ceil round trunc sign floor_divide nextafter "
    # indices and counts
    "argmax argmin nanargmax nanargmin argsort nonzero argwhere count_nonzero searchsorted "
    "matrix_rank "
    # truth values
    "equal less not_equal less_equal greater greater_equal isnan isinf isfinite any all "
    "logical_not logical_and logical_or logical_xor isin signbit isposinf isneginf isclose "
    "allclose array_equal "
    # bits
    "bitwise_invert bitwise_and bitwise_or bitwise_xor bitwise_left_shift "
    "bitwise_right_shift".split()
)


def rule(
    name: str,
    *,
    joint: Vjp | None = None,
    operands: Sequence[str] = (),
    partial: bool = False,
    **vjps: Vjp,
) -> None:
    """Add the rule of operation ``name`` to the table. Raises GradError when it has one already."""
    if name in RULES:
        raise GradError(
            f"[{name}] has a gradient rule already; replace it with extend.replace_rule"
        )
    RULES[name] = Rule(name, vjps, joint, operands, partial=partial)
