"""Cached transforms: computed once, never stale, shared by threads, processes and runs."""

from __future__ import annotations

import functools
import importlib
import pickle
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from typing import NamedTuple

import pytest

import fl_data as data
import fl_tensor as ft
from fl_data.transforms.fingerprint import fingerprint


class Doubled:
    """Counts its calls, which is nothing that it does: the count is no part of its state."""

    def __init__(self):
        self.calls = []

    def __call__(self, sample):
        self.calls.append(sample[-1].item())
        return {"x": sample[0] * 2, "y": sample[1]}

    def __reduce__(self):
        return Doubled, ()


@pytest.fixture(params=["memory", "folder"])
def place(request, tmp_path):
    return {} if request.param == "memory" else {"folder": tmp_path / "cache"}


def test_a_result_is_computed_once(rows, place):
    fn = Doubled()
    ds = data.CachedTransform(rows(3), fn, **place)
    for _ in range(2):
        assert [sample["x"].tolist() for sample in ds] == [[2 * i, -2 * i] for i in range(3)]
    assert fn.calls == [0, 1, 2]
    assert ds[-1]["y"].item() == 2


def test_a_hit_cannot_be_changed_from_outside(rows, place):
    ds = data.CachedTransform(rows(3), Doubled(), **place)
    for _ in range(2):
        x = ds[1]["x"]
        assert x.tolist() == [2.0, -2.0]
        x[0] = 99.0


def test_the_content_of_the_sample_decides_not_its_index(rows, place):
    fn = Doubled()
    assert len(list(data.CachedTransform(data.Subset(rows(5), [1, 1, 3]), fn, **place))) == 3
    assert fn.calls == [1, 3]
    shuffled = data.Shuffle(rows(3), seed=1)
    ds = data.CachedTransform(shuffled, Doubled(), **place)
    for epoch in range(3):
        ds.set_epoch(epoch)
        assert [sample["y"].item() for sample in ds] == list(shuffled.order)


def test_a_folder_is_found_again_and_changed_data_is_not_served(rows, tmp_path):
    folder = tmp_path / "cache"
    list(data.CachedTransform(rows(3), Doubled(), folder=folder))
    fn = Doubled()
    list(data.CachedTransform(rows(4), fn, folder=folder))
    assert fn.calls == [3]
    other = data.Transform(rows(3), lambda x: x + 1, None)
    assert data.CachedTransform(other, fn, folder=folder)[0]["x"].tolist() == [2.0, 2.0]


def test_a_key_saves_reading_the_input(numbers, place):
    source = numbers(3)
    ds = data.CachedTransform(source, Doubled(), key=lambda i: f"number {i}", **place)
    for _ in range(2):
        assert [sample["y"].item() for sample in ds] == [0, 1, 2]
    assert source.requests == [0, 1, 2]
    with pytest.raises(data.SampleTypeError, match=r"key\(0\) is a int"):
        data.CachedTransform(source, Doubled(), key=lambda i: i)[0]


def test_memory_is_bounded_and_keeps_what_was_asked_for_last(rows):
    one = data.MemoryBlob([Doubled()(rows(1)[0])])
    size = len(one.record(0))
    fn = Doubled()
    ds = data.CachedTransform(rows(5), fn, max_bytes=2 * size)
    for i in (0, 1, 0, 2, 0, 1):
        ds[i]
    assert fn.calls == [0, 1, 2, 1]


def test_a_folder_is_bounded_and_keeps_what_was_asked_for_last(rows, tmp_path):
    def held():
        return sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())

    (tmp_path / "mine").write_bytes(bytes(10_000))
    fn = Doubled()
    data.CachedTransform(rows(1), fn, folder=tmp_path)[0]
    size = held() - 10_000
    ds = data.CachedTransform(rows(5), fn, folder=tmp_path, max_bytes=2 * size)
    fn.calls.clear()
    for i in (0, 1, 0, 2, 0, 1):
        ds[i]
        assert held() - 10_000 <= 2 * size
        time.sleep(0.01)  # times of files are coarse
    assert fn.calls == [1, 2, 1]
    copied = pickle.loads(pickle.dumps(ds))  # it has the bound, too
    copied[3]
    assert held() - 10_000 == 2 * size
    with pytest.raises(data.DataError, match="max_bytes must be at least 0"):
        data.CachedTransform(rows(5), fn, max_bytes=-1, folder=tmp_path)


