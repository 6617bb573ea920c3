"""Runs the samples of an OpInfo entry here and in PyTorch, and compares values and gradients."""

from __future__ import annotations

import random
import warnings
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.testing._internal.common_methods_invocations import op_db

import fl_autograd as ag
import fl_tensor as ft
from conventions import CONVENTIONS, Convention, Sample
from counterparts import COUNTERPARTS
from counterparts.calls import dtype_of

#: Of each operation at least so many samples are compared, however small the share.
FEWEST = 3
#: Relative and absolute bounds: a few roundings of sums of some hundred terms.
BOUNDS = {"float32": (3e-5, 3e-5), "complex64": (3e-5, 3e-5)}
BOUNDS |= {"float64": (1e-8, 1e-9), "complex128": (1e-8, 1e-9), "float16": (2e-3, 2e-3)}
BOUNDS |= {"bfloat16": (2e-2, 2e-2)}


def entry_name(entry: Any) -> str:
    """``name``, or ``name.variant``."""
    return f"{entry.name}.{entry.variant_test_name}" if entry.variant_test_name else entry.name


ENTRIES = {entry_name(entry): entry for entry in op_db}


@dataclass
class Tally:
    """What was compared in this run."""

    operations: set[str] = field(default_factory=set)
    outputs: int = 0
    gradients: int = 0
    conventions: int = 0
    refused: int = 0

    def __str__(self) -> str:
        return (
            f"{len(self.operations)} operations against PyTorch: {self.outputs:,} outputs and "
            f"{self.gradients:,} gradients agree; {self.conventions:,} samples differ by "
            f"convention; {self.refused:,} complex samples are refused"
        )


TALLY = Tally()


class DifferenceError(AssertionError):
    """Ours and PyTorch's result of one sample disagree."""


def dtypes_of(name: str) -> list[torch.dtype]:
    """The dtypes in which an operation is compared: floating and complex, else integers."""
    supported = ENTRIES[name].supported_dtypes("cpu")
    wanted = (torch.float32, torch.float64, torch.complex64, torch.complex128)
    found = [dtype for dtype in wanted if dtype in supported]
    return found or [dtype for dtype in (torch.int64,) if dtype in supported]


def samples(name: str, dtype: torch.dtype, share: float, seed: int) -> Iterator[Sample]:
    """The samples of an entry, or a share of them; the same for the same seed."""
    entry = ENTRIES[name]
    key = zlib.crc32(f"{name}/{dtype}".encode()) ^ seed
    torch.manual_seed(key)
    random.seed(key)
    np.random.seed(key % 2**32)
    differentiable = entry.supports_autograd and (dtype.is_floating_point or dtype.is_complex)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = list(entry.sample_inputs("cpu", dtype, requires_grad=differentiable))
    chosen = range(len(found))
    if share < 1:
        count = min(len(found), max(FEWEST, round(share * len(found))))
        chosen = sorted(random.Random(key).sample(chosen, count))  # type: ignore[assignment]
    for i in chosen:
        yield Sample(i, str(dtype).removeprefix("torch."), found[i])


def check(name: str, sample: Sample) -> None:
    """Compare one sample. Raises DifferenceError unless they agree or a convention explains it."""
    explained = [c for c in CONVENTIONS if c.explains(name, sample)]
    try:
        _compare(name, sample)
    except ft.DTypeError as error:
        if sample.dtype.startswith("complex"):
            TALLY.refused += 1
        else:
            _accept(explained, error)
    except Exception as error:
        _accept(explained, error)


def _accept(explained: list[Convention], error: Exception) -> None:
    if not explained:
        raise DifferenceError(f"{type(error).__name__}: {error}") from error
    TALLY.conventions += 1
    for convention in explained:
        convention.differed = True


