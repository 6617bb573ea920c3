"""``ft.fft``: discrete Fourier transforms.

``norm`` says which direction is divided: ``"backward"`` the inverse by n, ``"forward"`` the forward
one by n, ``"ortho"`` both by sqrt(n). ``n`` (``s`` for several axes) is the length of the longer,
unhalved side of a transform: elements beyond it are cut off, missing ones are zeros. Complex
transforms of real arrays take them as complex. float32 gives complex64, float64 complex128. The
transforms need a backend with the capability "fft" (CapabilityError otherwise).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from fl_tensor import arguments, dtypes, functions
from fl_tensor.arguments import axis_of
from fl_tensor.dispatch import frontend
from fl_tensor.dispatch.frontend import ArrayLike, operand, run
from fl_tensor.errors import ArgumentError, DTypeError, ShapeError
from fl_tensor.functions import creation, shaping
from fl_tensor.functions.creation import DeviceLike, DTypeLike

__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]


def __dir__() -> list[str]:
    return __all__


# ---- one axis ------------------------------------------------------------------------------------


def fft(x: ArrayLike, n: int | None = None, axis: int = -1, norm: str = "backward") -> Any:
    """Sum over j of ``x[j] exp(-2 pi i j k / n)`` along ``axis``, complex."""
    return _along("fft", _as_complex("fft", x), n, axis, norm)


def ifft(x: ArrayLike, n: int | None = None, axis: int = -1, norm: str = "backward") -> Any:
    """Inverse of ``fft``."""
    return _along("ifft", _as_complex("ifft", x), n, axis, norm)


def rfft(x: ArrayLike, n: int | None = None, axis: int = -1, norm: str = "backward") -> Any:
    """The first ``n // 2 + 1`` elements of ``fft`` of a real ``x``; the others are their
    conjugates."""
    return _along("rfft", _as_real("rfft", x), n, axis, norm)


def irfft(x: ArrayLike, n: int | None = None, axis: int = -1, norm: str = "backward") -> Any:
    """Inverse of ``rfft``: ``n`` real elements, by default ``2 (m - 1)`` from m."""
    return _doubled("irfft", _as_complex("irfft", x), n, axis, norm)


def hfft(x: ArrayLike, n: int | None = None, axis: int = -1, norm: str = "backward") -> Any:
    """``fft`` of a Hermitian signal, given its first ``n // 2 + 1`` elements: ``n`` real elements,
    by default ``2 (m - 1)`` from m."""
    return _doubled("hfft", _as_complex("hfft", x), n, axis, norm)


def ihfft(x: ArrayLike, n: int | None = None, axis: int = -1, norm: str = "backward") -> Any:
    """Inverse of ``hfft``: the first ``n // 2 + 1`` elements of ``ifft`` of a real ``x``."""
    return _along("ihfft", _as_real("ihfft", x), n, axis, norm)


# ---- several axes --------------------------------------------------------------------------------

Sizes = Sequence[int] | None


def fftn(x: ArrayLike, s: Sizes = None, axes: Sizes = None, norm: str = "backward") -> Any:
    """``fft`` along several axes, by default all; ``s`` gives a length for each of ``axes``."""
    return _along_several("fftn", _as_complex("fftn", x), s, axes, norm)


def ifftn(x: ArrayLike, s: Sizes = None, axes: Sizes = None, norm: str = "backward") -> Any:
    """Inverse of ``fftn``."""
    return _along_several("ifftn", _as_complex("ifftn", x), s, axes, norm)


def rfftn(x: ArrayLike, s: Sizes = None, axes: Sizes = None, norm: str = "backward") -> Any:
    """``rfft`` of a real ``x`` along the last of ``axes`` (by default all), ``fft`` along the
    others."""
    return _along_several("rfftn", _as_real("rfftn", x), s, axes, norm)


