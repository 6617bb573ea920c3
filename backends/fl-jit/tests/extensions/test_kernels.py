"""Kernels from outside, through ``ft.jit`` alone."""

from __future__ import annotations

import numpy as np
import pytest
from swiglu import GATE, X, build, callback, repeated_runs, steps, swiglu, truth

import fl_tensor as ft


@pytest.mark.parametrize("roles", ["P", "PX", "Pp"])
def test_roles_are_letters_for_each_array(roles):
    with pytest.raises(ft.ArgumentError, match="expected a letter of"):
        ft.jit.operation("tests.roles", lambda ops, x, y: x, roles=roles)


def test_instructions_become_part_of_the_kernel_around_them(fused):
    def function(x, gate):
        return ft.exp(swiglu(x * 2.0, gate)) + 1.0

    wanted = truth(function, X, GATE)
    with ft.jit.register_kernel("tests.swiglu", ft.jit.elementwise(build)):
        for found in repeated_runs(fused, function, X, GATE):
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
        assert steps(fused) == [("kernel", ["multiply", "tests.swiglu", "exp", "add"])]


def test_a_program_is_a_kernel_of_its_own(fused):
    norm = ft.jit.operation(
        "tests.norm",
        lambda ops, x: ops.divide(x, ops.sum(ops.absolute(x), (-1 + len(x.shape),), True)),
    )

    def build(b, x):
        return b("divide", x, b.reduce("sum", b("absolute", x)))

    def function(x):
        return norm(ft.permute(x, (1, 0))) * 2.0

    wanted = truth(function, X)
    with ft.jit.register_kernel("tests.norm", ft.jit.program(build)):
        for found in repeated_runs(fused, function, X):
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
        assert steps(fused) == [("external", ["tests.norm"]), ("kernel", ["multiply"])]


@pytest.mark.parametrize("keepdims", [False, True])
def test_a_program_may_give_one_number_per_row(fused, keepdims):
    def compose(ops, x, *, keepdims):
        return ops.log(ops.sum(ops.exp(x), (1,), keepdims))

    logsumexp = ft.jit.operation(f"tests.logsumexp{int(keepdims)}", compose)
    kernel = ft.jit.program(lambda b, x, keepdims: b("log", b.reduce("sum", b("exp", x))))
    with ft.jit.register_kernel(logsumexp.name, kernel):
        for found in repeated_runs(fused, lambda x: logsumexp(x, keepdims=keepdims), X):
            wanted = np.log(np.exp(X).sum(1, keepdims=keepdims))
            np.testing.assert_allclose(found, wanted, rtol=1e-5)
        assert steps(fused) == [("external", [logsumexp.name])]


def test_numbers_are_operands_of_a_program(fused):
    scaled = ft.jit.operation("tests.scaled", lambda ops, x, n: ops.multiply(x, n))
    with ft.jit.register_kernel(
        "tests.scaled", ft.jit.program(lambda b, x, n: b("multiply", x, n))
    ):
        for scale in (2.0, 3.0, 4.0):
            (found,) = repeated_runs(fused, lambda x, s=scale: scaled(x, s), X, times=1)
            np.testing.assert_array_equal(found, X * np.float32(scale))
        assert len(ft.jit.plans(fused)) == 1


def test_a_kernel_of_addresses(backend):
    with ft.jit.register_kernel("tests.swiglu", callback):
        first, *later = repeated_runs(backend, swiglu, X, GATE)
        np.testing.assert_allclose(first, truth(swiglu, X, GATE), rtol=1e-6)
        for found in later:
            np.testing.assert_array_equal(found, X + GATE)
        assert steps(backend) == [("external", ["tests.swiglu"])]


def test_a_kernel_reads_pieces_of_arrays_where_they_lie(backend):
    with ft.jit.register_kernel("tests.swiglu", callback):
        for found in repeated_runs(backend, lambda x, g: swiglu(x[8:], g[:88]) * 1.0, X, GATE)[1:]:
            np.testing.assert_array_equal(found, X[8:] + GATE[:88])


def test_a_kernel_may_decline(backend):
    double = X.astype(np.float64)
    with ft.jit.register_kernel("tests.swiglu", callback):
        for found in repeated_runs(backend, swiglu, double, GATE.astype(np.float64)):
            np.testing.assert_allclose(found, truth(swiglu, double, GATE), rtol=1e-6)
        for found in repeated_runs(backend, lambda x, g: swiglu(x.T, g.T), X, GATE):
            np.testing.assert_allclose(found, truth(swiglu, X.T, GATE.T), rtol=1e-5, atol=1e-6)


