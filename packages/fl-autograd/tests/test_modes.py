"""no_grad and enable_grad: what is recorded, per context."""

from __future__ import annotations

import contextvars
import threading

import fl_autograd as ag
import fl_tensor as ft


def test_nothing_is_recorded_under_no_grad() -> None:
    x = ag.Variable([1.0], requires_grad=True)
    with ag.no_grad():
        assert not ag.is_grad_enabled()
        assert not (x * 2).requires_grad
        assert not ft.softmax(x).requires_grad
        with ag.enable_grad():
            assert (x * 2).requires_grad
        assert not ft.concatenate([x, x]).requires_grad
    assert (x * 2).requires_grad


def test_modes_are_decorators() -> None:
    x = ag.Variable([1.0], requires_grad=True)

    @ag.no_grad()
    def plain() -> ag.Variable:
        """Doc."""
        return x * 2

    assert not plain().requires_grad
    assert plain.__doc__ == "Doc."
    with ag.no_grad():
        assert ag.enable_grad()(lambda: x * 2)().requires_grad


def test_a_mode_ends_with_an_error() -> None:
    try:
        with ag.no_grad():
            raise KeyError
    except KeyError:
        assert ag.is_grad_enabled()


def test_one_mode_object_can_be_nested() -> None:
    mode = ag.no_grad()
    with mode, mode:
        assert not ag.is_grad_enabled()
    assert ag.is_grad_enabled()


def test_modes_belong_to_their_context() -> None:
    seen = []
    with ag.no_grad():
        fresh = threading.Thread(target=lambda: seen.append(ag.is_grad_enabled()))
        copied = threading.Thread(
            target=contextvars.copy_context().run, args=(lambda: seen.append(ag.is_grad_enabled()),)
        )
        for thread in (fresh, copied):
            thread.start()
            thread.join()
    assert seen == [True, False]
