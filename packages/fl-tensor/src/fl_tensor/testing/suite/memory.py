"""The capability "memory": large results lie in blocks of the installed memory manager."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest

import fl_memory
import fl_tensor as ft
from fl_memory.testing.kit import hide
from fl_tensor.testing.harness import Harness
from fl_tensor.testing.suite.base import TensorSuite

__tracebackhide__ = hide

#: Elements of ``x``, float32: four times the default threshold of 4 KiB.
N = 4096

CALLS: dict[str, Callable[[Any], Any]] = {
    "full": lambda x: ft.full_like(x, 2.0),
    "from_host": lambda x: ft.frombytes(bytes(4 * N), N, "float32", backend=x.backend),
    "random_bits": lambda x: ft.Generator(0).uniform(N, backend=x.backend),
    "add": lambda x: x + x,
    "add-broadcast": lambda x: x.reshape(N, 1) + ft.ones_like(x)[:2],
    "exp": ft.exp,
    "erf": ft.erf,
    "less": lambda x: ft.concatenate([x, x]) < 1,
    "where": lambda x: ft.where(x > 0, x, 0.0),
    "cast": lambda x: x.astype("int64"),
    "sum": lambda x: ft.stack([x, x]).sum(0),
    "cumulative_sum": ft.cumulative_sum,
    "matmul": lambda x: x.reshape(64, 64) @ x.reshape(64, 64),
    "conv": lambda x: ft.conv(x.reshape(1, 1, 64, 64), x[:18].reshape(2, 1, 3, 3), padding=1),
    "concatenate": lambda x: ft.concatenate([x, x]),
    "pad": lambda x: ft.pad(x, 1),
    "gather": lambda x: x[ft.asarray(range(N), backend=x.backend)],
    "scatter": lambda x: ft.scatter(x, [0], [1.0]),
    "sort": ft.sort,
    "argsort": ft.argsort,
    "nonzero": lambda x: ft.nonzero(x)[0],
    "argmax": lambda x: ft.argmax(ft.stack([x, x]), axis=0),
}


def settle(harness: Harness) -> None:
    """Run all operations that a backend may have deferred, and free unreachable values."""
    ft.synchronize(backend=harness.backend)
    gc.collect()


class MemoryTests(TensorSuite, official=True):
    """Blocks as long as somebody can see the value, and no longer."""

    @pytest.mark.parametrize("call", list(CALLS))
    def test_large_results_are_blocks(self, harness: Harness, call: str) -> None:
        """A result of ``small_bytes`` or more lies in a block of the manager in use; the block goes
        home when the last handle dies."""
        if "memory" not in harness.backend.capabilities:
            pytest.skip("capability 'memory' is not declared")
        x = ft.full((N,), 1.0, backend=harness.backend)
        with fl_memory.use("caching") as manager:
            settle(harness)
            before = manager.stats().live_bytes
            result = CALLS[call](x)
            settle(harness)
            held = manager.stats().live_bytes - before
            assert held >= result.nbytes, f"{result.nbytes} bytes, {held} of them in blocks"
            other = result.copy()
            del result
            settle(harness)
            assert manager.stats().live_bytes - before >= other.nbytes, "a handle has lost its data"
            del other
            settle(harness)
            assert manager.stats().live_bytes == before, "the block was not given back"
