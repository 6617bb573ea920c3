"""The kernel of a contraction is bound when its plan is made, and looked up in the first run."""

from __future__ import annotations

import numpy as np
import pytest

import fl_tensor as ft
from fl_jit import JitBackend
from fl_jit.eager import kernel_dispatch
from fl_jit.kernels import registry
from fl_jit.kernels.llvm.library import GeneratedKernels
from fl_jit.steps import bound_kernel


@pytest.fixture
def generated(monkeypatch):
    """Generated kernels compute all products, however small."""
    library = GeneratedKernels()
    monkeypatch.setattr(registry, "active_library", lambda: library)
    monkeypatch.setattr(registry, "is_for_everything", lambda: True)
    return library


@pytest.fixture
def jit(generated):
    """A backend of its own, which defers everything and plans at once."""
    backend = JitBackend()
    backend.smallest, backend.plans.policy.patience = 1, 0
    backend.plans.compile_after = 1
    backend.plans.background = False
    with ft.use(backend):
        yield backend


@pytest.fixture
def derived(monkeypatch):
    """Who derived a descriptor: plans (``bound_kernel``), or the eager path."""
    found = []

    def counted(module):
        original = module.kernel_call

        def call(*arguments):
            found.append(module)
            return original(*arguments)

        monkeypatch.setattr(module, "kernel_call", call)

    counted(kernel_dispatch)
    counted(bound_kernel)
    return found


@pytest.fixture
def looked_up(generated, monkeypatch):
    """The descriptors of the kernels that the library ran."""
    found, find = [], generated.find

    def call(descriptor):
        if all(operand.strides is not None for operand in descriptor[:3]):
            found.append(descriptor)  # else the plan asks in which layout weights are packed
        return find(descriptor)

    monkeypatch.setattr(generated, "find", call)
    return found


def image(x, w, **options):
    return ft.conv(x, w, padding=((1, 1), (1, 1)), **options)


def gradient_of_data(g, w):
    return ft.conv_data_gradient(g, w, (2, 8, 6, 6), padding=1)


def gradient_of_weights(g, x):
    return ft.conv_weight_gradient(g, x, (16, 8, 3, 3), padding=1)


#: What is computed of two arrays of these shapes.
CASES = {
    "product": (lambda x, y: x @ y, (9, 12), (12, 7)),
    "with a transpose": (lambda x, y: x @ ft.permute(y, (1, 0)), (9, 12), (7, 12)),
    "of slices": (lambda x, y: (x + 1.0)[2:8, 3:] @ (y + 1.0)[3:, 1:6], (9, 12), (12, 7)),
    "of batches": (lambda x, y: x @ y, (3, 9, 12), (3, 12, 7)),
    "of a batch and one": (lambda x, y: x @ y, (3, 9, 12), (12, 7)),
    "backwards": (lambda x, y: ft.flip(x, (0,)) @ y, (9, 12), (12, 7)),
    "convolution": (image, (2, 8, 6, 6), (16, 8, 3, 3)),
    "gradient of data": (gradient_of_data, (2, 16, 6, 6), (16, 8, 3, 3)),
    "gradient of weights": (gradient_of_weights, (2, 16, 6, 6), (2, 8, 6, 6)),
    "product and bias": (lambda x, y: x @ y + y[0], (9, 12), (12, 7)),
    "product and ReLU": (lambda x, y: ft.relu(x @ y), (9, 12), (12, 7)),
    "convolution and ReLU": (lambda x, w: ft.relu(image(x, w)), (2, 8, 6, 6), (16, 8, 3, 3)),
}


def drawn(number, *shapes):
    generator = np.random.default_rng(number)
    return [generator.standard_normal(shape).astype(np.float32) for shape in shapes]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_other_data_of_the_same_shapes(jit, case):
    run, *shapes = case
    for number in range(4):
        arrays = drawn(number, *shapes)
        with ft.use("numpy"):
            expected = run(*map(ft.asarray, arrays)).numpy()
        found = run(*map(ft.asarray, arrays)).numpy()
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", CASES)
def test_descriptors_are_derived_when_the_plan_is_made(jit, derived, name):
    run, *shapes = CASES[name]
    for number in range(4):
        run(*map(ft.asarray, drawn(number, *shapes))).numpy()
        if number == 0:
            assert set(derived) == {bound_kernel}
            derived.clear()
    assert not derived


