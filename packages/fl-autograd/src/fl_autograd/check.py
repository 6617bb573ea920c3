"""``check_grads``: gradients against central differences."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

from fl_autograd import nested_transforms
from fl_autograd.errors import GradError
from fl_autograd.functional import grad
from fl_autograd.mode import enable_grad, no_grad
from fl_autograd.sparse import to_dense
from fl_autograd.variable import Variable
from fl_tensor import Array, Tensor, asarray
from fl_tensor.arguments import function_of, int_of, seed_of, several_of
from fl_tensor.dtypes import DType
from fl_tensor.errors import ArgumentError

#: dtype -> (step of the differences, relative tolerance).
_PRECISION = {"float64": (1e-6, 1e-6), "float32": (4e-3, 1e-2)}
_PRECISION |= {"complex128": _PRECISION["float64"], "complex64": _PRECISION["float32"]}
_LISTED = 200

Function = Callable[..., Any]


class GradCheckError(GradError, AssertionError):
    """A gradient differs from the slope that was measured."""


def check_grads(
    function: Function,
    inputs: Sequence[Any],
    order: int = 1,
    eps: float | None = None,
    rtol: float | None = None,
    directions: int = 2,
    seed: int = 0,
) -> None:
    """Raise GradCheckError unless the gradients of ``function`` agree with central differences.

    function    takes the inputs as Variables; returns a Variable or a tuple of them
    inputs      Tensors, Variables or array-likes of any shapes; those of float32, float64 and the
                complex dtypes are differentiated (one at a time), the others passed on
    order       2 also checks the gradients of the gradients, and so on
    eps         step; default 1e-6 for float64 and 4e-3 for float32, and complex numbers of these
    rtol        the slopes may differ by ``rtol * max(1, |slope|)``; default 1e-6 and 1e-2
    directions  random directions tried per input

    The outputs are summed with random weights and the slope of the sum is compared along random
    directions, so the cost does not grow with the number of elements. A complex number counts as
    its two parts. The function must be smooth within ``eps`` of the inputs.
    """
    function_of("check_grads", function)
    if int_of("check_grads", order, "order") < 1:
        raise ArgumentError(f"[check_grads] order {order}: expected 1, 2, ...")
    inputs = several_of("check_grads", inputs, "inputs", object, "a sequence of arrays")
    values = [x._tensor() if isinstance(x, Array) else asarray(x) for x in inputs]
    numbers = [i for i, x in enumerate(values) if x.dtype.name in _PRECISION and x.size]
    if not numbers:
        return
    coarse = max((_PRECISION[values[i].dtype.name] for i in numbers), key=lambda p: p[0])
    step, tolerance = coarse[0] if eps is None else eps, coarse[1] if rtol is None else rtol
    source = random.Random(seed_of("check_grads", seed))
    level: Function = function
    for n in range(1, order + 1):
        _check_level(level, values, numbers, n, step, tolerance, directions, source)
        if n < order:
            level = _gradient_of(level, values, numbers, source)


def _check_level(
    function: Function,
    values: list[Tensor],
    numbers: list[int],
    order: int,
    eps: float,
    rtol: float,
    directions: int,
    source: random.Random,
) -> None:
    arguments = [Variable(x, requires_grad=i in numbers) for i, x in enumerate(values)]
    outputs = _floating(nested_transforms.differentiated_call(function, *arguments))
    weights = [_random_like(y._tensor(), source) for y in outputs]
    tracked = [(y, w) for y, w in zip(outputs, weights) if y.requires_grad]
    leaves = [arguments[i] for i in numbers]
    found: Sequence[Variable | None] = [None] * len(leaves)
    if tracked:
        found = grad([y for y, _ in tracked], leaves, [w for _, w in tracked], allow_unused=True)
    flat_weights = [_flat(w) for w in weights]

    def measure(i: int, x: Tensor) -> float:
        with no_grad():
            results = _floating(
                function(*(Variable(x if j == i else v) for j, v in enumerate(values)))
            )
            return math.fsum(
                a * b for y, w in zip(results, flat_weights) for a, b in zip(_flat(y), w)
            )

    for i, leaf, gradient in zip(numbers, leaves, found):
        none = [0.0] * leaf.size * _parts(leaf.dtype)
        slopes = none if gradient is None else _flat(to_dense(gradient))
        for _ in range(directions):
            u = _random_like(values[i], source)
            got = math.fsum(a * b for a, b in zip(slopes, _flat(u)))
            want = _slope(measure, i, values[i], u, eps)
            if not abs(got - want) <= rtol * max(1.0, abs(want)):
                detail = _worst(measure, i, values[i], slopes, eps)
                raise GradCheckError(
                    f"gradient of order {order} with respect to input {i} of shape {leaf.shape}, "
                    f"{leaf.dtype}: slope {got!r} along a random direction, measured {want!r}"
                    f"{detail}"
                )


def _gradient_of(
    function: Function, values: list[Tensor], numbers: list[int], source: random.Random
) -> Function:
    """The gradients of a random sum of the outputs, as a function of the same inputs."""
    with no_grad():
        outputs = _floating(function(*(Variable(x) for x in values)))
    weights = [Variable(_random_like(y._tensor(), source)) for y in outputs]

    def gradients(*arguments: Variable) -> tuple[Variable, ...]:
        with enable_grad():
            xs = [
                x if i not in numbers or x.requires_grad else Variable(x, requires_grad=True)
                for i, x in enumerate(arguments)
            ]
            results = zip(_floating(nested_transforms.differentiated_call(function, *xs)), weights)
            tracked = [(y, w) for y, w in results if y.requires_grad]
            if not tracked:
                return ()
            targets = [xs[i] for i in numbers]
            found = grad(
                [y for y, _ in tracked],
                targets,
                [w for _, w in tracked],
                create_graph=True,
                allow_unused=True,
            )
        return tuple(to_dense(g) for g in found if g is not None)

    return gradients


def _floating(result: Any) -> list[Variable]:
    listed = list(result) if isinstance(result, (tuple, list)) else [result]
    for y in listed:
        if not isinstance(y, Variable):
            raise GradError(
                f"[check_grads] the function returned {type(y).__name__}, not a Variable"
            )
    return [y for y in listed if y.dtype.kind in "fc"]


def _parts(dtype: DType) -> int:
    return 2 if dtype.kind == "c" else 1


def _flat(x: Array) -> list[float]:
    # The real numbers that an array holds: of complex ones both parts, one after the other.
    listed = x._tensor().reshape(-1).tolist()
    return [part for z in listed for part in (z.real, z.imag)] if x.dtype.kind == "c" else listed


def _tensor(values: list[float], like: Tensor) -> Tensor:
    held: list[Any] = values
    if like.dtype.kind == "c":
        held = [complex(*pair) for pair in zip(values[::2], values[1::2])]
    made = asarray(held, dtype=like.dtype, device=like.device, backend=like._backend)
    return made.reshape(like.shape)


def _random_like(x: Tensor, source: random.Random) -> Tensor:
    # Away from 0, so that no element goes unseen.
    count = x.size * _parts(x.dtype)
    return _tensor([source.choice((-1, 1)) * source.uniform(0.5, 1.5) for _ in range(count)], x)


def _slope(
    measure: Callable[[int, Tensor], float], i: int, x: Tensor, direction: Tensor, eps: float
) -> float:
    step = direction * eps
    return (measure(i, x + step) - measure(i, x - step)) / (2.0 * eps)


def _worst(
    measure: Callable[[int, Tensor], float], i: int, x: Tensor, slopes: list[float], eps: float
) -> str:
    if x.size > _LISTED:
        return ""
    errors, count = [], len(slopes)
    for k in range(count):
        unit = _tensor([float(j == k) for j in range(count)], x)
        measured = _slope(measure, i, x, unit, eps)
        error = abs(slopes[k] - measured)
        errors.append((math.inf if math.isnan(error) else error, k, measured))
    _, k, measured = max(errors)
    element, imaginary = divmod(k, _parts(x.dtype))
    part = ", imaginary part" if imaginary else ""
    found = f"gradient {slopes[k]!r}, measured {measured!r}"
    return f"; worst at element {element} (C order){part}: {found}"
