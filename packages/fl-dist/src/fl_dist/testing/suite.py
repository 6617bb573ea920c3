"""``CommunicatorSuite``: the conformance tests of a communicator.

    class TestMine(CommunicatorSuite):
        communicator = MyCommunicator

Each test launches programs with ``communicator.run`` in worlds of 1 to 4 ranks. Sizes that
``communicator.offers`` refuses are left out, and capabilities it does not declare are skipped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fl_dist.communicator import Communicator
from fl_dist.contract import CAPABILITIES
from fl_dist.reduction import OPS
from fl_dist.testing import data, programs
from fl_dist.testing.data import Spec
from fl_dist.testing.suite_errors import FailureTests, worlds
from fl_memory.testing.kit import requires

SHAPES = [(), (0,), (3,), (2, 3), (0, 2), (5, 1, 2)]
DTYPES = ["float32", "int32", "int64", "uint8"]
both_ways = pytest.mark.parametrize("async_op", [False, True], ids=["blocking", "async"])


class CommunicatorSuite(FailureTests, official=True):
    """Subclass, name it ``Test...``, set ``communicator`` to the class under test."""

    def collective(
        self,
        world_size: int,
        name: str,
        specs: list[Spec],
        want: Callable[[int], Any],
        async_op: bool = False,
        **parameters: Any,
    ) -> None:
        """Run one collective; on rank r its result is ``want(r)`` and its values are values."""
        reports = self.launch(world_size, programs.collective, name, specs, parameters, async_op)
        for rank, report in enumerate(reports):
            expected = want(rank)
            for key in ("result", "result after rank 0 wrote to its own"):
                if key in report:
                    assert _agrees(report[key], expected), (rank, key, report[key], expected)
            for key in ("operands unchanged", "operands stayed", "new handles"):
                assert report[key], f"rank {rank}: {key}: no"
            assert report.get("same backend and device", True), f"rank {rank}: moved"
            assert all(report["work"]), f"rank {rank}: Work misbehaves: {report['work']}"

    # ---- the class and its launcher --------------------------------------------------------------

    def test_declares_known_capabilities(self) -> None:
        kind = type(self).communicator
        assert issubclass(kind, Communicator)
        assert isinstance(kind.name, str) and kind.name
        unknown = set(kind.capabilities) - set(CAPABILITIES)
        assert not unknown, f"capabilities are {sorted(CAPABILITIES)}"

    @worlds(1, 2, 3, 4)
    def test_run_gives_every_rank_its_number_and_arguments(self, world_size: int) -> None:
        found = self.launch(world_size, programs.introduce, "a", 2)
        assert found == [(rank, world_size, "a", 2) for rank in range(world_size)]

    @pytest.mark.parametrize("wrong", [0, -1, "2", None, True], ids=str)
    def test_run_refuses_a_world_size_that_is_none(self, wrong: Any) -> None:
        with pytest.raises(ValueError, match="world_size"):
            type(self).communicator.run(wrong, programs.introduce)

    # ---- collectives -----------------------------------------------------------------------------

    @worlds(1, 2, 3, 4)
    @pytest.mark.parametrize("op", OPS)
    @pytest.mark.parametrize("dtype", DTYPES)
    def test_all_reduce(self, world_size: int, op: str, dtype: str) -> None:
        if op == "mean" and not dtype.startswith("float"):
            dtype = "float32"
        spec: Spec = ((2, 3), dtype)
        want = data.reduced(range(world_size), op, spec)
        self.collective(world_size, "all_reduce", [spec], lambda rank: want, op=op)

    @worlds(2, 3, 4)
    @pytest.mark.parametrize("shape", SHAPES, ids=str)
    def test_all_reduce_of_any_shape(self, world_size: int, shape: tuple[int, ...]) -> None:
        spec: Spec = (shape, "float32")
        want = data.reduced(range(world_size), "sum", spec)
        self.collective(world_size, "all_reduce", [spec], lambda rank: want, op="sum")

    @worlds(1, 2, 3, 4)
    @both_ways
    @pytest.mark.parametrize("op", ["sum", "max"])
    def test_all_reduce_many(self, world_size: int, op: str, async_op: bool) -> None:
        specs: list[Spec] = [
            ((2, 3), "float32"),
            ((), "float32"),
            ((4,), "int32"),
            ((0,), "float32"),
            ((1, 2), "int32"),
        ]
        want = [
            data.reduced([rank + world_size * i for rank in range(world_size)], op, spec)
            for i, spec in enumerate(specs)
        ]
        self.collective(world_size, "all_reduce_many", specs, lambda rank: want, async_op, op=op)

    @worlds(1, 2, 3, 4)
    def test_all_reduce_many_of_nothing(self, world_size: int) -> None:
        self.collective(world_size, "all_reduce_many", [], lambda rank: [])

    @worlds(1, 2, 3, 4)
    @both_ways
    @pytest.mark.parametrize("dtype", [*DTYPES, "bool"])
    def test_broadcast_from_every_root(self, world_size: int, dtype: str, async_op: bool) -> None:
        for root in range(world_size):
            spec: Spec = ((2, 2), dtype)
            want = data.operand(root, spec)
            self.collective(world_size, "broadcast", [spec], lambda r: want, async_op, root=root)  # noqa: B023

    @worlds(1, 2, 3, 4)
    @both_ways
    @pytest.mark.parametrize("op", OPS)
    def test_reduce_to_every_root(self, world_size: int, op: str, async_op: bool) -> None:
        spec: Spec = ((3,), "float32")
        total = data.reduced(range(world_size), op, spec)
        for root in range(world_size):
            want = [total if rank == root else None for rank in range(world_size)]
            self.collective(
                world_size, "reduce", [spec], want.__getitem__, async_op, op=op, root=root
            )

    @worlds(1, 2, 3, 4)
    @both_ways
    @pytest.mark.parametrize("shape", SHAPES, ids=str)
    def test_all_gather(self, world_size: int, shape: tuple[int, ...], async_op: bool) -> None:
        spec: Spec = (shape, "int64")
        want = [data.operand(rank, spec) for rank in range(world_size)]
        self.collective(world_size, "all_gather", [spec], lambda rank: want, async_op)

    @worlds(1, 2, 3, 4)
    @both_ways
    @pytest.mark.parametrize("op", OPS)
    def test_reduce_scatter(self, world_size: int, op: str, async_op: bool) -> None:
        specs: list[Spec] = [((i + 1, 2), "float32") for i in range(world_size)]

        def want(rank: int) -> Any:
            mine = [r + world_size * rank for r in range(world_size)]
            return data.reduced(mine, op, specs[rank])

        self.collective(world_size, "reduce_scatter", specs, want, async_op, op=op)

    @worlds(1, 2, 3, 4)
    @both_ways
    @pytest.mark.parametrize("dtype", DTYPES)
    def test_all_to_all(self, world_size: int, dtype: str, async_op: bool) -> None:
        specs: list[Spec] = [((i, 2), dtype) for i in range(world_size)]

        def want(rank: int) -> Any:
            return [data.operand(r + world_size * rank, specs[rank]) for r in range(world_size)]

        self.collective(world_size, "all_to_all", specs, want, async_op)

    @worlds(2, 3, 4)
    def test_barrier_holds_everybody(self, world_size: int) -> None:
        times = self.launch(world_size, programs.barrier_times)
        assert max(came for came, _ in times) <= min(left for _, left in times)

    @worlds(2, 3, 4)
    def test_extremes_carry_nan_and_infinity(self, world_size: int) -> None:
        found = self.launch(world_size, programs.special_values)
        assert len({tuple(texts) for texts in found}) == 1
        highest, lowest, _ = found[0]
        assert "nan" in highest and "nan" in lowest
        if world_size == 2:
            assert highest == "[nan, 2.0, 2.0, nan]" and lowest == "[nan, 1.0, -inf, nan]"

    # ---- bits ------------------------------------------------------------------------------------

    @worlds(2, 3, 4)
    @pytest.mark.parametrize("name", ["all_reduce", "all_reduce_many"])
    def test_every_rank_gets_the_same_bits_every_time(self, world_size: int, name: str) -> None:
        found = self.launch(world_size, programs.reduced_bytes, name, "sum", "float32", 37)
        assert len({bits for rank in found for bits in rank}) == 1

    @worlds(2, 3, 4)
    @requires("ordered")
    @pytest.mark.parametrize("name", ["all_reduce", "all_reduce_many"])
    @pytest.mark.parametrize("op", ["sum", "mean", "prod"])
    def test_reduces_in_rank_order(self, world_size: int, op: str, name: str) -> None:
        found = self.launch(world_size, programs.reduced_bytes, name, op, "float32", 37)
        want = data.left_fold(world_size, op, "float32", 37)
        assert all(bits == want for rank in found for bits in rank)

    @worlds(2, 3, 4)
    def test_own_algorithms_equal_the_derived_ones(self, world_size: int) -> None:
        for rank in self.launch(world_size, programs.own_and_derived):
            for name, own, other in rank:
                assert _agrees(own, other), name

    # ---- messages --------------------------------------------------------------------------------

    @worlds(2, 3, 4)
    def test_messages_carry_shape_and_dtype_in_order(self, world_size: int) -> None:
        specs: list[Spec] = [(shape, dtype) for shape in SHAPES for dtype in (*DTYPES, "bool")]
        for rank, found in enumerate(self.launch(world_size, programs.messages, specs)):
            others = [r for r in range(world_size) if r != rank]
            want = [data.operand(r + i, spec) for r in others for i, spec in enumerate(specs)]
            assert _agrees(found, want)

    @worlds(1, 2, 3, 4)
    def test_every_dtype_of_the_backend_travels(self, world_size: int) -> None:
        for intact in self.launch(world_size, programs.every_dtype):
            assert len(intact) >= 5
            assert all(intact.values()), [name for name, well in intact.items() if not well]

    @worlds(2, 3, 4)
    def test_tags_are_separate_channels(self, world_size: int) -> None:
        assert self.launch(world_size, programs.tags)[1] == [4.0, 2.0, 1.0, 3.0]

    @worlds(2, 3, 4)
    def test_a_message_is_the_value_that_was_sent(self, world_size: int) -> None:
        assert self.launch(world_size, programs.sender_goes_on)[1] == [1.0, 2.0]

    @worlds(2, 4)
    def test_receives_may_be_posted_first(self, world_size: int) -> None:
        for rank, found in enumerate(self.launch(world_size, programs.posted_receives)):
            peer = rank ^ 1
            want = {"early": False, "total": world_size, "got": [20.0 + peer, 10.0 + peer]}
            assert found == want

    # ---- asynchronous work -----------------------------------------------------------------------

    @worlds(1, 2, 3, 4)
    @pytest.mark.parametrize("dtype", ["float32", "int32"])
    def test_async_all_reduce(self, world_size: int, dtype: str) -> None:
        spec: Spec = ((2, 3), dtype)
        want = data.reduced(range(world_size), "sum", spec)
        self.collective(world_size, "all_reduce", [spec], lambda rank: want, True, op="sum")

    @worlds(1, 2, 3, 4)
    def test_many_operations_in_flight_keep_their_order(self, world_size: int) -> None:
        count, ranks = 6, range(world_size)
        values = []
        for i in range(count):
            values.append([float(sum(i + r for r in ranks)), float(world_size)])
            values.append([float(i + i % world_size), 1.0])
        want = [[float(r) for r in ranks], [1.0], *reversed(values)]
        for found in self.launch(world_size, programs.in_flight, count):
            assert found == want

    @worlds(2, 3, 4)
    def test_a_wait_with_a_limit_leaves_the_operation_under_way(self, world_size: int) -> None:
        assert self.launch(world_size, programs.wait_with_limit)[0] == [True] * 4

    # ---- parts -----------------------------------------------------------------------------------

    @worlds(1, 2, 3, 4)
    def test_split_by_color_and_key(self, world_size: int) -> None:
        colors = [5, 0, 5, None][:world_size]
        keys = [9, 0, -1, 0][:world_size]
        parts: dict[Any, list[int]] = {5: [2, 0] if world_size > 2 else [0], 0: [1]}
        for rank, seen in enumerate(self.launch(world_size, programs.split_world, colors, keys)):
            assert seen["world"] == world_size
            assert seen["part"] == (colors[rank] is not None)
            if colors[rank] is not None:
                members = parts[colors[rank]]
                assert seen["members"] == members
                assert seen["rank"] == members.index(rank)
                assert seen["sum"] == sum(members)

    @worlds(2, 3, 4)
    def test_parts_of_parts_do_not_hear_one_another(self, world_size: int) -> None:
        for rank, heard in enumerate(self.launch(world_size, programs.split_again)):
            # The first part counts backwards: rank r has number n - 1 - r there.
            parity = (world_size - 1 - rank) % 2
            line = [r for r in reversed(range(world_size)) if (world_size - 1 - r) % 2 == parity]
            assert heard[0] == line
            if rank ^ 1 < world_size:
                assert heard[1:] == [3.0, 2.0, 1.0]

    # ---- randomness ------------------------------------------------------------------------------

    @worlds(2, 3, 4)
    def test_every_rank_has_random_numbers_of_its_own(self, world_size: int) -> None:
        import fl_tensor as ft

        ft.seed(7)
        first = self.launch(world_size, programs.random_numbers)
        again = self.launch(world_size, programs.random_numbers)
        ft.seed(7)
        assert self.launch(world_size, programs.random_numbers) == first
        assert len({tuple(numbers) for numbers in first + again}) == 2 * world_size


def _agrees(got: Any, want: Any) -> bool:
    if want is None or got is None:
        return got is None and want is None
    if isinstance(want, list):
        return len(got) == len(want) and all(_agrees(x, y) for x, y in zip(got, want))
    return data.close(got, want)