@pytest.mark.parametrize("name", CASES)
def test_the_kernel_is_looked_up_once(jit, looked_up, name):
    run, *shapes = CASES[name]
    for number in range(3):
        run(*map(ft.asarray, drawn(number, *shapes))).numpy()
    assert len(looked_up) == 1


def test_the_kernel_is_looked_up_again_when_the_library_forgets_it(jit, generated, looked_up):
    x, y = map(ft.asarray, drawn(0, (9, 12), (12, 7)))
    for expected in (1, 2):
        for _ in range(2):
            (x @ y).numpy()
        assert len(looked_up) == expected
        generated.forget()


@pytest.mark.parametrize("name", [name for name in CASES if " and " not in name])
def test_the_eager_path_and_a_plan_ask_for_the_same_kernel(jit, looked_up, name):
    run, *shapes = CASES[name]
    arrays = [v.astype(np.float32) for v in drawn(0, *shapes)]
    run(*map(ft.asarray, arrays)).numpy()
    (planned,) = looked_up
    looked_up.clear()
    operands = [ft.asarray(v, backend=jit.eager) for v in arrays]
    with ft.use(jit.eager):
        run(*operands).numpy()
    (eager,) = looked_up
    if planned.out.strides == eager.out.strides:  # images are channels last in a plan
        assert eager == planned
    else:
        assert eager == planned._replace(out=eager.out)


def test_watchers_are_notified_each_time(jit, generated, monkeypatch):
    told = []
    monkeypatch.setattr(registry, "watchers", [lambda library, kernel: told.append(library)])
    for number in range(3):
        (ft.asarray(drawn(number, (9, 12))[0]) @ ft.asarray(drawn(7, (12, 7))[0])).numpy()
    assert told == [generated] * 3


def test_a_freed_library_is_not_called(jit, monkeypatch):
    x, y = drawn(0, (9, 12), (12, 7))
    for library in (registry.active_library(), registry.active_library(), None):
        monkeypatch.setattr(registry, "active_library", lambda library=library: library)
        np.testing.assert_allclose((ft.asarray(x) @ ft.asarray(y)).numpy(), x @ y, rtol=1e-5)


def test_results_of_an_epilogue_are_not_written_over_its_factors(jit):
    def run(x, y):
        z = x * 2.0  # dies with the product: its place has the size of the results
        made = z @ y
        return ft.relu(made), ft.exp(-ft.absolute(made))

    for number in range(4):
        x, y = drawn(number, (12, 12), (12, 12))
        first, second = run(ft.asarray(x), ft.asarray(y))
        ft.eval(first, second)
        expected = (2.0 * x) @ y
        np.testing.assert_allclose(first.numpy(), np.maximum(expected, 0), rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(second.numpy(), np.exp(-np.abs(expected)), rtol=1e-3, atol=1e-5)


def test_the_data_decide_whether_a_kernel_computes_a_wgrad_in_bfloat16(jit, looked_up):
    # Lines of an odd length are read in pairs of pixels: NaN would spread to other sums.
    g, x = drawn(0, (2, 16, 6, 5), (2, 8, 6, 5))
    spoilt = x.copy()
    spoilt[:, 0, 0, 0] = np.inf
    requested = []
    for images in (x, spoilt, x):
        looked_up.clear()
        operands = [ft.cast(ft.asarray(v), ft.bfloat16) for v in (g, images)]
        ft.eval(*operands)
        with ft.use("numpy"):
            expected = gradient_of_weights(ft.asarray(g), ft.asarray(images)).numpy()
        found = ft.cast(gradient_of_weights(*operands), ft.float32).numpy()
        np.testing.assert_array_equal(np.isfinite(found), np.isfinite(expected))
        np.testing.assert_allclose(
            found[np.isfinite(expected)], expected[np.isfinite(expected)], rtol=0.1, atol=0.3
        )
        requested.append([descriptor.x.dtype for descriptor in looked_up])
    assert requested[0][0] is requested[2][0] is ft.bfloat16
    assert requested[1] == [ft.float32]
