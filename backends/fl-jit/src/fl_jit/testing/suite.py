"""The tests that a kernel library has to pass."""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

import numpy as np
import pytest

from fl_jit.kernels import (
    Epilogue,
    Kernel,
    KernelLibrary,
    Layout,
    Matmul,
    Packed,
    Placement,
    Reorder,
    UnsupportedError,
    row_major,
)
from fl_jit.kernels.codegen import Builder
from fl_jit.testing.descriptors import (
    OPERATIONS,
    TOLERANCES,
    Array,
    Operation,
    inputs_of,
    random_descriptor,
    reference,
)
from fl_jit.testing.guarded import Operand, Regions, Strided
from fl_tensor.dtypes import DType, bfloat16, float16, float32, float64

_DTYPES = (float32, float64, bfloat16, float16)
#: Alignment of packed operands in bytes, as memory managers give it.
_ALIGNMENT = 64


class KernelLibrarySuite:
    """Tests of a kernel library. Derive a class, and pytest runs them::

        class TestMine(KernelLibrarySuite):
            make = MyLibrary
            required = {Matmul: (float32,)}

    make       returns the library: its class, or a function without arguments
    required   operations, and for each the dtypes of which it computes at least a quarter of
               the random descriptors. Whatever it computes has to be right
    count      random descriptors of each operation and dtype

    The tests need Linux. A kernel that reads or writes past the end of an operand ends the process:
    ``python -X faulthandler -m pytest`` then shows the test.
    """

    make: Any
    required: dict[type[Operation], tuple[DType, ...]] = {Matmul: (float32,)}
    count = 40

    @pytest.fixture
    def library(self) -> KernelLibrary:
        """The library under test."""
        library: KernelLibrary = type(self).make()
        return library

    @pytest.mark.parametrize("dtype", _DTYPES, ids=str)
    @pytest.mark.parametrize("operation", OPERATIONS, ids=lambda kind: kind.__name__)
    def test_results(
        self, library: KernelLibrary, operation: type[Operation], dtype: DType
    ) -> None:
        """Random descriptors agree with float64; nothing else is read or written."""
        regions, computed = Regions(), 0
        for seed in range(self.count):
            descriptor = random_descriptor(operation, seed, dtype)
            kernel = library.find(descriptor)
            if kernel is not None:
                computed += 1
                check(library, kernel, descriptor, seed, regions)
                regions.reclaim()
        if dtype in self.required.get(operation, ()):
            assert computed >= self.count / 4, (
                f"{computed} of {self.count} descriptors were computed; the last refusal: "
                f"{library.why_not(descriptor)}"
            )

    def test_unsupported_descriptors(self, library: KernelLibrary) -> None:
        """``prepare`` raises UnsupportedError; ``find`` returns None and ``why_not`` the reason."""

        class Unknown(NamedTuple):
            x: Placement

        descriptor: Any = Unknown(row_major(float32, (2, 2)))
        with pytest.raises(UnsupportedError):
            library.prepare(descriptor)
        assert library.find(descriptor) is None and library.why_not(descriptor)

    def test_epilogues(self, library: KernelLibrary) -> None:
        """A library without ``has_epilogues`` gets none; one with them computes this one."""
        place = row_major(float32, (64, 64))
        build = Builder(2)
        build.output(build("negative", build.input(float32, "sc")), "sc")
        follows = Epilogue(build.program(), (64, 64), ((64, 1), (64, 1)))
        descriptor = Matmul(place, place, place, epilogue=follows)
        kernel = library.find(descriptor)
        assert (kernel is not None) == library.has_epilogues, library.why_not(descriptor)
        if kernel is not None:
            check(library, kernel, descriptor, 0, Regions(), sign=-1.0)

    def test_equal_descriptors_share_a_kernel(self, library: KernelLibrary) -> None:
        """The second request is answered from the cache; ``forget`` clears it."""
        descriptor = self._computed(library)
        kernel = library.find(descriptor)
        assert library.find(descriptor._replace()) is kernel
        library.forget()
        assert library.find(descriptor) is not kernel

    def test_two_threads(self, library: KernelLibrary) -> None:
        """Calls of one kernel overlap, each on operands of its own."""
        descriptor = self._computed(library)
        kernel = library.find(descriptor)
        assert kernel is not None
        failures: list[BaseException] = []

        def work(seed: int) -> None:
            try:
                regions = Regions()
                for _ in range(50):
                    check(library, kernel, descriptor, seed, regions)
                    regions.reclaim()
            except BaseException as error:
                failures.append(error)

        team = [threading.Thread(target=work, args=(seed,)) for seed in range(2)]
        for thread in team:
            thread.start()
        for thread in team:
            thread.join()
        if failures:
            raise failures[0]

    def test_report(self, library: KernelLibrary) -> None:
        """``fl-jit info`` prints the name and the report."""
        assert library.name
        report = library.report()
        assert all(isinstance(text, str) for pair in report.items() for text in pair)

    def _computed(self, library: KernelLibrary) -> Operation:
        # A descriptor that the library supports.
        for operation, dtypes in self.required.items():
            for seed in range(self.count):
                descriptor = random_descriptor(operation, seed, dtypes[0])
                if library.find(descriptor) is not None:
                    return descriptor
        pytest.skip("no required operation is supported")


