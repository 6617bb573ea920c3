"""Plans that hand elementwise work on a product to the kernel library of the product."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import fl_tensor as ft
from fl_jit import JitBackend
from fl_jit.kernels import (
    Convolution,
    KernelLibrary,
    Layout,
    Matmul,
    OpDescriptor,
    UnsupportedError,
    registry,
)
from fl_jit.kernels.llvm import epilogue
from fl_jit.passes import profitability
from fl_jit.steps.donation import Values
from fl_jit.steps.fused_epilogue import FusedEpilogueStep
from fl_tensor.backends.numpy import conv

BLOCK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, *[ctypes.c_int64] * 5)


def array(address: int, layout: Layout) -> np.ndarray:
    """The memory at ``address``."""
    memory = (ctypes.c_float * layout.elements).from_address(address)
    strides = [4 * step for step in layout.strides]
    return np.lib.stride_tricks.as_strided(np.frombuffer(memory, np.float32), layout.shape, strides)


class Solved:
    """A product by NumPy, then its epilogue on blocks, the last one first."""

    about = "blocks"

    def __init__(self, descriptor: OpDescriptor) -> None:
        self.descriptor, self.made = descriptor, epilogue.prepare(descriptor)
        beside = (self.made.reads, self.made.writes) if self.made else ((), ())
        y = descriptor.y if isinstance(descriptor, Matmul) else descriptor.w
        self.operands = (descriptor.x, y, *beside[0], descriptor.out, *beside[1])

    def __call__(self, *addresses: int) -> None:
        read = len(self.made.reads) if self.made else 0
        x, y, out = (array(addresses[i], self.operands[i]) for i in (0, 1, 2 + read))
        if isinstance(self.descriptor, Matmul):
            columns, height = out.shape[-1], out.shape[-2]
            batch = out.shape[:-2]
            x, y = (np.broadcast_to(v, (*batch, *v.shape[-2:])) for v in (x, y))
        else:
            columns, height = out.shape[1], out.size // out.shape[1]
            batch = ()
            _, _, _, stride, padding, dilation, groups = self.descriptor[:7]
            ones = (1,) * len(stride)
            out[...] = conv.convolve(x, y, stride, padding, ones, dilation, groups, out.shape)
        if self.made is not None:
            place = addresses[2 + read]
            following = [place, *addresses[2 : 2 + read], place, *addresses[3 + read :]]
            words = (ctypes.c_int64 * len(self.made.fields))(*self.made.fields)
            scratch = np.zeros(self.made.scratch(1) + 64, np.uint8)
            self.made.write(words, 0, following, -(-scratch.ctypes.data // 64) * 64)
            run = BLOCK(self.made.address)
        for number, which in reversed(list(enumerate(np.ndindex(*batch)))):
            for i in reversed(range(0, height, 13)):
                some = slice(i, min(i + 13, height))
                if isinstance(self.descriptor, Matmul):
                    out[which][some] = x[which][some] @ y[which]
                for j in reversed(range(0, columns if self.made else 0, 48)):
                    part = number * height + i, some.stop - i, j, min(48, columns - j)
                    run(ctypes.addressof(words), *part, 0)


class Blocks(KernelLibrary):
    """Products and convolutions forward, with epilogues while it ``takes`` them."""

    name = "blocks"
    has_epilogues = True
    takes = True

    def __init__(self) -> None:
        super().__init__()
        self.solved: list[OpDescriptor] = []

    def find(self, descriptor):
        kernel = super().find(descriptor)
        if kernel is not None:
            self.solved.append(descriptor)
        return kernel

    def prepare(self, descriptor: OpDescriptor) -> Solved:
        if not isinstance(descriptor, Matmul | Convolution):
            raise UnsupportedError("neither")
        if descriptor.epilogue is not None and not self.takes:
            raise UnsupportedError("no epilogues today")
        return Solved(descriptor)

    def report(self) -> dict[str, str]:
        return {}


@pytest.fixture
def library(monkeypatch):
    made = Blocks()
    monkeypatch.setattr(registry, "active_library", lambda: made)
    monkeypatch.setattr(profitability, "epilogue_pays", lambda *given: True)
    monkeypatch.setenv("FL_JIT_COMPILE_AFTER", "1")
    monkeypatch.setenv("FL_JIT_MIN_SIZE", "1")
    monkeypatch.setenv("FL_JIT_BACKGROUND", "0")
    return made


@pytest.fixture
def normal():
    rng = np.random.default_rng(11)
    return lambda *shape: rng.standard_normal(shape, dtype=np.float32)


def both(function, *operands):
    """What a plan computes, its steps, and what NumPy computes at once."""
    backend = JitBackend()
    with ft.use(backend):
        found = function(*[ft.asarray(v) for v in operands])
        ft.eval(*found)
        found = [v.numpy() for v in found]
    with ft.use("numpy"):
        expected = [np.asarray(v) for v in function(*[ft.asarray(v) for v in operands])]
    plan = backend.plans.entries()[-1]
    return found, expected, plan.steps


def agree(found, expected):
    for one, other in zip(found, expected, strict=True):
        scale = max(np.abs(other).max(), 1e-6) if other.dtype.kind == "f" else 0
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=3e-6 * scale)


def followed(steps):
    return [[node.op for node in s.nodes] for s in steps if isinstance(s, FusedEpilogueStep)]


def test_bias_and_activation_follow_a_product(library, normal):
    def layer(x, w, b):
        return (ft.relu(x @ w + b),)

    found, expected, steps = both(layer, normal(70, 80), normal(80, 96), normal(96))
    agree(found, expected)
    assert followed(steps) == [["matmul", "add", "maximum"]] and len(steps) == 1
    (descriptor,) = library.solved
    assert descriptor.epilogue is not None and descriptor.epilogue.sizes == (70, 96)


@pytest.mark.parametrize("seed", [5, (1 << 64) - 5])
def test_several_results_and_dropout_follow(library, normal, seed):
    def layer(x, w, b, residual):
        before = x @ w + b
        kept = ft.Generator(seed).bernoulli(before.shape)
        return before, ft.where(kept, ft.gelu(before) * 2.0, 0.0) + residual

    found, expected, steps = both(
        layer, normal(4, 30, 80), normal(80, 96), normal(96), normal(4, 30, 96)
    )
    agree(found, expected)
    assert len(followed(steps)) == 1 and len(steps) == 1
    assert len(library.solved[-1].epilogue.writes) == 1


def test_results_of_other_dtypes_do_not_take_the_place_of_the_product(library, normal):
    def layer(x, w, b):
        y = x @ w + b
        return y > 0.0, ft.relu(y)

    operands = normal(70, 80), normal(80, 96), normal(96)
    found, expected, steps = both(layer, *operands)
    agree(found, expected)
    assert len(followed(steps)) == 1 and len(steps) == 1
    found, expected, steps = both(lambda *given: layer(*given)[:1], *operands)
    agree(found, expected)
    assert len(followed(steps)) == 1 and len(steps) == 1


def test_what_follows_may_read_transposed_operands(library, normal):
    def layer(x, w, residual):
        return (ft.relu(x @ w) + ft.permute(residual, (1, 0)),)

    found, expected, steps = both(layer, normal(70, 80), normal(80, 96), normal(96, 70))
    agree(found, expected)
    assert len(followed(steps)) == 1 and len(steps) == 1
    assert (1, 70) in library.solved[-1].epilogue.strides


def test_products_without_a_library_have_no_epilogue(library, normal, monkeypatch):
    operands = normal(4, 3), normal(3, 5), normal(5)
    for always, found in ((True, [["matmul", "add"]]), (False, [])):
        monkeypatch.setattr(registry, "is_for_everything", lambda always=always: always)
        assert followed(both(lambda x, w, b: (x @ w + b,), *operands)[2]) == found


def test_a_product_that_nobody_reads_any_more_is_let_go(library, normal):
    library.takes = False
    _, _, (step,) = both(lambda x, w, b: (x @ w + b,), *(normal(96, 96) for _ in range(3)))
    values = Values({v: normal(96, 96) for v in step.roots if v not in step.writes})
    step(values)
    assert step.product not in values and step.writes[0] in values


def test_a_product_that_others_read_is_there_for_them(library, normal):
    def layer(x, w):
        product = x @ w
        return product, ft.exp(product * 0.1), ft.sum(product * product, -1)

    found, expected, _ = both(layer, normal(70, 80), normal(80, 96))
    agree(found, expected)


def test_an_update_follows_the_gradient_of_its_weights(library, normal):
    def step(x, g, w, momentum):
        gradient = ft.permute(g, (1, 0)) @ x
        moved = momentum * 0.9 + gradient
        return gradient, moved, w - 0.01 * moved

    found, expected, steps = both(
        step, normal(90, 80), normal(90, 96), normal(96, 80), normal(96, 80)
    )
    agree(found, expected)
    assert followed(steps) and len(steps) == 1
    assert library.solved[-1].epilogue.program.outputs[0].value == 0, "the gradient stays"


def test_channels_of_images(library, normal):
    def layer(x, w, b):
        return (ft.relu(ft.conv(x, w, padding=1) + ft.reshape(b, (1, -1, 1, 1))),)

    found, expected, steps = both(layer, normal(2, 12, 14, 15), normal(20, 12, 3, 3), normal(20))
    agree(found, expected)
    assert followed(steps) == [["conv", "add", "maximum"]]
    assert library.solved[-1].epilogue.sizes[-1] == 20


def test_a_product_may_lie_as_its_copy_would(library, normal):
    def heads(x, y):
        product = ft.reshape(x, (4, 12, 32, 16)) @ ft.reshape(y, (4, 12, 16, 24))
        return (ft.reshape(ft.permute(product, (0, 2, 1, 3)), (4, 32, 12 * 24)),)

    found, expected, steps = both(heads, normal(4, 12, 32, 16), normal(4, 12, 16, 24))
    agree(found, expected)
    assert followed(steps) == [["matmul", "reshape"]] and len(steps) == 1
    assert library.solved[-1].out.strides == (32 * 12 * 24, 24, 12 * 24, 1)


def test_without_epilogues_both_run_one_after_the_other(library, normal):
    def layer(x, w, b):
        product = x @ w
        return ft.relu(product + b), ft.sum(product[2:])

    library.takes = False
    operands = normal(70, 80), normal(80, 96), normal(96)
    found, expected, steps = both(layer, *operands)
    agree(found, expected)
    assert followed(steps) and all(p.epilogue is None for p in library.solved)
    library.has_epilogues = False
    assert followed(both(layer, *operands)[2]) == []


def test_rows_that_are_reduced_do_not_follow(library, normal):
    found, expected, steps = both(
        lambda x, w: (ft.softmax(x @ w, -1),), normal(70, 80), normal(80, 96)
    )
    agree(found, expected)
    assert followed(steps) == []


def test_who_runs_in_between_finds_the_product(library, normal):
    def layer(x, w, u):
        product = x @ w
        scale = ft.max(ft.absolute(product) @ u)
        return (product / scale,)

    found, expected, steps = both(layer, normal(70, 80), normal(80, 96), normal(96, 64))
    agree(found, expected)


def test_operands_of_a_product_are_not_written_over(library, normal):
    def chain(x, w):
        found = []
        for _ in range(3):
            product = x @ w
            found.append(product + 1.0)
            x = ft.exp(-ft.absolute(x - 0.1 * product))
        return *found, x

    found, expected, steps = both(chain, normal(96, 96), normal(96, 96))
    agree(found, expected)
    assert len(followed(steps)) == 3


def test_others_are_where_they_die(library, normal):
    """Three sums need no more memory than one."""

    def chain(x, w, y):
        y = ft.exp(-ft.absolute(y))
        product = x @ w
        return product + 1.0, y - product

    found, expected, steps = both(chain, normal(96, 96), normal(96, 96), normal(96, 96))
    agree(found, expected)
    (step,) = [s for s in steps if isinstance(s, FusedEpilogueStep)]
    assert [len(roots) for roots in step._free] in ([1], [0])
