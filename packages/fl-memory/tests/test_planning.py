"""Offline packing of lifetimes."""

from __future__ import annotations

import random

import pytest

from fl_memory.planning import Lifetime, Packing, pack, peak_live

ROUND = 200


def moments(x: Lifetime) -> set[int]:
    """The moments at which a block is alive, in one round."""
    if x.end >= x.begin:
        return set(range(x.begin, x.end))
    return {*range(x.begin, ROUND), *range(x.end)}


def check(lifetimes: list[Lifetime], packing: Packing) -> None:
    """No two blocks that are alive together share a byte; all lie in the slab, aligned."""
    places = list(zip(lifetimes, packing.offsets, strict=True))
    alive = [moments(x) for x in lifetimes]
    for i, (x, offset) in enumerate(places):
        assert 0 <= offset <= offset + x.nbytes <= packing.height
        assert offset % x.alignment == 0
        for j in range(i):
            y, other = places[j]
            if offset < other + y.nbytes and other < offset + x.nbytes:
                assert not alive[i] & alive[j], (x, y)


def test_blocks_that_never_meet_share_their_place() -> None:
    packing = pack([Lifetime(0, 3, 640), Lifetime(3, 5, 640), Lifetime(5, 9, 128)])
    assert packing == Packing([0, 0, 0], 640)


def test_blocks_that_meet_lie_side_by_side() -> None:
    lifetimes = [Lifetime(0, 4, 64), Lifetime(1, 3, 192), Lifetime(2, 6, 128)]
    packing = pack(lifetimes)
    check(lifetimes, packing)
    assert packing.height == peak_live(lifetimes) == 384


def test_a_block_that_outlives_its_round_meets_both_ends() -> None:
    wraps = Lifetime(8, 2, 64)
    lifetimes = [wraps, Lifetime(0, 1, 64), Lifetime(9, 10, 64), Lifetime(3, 7, 64)]
    packing = pack(lifetimes)
    check(lifetimes, packing)
    assert packing.height == peak_live(lifetimes) == 128
    assert packing.offsets[3] == 0, "it is free between the two ends"


def test_alignment() -> None:
    lifetimes = [Lifetime(0, 9, 64), Lifetime(0, 9, 100, 4096), Lifetime(0, 9, 64)]
    packing = pack(lifetimes)
    check(lifetimes, packing)


def test_nothing_to_pack() -> None:
    assert pack([]) == Packing([], 0) and peak_live([]) == 0


@pytest.mark.parametrize("seed", range(12))
def test_random_lifetimes(seed: int) -> None:
    rng = random.Random(seed)
    lifetimes = []
    for _ in range(rng.randrange(1, 120)):
        begin, end = rng.sample(range(ROUND), 2)
        if rng.random() < 0.8:
            begin, end = min(begin, end), max(begin, end)
        size = 64 * rng.randrange(1, 40)
        lifetimes.append(Lifetime(begin, end, size, rng.choice((64, 64, 256))))
    packing = pack(lifetimes)
    check(lifetimes, packing)
    bound = max(sum(x.nbytes for x in lifetimes if t in moments(x)) for t in range(ROUND))
    assert peak_live(lifetimes) == bound <= packing.height
