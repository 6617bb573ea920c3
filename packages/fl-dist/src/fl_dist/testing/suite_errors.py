"""Conformance tests of failures: prompt errors on every rank, with rank and cause."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

import pytest

from fl_dist.communicator import Communicator
from fl_dist.errors import ProgramError
from fl_dist.registry import REGISTRY
from fl_dist.testing import failure_programs, pool
from fl_memory.testing.kit import Suite, requires

PROMPT = 5.0  # seconds in which bad news must have spread


Test = TypeVar("Test", bound=Callable[..., Any])


def worlds(*sizes: int) -> Callable[[Test], Test]:
    """The test takes a ``world_size``: each of these that the communicator offers."""

    def mark(test: Test) -> Test:
        test.__fl_worlds__ = sizes  # type: ignore[attr-defined]
        return test

    return mark


class FailureTests(Suite, official=True):
    """A part of ``CommunicatorSuite``."""

    subject = "communicator"
    what = "communicator"
    host = REGISTRY.host
    host_package = "fl-dist"

    #: The class under test.
    communicator: ClassVar[type[Communicator]]

    @classmethod
    def __fl_generate__(cls, metafunc: pytest.Metafunc) -> list[str]:
        sizes = getattr(metafunc.function, "__fl_worlds__", None)
        if sizes is None:
            return []
        offers = getattr(getattr(cls, "communicator", None), "offers", None)
        metafunc.parametrize("world_size", [n for n in sizes if offers is None or offers(n)])
        return ["world_size"]

    def launch(self, world_size: int, program: Callable[..., Any], *args: Any) -> list[Any]:
        """The program's result on every rank, in a world that all tests use."""
        return pool.launch(type(self).communicator, world_size, program, *args)

    def launch_new(self, world_size: int, program: Callable[..., Any], *args: Any) -> list[Any]:
        """``run``, for programs that end their world. Waiting has a limit, so that a communicator
        that hangs fails instead."""
        return type(self).communicator.run(world_size, program, *args, timeout=pool.LIMIT)

    @worlds(2, 3, 4)
    def test_refuses_wrong_arguments_and_stays_in_step(self, world_size: int) -> None:
        for found in self.launch(world_size, failure_programs.refused):
            assert found.pop("in step afterwards") == ([], "")
            for what, (kinds, text) in found.items():
                assert "FlError" in kinds, f"{what}: got {kinds or 'no error'}"
                assert "ValueError" in kinds or "TypeError" in kinds, what
                assert text.startswith("["), f"{what}: does not name the operation: {text}"

    @worlds(2, 3, 4)
    @requires("agreement")
    @pytest.mark.parametrize("kind", list(failure_programs.MISMATCHES))
    def test_a_mismatch_is_an_error_on_every_rank(self, world_size: int, kind: str) -> None:
        texts = failure_programs.MISMATCHES[kind]
        for kinds, message, in_step in self.launch(world_size, failure_programs.mismatched, kind):
            assert "MismatchError" in kinds, kinds
            for rank in range(world_size):
                did = texts[0 if rank == 0 else 1].partition(" ")[0]
                lines = [line for line in message.splitlines() if f"rank {rank}:" in line]
                assert len(lines) == 1 and did in lines[0], message
            assert in_step

    @worlds(2, 3, 4)
    @requires("agreement")
    def test_a_mismatch_of_async_calls_comes_with_the_work(self, world_size: int) -> None:
        assert self.launch(world_size, failure_programs.mismatched_async) == [True] * world_size

    @worlds(2, 3, 4)
    @pytest.mark.parametrize("name", ["recv", "barrier"])
    def test_timeout(self, world_size: int, name: str) -> None:
        for kinds, text, seconds in self.launch_new(world_size, failure_programs.late, name)[:-1]:
            assert "DistTimeoutError" in kinds and "TimeoutError" in kinds, kinds
            assert name in text
            assert seconds < failure_programs.SHORT + PROMPT

    @worlds(2, 3)
    def test_the_record_of_a_rank_shows_what_it_waited_for(self, world_size: int) -> None:
        found = self.launch_new(world_size, failure_programs.recorded)[0]
        assert [number for number, _, _ in found] == [1, 2, 3]
        names = [text.partition(" ")[0] for _, text, _ in found]
        assert names == ["all_reduce", "broadcast", "barrier"]
        assert all(took is not None for _, _, took in found)

    @worlds(2, 3, 4)
    @pytest.mark.parametrize("victim", ["first", "last"])
    @pytest.mark.parametrize("waiting_in", ["all_reduce", "async", "recv", "recv from anybody"])
    def test_a_dead_rank_is_a_prompt_error(
        self, world_size: int, waiting_in: str, victim: str
    ) -> None:
        dead = 0 if victim == "first" else world_size - 1
        with pytest.raises(ProgramError, match="injected failure") as caught:
            self.launch_new(world_size, failure_programs.one_dies, waiting_in, dead)
        assert caught.value.rank == dead
        for rank, error in caught.value.errors.items():
            kind = type(error).__name__
            assert kind == ("ValueError" if rank == dead else "PeerError"), (rank, error)
            assert "injected failure" in str(error)
            assert getattr(error, "rank", dead) == dead
            assert getattr(error, "waited", 0.0) < PROMPT
        assert len(caught.value.errors) == world_size

    @worlds(2, 3, 4)
    def test_a_rank_that_leaves_is_a_prompt_error(self, world_size: int) -> None:
        with pytest.raises(ProgramError) as caught:
            self.launch_new(world_size, failure_programs.one_leaves)
        for error in caught.value.errors.values():
            assert getattr(error, "waited", 0.0) < PROMPT
