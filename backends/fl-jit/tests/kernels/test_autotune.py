"""Choices among kernels: measured on request, recorded, printable; no file can harm them."""

from __future__ import annotations

import ctypes
import json

import pytest

import fl_memory
import fl_tensor as ft
from fl_jit.kernels import Layout, UnsupportedError, autotune, row_major
from fl_jit.kernels.autotune import Tuner
from fl_tensor import cache_files
from fl_tensor.dtypes import float32

ABOUT = {"library": "test 1", "processor": "none"}


class Clock:
    """A clock that stands still but for what kernels take."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


CLOCK = Clock()


class Pretended:
    """A kernel that takes so long, by the clock."""

    operands = (row_major(float32, (4,)),)

    def __init__(self, about: str, seconds: float) -> None:
        self.about = about
        self.seconds = seconds
        self.calls = 0

    def __call__(self, *addresses: int) -> None:
        self.calls += 1
        CLOCK.now += self.seconds


def tuner_of(folder=None, about=ABOUT):
    return Tuner(about, folder, CLOCK)


def candidates(**seconds):
    made = {name: Pretended(name, s) for name, s in seconds.items()}
    return made, {name: lambda kernel=kernel: kernel for name, kernel in made.items()}


def chosen(tuner, key, make):
    """The kernel for a descriptor after ``fl-jit tune`` has measured."""
    tuner.tune(key, make)
    return tuner.choose(key, make).about


def unsupported():
    raise UnsupportedError("not for this shape")


def test_the_fastest_is_chosen_and_the_choice_printed():
    tuner = tuner_of()
    made, make = candidates(slow=0.01, fast=0.001)
    assert chosen(tuner, "a problem", make) == "fast"
    assert tuner.table().startswith("a problem: fast (slow ")
    assert tuner.decisions()["a problem"]["us"] == {"slow": 10_000.0, "fast": 1_000.0}


def test_the_rule_of_thumb_stands_where_others_are_hardly_faster():
    for seconds, choice in ((0.00103, "thumb"), (0.0012, "other")):
        _, make = candidates(thumb=seconds, other=0.001)
        assert chosen(tuner_of(), "a", make) == choice


class Disturbed(Pretended):
    """It takes a millisecond longer, but for its fourth call."""

    def __call__(self, *addresses: int) -> None:
        super().__call__(*addresses)
        CLOCK.now += 0.0 if self.calls == 4 else 0.001


def test_the_best_of_several_turns_counts():
    kernels = {"even": Pretended("even", 0.001), "disturbed": Disturbed("disturbed", 0.0005)}
    found = autotune.measure(kernels, (), CLOCK)
    assert found == pytest.approx({"even": 0.001, "disturbed": 0.0005})


def test_turns_are_as_many_as_fit_into_a_moment():
    for seconds, calls in ((autotune.MOMENT, 1), (autotune.MOMENT / 4.5, 4), (1e-6, 10)):
        made, _ = candidates(one=seconds, other=seconds)
        autotune.measure(made, (), CLOCK)
        assert made["one"].calls == made["other"].calls == 2 + calls


def test_what_is_hopeless_is_not_measured_again():
    made, make = candidates(fast=0.0001, slow=0.02)
    chosen(tuner_of(), "a problem", make)
    assert made["slow"].calls == 2, "once to warm up, once to see"


def test_without_a_measurement_the_heuristic_decides():
    tuner = tuner_of()
    made, make = candidates(first=0.01, second=0.0)
    assert tuner.choose("a problem", make) is made["first"]
    assert tuner.decisions() == {} and made["first"].calls == made["second"].calls == 0
    tuner.tune("a problem", make)
    assert tuner.choose("a problem", make) is made["second"]
    with ft.reproducible():
        assert tuner.choose("a problem", make) is made["first"]


def test_operands_are_zeros_from_the_memory_manager():
    class Read(Pretended):
        operands = (row_major(float32, (4,)), Layout(float32, (3, 2), (-2, 1)))

        def __call__(self, first, second):
            super().__call__()
            at = (first, 16), (second - 16, 24)
            found.update(bytes(ctypes.string_at(address, size)) for address, size in at)

    found = set()
    kernels = {name: (lambda name=name: Read(name, 0.001)) for name in ("one", "other")}
    before = fl_memory.current().stats().live_bytes
    tuner_of().tune("a problem", kernels)
    assert found == {bytes(16), bytes(24)}
    assert fl_memory.current().stats().live_bytes == before


def test_a_single_candidate_is_not_measured():
    tuner = tuner_of()
    made, make = candidates(only=0.01)
    assert tuner.tune("a problem", {"none": unsupported, **make}) == ""
    assert made["only"].calls == 0 and tuner.decisions() == {}


def test_kernels_of_other_operands_are_no_candidates():
    made, make = candidates(slow=0.01, fast=0.0)
    made["fast"].operands = (row_major(float32, (5,)),)
    assert chosen(tuner_of(), "a problem", make) == "slow"


def test_candidates_that_cannot_be_made_are_passed_over():
    tuner = tuner_of()
    made, make = candidates(only=0.0)
    assert chosen(tuner, "a", {"none": unsupported, **make}) == "only"
    with pytest.raises(UnsupportedError, match="^not for this shape"):
        tuner.choose("b", {"none": unsupported})


def test_choices_outlive_the_process(tmp_path):
    made, make = candidates(slow=0.01, fast=0.001)
    chosen(tuner_of(tmp_path), "a problem", make)
    calls = made["fast"].calls
    later = tuner_of(tmp_path)
    assert later.choose("a problem", make) is made["fast"]
    assert made["fast"].calls == calls, "it was not measured again"


def test_choices_hang_on_library_and_processor(tmp_path):
    _, make = candidates(slow=0.01, fast=0.001)
    chosen(tuner_of(tmp_path), "a problem", make)
    assert tuner_of(tmp_path, {**ABOUT, "library": "test 2"}).decisions() == {}
    assert tuner_of(tmp_path, {**ABOUT, "processor": "other"}).decisions() == {}


def test_two_processes_keep_the_choices_of_both(tmp_path):
    _, make = candidates(slow=0.01, fast=0.001)
    one, other = tuner_of(tmp_path), tuner_of(tmp_path)
    chosen(one, "a", make)
    chosen(other, "b", make)
    assert set(tuner_of(tmp_path).decisions()) == {"a", "b"}
    assert [path.suffix for path in tmp_path.iterdir()] == [".json"], "nothing half-written"


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "null",
        '{"format": 2}',
        '{"format": 99, "about": {}, "decisions": {}}',
        json.dumps({"format": 2, "about": ABOUT, "decisions": [1]}),
        json.dumps({"format": 2, "about": ABOUT, "decisions": {"a": {"choice": "x"}}}),
        json.dumps({"format": 2, "about": ABOUT, "decisions": {"a": "fast"}}),
        pytest.param('{"a":' * 100_000, marks=pytest.mark.defect("V17"), id="deep"),
    ],
)
def test_a_corrupt_file_counts_as_empty_and_is_replaced(tmp_path, content):
    path = tuner_of(tmp_path).path
    path.write_text(content)
    made, make = candidates(slow=0.01, fast=0.001)
    tuner = tuner_of(tmp_path)
    assert tuner.decisions() == {}
    assert chosen(tuner, "a", make) == "fast"
    assert set(tuner_of(tmp_path).decisions()) == {"a"}


def test_a_choice_that_is_no_candidate_any_more_is_made_anew(tmp_path):
    _, make = candidates(slow=0.01, fast=0.001)
    chosen(tuner_of(tmp_path), "a", make)
    made, make = candidates(slow=0.01, other=0.001)
    assert chosen(tuner_of(tmp_path), "a", make) == "other"


def test_a_folder_that_cannot_be_written_is_left_alone(tmp_path):
    (tmp_path / "file").write_text("")
    made, make = candidates(slow=0.01, fast=0.001)
    tuner = tuner_of(tmp_path / "file" / "folder")
    assert chosen(tuner, "a", make) == "fast"
    assert set(tuner.decisions()) == {"a"}


def test_the_cache_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("FL_CACHE_DIR", str(tmp_path))
    assert cache_files.folder() == tmp_path
    monkeypatch.delenv("FL_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_files.folder() == tmp_path / "fl"
