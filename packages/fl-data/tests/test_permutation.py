"""Random orders: exact, evenly distributed, and without memory where there are many samples."""

from __future__ import annotations

import pickle
import random
import tracemalloc
from array import array
from collections import Counter
from itertools import permutations

import pytest

import fl_data as data
import fl_tensor as ft
from fl_data.views.permutation import FeistelPermutation, permutation

LARGE = (1 << 20) + 1


class Numbers(data.Dataset):
    """Sample `i` is `(i,)`."""

    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        return (data.check_index(index, self.n, "Numbers"),)


def keys(seed):
    return [random.Random(f"{seed} {i}").getrandbits(62) for i in range(6)]


@pytest.mark.parametrize("n", [1, 2, 3, 10, 97, 4096, 10_007])
def test_every_number_comes_once(n):
    order = FeistelPermutation(n, keys(n))
    assert sorted(order) == sorted(order[:]) == list(range(n)) and len(order) == n


def test_indexing_slices_and_take_agree():
    order = FeistelPermutation(20_011, keys(0))
    whole = list(order)
    assert [order[i] for i in range(20_011)] == whole
    places = random.Random(0).sample(range(20_011), 500)
    assert [order[i] for i in places] == [whole[i] for i in places]
    assert order.take(places) == array("q", [whole[i] for i in places])
    assert order[-1] == whole[-1] and list(order[15_000:100:-7]) == whole[15_000:100:-7]
    with pytest.raises(IndexError, match="place 20011 of a permutation of 20011 numbers"):
        order[20_011]


def test_places_are_taken_evenly():
    """Of 2,000 keys: how often 5 numbers are first, and each pair of neighbours."""
    first, pairs = Counter(), Counter()
    for seed in range(2000):
        order = list(FeistelPermutation(5, keys(seed)))
        first[order[0]] += 1
        pairs[tuple(order[:2])] += 1
    assert len(pairs) == 20
    assert sum((n - 400) ** 2 / 400 for n in first.values()) < 18.5  # chi-square, 4 d.f., 0.1 %
    assert sum((n - 100) ** 2 / 100 for n in pairs.values()) < 43.8  # 19 d.f.


def test_neighbours_of_a_long_order_look_independent():
    n = 100_000
    order = FeistelPermutation(n, keys(1))[:]
    mean = (n - 1) / 2
    variance = (n * n - 1) / 12
    for gap in (1, 2, 317, 1000):
        pairs = zip(order, order[gap:], strict=False)
        product = sum((a - mean) * (b - mean) for a, b in pairs) / variance / n
        assert abs(product) < 4 / n**0.5
    runs = sum(a < b for a, b in zip(order, order[1:], strict=False)) / n
    assert abs(runs - 0.5) < 4 * (1 / 12 / n) ** 0.5


def test_short_orders_are_equally_likely():
    found = Counter(tuple(permutation(3, ft.Generator(seed))) for seed in range(600))
    assert set(found) == set(permutations(range(3)))
    assert sum((n - 100) ** 2 / 100 for n in found.values()) < 20.5  # 5 d.f., 0.1 %
    assert len(permutation(0, ft.Generator(0))) == 0


def test_a_long_order_takes_no_memory_and_is_resumed_exactly():
    tracemalloc.start()
    batches = data.Batch(data.Shuffle(Numbers(50_000_000), seed=3), 256)
    iterator = iter(batches)
    for _ in range(20):
        next(iterator)
    state = iterator.state()
    expected = [next(iterator)[0].tolist() for _ in range(3)]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 << 20
    other = data.Batch(data.Shuffle(pickle.loads(pickle.dumps(Numbers(50_000_000))), seed=3), 256)
    resumed = iter(other)
    resumed.load_state(state)
    assert [next(resumed)[0].tolist() for _ in range(3)] == expected


def test_epochs_and_seeds_are_other_orders_and_views_agree():
    shuffled = data.Shuffle(Numbers(LARGE), seed=1)
    heads = set()
    for epoch in range(3):
        shuffled.set_epoch(epoch)
        heads.add(tuple(shuffled.order[:8]))
        assert [shuffled[i][0] for i in range(8)] == list(shuffled.order[:8])
    heads.add(tuple(data.Shuffle(Numbers(LARGE), seed=2).order[:8]))
    assert len(heads) == 4
    part = data.Subset(shuffled, [5, 1_000_000, 3])
    assert [part[i][0] for i in range(3)] == [shuffled.order[i] for i in (5, 1_000_000, 3)]
    (batch,) = part.__getitems__([2, 0])
    assert batch.tolist() == [shuffled.order[3], shuffled.order[5]]
    assert shuffled[-1][0] == shuffled.order[LARGE - 1]