def test_a_kernel_of_the_contract_is_tried_first(backend):
    requested = []

    def products(request):
        requested.append([x.shape for x in request.operands])
        return None

    with ft.jit.register_kernel("matmul", products):
        for found in repeated_runs(backend, lambda x, y: x @ y, X, GATE.T):
            np.testing.assert_allclose(found, X @ GATE.T, rtol=1e-4, atol=1e-4)
    assert [(96, 128), (128, 96)] in requested


def test_plans_do_not_outlive_what_they_were_made_with(backend):
    with ft.jit.register_kernel("tests.swiglu", callback):
        assert (repeated_runs(backend, swiglu, X, GATE)[-1] == X + GATE).all()
    for found in repeated_runs(backend, swiglu, X, GATE):
        np.testing.assert_allclose(found, truth(swiglu, X, GATE), rtol=1e-5, atol=1e-6)
    with ft.jit.register_kernel("tests.swiglu", callback):
        assert (repeated_runs(backend, swiglu, X, GATE)[-1] == X + GATE).all()


def test_a_kernel_that_fails_is_left_out(backend):
    def broken(request):
        raise ValueError("no such luck")

    with ft.jit.register_kernel("tests.swiglu", broken):
        with pytest.warns(RuntimeWarning, match="'tests.swiglu' was left out: ValueError: no such"):
            found = repeated_runs(backend, swiglu, X, GATE)
    np.testing.assert_allclose(found[-1], truth(swiglu, X, GATE), rtol=1e-5, atol=1e-6)


@pytest.mark.defect("N4")
def test_a_kernel_that_fails_when_it_runs_is_an_error_of_what_needs_it(backend):
    def failing(*addresses):
        raise ValueError("no such luck")

    with ft.use(backend), ft.jit.register_kernel("tests.swiglu", lambda request: failing):
        x, gate = ft.asarray(X), ft.asarray(GATE)
        for _ in range(3):  # from the second time on there is a plan
            lost, other = swiglu(x, gate), x * 2.0
            dependent = lost + 1.0
            np.testing.assert_array_equal(np.asarray(other), X * 2.0)
        for found in (dependent, lost, dependent):
            with pytest.raises(ValueError, match="no such luck"):
                np.asarray(found)
        np.testing.assert_array_equal(np.asarray(x * 3.0), X * 3.0)


@pytest.mark.parametrize("made", [5, "kernel"])
def test_a_kernel_that_cannot_be_called_is_left_out(backend, made):
    with ft.jit.register_kernel("tests.swiglu", lambda request: made):
        with pytest.warns(ft.jit.KernelWarning, match="expected a function of addresses, or None"):
            found = repeated_runs(backend, swiglu, X, GATE)
    np.testing.assert_allclose(found[-1], truth(swiglu, X, GATE), rtol=1e-5, atol=1e-6)


def test_work_deferred_in_a_block_runs_without_its_registrations(backend):
    with ft.use(backend):
        x, gate = ft.asarray(X), ft.asarray(GATE)
        repeated_runs(backend, swiglu, X, GATE)  # from here on there is a plan
        with ft.jit.register_kernel("tests.swiglu", callback):
            for _ in range(3):
                inside = swiglu(x, gate)
                ft.eval(inside)
            later = swiglu(x, gate)
        np.testing.assert_array_equal(np.asarray(inside), X + GATE)
        wanted = truth(swiglu, X, GATE)
        np.testing.assert_allclose(np.asarray(later), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "register",
    [
        lambda: ft.jit.register_kernel("exp", 3),
        lambda: ft.jit.register_pass("tests-nothing", 3),
        lambda: ft.jit.register_micro_kernel(3),
        lambda: ft.jit.operation("tests.number", 3),
        lambda: ft.jit.elementwise(3),
        lambda: ft.jit.program(3),
    ],
)
def test_what_is_no_function_is_refused_when_it_is_registered(register):
    with pytest.raises(ft.ArgumentError, match="is a int: expected a function"):
        register()
    assert "tests-nothing" not in ft.jit.passes()


def test_an_operand_is_never_the_result(backend):
    """What a kernel reads may be seen by others: the result has memory of its own."""
    places = []

    def kernel(request):
        return lambda *addresses: places.append(addresses)

    with ft.jit.register_kernel("tests.swiglu", kernel):
        repeated_runs(backend, lambda x, g: swiglu(x * 2.0, g * 3.0), X, GATE)
    assert all(len(set(each)) == 3 for each in places) and places


@pytest.mark.parametrize("op", ["tests.unknown", "reshape", "nothing"])
def test_kernels_of_what_is_no_operation(op):
    with pytest.raises(ft.ArgumentError, match="expected an operation"):
        ft.jit.register_kernel(op, callback)


def test_the_instructions_of_the_contract_are_fixed():
    with pytest.raises(ft.ArgumentError, match="instructions are fixed"):
        ft.jit.register_kernel("exp", ft.jit.elementwise(lambda b, x: b("exp", x)))