def irfftn(x: ArrayLike, s: Sizes = None, axes: Sizes = None, norm: str = "backward") -> Any:
    """Inverse of ``rfftn``: real, by default ``2 (m - 1)`` elements from m along the last axis."""
    x = _as_complex("irfftn", x)
    along, sizes = _axes("irfftn", x, s, axes)
    *rest, last = sizes
    last = 2 * (last - 1) if s is None else last
    x = _resized("irfftn", x, along, (*rest, _half("irfftn", last)))
    return _scaled("irfftn", run("irfftn", x, x._raw, last, along), (*rest, last), norm)


# ---- the last two axes ---------------------------------------------------------------------------


def fft2(x: ArrayLike, s: Sizes = None, axes: Sizes = (-2, -1), norm: str = "backward") -> Any:
    """``fftn`` along two axes, by default the last two."""
    return fftn(x, s, axes, norm)


def ifft2(x: ArrayLike, s: Sizes = None, axes: Sizes = (-2, -1), norm: str = "backward") -> Any:
    """Inverse of ``fft2``."""
    return ifftn(x, s, axes, norm)


def rfft2(x: ArrayLike, s: Sizes = None, axes: Sizes = (-2, -1), norm: str = "backward") -> Any:
    """``rfftn`` of a real ``x`` along two axes, by default the last two."""
    return rfftn(x, s, axes, norm)


def irfft2(x: ArrayLike, s: Sizes = None, axes: Sizes = (-2, -1), norm: str = "backward") -> Any:
    """Inverse of ``rfft2``."""
    return irfftn(x, s, axes, norm)


# ---- frequencies ---------------------------------------------------------------------------------


def fftfreq(n: int, *, d: float = 1.0, dtype: DTypeLike = None, device: DeviceLike = None) -> Any:
    """The frequencies of ``fft``'s elements in cycles per unit, for samples ``d`` units apart:
    0, 1, ..., -1 divided by ``n d``."""
    half = (_length("fftfreq", n) - 1) // 2 + 1
    parts = [creation.arange(half, device=device), creation.arange(half - n, 0, device=device)]
    return _frequencies(functions.concatenate(parts, 0), n, d, dtype)


def rfftfreq(n: int, *, d: float = 1.0, dtype: DTypeLike = None, device: DeviceLike = None) -> Any:
    """The frequencies of ``rfft``'s elements: 0, 1, ..., n // 2 divided by ``n d``."""
    count = _length("rfftfreq", n) // 2 + 1
    return _frequencies(creation.arange(count, device=device), n, d, dtype)


def fftshift(x: ArrayLike, axes: int | Sequence[int] | None = None) -> Any:
    """``x`` with the zero frequency moved from the front to the middle of the given axes, or of
    all."""
    return _shifted("fftshift", x, axes, +1)


def ifftshift(x: ArrayLike, axes: int | Sequence[int] | None = None) -> Any:
    """Inverse of ``fftshift``."""
    return _shifted("ifftshift", x, axes, -1)


# ---- how -----------------------------------------------------------------------------------------

#: Powers of the length by which forward transforms, as the operations give them, are divided and
#: inverse ones multiplied.
_NORMS = {"backward": 0.0, "ortho": 0.5, "forward": 1.0}
_INVERSE = frozenset({"ifft", "irfft", "ihfft", "ifftn", "irfftn"})


def _as_real(op: str, x: ArrayLike) -> Any:
    # Floating, on a backend that has the complex numbers of the result.
    x = operand(op, "F", x)
    frontend.complex_for(op, x, "fft")
    return x


def _as_complex(op: str, x: ArrayLike) -> Any:
    x = operand(op, "F", x)
    return frontend.cast(x, frontend.complex_for(op, x, "fft"))


def _along(op: str, x: Any, n: int | None, axis: int, norm: str) -> Any:
    axis = axis_of(op, axis, x.shape)
    size = x.shape[axis] if n is None else n
    x = _resized(op, x, (axis,), (size,))
    return _scaled(op, run(op, x, x._raw, axis), (size,), norm)


