"""Random problems are computed right by the generated kernels, and the stress would see it if they
were not: wrong numbers, writes beside an operand, reads past its end."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from stress_test import check, draws, exact, stress

from fl_jit.kernels import KernelLibrary, Layout, Matmul, UnsupportedError, row_major
from fl_jit.testing.guarded import Regions, Strided
from fl_tensor.dtypes import float32

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="mprotect of Linux")
#: Problems of each kind that every run of the tests computes.
SLICE = 150
#: Part of them that has elements, and is computed.
COMPUTED = 0.98


def generated():
    from fl_jit.kernels.llvm.library import GeneratedKernels

    return GeneratedKernels()


@pytest.mark.parametrize("kind", draws.KINDS)
def test_random_problems_are_computed_right(kind):
    report = stress.run(generated(), kind, SLICE)
    assert not report.failures, str(report)
    assert report.computed > SLICE * COMPUTED, str(report)


class Plain(KernelLibrary):
    """Products by NumPy, on addresses, with a fault."""

    name = "plain"

    def __init__(self, fault):
        super().__init__()
        self._fault = fault

    def report(self):
        return {}

    def prepare(self, descriptor):
        given = (descriptor.x, descriptor.y, descriptor.out)
        if any(x.dtype is not float32 or x.strides is None for x in given):
            raise UnsupportedError("float32 by strides alone")
        if descriptor.accumulate:
            raise UnsupportedError("no sums")

        def kernel(x_address, y_address, out_address):
            x, y = array(x_address, descriptor.x), array(y_address, descriptor.y)
            out = array(out_address, descriptor.out)
            out[...] = x @ y
            self._fault(descriptor, x, out, out_address)

        kernel.operands = (descriptor.x, descriptor.y, descriptor.out)
        kernel.about = "plain"
        return kernel


def array(address, layout):
    strides = tuple(4 * s for s in layout.strides)
    about = {"data": (address, False), "shape": layout.shape, "strides": strides}
    holder = type("Holder", (), {"__array_interface__": about | {"typestr": "<f4", "version": 3}})
    return np.asarray(holder())


def none(descriptor, x, out, address):
    pass


def wrong_number(descriptor, x, out, address):
    out.flat[-1] *= 1 + 1e-4
    out.flat[-1] += 1e-4


def writes_beside(descriptor, x, out, address):
    low = sum(min(0, (n - 1) * s) for n, s in zip(descriptor.out.shape, descriptor.out.strides))
    high = sum(max(0, (n - 1) * s) for n, s in zip(descriptor.out.shape, descriptor.out.strides))
    for place in (low - 1, high + 1):  # one of them is there
        if (address + 4 * place) // 4096 == (address + 4 * (low if place < 0 else high)) // 4096:
            array(address + 4 * place, row_major(float32, (1,)))[0] = 0


def writes_to_an_input(descriptor, x, out, address):
    x[...] += 1


def writes_between(descriptor, x, out, address):
    if descriptor.out.shape[-1] > 1 and descriptor.out.strides[-1] > 1:
        array(address + 4, row_major(float32, (1,)))[0] = 0


def reads_past_the_end(descriptor, x, out, address):
    end = sum(max(0, (n - 1) * s) for n, s in zip(descriptor.out.shape, descriptor.out.strides))
    float(array(address + 4 * end + 4, row_major(float32, (1,)))[0])


def test_a_library_without_faults_passes():
    report = stress.run(Plain(none), "gemm", 200, may_refuse=True)
    assert report.computed > 50 and not report.failures


@pytest.mark.parametrize(
    "fault,what",
    [
        (wrong_number, "as large as what is allowed"),
        (writes_beside, "wrote beside"),
        (writes_to_an_input, "wrote to its input"),
        (writes_between, "wrote between the elements"),
    ],
)
def test_faults_are_seen(fault, what):
    report = stress.run(Plain(fault), "gemm", 200, may_refuse=True)
    assert sum(what in failure for _, failure in report.failures) > 1


def test_a_refusal_is_a_failure_where_there_are_elements():
    report = stress.run(Plain(none), "gemm", 50)
    refusals = [what for _, what in report.failures if what.startswith("refused: ")]
    assert refusals and refusals == [what for _, what in report.failures]
    assert all("0x" not in reason.split(":")[0] for _, reason in report.refused)


class Mistaken(KernelLibrary):
    """The generated kernels, which takes one instruction of each epilogue for another."""

    name, has_epilogues = "mistaken", True

    def __init__(self, wanted, made):
        super().__init__()
        self._generated, self._wanted, self._made = generated(), wanted, made

    def report(self):
        return {}

    def prepare(self, descriptor):
        follows = getattr(descriptor, "epilogue", None)
        if follows is None:
            raise UnsupportedError("epilogues alone")
        made = [
            each._replace(op=self._made) if each.op == self._wanted else each
            for each in follows.program.instructions
        ]
        program = dataclasses.replace(follows.program, instructions=tuple(made))
        return self._generated.prepare(
            descriptor._replace(epilogue=follows._replace(program=program))
        )


@pytest.mark.parametrize("kind", draws.KINDS)
@pytest.mark.parametrize(
    "wanted,made", [("add", "subtract"), ("maximum", "minimum"), ("erf", "tanh")]
)
def test_faults_of_epilogues_are_seen(kind, wanted, made):
    report = stress.run(Mistaken(wanted, made), kind, 100, may_refuse=True)
    assert report.computed and sum("as large as" in what for _, what in report.failures) > 1


def test_a_read_past_the_end_ends_the_process():
    code = "import sys; sys.path[:0] = sys.argv[1:]; import test_stress as t\n"
    code += "t.stress.run(t.Plain(t.reads_past_the_end), 'gemm', 20, may_refuse=True)"
    command = [sys.executable, "-c", code, str(Path(__file__).parent)]
    assert subprocess.run(command, capture_output=True).returncode < 0


def test_operands_lie_against_a_guard():
    layout = Layout(float32, (3, 5), (-7, 1))
    at_end, at_begin = (Strided(Regions(), layout, end) for end in (True, False))
    assert (at_end.address + 4 * (2 * 7 + 5)) % 4096 == 0 and at_begin.address % 4096 == 0
    assert at_end.first == at_end.address + 4 * 14
    assert np.isnan(at_end.read()).all()
    at_end.write(np.arange(15.0).reshape(3, 5))
    assert at_end.gaps_are_intact() and at_end.surroundings_are_intact()
    assert at_end.read()[2, 4] == 14, "looking changes nothing"


def test_exact_sums_of_a_window():
    descriptor = next(
        p
        for p in (draws.descriptor("convolution", 0, number) for number in range(1000))
        if type(p).__name__ == "Convolution" and 0 not in p.out.shape and p.groups > 1
    )
    rng = np.random.default_rng(0)
    x, w = rng.random(descriptor.x.shape), rng.random(descriptor.w.shape)
    found, _ = exact.convolution(descriptor, x, w)
    w = w.reshape(descriptor.groups, -1, *w.shape[-len(x.shape) + 1 :])
    for place in list(np.ndindex(*found.shape))[:: max(found.size // 50, 1)]:
        assert found[place] == pytest.approx(by_hand(descriptor, x, w, place))


def by_hand(descriptor, x, w, place):
    batch, feature, *at = place
    group, feature = divmod(feature, w.shape[1])
    total = 0.0
    for channel, *tap in np.ndindex(*w.shape[2:]):
        parts = zip(at, tap, descriptor.stride, descriptor.dilation, descriptor.padding)
        where = [o * s + t * d - low for o, t, s, d, (low, _) in parts]
        if all(0 <= i < n for i, n in zip(where, x.shape[2:])):
            value = x[(batch, group * w.shape[2] + channel, *where)]
            total += value * w[(group, feature, channel, *tap)]
    return total


def test_every_option_is_drawn():
    products = [draws.descriptor("gemm", 0, number) for number in range(400)]
    assert {type(p) for p in products} == {Matmul}
    for what in ("accumulate", "epilogue"):
        assert 20 < sum(bool(getattr(p, what)) for p in products) < 380
    drawn = [draws.descriptor("convolution", 0, number) for number in range(400)]
    names = {type(p).__name__ for p in drawn}
    assert names == {"Convolution", "ConvDataGrad", "ConvWeightGrad"}
    assert {len(check.operands_of(p)[0][0].shape) for p in drawn} == {3, 4, 5}
    for what in ("stride", "dilation"):
        assert 40 < sum(max(getattr(p, what)) > 1 for p in drawn) < 360
    assert 40 < sum(any(low != high for low, high in p.padding) for p in drawn)
    assert 20 < sum(p.groups > 1 for p in drawn)
    followed = [p.epilogue for p in [*products, *drawn] if getattr(p, "epilogue", None)]
    for op in ("add", "multiply", "maximum", "erf", "tanh"):
        assert 20 < sum(op in {made.op for made in p.program.instructions} for p in followed)
    assert 20 < sum(len(p.writes) for p in followed) < len(followed)
    kinds = {type(p).__name__ for p in drawn if getattr(p, "epilogue", None)}
    assert kinds == {"Convolution", "ConvDataGrad"}
    assert any(0 in p.out.shape for p in drawn) and any(0 in p.out.shape for p in products)
