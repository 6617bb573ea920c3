"""The gradient of a convolution's weights, and of its bias.

    out[tap, channel, feature] = sum over pixels: x[pixel + tap, channel] * gradient[pixel, feature]

is a product of matrices whose inner dimension are the pixels. ``nest.py`` draws the loops,
``plan.py`` says how a problem is divided. Weights are written as they lie, in any order;
images with channels last are fastest, others are transposed while they are copied.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TypeAlias

from fl_tensor.backends.providers.generated import FOLDER, caches
from fl_tensor.backends.providers.generated.phases import Phases
from fl_tensor.backends.providers.generated.products import matmul
from fl_tensor.backends.providers.generated.tile import Tile
from fl_tensor.backends.providers.generated.weights import nest, pointwise
from fl_tensor.backends.providers.generated.weights.axes import axes_of
from fl_tensor.backends.providers.generated.weights.job import Job
from fl_tensor.backends.providers.generated.weights.operands import settled
from fl_tensor.backends.providers.generated.weights.plan import plan, tallest
from fl_tensor.backends.providers.generated.weights.words import WORDS
from fl_tensor.backends.providers.problems import ConvolutionWeights
from fl_tensor.backends.providers.provider import Kernel
from fl_tensor.codegen import compile, target
from fl_tensor.dtypes import DType

#: Floating operations per nanosecond, about.
_SPEED = 50.0


#: Computes with the addresses of x, the gradient, the bias (0: none) and the result.
Call: TypeAlias = Callable[[tuple[int, int, int, int]], None]


class WeightsKernel:
    """A gradient of weights that is ready to be computed: by ``call``, which needs what is
    ``kept``."""

    workspace = 0

    def __init__(
        self, problem: ConvolutionWeights, about: str, call: Call, kept: object = None
    ) -> None:
        bias = () if problem.bias is None else (problem.bias,)
        self.operands = (problem.x, problem.gradient, *bias, problem.out)
        self.about = f"generated: {about}"
        self._call = call
        self._kept = kept

    def __call__(self, *addresses: int) -> None:
        """Compute: x, gradient[, bias], out."""
        x, gradient, *bias, out = addresses
        self._call((x, gradient, bias[0] if bias else 0, out))


def prepare(problem: ConvolutionWeights, tiles: Tile | None = None) -> WeightsKernel:
    """A kernel for one floating dtype throughout, by strides, in ``tiles`` if they are given.
    Raises UnsupportedError for anything else."""
    problem = settled(problem)
    axes = axes_of(problem)
    made = plan(problem, axes, tiles)
    # Of one strip that is small a product is faster, which packs the gradient once for all tiles;
    # otherwise the nest, which copies x, too: pixels of many channels fall into the same few sets
    # of a cache.
    nbytes = sum(math.prod(place.shape) * place.dtype.itemsize for place in problem[:2])
    is_small = made.strips == 1 and nbytes <= caches.level(2) // 2
    as_product = pointwise.product(problem, axes) if is_small else None
    if as_product:
        found = matmul.prepare(as_product, tiles)
        return WeightsKernel(problem, f"a product: {found.about}", _operands_of(found))
    job = Job(problem, axes, made)
    work = 2.0 * math.prod(a.size * a.kernel for a in axes) * job.channels
    work *= problem.gradient.shape[1] / _SPEED
    code = _code(job.dtype, problem.out.dtype, made.pairs)
    about = (
        f"tiles of {tallest(made.cut)} x {made.vectors} vectors, {made.strips} "
        f"strips in {made.parts} parts"
    )
    call = Phases(code, WORDS, job.words, job.divide, work)
    return WeightsKernel(problem, about, call, job.tables)


def _operands_of(product: Kernel) -> Call:
    def call(addresses: tuple[int, int, int, int]) -> None:
        x, gradient, _, out = addresses
        product(x, gradient, out)

    return call


@compile.once
def _code(dtype: DType, result: DType, pairs: bool) -> compile.Code:
    machine = target.host()
    about = f"weights {dtype} {result} {pairs} {compile.sources(FOLDER)}"
    assembly = functools.partial(nest.assembly, dtype, result, machine, pairs)
    return compile.load(about, assembly, machine, compile.Effort.LEAST)