def test_a_damaged_or_torn_entry_is_made_anew(rows, tmp_path):
    fn = Doubled()
    ds = data.CachedTransform(rows(1), fn, folder=tmp_path)
    (expected,) = ds
    (entry,) = (path for path in tmp_path.rglob("*") if path.is_file())
    whole = entry.read_bytes()
    for damaged in (b"", bytes(4), whole[:3], whole[:-1], whole[:9] + b"\xff" + whole[10:]):
        entry.write_bytes(damaged)
        assert ds[0]["x"].tolist() == expected["x"].tolist()
        assert entry.read_bytes() == whole
    assert len(fn.calls) == 6


def test_threads_and_processes_fill_one_folder(tmp_path):
    code = f"""
import fl_data as data, fl_tensor as ft
ds = data.CachedTransform(
    data.TensorDataset(ft.arange(40)), lambda s: (s[0] * 3, "x" * 5000), folder={str(tmp_path)!r}
)
assert [sample[0].item() for sample in data.Prefetch(ds, threads=3)] == list(range(0, 120, 3))
"""
    runs = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(3)]
    assert [run.wait() for run in runs] == [0, 0, 0]
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) == 40
    assert not any(path.name.startswith(".partial") for path in files)


def test_a_copy_in_another_process_finds_the_same_folder(rows, tmp_path):
    ds = data.CachedTransform(rows(2), Doubled(), folder=tmp_path)
    list(ds)
    copy = pickle.loads(pickle.dumps(ds))
    assert copy[1]["y"].item() == 1
    assert copy._fn.calls == []
    assert pickle.loads(pickle.dumps(data.CachedTransform(rows(2), Doubled())))[1]["y"].item() == 1


def test_a_cached_iteration_resumes(rows, labels):
    ds = data.CachedTransform(data.Shuffle(rows(6)), lambda sample: sample)
    ds.set_epoch(3)
    whole = labels(ds)
    iterator = iter(ds)
    next(iterator)
    resumed = iter(data.CachedTransform(data.Shuffle(rows(6)), lambda sample: sample))
    resumed.load_state(iterator.state())
    assert labels(resumed) == whole[1:]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda ds: data.CachedTransform(ds, 3), "not callable"),
        (lambda ds: data.CachedTransform(ds, lambda s: s[0])[0], "a tuple or a dict"),
        (lambda ds: data.CachedTransform([(object(),)], len)[0], "no content to be found by.*key="),
        (lambda ds: data.CachedTransform(ds, lambda s: (object(),))[0], r"sample\[0\] is a object"),
        (
            lambda ds: data.CachedTransform(ds, functools.partial(print, threading.Lock())),
            "version=",
        ),
    ],
)
def test_bad_functions(rows, build, message):
    with pytest.raises(data.SampleTypeError, match=message):
        build(rows(1))


def test_a_version_replaces_the_fingerprint(rows, tmp_path):
    lock = threading.Lock()

    def made(value):
        return lambda sample: (value,) if lock else sample

    def first(value, version):
        ds = data.CachedTransform(rows(1), made(value), folder=tmp_path, version=version)
        return ds[0][0]

    assert (first(1, "a"), first(2, "a"), first(2, "b")) == (1, 1, 2)


# What counts as a change of a function.

OFFSET = 1


def helper(x):
    return x + OFFSET


def uses_helper(x):
    return [helper(y) for y in x]


@dataclass
class Scale:
    factor: float

    def __call__(self, x):
        return x * self.factor


def closing_over(value):
    def inner(x, more=0):
        return x + value + more

    return inner


def in_a_set(x):
    return x in {"one", "two", "three"}


class Half(NamedTuple):
    offset: int

    def __call__(self, x):
        return x / 2 + self.offset


class Third(NamedTuple):
    offset: int

    def __call__(self, x):
        return x / 3 + self.offset


Third.__name__ = Third.__qualname__ = "Half"


def recursive(n):
    return n and recursive(n - 1)


