"""Conformance tests of messages and asynchronous work."""

from __future__ import annotations

import pytest

from fl_dist.testing import data, message_programs, programs
from fl_dist.testing.data import DTYPES, SHAPES, Spec, agrees
from fl_dist.testing.suite_errors import FailureTests, worlds


class MessageTests(FailureTests, official=True):
    """A part of ``CommunicatorSuite``."""

    @worlds(2, 3, 4)
    def test_messages_carry_shape_and_dtype_in_order(self, world_size: int) -> None:
        specs: list[Spec] = [(shape, dtype) for shape in SHAPES for dtype in (*DTYPES, "bool")]
        for rank, found in enumerate(self.launch(world_size, message_programs.messages, specs)):
            others = [r for r in range(world_size) if r != rank]
            want = [data.operand(r + i, spec) for r in others for i, spec in enumerate(specs)]
            assert agrees(found, want)

    @worlds(1, 2, 3, 4)
    def test_every_dtype_of_the_backend_travels(self, world_size: int) -> None:
        for intact in self.launch(world_size, message_programs.every_dtype):
            assert len(intact) >= 5
            assert all(intact.values()), [name for name, well in intact.items() if not well]

    @worlds(2, 3, 4)
    def test_tags_are_separate_channels(self, world_size: int) -> None:
        assert self.launch(world_size, message_programs.tags)[1] == [4.0, 2.0, 1.0, 3.0]

    @worlds(2, 3, 4)
    def test_a_message_is_the_value_that_was_sent(self, world_size: int) -> None:
        assert self.launch(world_size, message_programs.sender_goes_on)[1] == [1.0, 2.0]

    @worlds(2, 4)
    def test_receives_may_be_posted_first(self, world_size: int) -> None:
        for rank, found in enumerate(self.launch(world_size, message_programs.posted_receives)):
            peer = rank ^ 1
            want = {"early": False, "total": world_size, "got": [20.0 + peer, 10.0 + peer]}
            assert found == want

    @worlds(2, 3, 4)
    def test_a_receive_from_anybody_names_the_sender(self, world_size: int) -> None:
        found, others, error = self.launch(world_size, message_programs.from_anybody)[0]
        assert others == [-1.0] * (world_size - 1)
        for r in range(1, world_size):
            assert [value for src, value in found if src == r] == [10.0 * r + 1, 10.0 * r + 2]
        assert "DistTimeoutError" in error[0] and "recv" in error[1], error

    @worlds(2, 3, 4)
    def test_a_probe_looks_without_taking(self, world_size: int) -> None:
        found = self.launch(world_size, message_programs.probed)
        want = [False, True, False, 1.0, 2.0, False]
        assert found == [want if rank ^ 1 < world_size else [] for rank in range(world_size)]

    @worlds(2, 3, 4)
    def test_waiting_for_any_work(self, world_size: int) -> None:
        order, empty, in_vain = self.launch(world_size, message_programs.waited_for_any)[0]
        assert order == [float(r) for r in range(world_size - 1, 0, -1)]
        assert "ArgumentError" in empty[0]
        assert "DistTimeoutError" in in_vain[0], in_vain

    @worlds(2, 3)
    def test_a_receive_into_a_known_shape(self, world_size: int) -> None:
        for rank, found in enumerate(self.launch(world_size, message_programs.received_like)):
            value, new, refused = found
            before = float((rank - 1) % world_size)
            assert agrees(value, ("float32", (2, 3), [before] * 6)) and new
            assert "DistError" in refused[0] and "(6,)" in refused[1], refused

    @worlds(2, 3)
    def test_what_follows_an_operation(self, world_size: int) -> None:
        want = [3.0 * world_size + 1.0, True, "KeyError", "DistTimeoutError", []]
        for found in self.launch(world_size, message_programs.followed):
            assert found == [*want, [1.0 * world_size, 2.0 * world_size]]

    @worlds(1, 2, 3)
    def test_plain_values(self, world_size: int) -> None:
        want = [{"rank": r, "text": "x" * (5 * r), "number": 0.1 * r} for r in range(world_size)]
        for gathered, last, refused in self.launch(world_size, message_programs.objects):
            assert gathered == want and last == want[-1]
            assert "ArgumentError" in refused[0], refused

    # ---- asynchronous work -----------------------------------------------------------------------

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
        parts = {5: [2, 0] if world_size > 2 else [0], 0: [1]}
        for rank, seen in enumerate(self.launch(world_size, programs.split_world, colors, keys)):
            color = colors[rank]
            assert seen["world"] == world_size
            assert seen["part"] == (color is not None)
            if color is not None:
                members = parts[color]
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

    @worlds(4)
    @pytest.mark.parametrize("name", ["all_reduce", "all_gather", "broadcast", "barrier"])
    def test_collectives_of_parts_at_the_same_time(self, world_size: int, name: str) -> None:
        for rank, found in enumerate(self.launch(world_size, programs.in_parts, name)):
            members = [r for r in range(world_size) if r % 2 == rank % 2]
            want = {
                "all_reduce": [float(sum(members))],
                "all_gather": [float(r) for r in members],
                "broadcast": [float(members[0])],
                "barrier": [],
            }
            assert found == want[name]
