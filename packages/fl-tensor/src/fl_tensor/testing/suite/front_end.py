"""Tests through tensors: wrong arguments, several threads."""

from __future__ import annotations

import contextvars
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fl_tensor as ft
from fl_memory.testing.kit import hide
from fl_tensor.errors import FlError
from fl_tensor.testing.harness import Harness
from fl_tensor.testing.suite.base import TensorSuite

__tracebackhide__ = hide

Make = Callable[..., Any]
BUILTIN: dict[str, type[Exception]] = {
    "shape": ValueError,
    "dtype": TypeError,
    "index": IndexError,
    "argument": ValueError,
}

#: id: what a user does wrong, the kind of error, a word that the message must contain
WRONG: dict[str, tuple[Callable[[Make], Any], str, str]] = {
    "add-shapes": (lambda t: t(2, 3) + t(2, 4), "shape", "[add]"),
    "matmul-inner": (lambda t: t(2, 3) @ t(4, 5), "shape", "inner dimensions differ (3 != 4)"),
    "matmul-batch": (lambda t: t(2, 2, 3) @ t(3, 3, 2), "shape", "[matmul]"),
    "where-shapes": (lambda t: ft.where(t(2) > 0, t(2), t(3)), "shape", "[where]"),
    "reshape-size": (lambda t: t(2, 3).reshape(4, 2), "shape", "[reshape]"),
    "reshape-negative": (lambda t: t(2, 3).reshape(-2, -3), "shape", "[reshape]"),
    "permute-repeated": (lambda t: t(2, 3).permute(0, 0), "shape", "[permute]"),
    "broadcast": (lambda t: ft.broadcast_to(t(2, 3), (2, 4)), "shape", "[broadcast_to]"),
    "concatenate-shapes": (lambda t: ft.concatenate([t(2, 3), t(2, 4)]), "shape", "[concatenate]"),
    "concatenate-nothing": (lambda t: ft.concatenate([]), "argument", "[concatenate]"),
    "stack-shapes": (lambda t: ft.stack([t(2), t(3)]), "shape", "[stack]"),
    "sum-axis": (lambda t: t(2, 3).sum(2), "shape", "[sum]"),
    "sum-axis-below": (lambda t: t(2, 3).sum(-3), "shape", "[sum]"),
    "sum-axis-twice": (lambda t: t(2, 3).sum((0, -2)), "shape", "[sum]"),
    "softmax-axis": (lambda t: ft.softmax(t(2, 3), 5), "shape", "[softmax]"),
    "max-nothing": (lambda t: t(0, 3).max(0), "shape", "[max]"),
    "argmax-nothing": (lambda t: t(2, 0).argmax(1), "shape", "[argmax]"),
    "conv-channels": (lambda t: ft.conv(t(1, 3, 5), t(2, 2, 3)), "shape", "[conv]"),
    "conv-kernel": (lambda t: ft.conv(t(1, 1, 2), t(1, 1, 3)), "shape", "[conv]"),
    "pool-window": (lambda t: ft.max_pool(t(1, 1, 2), 3), "shape", "[max_pool]"),
    "linear-weight": (lambda t: ft.linear(t(2, 3), t(4, 5)), "shape", "[linear]"),
    "squeeze": (lambda t: t(2, 3).squeeze(0), "shape", "[squeeze]"),
    "split": (lambda t: ft.split(t(5), [2, 2]), "shape", "[split]"),
    "topk": (lambda t: ft.topk(t(3), 4), "argument", "[topk]"),
    "index-range": (lambda t: t(3)[3], "index", "3"),
    "index-below": (lambda t: t(3)[-4], "index", "-4"),
    "index-axes": (lambda t: t(3)[0, 0], "index", "1"),
    "index-float": (lambda t: t(3)[1.5], "index", "float"),
    "axis-float": (lambda t: t(3).sum(0.5), "dtype", "[sum]"),
    "bool-add": (lambda t: (t(2) > 0) + (t(2) > 0), "dtype", "[add]"),
    "float-bits": (lambda t: t(2) & t(2), "dtype", "[bitwise_and]"),
    "unknown-dtype": (lambda t: t(2).astype("float7"), "dtype", "float7"),
    "truth": (lambda t: bool(t(2)), "argument", "[bool]"),
}


