"""Ctrl-C wherever CPython looks for signals: what was computed is right, what cannot be computed
any more is an error, and the program goes on."""

from __future__ import annotations

import dis
import functools
import sys
import threading

import numpy as np
import pytest

import fl_tensor as ft
from fl_jit import JitBackend
from fl_jit.planning.plan_cache import PlanCache
from fl_jit.planning.plan_future import PlanFuture

#: After these instructions CPython looks whether a signal has come.
LOOKS = frozenset(
    "CALL CALL_FUNCTION CALL_FUNCTION_EX CALL_FUNCTION_KW CALL_KW CALL_METHOD JUMP_ABSOLUTE "
    "JUMP_BACKWARD RESUME".split()
)
HOME, ELSEWHERE = "/fl_jit/", "/fl_jit/kernels/"
SHAPE = (40, 50)
GRADIENT = np.arange(2000, dtype=np.float32).reshape(SHAPE)


@functools.cache
def instructions(code):
    return {found.offset: found.opname for found in dis.get_instructions(code)}


class Interrupt:
    """Raises KeyboardInterrupt at place number ``at`` of those where a signal would be seen in
    ``HOME``, but for the kernels."""

    def __init__(self, at):
        self.left, self.latest, self.before = at, None, {}

    def __enter__(self):
        sys.settrace(self.enter)

    def __exit__(self, *_):
        sys.settrace(None)

    def enter(self, frame, event, argument):
        file = frame.f_code.co_filename
        if HOME not in file or ELSEWHERE in file:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self.step

    def step(self, frame, event, argument):
        if event == "opcode":
            # A function of Python's that returns has no look.
            if self.latest is frame and self.before.get(frame) in LOOKS:
                self.left -= 1
                if not self.left:
                    sys.settrace(None)
                    raise KeyboardInterrupt
            self.before[frame] = instructions(frame.f_code).get(frame.f_lasti)
            self.latest = frame
        elif event == "return":
            self.before.pop(frame, None)
        return self.step


class Training:
    """Updates that are written over their operands, and the values that they should have."""

    def __init__(self):
        self.found, self.wanted = {}, {}
        for name, value in (("w", 2.0), ("v", 0.0)):
            self.wanted[name] = np.full(SHAPE, value, np.float32)
            self.found[name] = ft.asarray(self.wanted[name]) * 1.0
        self.gradient = ft.asarray(GRADIENT)
        ft.eval(*self.found.values())

    def step(self):
        found, wanted = self.found, self.wanted
        self._put("v", found["v"] * 0.5 + self.gradient, wanted["v"] * np.float32(0.5) + GRADIENT)
        new = wanted["w"] - wanted["v"] * np.float32(0.25)
        self._put("w", found["w"] - found["v"] * 0.25, new)
        self._put("s", ft.relu(found["w"] * 2.0), np.maximum(wanted["w"] * np.float32(2.0), 0))
        ft.eval(found["w"], found["v"])

    def _put(self, name, found, wanted):
        self.found[name], self.wanted[name] = found, wanted

    def is_right(self):
        """Whether all values are what they should be; those that are gone say so."""
        for name, found in self.found.items():
            try:
                value = np.asarray(found)
            except ft.BackendError as error:
                assert "is gone" in str(error)
                continue
            if not np.array_equal(value, self.wanted[name]):
                return False
        return True


@pytest.fixture
def patient(monkeypatch):
    """Nobody waits for long for a plan that nobody makes."""

    def wait(self):
        assert self._done.wait(20), "nobody makes this plan"

    monkeypatch.setattr(PlanFuture, "wait", wait)


@pytest.mark.parametrize(
    "steps, compile_after, every",
    [(3, 1, 2), (0, 1, 11), (3, 1 << 30, 2)],
    ids=["planned", "while a plan is made", "call by call"],
)
def test_after_an_interrupt_values_are_right_or_gone(patient, steps, compile_after, every):
    for at in range(1, 100_000, every):
        backend = JitBackend()
        backend.smallest, backend.plans.policy.patience = 1, 0
        backend.plans.compile_after, backend.plans.background = compile_after, False
        with ft.use(backend):
            training = Training()
            for _ in range(steps):
                training.step()
            try:
                with Interrupt(at):
                    training.step()
                break  # there are no more places
            except KeyboardInterrupt:
                pass
            later = ft.asarray(GRADIENT) * 3.0
            assert training.is_right(), at
            np.testing.assert_array_equal(np.asarray(later), GRADIENT * 3.0)
            again = Training()
            again.step()
            assert again.is_right(), at
    assert at > 100, "hardly anything was interrupted"


def test_a_plan_whose_making_was_interrupted_is_made_again(jit, monkeypatch):
    jit.plans.compile_after = 1
    x = ft.asarray(GRADIENT)

    def interrupt(self, translation, leaves):
        raise KeyboardInterrupt

    y = x * 2.0 + 1.0
    with monkeypatch.context() as patch:
        patch.setattr(PlanCache, "_make", interrupt)
        with pytest.raises(KeyboardInterrupt):
            ft.eval(y)
    done = threading.Thread(target=ft.eval, args=(y,), daemon=True)
    done.start()
    done.join(20)
    assert not done.is_alive(), "it waits for a plan that nobody makes"
    np.testing.assert_array_equal(np.asarray(y), GRADIENT * 2.0 + 1.0)
    assert len(jit.plans.entries()) == 1
