"""``CommunicatorSuite``: the conformance tests of a communicator.

    class TestMine(CommunicatorSuite):
        communicator = MyCommunicator

Each test runs programs in worlds of 1 to 4 ranks. Sizes that ``communicator.offers`` refuses are
left out, and capabilities it does not declare are skipped. Worlds are started once and used by all
tests (``fl_dist.testing.pool``), except where a test is about the start or the end of one.
``--fl-quick`` takes a sample of the tests.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import pytest

from fl_dist.reduction import OPS
from fl_dist.testing import data, programs, random_programs
from fl_dist.testing.data import DTYPES, SHAPES, Spec, agrees
from fl_dist.testing.suite_errors import FailureTests, worlds
from fl_dist.testing.suite_life import LifeTests
from fl_dist.testing.suite_messages import MessageTests
from fl_memory.testing.kit import requires

both_ways = pytest.mark.parametrize("async_op", [False, True], ids=["blocking", "async"])


class CommunicatorSuite(LifeTests, MessageTests, FailureTests, official=True):
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
                    assert agrees(report[key], expected), (rank, key, report[key], expected)
            for key in ("operands unchanged", "operands stayed", "new handles"):
                assert report[key], f"rank {rank}: {key}: no"
            assert report.get("same backend and device", True), f"rank {rank}: moved"
            assert all(report["work"]), f"rank {rank}: Work misbehaves: {report['work']}"

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

    @worlds(2, 3, 4)
    @both_ways
    @pytest.mark.parametrize("op", OPS)
    def test_reduce_scatter_tensor(self, world_size: int, op: str, async_op: bool) -> None:
        spec: Spec = ((2 * world_size + 1, 2), "float32")
        total = data.reduced(range(world_size), op, spec)
        counts = [2 + (rank < 1) for rank in range(world_size)]  # the first takes the rest

        def want(rank: int) -> Any:
            return data.rows(total, sum(counts[:rank]), counts[rank])

        name = "reduce_scatter_tensor"
        self.collective(world_size, name, [spec], want, async_op, op=op)

    @worlds(1, 2, 3, 4)
    @both_ways
    def test_flat_forms_with_uneven_shares(self, world_size: int, async_op: bool) -> None:
        n = world_size
        joined = [float(10 * r + i) for r in range(n) for i in range(2 * r)]
        for rank, found in enumerate(self.launch(n, programs.uneven, async_op)):
            gathered, counted, share = found
            assert agrees(gathered, ("float32", (len(joined) // 2, 2), joined)), rank
            assert counted == gathered
            first = rank * (rank - 1) // 2  # rank r takes r rows
            rows = [float(n * i) for i in range(first, first + rank)]
            assert agrees(share, ("float32", (rank,), rows)), (rank, share)

    @worlds(1, 2, 3, 4)
    @both_ways
    @pytest.mark.parametrize("dtype", DTYPES)
    def test_gather_to_every_root(self, world_size: int, dtype: str, async_op: bool) -> None:
        spec: Spec = ((2, 2), dtype)
        everybody = [data.operand(rank, spec) for rank in range(world_size)]
        for root in range(world_size):
            want = [everybody if rank == root else None for rank in range(world_size)]
            self.collective(world_size, "gather", [spec], want.__getitem__, async_op, root=root)

    @worlds(1, 2, 3, 4)
    @both_ways
    @pytest.mark.parametrize("dtype", DTYPES)
    def test_scatter_from_every_root(self, world_size: int, dtype: str, async_op: bool) -> None:
        for rank, found in enumerate(self.launch(world_size, programs.scattered, dtype, async_op)):
            for root, got in enumerate(found):
                assert agrees(got, data.operand(rank + 10 * root, ((rank, 2), dtype))), (rank, root)

    @worlds(1, 2, 3)
    def test_a_donated_tensor_is_given_up(self, world_size: int) -> None:
        for found in self.launch(world_size, programs.donated):
            total, other_handle, used, made, async_total = found
            assert total == async_total == [3.0 * world_size] * 4
            assert other_handle == [3.0] * 4, "another handle of the same value was changed"
            assert "DistError" in used[0] and "donated" in used[1], used
            assert made == [0.0] * 4

    @worlds(1, 2)
    def test_explains_how_it_treats_a_tensor(self, world_size: int) -> None:
        for found in self.launch(world_size, programs.explained):
            for what, text in found.items():
                assert text == "native" or text.startswith("staged: "), (what, text)

    # ---- random programs -------------------------------------------------------------------------

    @worlds(2, 3, 4)
    @pytest.mark.parametrize("block", range(20))
    def test_random_programs(self, world_size: int, block: int) -> None:
        dtypes = random_programs.available_dtypes()
        seeds = list(range(10 * block, 10 * block + 10))
        found = self.launch(world_size, random_programs.run, seeds, dtypes)
        exact = "ordered" in type(self).communicator.capabilities
        for i, seed in enumerate(seeds):
            for number, step in enumerate(random_programs.program(seed, world_size, dtypes)):
                results = [its[i][number] for its in found]
                wrong = random_programs.wrong(seed, number, step, results, exact)
                assert not wrong, f"program {seed}, step {number}, {step}: {wrong}"

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
    def test_sixteen_bit_floats_are_summed_in_float32(self, world_size: int) -> None:
        more = {2: 0.0, 3: 2.0, 4: 4.0}[world_size]  # ones, rounded to even once
        for found in self.launch(world_size, programs.sums_of_halves):
            assert all(pair == [more, True] for pair in found.values()), found

    @worlds(2, 3, 4)
    def test_own_algorithms_equal_the_derived_ones(self, world_size: int) -> None:
        for rank in self.launch(world_size, programs.own_and_derived):
            for name, own, other in rank:
                assert agrees(own, other), name

    @worlds(1, 2, 3, 4)
    @pytest.mark.parametrize("dtype", ["float32", "int32"])
    def test_async_all_reduce(self, world_size: int, dtype: str) -> None:
        spec: Spec = ((2, 3), dtype)
        want = data.reduced(range(world_size), "sum", spec)
        self.collective(world_size, "all_reduce", [spec], lambda rank: want, True, op="sum")

    @classmethod
    def __fl_quick__(cls, names: Sequence[str]) -> Collection[str]:
        """All but one case of each test, so that a run takes seconds."""
        left_out: dict[str, list[str]] = {}
        for name in names:
            left_out.setdefault(name.partition("[")[0], []).append(name)
        for cases in left_out.values():
            # A different case of each test: some with 2 ranks, some with more.
            del cases[len(cases[0]) % len(cases)]
        return {name for cases in left_out.values() for name in cases}