PAIRS = [
    (lambda x: x + 1, lambda x: x + 2),
    (lambda x: x + 1, lambda x: x - 1),
    (lambda x, y=1: x, lambda x, y=2: x),
    (lambda x, *, y=1: x, lambda x, *, y=2: x),
    (lambda x: x.real, lambda x: x.imag),
    (lambda x: ft.exp(x), lambda x: ft.log(x)),
    (lambda x: [y + 1 for y in x], lambda x: [y + 2 for y in x]),
    (lambda x: x + 1, lambda x: x + True),
    (closing_over(1), closing_over(2)),
    (closing_over(ft.ones(2)), closing_over(ft.zeros(2))),
    (closing_over(ft.ones(2)), closing_over(ft.ones(2, ft.int64))),
    (closing_over({"a": [1]}), closing_over({"a": [2]})),
    (functools.partial(helper, 1), functools.partial(helper, 2)),
    (Scale(1.0), Scale(2.0)),
    (Scale(1.0).__call__, Scale(2.0).__call__),
    (functools.cache(lambda x: x + 1), functools.cache(lambda x: x + 2)),
    (Half(1), Half(2)),
    (Half(1), Third(1)),
    (len, abs),
    ("a".join, "b".join),
]


@pytest.mark.parametrize("number", range(len(PAIRS)))
def test_functions_that_differ_have_other_fingerprints(number):
    one, two = PAIRS[number]
    assert fingerprint(one) != fingerprint(two)
    assert (fingerprint(one), fingerprint(two)) == (fingerprint(one), fingerprint(two))


def test_a_change_far_below_is_seen(monkeypatch):
    before = fingerprint(uses_helper)
    monkeypatch.setitem(globals(), "OFFSET", 2)
    changed = fingerprint(uses_helper)
    monkeypatch.setitem(globals(), "OFFSET", 1)
    assert changed != before == fingerprint(uses_helper)


def test_a_changed_method_is_seen(monkeypatch):
    before = fingerprint(Scale(1.0))
    monkeypatch.setattr(Scale, "__call__", lambda self, x: x)
    assert fingerprint(Scale(1.0)) != before


@pytest.mark.parametrize("use", ["import own", "from own import deep", "import own.deep as own"])
def test_a_change_in_a_module_of_yours_is_seen(tmp_path, monkeypatch, use):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "own").mkdir()
    name = "deep" if "from" in use else "own" if " as " in use else "own.deep"
    (tmp_path / "using.py").write_text(f"{use}\ndef fn(x):\n    return {name}.helper(x)\n")
    found = []
    for i, body in enumerate(("x + 1", "x + 1  # a comment", "x + 2")):
        (tmp_path / "own" / "__init__.py").write_text("from own import deep\n")
        (tmp_path / "own" / "deep.py").write_text(f"def helper(x):\n    return {body}\n")
        for module in ("own", "own.deep", "using"):
            sys.modules.pop(module, None)
        importlib.invalidate_caches()
        monkeypatch.setattr(sys, "dont_write_bytecode", True)
        found.append(fingerprint(importlib.import_module("using").fn))
        assert found[0] == found[i] or i == 2
    assert found[2] != found[0]
    for module in ("own", "own.deep", "using"):
        sys.modules.pop(module, None)


def test_values_in_a_function_that_an_installed_package_made_are_seen(tmp_path, monkeypatch):
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "fl_test_installed.py").write_text(
        "__version__ = '1'\ndef scaled(by):\n    return lambda x: x * by\n"
    )
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    made = importlib.import_module("fl_test_installed")
    assert fingerprint(made.scaled(2)) == fingerprint(made.scaled(2))
    assert fingerprint(made.scaled(2)) != fingerprint(made.scaled(3))
    before = fingerprint(made.scaled(2))
    made.__version__ = "2"
    assert fingerprint(made.scaled(2)) != before
    sys.modules.pop("fl_test_installed")


def test_a_fingerprint_is_the_same_in_every_run():
    code = f"""
import sys
sys.path.insert(0, {str(__file__.rpartition("/")[0])!r})
import test_cache as t
print([t.fingerprint(f) for f in (t.in_a_set, t.uses_helper, t.Scale(1.0), t.recursive)])
"""
    runs = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={**__import__("os").environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(runs) == 1
