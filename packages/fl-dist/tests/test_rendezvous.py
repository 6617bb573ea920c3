"""All ranks meet in the store, or all get the same error."""

from __future__ import annotations

import threading

import pytest

import fl_dist as dist
from fl_dist import RankInfo, open_store, rendezvous
from fl_dist.store import StoreError


def meet(url, ranks, timeout=20.0, world_size=None, communicators=None):
    """What each of these ranks gets: its payloads, or its error. Rank 0 serves the store."""
    results = [None] * len(ranks)

    def join(place, rank):
        info = RankInfo(rank, world_size or len(ranks), store=url)
        try:
            with open_store(url, server=rank == 0, timeout=timeout) as store:
                name = communicators[place] if communicators else "c"
                results[place] = rendezvous(store, info, name, b"%d" % rank, timeout)
        except dist.FlError as error:
            results[place] = error

    threads = [threading.Thread(target=join, args=one) for one in enumerate(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


@pytest.fixture
def url(tmp_path):
    return f"file:{tmp_path}"


def test_every_rank_gets_the_payloads_of_all_in_rank_order(url):
    assert meet(url, [2, 0, 1]) == [[b"0", b"1", b"2"]] * 3


def test_a_rank_that_starts_twice_is_an_error_on_all(url):
    results = meet(url, [0, 1, 1])
    for error in results:
        assert isinstance(error, StoreError)
        assert "rank 1 was started twice: rank 1 (process " in str(error)


def test_a_rank_that_comes_when_all_are_there_is_told_so(url):
    info = RankInfo(0, 1, store=url)
    with open_store(url, server=True) as store:
        assert rendezvous(store, info, "c", b"x") == [b"x"]
        with pytest.raises(
            StoreError, match="came when all 1 had come.*started twice, or two jobs"
        ):
            rendezvous(store, info, "c")


def test_a_rank_that_never_comes_is_named_on_all(url):
    results = meet(url, [0, 2], timeout=0.5, world_size=4)
    for error in results:
        assert isinstance(error, dist.DistTimeoutError)
        assert "gave up after 0.5 s: ranks 1, 3 of 4 did not come" in str(error)


def test_without_rank_0_the_others_give_up(url, monkeypatch):
    monkeypatch.setattr(module_of(rendezvous), "SLACK", 0.1)
    with open_store(url, server=True) as store:  # a launcher's
        with pytest.raises(dist.DistTimeoutError, match="rank 0 of 2 did not come"):
            rendezvous(store, RankInfo(1, 2, store=url), "c", timeout=0.2)


def test_mixed_versions_are_an_error_on_all(url, monkeypatch):
    greeting = module_of(rendezvous).greeting

    def older(info, communicator, payload):
        said = greeting(info, communicator, payload)
        if info.rank == 1:
            said["equal"]["version of fl-dist"] = "0.0.9"
        return said

    monkeypatch.setattr(module_of(rendezvous), "greeting", older)
    for error in meet(url, [0, 1]):
        assert "differ in the version of fl-dist: " in str(error)
        assert "0.0.9 in rank 1 (process " in str(error)


def test_another_communicator_or_world_size_is_an_error_on_all(url):
    for error in meet(url, [0, 1], communicators=["mpi", "gloo"]):
        assert "differ in the communicator: mpi in rank 0" in str(error)


def test_a_bad_timeout_is_refused(url):
    with open_store(url, server=True) as store:
        with pytest.raises(dist.ArgumentError, match="timeout"):
            rendezvous(store, RankInfo(), "c", timeout=0)


def module_of(function):
    import sys

    return sys.modules[function.__module__]
