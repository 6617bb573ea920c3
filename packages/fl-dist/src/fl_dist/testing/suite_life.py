"""Conformance tests of the life of a world: joining, closing, aborting, exit codes."""

from __future__ import annotations

import pickle
from typing import Any, ClassVar

import pytest

from fl_dist.communicator import Communicator
from fl_dist.contract import CAPABILITIES
from fl_dist.errors import ProgramError
from fl_dist.testing import life_programs, outside, programs
from fl_dist.testing.suite_errors import FailureTests, worlds


class LifeTests(FailureTests, official=True):
    """A part of ``CommunicatorSuite``."""

    #: How ranks in processes find one another when the suite starts them itself: "file:" stands for
    #: a new folder. "", like ``own_launcher`` of the communicator, leaves these tests out.
    outside_store: ClassVar[str] = "file:"

    def test_declares_what_the_contract_knows(self) -> None:
        kind = type(self).communicator
        assert issubclass(kind, Communicator)
        assert isinstance(kind.name, str) and kind.name
        unknown = set(kind.capabilities) - set(CAPABILITIES)
        assert not unknown, f"capabilities are {sorted(CAPABILITIES)}"
        assert kind.ranks_are in ("processes", "threads")
        assert kind.thread_rule in ("many", "one")

    @worlds(1, 2, 3, 4)
    def test_run_gives_every_rank_its_number_and_arguments(self, world_size: int) -> None:
        found = self.launch_new(world_size, programs.introduce, "a", 2)
        assert found == [(rank, world_size, "a", 2) for rank in range(world_size)]

    @pytest.mark.parametrize("wrong", [0, -1, "2", None, True], ids=str)
    def test_run_refuses_a_world_size_that_is_none(self, wrong: Any) -> None:
        with pytest.raises(ValueError, match="world_size"):
            type(self).communicator.run(wrong, programs.introduce)

    @worlds(2, 3, 4)
    def test_every_rank_has_random_numbers_of_its_own(self, world_size: int) -> None:
        import fl_tensor as ft

        ft.seed(7)
        first = self.launch_new(world_size, programs.random_numbers)
        again = self.launch_new(world_size, programs.random_numbers)
        ft.seed(7)
        assert self.launch_new(world_size, programs.random_numbers) == first
        assert len({tuple(numbers) for numbers in first + again}) == 2 * world_size

    @worlds(2, 4)
    def test_ranks_join_from_outside(self, world_size: int, tmp_path: Any) -> None:
        kind = type(self).communicator
        n = world_size
        want = [[float(n * (n - 1) // 2), float((rank - 1) % n)] for rank in range(n)]
        if kind.ranks_are == "threads":
            assert outside.in_threads(kind, n, life_programs.greet) == want
            return
        ended = outside.in_processes(kind, n, life_programs.greet, self._store(tmp_path))
        assert [(one.status, one.result) for one in ended] == [(0, x) for x in want], ended

    @worlds(2)
    def test_a_rank_that_fails_ends_every_process_with_an_exit_code(
        self, world_size: int, tmp_path: Any
    ) -> None:
        kind = type(self).communicator
        if kind.ranks_are == "threads":
            pytest.skip("its ranks are threads: they have no exit codes")
        ended = outside.in_processes(
            kind, world_size, life_programs.greet_and_fail, self._store(tmp_path)
        )
        assert all(one.status not in (0, None) for one in ended), ended
        assert all("injected failure" in one.errors for one in ended), ended

    def _store(self, folder: Any) -> str:
        if type(self).communicator.own_launcher or not self.outside_store:
            pytest.skip("own_launcher: only that starts its ranks")
        return f"file:{folder}" if self.outside_store == "file:" else self.outside_store

    @worlds(1, 2, 3)
    def test_closing_twice_is_closing_once(self, world_size: int) -> None:
        for ended, again, after in self.launch_new(world_size, life_programs.close_twice):
            assert ended == again == ([], "")
            assert "DistError" in after[0] and "closed" in after[1], after

    @worlds(1, 2)
    def test_a_with_block_closes(self, world_size: int) -> None:
        for kinds, text in self.launch_new(world_size, life_programs.closed_by_with):
            assert "DistError" in kinds and "closed" in text, (kinds, text)

    @worlds(2, 3)
    def test_an_abort_reaches_the_others(self, world_size: int) -> None:
        found = self.launch_new(world_size, life_programs.one_aborts)
        assert [tuple(x) for x in found[1:]] == [("PeerError", 0, "injected abort")] * (
            world_size - 1
        )

    @worlds(2, 3)
    def test_errors_of_ranks_arrive_whole_and_pickle(self, world_size: int) -> None:
        with pytest.raises(ProgramError) as caught:
            self.launch_new(world_size, life_programs.one_raises)
        error = pickle.loads(pickle.dumps(caught.value))
        assert str(error) == str(caught.value) and error.rank == 0
        first = error.errors[0]
        assert isinstance(first, life_programs.PlainError)
        assert (first.code, first.place) == (7, "the start")
        for rank in range(1, world_size):
            peer = error.errors[rank]
            assert (peer.rank, peer.cause) == (0, "PlainError: code 7 at the start")