def _doubled(op: str, x: Any, n: int | None, axis: int, norm: str) -> Any:
    axis = axis_of(op, axis, x.shape)
    size = 2 * (x.shape[axis] - 1) if n is None else n
    x = _resized(op, x, (axis,), (_half(op, size),))
    return _scaled(op, run(op, x, x._raw, size, axis), (size,), norm)


def _along_several(op: str, x: Any, s: Sizes, axes: Sizes, norm: str) -> Any:
    along, sizes = _axes(op, x, s, axes)
    x = _resized(op, x, along, sizes)
    return _scaled(op, run(op, x, x._raw, along), sizes, norm)


def _axes(op: str, x: Any, s: Sizes, axes: Sizes) -> tuple[tuple[int, ...], tuple[int, ...]]:
    # The axes in the order given, the last of which may be a halved one, and the length of each.
    if axes is None:
        if s is not None:
            raise ArgumentError(f"[{op}] s {s!r} without axes: say which axes have these lengths")
        axes = range(x.ndim)
    along = tuple(axis_of(op, a, x.shape) for a in arguments.ints_of(op, axes, "axes"))
    if len(set(along)) != len(along):
        raise ShapeError(f"[{op}] x {x.shape}: axes {tuple(axes)} name one axis twice")
    if not along and op in ("rfftn", "irfftn"):
        raise ShapeError(f"[{op}] x {x.shape}: there is no axis to halve")
    sizes = tuple(x.shape[a] for a in along) if s is None else arguments.ints_of(op, s, "s")
    if len(sizes) != len(along):
        raise ShapeError(f"[{op}] s {sizes} gives {len(sizes)} lengths for axes {along}")
    return along, sizes


def _half(op: str, size: int) -> int:
    # Elements of the halved side of a transform of that length.
    return _length(op, size) // 2 + 1


def _length(op: str, n: int) -> int:
    number = arguments.int_of(op, n, "n")
    if number < 1:
        raise ShapeError(f"[{op}] a transform of length {number}: expected at least one element")
    return number


def _resized(op: str, x: Any, axes: tuple[int, ...], sizes: tuple[int, ...]) -> Any:
    # Elements beyond a size are cut off, missing ones are zeros.
    wanted = list(x.shape)
    for axis, size in zip(axes, sizes, strict=True):
        wanted[axis] = _length(op, size)
    kept = tuple(min(n, size) for n, size in zip(x.shape, wanted, strict=True))
    none = (0,) * x.ndim
    if kept != x.shape:
        x = run("slice", x, x._raw, none, kept, (1,) * x.ndim)
    if kept != tuple(wanted):
        missing = tuple(size - n for n, size in zip(kept, wanted, strict=True))
        x = run("pad", x, x._raw, none, missing, none, 0)
    return x


def _scaled(op: str, x: Any, sizes: tuple[int, ...], norm: str) -> Any:
    norm = arguments.choice_of(op, norm, "norm", _NORMS)
    power = _NORMS[norm] if op in _INVERSE else -_NORMS[norm]
    return x if power == 0 else functions.multiply(x, float(math.prod(sizes)) ** power)


def _frequencies(numbers: Any, n: int, d: float, dtype: DTypeLike) -> Any:
    target = dtypes.default_float() if dtype is None else dtypes.dtype(dtype)
    if not target.is_floating:
        raise DTypeError(f"[fftfreq] dtype {target}: frequencies are real floating numbers")
    length = n * arguments.float_of("fftfreq", d, "d")
    return functions.divide(frontend.cast(numbers, target), length)


def _shifted(op: str, x: ArrayLike, axes: int | Sequence[int] | None, sign: int) -> Any:
    x = operand(op, "A", x)
    places = arguments.axes(op, axes, x.shape)
    return shaping.roll(x, [sign * (x.shape[axis] // 2) for axis in places], places)