def check(
    library: KernelLibrary,
    kernel: Kernel,
    descriptor: Operation,
    seed: int,
    regions: Regions,
    sign: float = 1.0,
) -> None:
    """Call ``kernel`` between guard pages. Raises AssertionError if a result is wrong, or if
    anything but the elements of the result was written. ``sign`` is that of an epilogue."""
    rng = np.random.default_rng(seed)
    requested = [*inputs_of(descriptor), descriptor.out]
    placements = [
        requested[i] if requested[i].strides is not None else kernel.operands[i] for i in range(3)
    ]
    placed: list[Operand] = []
    values: list[Array] = []
    for i in range(2):
        numbers = rng.standard_normal(requested[i].shape)
        at_end = bool(rng.random() < 0.7)
        operand, found = _filled(library, placements[i], numbers, regions, at_end)
        placed.append(operand)
        values.append(found)
    out = placements[2]
    placed.append(_empty(out, regions, bool(rng.random() < 0.7)))
    before = [operand.bytes.copy() for operand in placed[:2]]
    kernel(*[each.first if isinstance(each, Strided) else each.address for each in placed])
    about = f"{library.name}, {kernel.about}, {descriptor}"
    for number, operand in enumerate(placed):
        assert operand.surroundings_are_intact(), f"operand {number} was overrun: {about}"
    for number, old in enumerate(before):
        assert np.array_equal(placed[number].bytes, old), f"input {number} was written: {about}"
    result = placed[-1]
    if not isinstance(result, Strided):
        plain = row_major(out.dtype, descriptor.out.shape)
        result = Strided(regions, plain, at_end=True)
        _reorder(library, out, plain, placed[-1].address, result.first)
    assert result.gaps_are_intact(), f"gaps between elements of the result were written: {about}"
    expected = sign * reference(descriptor, *values)
    terms = reference(descriptor, *map(np.abs, values))
    error = np.abs(result.read() - expected)
    allowed = TOLERANCES[str(out.dtype)] * terms + np.finfo(np.float32).tiny
    wrong = ~(error <= allowed)  # NaN is wrong
    assert not wrong.any(), (
        f"{wrong.sum()} of {wrong.size} elements are wrong, the first at "
        f"{tuple(int(i) for i in np.argwhere(wrong)[0])}: {about}"
    )


def _filled(
    library: KernelLibrary, placement: Placement, numbers: Array, regions: Regions, at_end: bool
) -> tuple[Operand, Array]:
    # An input, and its elements after rounding.
    if isinstance(placement, Layout):
        strided = Strided(regions, placement, at_end)
        strided.write(numbers)
        return strided, strided.read()
    plain = row_major(placement.dtype, numbers.shape)
    source = Strided(regions, plain, at_end)
    source.write(numbers)
    packed = _empty(placement, regions, at_end)
    _reorder(library, plain, placement, source.first, packed.address)
    return packed, source.read()


def _empty(placement: Placement, regions: Regions, at_end: bool) -> Operand:
    if isinstance(placement, Packed):
        return Operand(regions, placement.nbytes, at_end, _ALIGNMENT)
    return Strided(regions, placement, at_end)


def _reorder(
    library: KernelLibrary, given: Placement, wanted: Placement, source: int, target: int
) -> None:
    kernel = library.find(Reorder(given, wanted))
    assert kernel is not None, (
        f"{library.name} chose a layout and cannot convert it: "
        f"{library.why_not(Reorder(given, wanted))}"
    )
    kernel(source, target)
