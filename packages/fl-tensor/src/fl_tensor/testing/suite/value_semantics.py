"""Tests of value semantics: no visible value ever changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fl_memory.testing.kit import hide
from fl_tensor import dtypes
from fl_tensor.errors import FlError
from fl_tensor.testing.harness import Harness
from fl_tensor.testing.opcase import operand
from fl_tensor.testing.suite.base import TensorSuite

__tracebackhide__ = hide

#: Ways to get a second value from one: each may share storage with it.
VIEWS = {
    "itself": lambda ops, x: x,
    "reshape": lambda ops, x: ops.reshape(x, (6, 1)),
    "permute": lambda ops, x: ops.permute(ops.reshape(x, (2, 3)), (1, 0)),
    "slice": lambda ops, x: ops.slice(x, (1,), (4,), (1,)),
    "reversed": lambda ops, x: ops.slice(x, (5,), (6,), (-1,)),
    "broadcast_to": lambda ops, x: ops.broadcast_to(x, (2, 6)),
    "concatenate": lambda ops, x: ops.concatenate([x], 0),
    "gather": lambda ops, x: ops.gather(x, ops.arange(0, 6, 1, dtypes.int64, x.device), 0),
    "cast": lambda ops, x: ops.cast(x, x.dtype),
    "sort": lambda ops, x: ops.sort(x, 0, False),
    "pad": lambda ops, x: ops.pad(x, (0,), (0,), (0,), 0),
    "round": lambda ops, x: ops.round(x),
    "where": lambda ops, x: ops.where(ops.equal(x, x), x, x),
}
COUNT = np.arange(6.0)


class ValueSemanticsTests(TensorSuite, official=True):
    """``from_host``, ``to_host``, ``scatter`` and ``donate``."""

    def numbers(self, harness: Harness, values: Any = COUNT) -> Any:
        return harness.put(operand(values, dtypes.float32))

    def test_from_host_copies(self, harness: Harness) -> None:
        """Writing to the buffer afterwards does not reach the value."""
        self.need_values(harness)
        buffer = bytearray(COUNT.astype(np.float32).tobytes())
        x = harness.backend.from_host(memoryview(buffer), (6,), dtypes.float32, harness.device)
        buffer[:] = bytes(len(buffer))
        assert harness.get(x).tolist() == COUNT.tolist(), "the value follows its source buffer"

    @pytest.mark.parametrize("source", ["bytes", "bytearray", "array", "offset"])
    def test_from_host_reads_any_buffer(self, harness: Harness, source: str) -> None:
        """Read-only and writable memory, of any format, at any alignment."""
        self.need_values(harness)
        data: Any = COUNT.astype(np.float32)
        views = {
            "bytes": memoryview(data.tobytes()),
            "bytearray": memoryview(bytearray(data.tobytes())),
            "array": data.data.cast("B"),
            "offset": memoryview(b"\0" + data.tobytes())[1:],
        }
        x = harness.backend.from_host(views[source], (6,), dtypes.float32, harness.device)
        assert harness.get(x).tolist() == COUNT.tolist()

    def test_transfers_that_do_not_block(self, harness: Harness) -> None:
        """Without ``blocking`` the bytes are there after ``synchronize``, both ways."""
        self.need_values(harness)
        backend, data = harness.backend, memoryview(bytes(range(256)))
        x = backend.from_host(data, (256,), dtypes.uint8, harness.device, False)
        backend.synchronize(harness.device)
        out = backend.to_host(x, False)
        backend.synchronize(harness.device)
        assert bytes(out) == bytes(data)

    def test_to_host_is_read_only_bytes(self, harness: Harness) -> None:
        """One axis, format "B", read-only, C order, also for a permuted value."""
        self.need_values(harness)
        ops = harness.backend
        x = ops.permute(ops.reshape(self.numbers(harness), (2, 3)), (1, 0))
        data = ops.to_host(x)
        assert isinstance(data, memoryview)
        assert (data.format, data.ndim, data.readonly, data.nbytes) == ("B", 1, True, 24)
        assert np.frombuffer(data, np.float32).tolist() == [0, 3, 1, 4, 2, 5]

    def test_to_host_refused_without_values(self, harness: Harness) -> None:
        """A shapes-only backend says so instead of inventing data."""
        if harness.backend.has_values:
            pytest.skip("the backend has values")
        with pytest.raises(FlError):
            harness.backend.to_host(self.numbers(harness))

    @pytest.mark.parametrize("donate", [False, True], ids=["keep", "donate"])
    @pytest.mark.parametrize("mode", ["set", "add"])
    @pytest.mark.parametrize("view", sorted(VIEWS))
    def test_scatter_reaches_no_other_value(
        self, harness: Harness, view: str, mode: str, donate: bool
    ) -> None:
        """Whatever shares storage with the operand keeps its values; a donated operand too, while
        something else can see it."""
        self.need_values(harness)
        ops = harness.backend
        x = self.numbers(harness)
        other = VIEWS[view](ops, x)
        exported, before = ops.to_host(other), harness.get(other).copy()
        indices = harness.put(operand([0, 5, 2], dtypes.int64))
        result = ops.scatter(x, indices, self.numbers(harness, [7, 8, 9]), 0, mode, donate=donate)
        want = np.array([7, 1, 9, 3, 4, 8]) if mode == "set" else np.array([7, 1, 11, 3, 4, 13])
        assert harness.get(result).tolist() == want.tolist()
        if view == "itself" and donate:
            return  # the caller gave it up
        assert np.array_equal(harness.get(other), before), f"scatter changed the {view} of x"
        seen = np.frombuffer(exported, np.float32).reshape(before.shape)
        assert np.array_equal(seen, before), "scatter changed bytes that to_host had handed out"

    @pytest.mark.parametrize("donate", [False, True], ids=["keep", "donate"])
    def test_slice_update_reaches_no_other_value(self, harness: Harness, donate: bool) -> None:
        self.need_values(harness)
        ops = harness.backend
        x = self.numbers(harness)
        other = ops.reshape(x, (2, 3))
        result = ops.slice_update(x, (1,), (2,), self.numbers(harness, [7, 8]), donate=donate)
        assert harness.get(result).tolist() == [0, 7, 2, 8, 4, 5]
        assert harness.get(other).ravel().tolist() == COUNT.tolist()

    def test_donated_view_spares_its_source(self, harness: Harness) -> None:
        """Donating a view gives up the view, not the value it was made from."""
        self.need_values(harness)
        ops = harness.backend
        x = self.numbers(harness)
        index = harness.put(operand([0], dtypes.int64))
        update = self.numbers(harness, [[9], [9]])
        ops.scatter(ops.reshape(x, (2, 3)), index, update, 1, "set", donate=True)
        assert harness.get(x).tolist() == COUNT.tolist()

    def test_exported_bytes_outlive_the_value(self, harness: Harness) -> None:
        """The memory of ``to_host`` stays valid after the value and its backend's next results."""
        self.need_values(harness)
        ops = harness.backend
        x = ops.add(self.numbers(harness, np.zeros(3000)), self.numbers(harness, 1.0))
        data = ops.to_host(x)
        del x
        for _ in range(3):
            ops.add(self.numbers(harness, np.zeros(3000)), self.numbers(harness, 5.0))
        assert np.frombuffer(data, np.float32).tolist() == [1.0] * 3000
