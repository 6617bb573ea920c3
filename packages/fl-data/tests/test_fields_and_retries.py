"""Collation by field, and calls that are repeated."""

from __future__ import annotations

import pickle

import pytest

import fl_data as data
import fl_tensor as ft


def test_each_field_has_its_function():
    samples = [(ft.ones(2), 1, "a"), (ft.ones(3), 2, "b")]
    collated = pickle.loads(pickle.dumps(data.field_collate({0: data.join, 2: list})))
    x, y, names = data.Batch(samples, 2, collate=collated)[0]
    assert x.tolist() == [[1, 1, 0], [1, 1, 1]] and y.tolist() == [1, 2] and names == ["a", "b"]
    named = data.field_collate({"a": tuple})([{"a": 1, "b": 2}, {"a": 3, "b": 4}])
    assert named["a"] == (1, 3) and named["b"].tolist() == [2, 4]


def test_functions_of_no_field_are_refused():
    with pytest.raises(data.DataError, match=r"fields \[3\], and samples have \[0\]"):
        data.field_collate({3: list})([(1,)])
    with pytest.raises(data.SampleTypeError, match="1 of field 0 is not callable"):
        data.field_collate({0: 1})


class Flaky:
    def __init__(self, failures, error=OSError):
        self.failures, self.error, self.calls = failures, error, 0

    def __call__(self):
        self.calls += 1
        if self.calls <= self.failures:
            raise self.error(f"call {self.calls}")
        return "done"


@pytest.fixture
def pauses(monkeypatch):
    found = []
    monkeypatch.setattr("time.sleep", found.append)
    return found


def test_pauses_grow(pauses):
    assert data.retry_with_backoff(Flaky(3), 0.5, 3) == "done"
    assert pauses == [0.5, 1.5, 4.5]


def test_the_last_error_is_raised(pauses):
    fn = Flaky(9)
    with pytest.raises(OSError, match="call 6"):
        data.retry_with_backoff(fn)
    assert (fn.calls, pauses) == (6, [1, 2, 4, 8, 16])


def test_other_errors_are_not_retried(pauses):
    fn = Flaky(1, KeyError)
    with pytest.raises(KeyError):
        data.retry_with_backoff(fn)
    assert (fn.calls, pauses) == (1, [])
    assert data.retry_with_backoff(Flaky(1, KeyError), 0, errors=(OSError, KeyError)) == "done"


@pytest.mark.parametrize(
    "wrong", [{"initial": -1.0}, {"factor": float("nan")}, {"max_iters": 0}, {"factor": -0.5}]
)
def test_settings_that_make_no_sense(wrong):
    with pytest.raises(data.DataError, match=next(iter(wrong))):
        data.retry_with_backoff(dict, **wrong)
