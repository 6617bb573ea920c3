"""A descriptor, computed by a kernel library between guard pages and compared with more digits."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fl_jit.kernels import (
    ConvDataGrad,
    Convolution,
    ConvWeightGrad,
    Epilogue,
    KernelLibrary,
    Layout,
    Matmul,
    OpDescriptor,
    Packed,
    Placement,
    Reorder,
    row_major,
)
from fl_jit.testing.guarded import Operand, Regions, Strided
from fl_tensor.dtypes import DType
from stress_test import epilogues, exact

#: Largest error of a sum, as a part of the size of its terms; half precision is summed in float32.
LIMITS = {"float32": 2e-6, "float64": 4e-15, "float16": 2e-6, "bfloat16": 2e-6}
#: What rounding to the nearest adds.
ROUNDING = {"float16": 2.0**-11, "bfloat16": 2.0**-8}
_ALIGNMENT = 64


class DisagreementError(AssertionError):
    """The result of a library is wrong."""


class Found(NamedTuple):
    """A result: its error as a part of what is allowed, "" or why there is no kernel, which one."""

    error: float
    refused: str
    about: str


def operands_of(descriptor: OpDescriptor) -> tuple[list[Placement], int]:
    """The operands in the order of the call, and how many of them are outputs, at the end."""
    if isinstance(descriptor, ConvWeightGrad):
        listed = [descriptor.x, descriptor.gradient, descriptor.bias, descriptor.out]
        return [p for p in listed if p is not None], 1 + (descriptor.bias is not None)
    assert isinstance(descriptor, Matmul | Convolution | ConvDataGrad)
    follows = descriptor.epilogue
    reads, writes = (follows.reads, follows.writes) if follows else ((), ())
    return [*descriptor[:2], *reads, descriptor.out, *writes], 1 + len(writes)


def has_elements(descriptor: OpDescriptor) -> bool:
    """Whether every operand has some."""
    return all(0 not in operand.shape for operand in operands_of(descriptor)[0])


def check(library: KernelLibrary, descriptor: OpDescriptor, seed: int, regions: Regions) -> Found:
    """Compute and compare. Raises DisagreementError; dies where a guard page is touched."""
    kernel = library.find(descriptor)
    if kernel is None:
        return Found(0.0, library.why_not(descriptor), "")
    draw = np.random.default_rng(seed)
    given, outputs = operands_of(descriptor)
    held = isinstance(descriptor, Matmul) and descriptor.accumulate
    placed: list[Operand] = []
    values: list[np.ndarray] = []
    layouts = [
        has if isinstance(has, Packed) or requested.strides is None else requested
        for requested, has in zip(given, kernel.operands, strict=True)
    ]
    for number, (requested, has) in enumerate(zip(given, layouts)):
        is_output = number >= len(given) - outputs
        at_end = bool(draw.random() < 0.7)
        if isinstance(has, Packed):
            operand = Operand(regions, has.nbytes, at_end, _ALIGNMENT)
            if not is_output:
                plain = row_major(requested.dtype, requested.shape)
                source = _filled(regions, plain, draw)
                _reorder(library, plain, has, source.first, operand.address)
                values.append(source.read())
            placed.append(operand)
            continue
        assert isinstance(has, Layout)
        if is_output and not (held and number == len(given) - outputs):
            strided = Strided(regions, has, at_end)
        else:
            strided = _filled(regions, has, draw, at_end)
            values.append(strided.read())
        placed.append(strided)
    before = [x.bytes.copy() for x in placed[: len(given) - outputs]]
    addresses = [x.first if isinstance(x, Strided) else x.address for x in placed]
    kernel(*addresses)
    for number, operand in enumerate(placed):
        name = f"operand {number} ({layouts[number]})"
        if not operand.surroundings_are_intact():
            raise DisagreementError(f"{kernel.about} wrote beside {name}")
        if number < len(before) and not np.array_equal(operand.bytes, before[number]):
            raise DisagreementError(f"{kernel.about} wrote to its input: {name}")
    worst = 0.0
    wanted = _exact(descriptor, values)
    for operand, requested, layout, (expected, terms) in zip(
        placed[-outputs:], given[-outputs:], layouts[-outputs:], wanted, strict=True
    ):
        if isinstance(layout, Packed):
            plain = row_major(requested.dtype, requested.shape)
            target = Strided(regions, plain, at_end=True)
            _reorder(library, layout, plain, operand.address, target.first)
            operand = target
        assert isinstance(operand, Strided)
        if not operand.gaps_are_intact():
            raise DisagreementError(f"{kernel.about} wrote between the elements of {layout}")
        found = operand.read()
        error = _error(found, expected, terms, kernel.about)
        worst = max(worst, error / limit(descriptor, layout.dtype))
    if not worst <= 1:
        raise DisagreementError(
            f"{kernel.about}: an error {worst:.3g} times as large as what is allowed"
        )
    regions.reclaim()
    return Found(worst, "", kernel.about)


def limit(descriptor: OpDescriptor, dtype: DType) -> float:
    """The largest error of a result of ``dtype``."""
    steps, has_curve = 1, False
    follows = getattr(descriptor, "epilogue", None)
    if follows is not None:
        steps += len(follows.program.instructions)
        has_curve = any(made.op in ("erf", "tanh") for made in follows.program.instructions)
    sums = LIMITS[str(dtype)] * (2 if has_curve else 1)
    return sums + steps * ROUNDING.get(str(dtype), 0.0)


def _filled(
    regions: Regions, layout: Layout, draw: np.random.Generator, at_end: bool = True
) -> Strided:
    operand = Strided(regions, layout, at_end)
    operand.write(draw.standard_normal(layout.shape))
    return operand


def _reorder(
    library: KernelLibrary, given: Placement, wanted: Placement, source: int, target: int
) -> None:
    kernel = library.find(Reorder(given, wanted))
    if kernel is None:
        why = library.why_not(Reorder(given, wanted))
        raise DisagreementError(f"a layout that it chose cannot be reordered: {why}")
    kernel(source, target)


def _exact(descriptor: OpDescriptor, values: list[np.ndarray]) -> list[exact.Exact]:
    if isinstance(descriptor, ConvWeightGrad):
        found = [exact.convolution_weights(descriptor, *values)]
        if descriptor.bias is not None:
            found.insert(0, exact.convolution_bias(values[1]))
        return found
    assert isinstance(descriptor, Matmul | Convolution | ConvDataGrad)
    x, y, *rest = values
    held = rest.pop() if isinstance(descriptor, Matmul) and descriptor.accumulate else None
    if isinstance(descriptor, Matmul):
        product = exact.matmul(descriptor, x, y, held)
    elif isinstance(descriptor, Convolution):
        product = exact.convolution(descriptor, x, y)
    else:
        product = exact.convolution_data(descriptor, x, y)
    if descriptor.epilogue is None:
        return [product]
    return _followed(descriptor, descriptor.epilogue, product, rest)


def _followed(
    descriptor: Matmul | Convolution | ConvDataGrad,
    follows: Epilogue,
    product: exact.Exact,
    reads: list[np.ndarray],
) -> list[exact.Exact]:
    # Its axes are those of the result, channels last; so are those of what it gives beside.
    def columns_last(array: np.ndarray) -> np.ndarray:
        return array if isinstance(descriptor, Matmul) else np.moveaxis(array, 1, -1)

    given = epilogues.Number(*(columns_last(np.asarray(each)) for each in product))
    first, *others = (
        (np.broadcast_to(value, follows.sizes), np.broadcast_to(size, follows.sizes))
        for value, size in epilogues.exact(follows, given, reads)
    )
    if not isinstance(descriptor, Matmul):
        first = np.moveaxis(first[0], -1, 1), np.moveaxis(first[1], -1, 1)
    return [first, *others]


def _error(found: np.ndarray, expected: np.ndarray, terms: np.ndarray, about: str) -> float:
    if not found.size:
        return 0.0
    if not np.isfinite(found).all():
        raise DisagreementError(f"{about}: {(~np.isfinite(found)).sum()} elements are no numbers")
    size = max(float(terms.max()), float(np.abs(expected).max()))
    return float(np.abs(found - expected).max() / size) if size else float(np.abs(found).max())
