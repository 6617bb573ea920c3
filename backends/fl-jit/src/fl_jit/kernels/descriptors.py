"""What a provider is asked to compute. Each problem is a value: equal problems share one kernel.

Addresses are given to a kernel in the order that the problem's docstring names; outputs come last.
Images are (batch, channels, *spatial) with one to three spatial axes, padding is (low, high) per
axis, dilation 1 means none. Dtypes are those of the layouts; sums are float32 at least.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from fl_jit.kernels.layout import Layout, Placement

if TYPE_CHECKING:
    from fl_jit.kernels.codegen.program import Program

Shape: TypeAlias = tuple[int, ...]
Padding: TypeAlias = tuple[tuple[int, int], ...]

#: What may follow a product in the same kernel: nothing, max(v, 0), GELU by erf or by tanh, tanh,
#: 1 / (1 + exp(-v)). Of NaN all of them are NaN.
ACTIVATIONS = ("", "relu", "gelu", "gelu_tanh", "tanh", "sigmoid")


class Epilogue(NamedTuple):
    """What is computed of a result, element by element, while it is in cache.

    program   over the rows and columns of the result: its last axis are the columns of a product,
              or the channels of an image; those before are all others, in C order, of which some
              may be one. It reduces nothing and has no scalars: single numbers are operands that
              do not move. Its first input is the result, its first output takes the result's place
    sizes     of the program's axes
    strides   of each of its inputs, then outputs, over its axes, in elements
    """

    program: Program
    sizes: Shape
    strides: tuple[Shape, ...]

    @property
    def reads(self) -> tuple[Layout, ...]:
        """What it reads beside the result."""
        made = self.program
        found = zip(made.inputs[1:], self.strides[1:], strict=False)
        return tuple([Layout(made.values[i].dtype, self.sizes, strides) for i, strides in found])

    @property
    def writes(self) -> tuple[Layout, ...]:
        """What it gives beside what takes the result's place."""
        made = self.program
        found = zip(made.outputs[1:], self.strides[len(made.inputs) + 1 :], strict=True)
        return tuple([Layout(made.values[o.value].dtype, self.sizes, s) for o, s in found])


class Matmul(NamedTuple):
    """x (..., m, k) times y (..., k, n): the addresses of x, y[, bias], out; with an epilogue those
    of x, y, what it reads, out, what else it gives.

    The batch axes of x and y are as many as those of out and may be 1 (then they broadcast);
    transposes are strides. ``bias`` has out's rank and broadcasts to it. ``accumulate`` adds to
    what out holds already. An epilogue takes the place of bias and activation.
    """

    x: Placement
    y: Placement
    out: Placement
    bias: Placement | None = None
    activation: str = ""
    accumulate: bool = False
    epilogue: Epilogue | None = None


class Convolution(NamedTuple):
    """Cross-correlation of x with w: the addresses of x, w[, bias], out, or those that Matmul has
    with an epilogue.

    w is (features, channels / groups, *kernel), or (groups, features / groups, channels / groups,
    *kernel) where strides cannot merge the first two; bias (features,).
    """

    x: Placement
    w: Placement
    out: Placement
    stride: Shape
    padding: Padding
    dilation: Shape
    groups: int = 1
    bias: Placement | None = None
    activation: str = ""
    epilogue: Epilogue | None = None


class ConvDataGrad(NamedTuple):
    """The gradient of the x of a Convolution: the addresses of gradient, w, out, or those that
    Matmul has with an epilogue.

    ``gradient`` is shaped as the convolution's result, ``out`` as its x. This is also what is
    called a transposed convolution.
    """

    gradient: Placement
    w: Placement
    out: Placement
    stride: Shape
    padding: Padding
    dilation: Shape
    groups: int = 1
    epilogue: Epilogue | None = None


class ConvWeightGrad(NamedTuple):
    """The gradient of the w of a Convolution: the addresses of x, gradient[, bias], out.

    ``out`` is shaped as w; ``bias``, when given, receives the gradient of the bias. In bfloat16,
    with an odd number of pixels in a line of ``gradient``, what is not finite in x may make NaN of
    sums that it is no part of: the caller sees to that.
    """

    x: Placement
    gradient: Placement
    out: Placement
    stride: Shape
    padding: Padding
    dilation: Shape
    groups: int = 1
    bias: Placement | None = None


class Pooling(NamedTuple):
    """A window's maximum or mean: the addresses of x[, workspace], out.

    ``kind`` is "max", "mean" (padding counts as zeros) or "mean_inside" (padding does not count).
    With ``workspace`` the kernel also notes where maxima were, for PoolingGradient: memory of
    ``kernel.workspace`` bytes. NaNs may be overlooked by "max", and a window of -inf alone may
    give the lowest finite number: the caller sees to that.
    """

    x: Placement
    out: Placement
    window: Shape
    stride: Shape
    padding: Padding
    kind: str = "max"
    workspace: bool = False


class PoolingGradient(NamedTuple):
    """The gradient of the x of a Pooling: the addresses of gradient[, workspace], out. "max" has
    a workspace, which Pooling filled; each maximum's share goes to the first place that had it."""

    gradient: Placement
    out: Placement
    window: Shape
    stride: Shape
    padding: Padding
    kind: str = "max"


class BatchNorm(NamedTuple):
    """(x - mean) / sqrt(variance + eps) * weight + bias per channel: the addresses of x, weight,
    bias, mean, variance, out.

    x is (rows, channels) or (batch, channels, places); the others are (channels,) float32. The
    statistics are given, or with ``training`` those of x, and results.
    """

    x: Placement
    out: Placement
    eps: float
    training: bool = False


class BatchNormGradient(NamedTuple):
    """The gradients of the x, weight and bias of a BatchNorm in training: the addresses of x,
    gradient, weight, mean, variance, to_weight, to_bias, out.

    ``gradient`` and ``out`` are shaped as x; the statistics are those that BatchNorm gave.
    """

    x: Placement
    gradient: Placement
    out: Placement
    eps: float


class Reorder(NamedTuple):
    """x into another layout or dtype, such as weights into a packed one: x, out."""

    x: Placement
    out: Placement


OpDescriptor: TypeAlias = (
    Matmul
    | Convolution
    | ConvDataGrad
    | ConvWeightGrad
    | Pooling
    | PoolingGradient
    | BatchNorm
    | BatchNormGradient
    | Reorder
)