def _steps(x: Any, y: Any) -> Any:
    """A chain through most kinds of kernel; small, so that threads interleave."""
    z = ft.tanh(x @ y + 1.0)
    z = ft.concatenate([z, z * 2.0], 0)
    z = ft.softmax(z, 1) + z.sum(1, keepdims=True)
    return ft.sort(z.T, 0) - z.max() + ft.where(z.T > 0.0, z.T, 0.0)


class FrontEndTests(TensorSuite, official=True):
    """Tensors on this backend."""

    def maker(self, harness: Harness) -> Make:
        """A function of a shape that gives a float32 tensor on the backend."""
        backend = harness.backend

        def make(*shape: int) -> Any:
            values = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
            return ft.asarray(values, backend=backend)

        return make

    @pytest.mark.parametrize("mistake", sorted(WRONG))
    def test_wrong_arguments(self, harness: Harness, mistake: str) -> None:
        """Our error type, which is also Python's, and a message that names the operation."""
        act, kind, words = WRONG[mistake]
        with pytest.raises(FlError) as caught:
            act(self.maker(harness))
        assert isinstance(caught.value, BUILTIN[kind]), f"{kind} error expected: {caught.value!r}"
        assert words in str(caught.value)

    @pytest.mark.parametrize("dtype", ["int32", "int64"])
    def test_wrong_indices(self, harness: Harness, dtype: str) -> None:
        """An index that is out of range is an IndexError, not somebody else's memory."""
        self.need_values(harness)
        x = self.maker(harness)(4)
        for bad in (4, -5, 2**31 - 1):
            indices = ft.asarray([0, bad], dtype, backend=harness.backend)
            with pytest.raises(IndexError) as caught:
                ft.gather(x, indices, 0)
            assert isinstance(caught.value, FlError)

    def test_mixed_backends(self, harness: Harness) -> None:
        """Operands of two backends are refused: moving is explicit."""
        name = "numpy" if harness.backend.name == "null" else "null"
        other = ft.asarray([1.0, 2.0], backend=ft.get_backend(name))
        with pytest.raises(FlError, match="backends"):
            self.maker(harness)(2) + other

    def test_operators_and_indexing(self, harness: Harness) -> None:
        """Arithmetic, slices, index arrays and masks, assignment and conversion to Python."""
        self.need_values(harness)
        x = self.maker(harness)(3, 4)
        n: Any = np.arange(12, dtype=np.float32).reshape(3, 4)
        assert ((x * 2 - 1) / 4).tolist() == ((n * 2 - 1) / 4).tolist()
        assert x[1:, ::-2].tolist() == n[1:, ::-2].tolist()
        assert x[[2, 0], 1].tolist() == n[[2, 0], 1].tolist()
        assert x[x > 5.0].tolist() == n[n > 5].tolist()
        assert x[..., None, -1].shape == (3, 1)
        before = x[1]
        x[1] = 0.0
        x[x > 9.0] = 5.0
        n[1] = 0
        n[n > 9] = 5
        assert x.tolist() == n.tolist()
        assert before.tolist() == [4.0, 5.0, 6.0, 7.0]
        assert x.sum().item() == n.sum()

    def test_threads(self, harness: Harness) -> None:
        """Concurrent calls on distinct tensors give what one thread gives, bit for bit."""
        self.need_values(harness)
        rng = np.random.default_rng(0)
        pairs = [rng.standard_normal((2, 5, 5)).astype(np.float32) for _ in range(4)]
        tensors = [[ft.asarray(a, backend=harness.backend) for a in p] for p in pairs]
        alone = [bytes(_steps(*t).tobytes()) for t in tensors]
        together: dict[int, list[bytes]] = {}
        failures: list[BaseException] = []
        start = threading.Barrier(len(tensors))

        def work(rank: int) -> None:
            try:
                start.wait(30)
                together[rank] = [bytes(_steps(*tensors[rank]).tobytes()) for _ in range(8)]
            except BaseException as error:  # reported below, in the main thread
                failures.append(error)

        threads = [
            threading.Thread(target=contextvars.copy_context().run, args=(work, rank))
            for rank in range(len(tensors))
        ]
        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-5)  # threads meet in the middle of operations, not only between
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)
        finally:
            sys.setswitchinterval(interval)
        assert not any(thread.is_alive() for thread in threads), "a thread hangs"
        assert not failures, failures
        for rank, found in together.items():
            assert set(found) == {alone[rank]}, f"thread {rank} computed something else"