def _compare(name: str, sample: Sample) -> None:
    entry, theirs = ENTRIES[name], sample.theirs
    leaves: list[tuple[Any, Any]] = []
    ours_in = [translated(a, leaves) for a in (theirs.input, *theirs.args)]
    options = {key: translated(value, leaves) for key, value in theirs.kwargs.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reference = entry.op(theirs.input, *theirs.args, **theirs.kwargs)
    result = COUNTERPARTS[name](*ours_in, **options)
    if result is NotImplemented:
        raise DifferenceError("these arguments have no counterpart")
    invariant: Callable[[Any], Any] = INVARIANTS.get(name, lambda x: x)
    expected, found = list(_flat(invariant(reference))), list(_flat(invariant(result)))
    if len(expected) != len(found):
        raise DifferenceError(f"{len(found)} outputs, PyTorch has {len(expected)}")
    for i, (a, b) in enumerate(zip(found, expected)):
        _same(f"output {i}", a, b)
        TALLY.outputs += 1
    _gradients(name, leaves, found, expected)


def translated(value: Any, leaves: list[tuple[Any, Any]]) -> Any:
    """PyTorch's argument as ours: tensors, dtypes, and containers of them."""
    if isinstance(value, torch.Tensor):
        made: Any = ft.asarray(value.numpy(force=True))
        if value.is_floating_point() or value.is_complex():
            made = ag.Variable(made, requires_grad=value.requires_grad)
            if value.requires_grad:
                leaves.append((made, value))
        return made
    if isinstance(value, torch.dtype):
        return value
    if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
        parts = [translated(part, leaves) for part in value]
        return type(value)(parts) if type(value) in (list, tuple) else tuple(parts)
    return tuple(value) if isinstance(value, torch.Size) else value


def _flat(result: Any) -> Iterator[Any]:
    if isinstance(result, (list, tuple)):
        for part in result:
            yield from _flat(part)
    else:
        yield result


def _array(x: Any) -> np.ndarray:
    if isinstance(x, torch.Tensor):
        return np.asarray((x.float() if x.dtype == torch.bfloat16 else x).numpy(force=True))
    if hasattr(x, "numpy"):
        x = x.detach() if hasattr(x, "detach") else x
        return np.asarray((x.astype("float32") if x.dtype.name == "bfloat16" else x).numpy())
    return np.asarray(x)


def _same(what: str, ours: Any, theirs: Any) -> None:
    a, b = _array(ours), _array(theirs)
    if a.shape != b.shape:
        raise DifferenceError(f"{what} has shape {a.shape}, PyTorch {b.shape}")
    if isinstance(theirs, torch.Tensor) and ours.dtype is not dtype_of(theirs.dtype):
        raise DifferenceError(f"{what} is {ours.dtype}, PyTorch {theirs.dtype}")
    if b.dtype.kind in "biu":
        if not np.array_equal(a, b):
            raise DifferenceError(f"{what} differs: {_excerpt(a)}, PyTorch {_excerpt(b)}")
        return
    rtol, atol = BOUNDS[ours.dtype.name] if hasattr(ours, "dtype") else BOUNDS["float64"]
    scale = np.max(np.abs(b), where=np.isfinite(b), initial=0.0)
    with np.errstate(all="ignore"):
        close = np.isclose(a, b, rtol=rtol, atol=atol * max(1.0, float(scale)), equal_nan=True)
    if not close.all():
        raise DifferenceError(
            f"{what} differs: {_excerpt(a[~close])}, PyTorch {_excerpt(b[~close])}"
        )


def _excerpt(x: np.ndarray) -> str:
    return np.array2string(x.reshape(-1)[:4], precision=9)


def _gradients(
    name: str, leaves: list[tuple[Any, Any]], found: list[Any], expected: list[Any]
) -> None:
    """Gradients of a weighted sum of all outputs. None, here or there, is a gradient of zeros."""
    if not leaves:
        return
    pairs = [
        (a, b)
        for a, b in zip(found, expected)
        if isinstance(b, torch.Tensor) and b.requires_grad and b.numel()
    ]
    if not pairs:
        return
    weights = [_weights(b) for _, b in pairs]
    theirs = torch.autograd.grad(
        [b for _, b in pairs], [leaf for _, leaf in leaves], weights, allow_unused=True
    )
    reached = [(a, w) for (a, _), w in zip(pairs, weights) if getattr(a, "requires_grad", False)]
    ours: Any = [None] * len(leaves)
    if reached:
        ours = ag.grad(
            [a for a, _ in reached],
            [leaf for leaf, _ in leaves],
            [ft.asarray(_array(w)).astype(a.dtype) for a, w in reached],
            allow_unused=True,
        )
    for i, (a, b) in enumerate(zip(ours, theirs)):
        leaf = leaves[i][1]
        b = torch.zeros_like(leaf) if b is None else b
        a = ft.asarray(_array(torch.zeros_like(leaf))) if a is None else a
        if name in SYMMETRIC:
            a, b = (g + _adjoint(g) for g in (a, b))
        _same(f"gradient {i}", a, b)
        TALLY.gradients += 1


def _weights(output: torch.Tensor) -> torch.Tensor:
    """Different factors for all elements: errors of sign or place cannot cancel."""
    places = torch.arange(output.numel(), dtype=torch.float64)
    factors = torch.cos(places) + (1j * torch.sin(2 * places) if output.is_complex() else 0)
    return factors.reshape(output.shape).to(output.dtype)


def _adjoint(x: Any) -> Any:
    return x.conj().mT if isinstance(x, torch.Tensor) else ft.conj(ft.swapaxes(x, -1, -2))


def _svd(result: Any) -> Any:
    u, s, vh = result
    k = s.shape[-1]
    return s, (u[..., :k] * s[..., None, :]) @ vh[..., :k, :]


def _eigh(result: Any) -> Any:
    w, v = result
    return w, (v * w[..., None, :]) @ _adjoint(v)


def _sorted(result: Any) -> Any:
    """Eigenvalues come in no particular order: power sums stand for all of them."""
    total = torch.sum if isinstance(result, torch.Tensor) else ft.sum
    options: dict[str, Any] = {"dim": -1} if isinstance(result, torch.Tensor) else {"axis": -1}
    return tuple(total(result**n, **options) for n in (1, 2, 3))


def _first(result: Any) -> Any:
    return result[0] if isinstance(result, tuple) else result


#: What of a result is determined, where the result itself is not.
INVARIANTS: dict[str, Callable[[Any], Any]] = {
    "linalg.svd": _svd,
    "linalg.eigh": _eigh,
    "linalg.eigvals": _sorted,
    "nn.functional.max_pool1d": _first,
    "nn.functional.max_pool2d": _first,
    "nn.functional.max_pool3d": _first,
    "median": _first,
    "nanmedian": _first,
}
#: Functions of one triangle of a matrix: only the symmetric part of their gradient is determined.
SYMMETRIC = {"cholesky", "linalg.cholesky", "linalg.eigh", "linalg.eigvalsh"}
