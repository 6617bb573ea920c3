"""List files and folders of recordings, and what is wrong with them."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fl_speech import AudioError
from fl_speech.datasets import (
    ListFile,
    Utterance,
    named_lists,
    read_digits,
    read_librispeech,
    write_list_file,
)
from fl_speech.errors import SpeechDataError

Write = Callable[..., Path]


def list_file(folder: Path, *lines: str) -> Path:
    path = folder / "train.lst"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_line_has_id_path_duration_and_words(tmp_path: Path) -> None:
    path = list_file(tmp_path, "a1 sounds/a.wav 1234.5 hello big  world", "", "a2 /b.wav 7 x")
    found = ListFile(path)
    one = Utterance(
        "a1", str(tmp_path / "sounds/a.wav"), 1234.5, ("hello", "big", "world"), "", str(path), 1
    )
    assert found[0] == one and found[0].text == "hello big world"
    assert (found[1].path, found[1].line, len(found)) == ("/b.wav", 3, 2)


def test_relative_paths_begin_at_the_root(tmp_path: Path) -> None:
    path = list_file(tmp_path, "a x.wav 1 w")
    assert ListFile(path, root="/data")[0].path == "/data/x.wav"


def test_words_may_be_missing_where_that_is_allowed(tmp_path: Path) -> None:
    path = list_file(tmp_path, "a x.wav 1")
    with pytest.raises(SpeechDataError, match="no words.*transcripts='optional'"):
        ListFile(path)
    assert ListFile(path, transcripts="optional")[0].words is None


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("b x.wav", "2 of at least 3 fields"),
        ("b x.wav long w", "'long' is no number"),
        ("b x.wav nan w", "'nan' is no number"),
        ("b x.wav -1 w", "'-1' is no number"),
        ("a x.wav 1 w", "line 1 of .* has this id already"),
    ],
)
def test_a_wrong_line_is_named_or_left_out(tmp_path: Path, line: str, problem: str) -> None:
    path = list_file(tmp_path, "a x.wav 1 w", line, "c x.wav 1 w")
    with pytest.raises(SpeechDataError, match=f"train.lst, line 2, sample '[ab]': .*{problem}"):
        ListFile(path)
    found = ListFile(path, on_error="skip")
    assert [one.id for one in found] == ["a", "c"]
    assert [(error.path, error.line) for error in found.skipped] == [(str(path), 2)]


def test_ids_are_unique_over_files(tmp_path: Path) -> None:
    path = list_file(tmp_path, "a x.wav 1 w")
    other = tmp_path / "other.lst"
    other.write_text("b x.wav 1 w\na x.wav 1 w\n")
    with pytest.raises(SpeechDataError, match="other.lst, line 2, sample 'a'"):
        ListFile(path, other)


def test_written_lists_are_read_again(tmp_path: Path) -> None:
    given = [Utterance("a", "/x.wav", 12.25, ("w", "v")), Utterance("b", "/y.wav", 1e6)]
    write_list_file(tmp_path / "out.lst", given)
    found = ListFile(tmp_path / "out.lst", transcripts="optional")
    assert [(o.id, o.path, o.duration_ms, o.words) for o in found] == [
        (o.id, o.path, o.duration_ms, o.words) for o in given
    ]


@pytest.mark.parametrize(
    "wrong",
    [
        [Utterance("a b", "/x.wav", 1)],
        [Utterance("a", "/x y.wav", 1)],
        [Utterance("a", "/x.wav", 1, ("u v",))],
        [Utterance("a", "/x.wav", 1), Utterance("a", "/y.wav", 1)],
    ],
)
def test_what_could_not_be_read_again_is_not_written(
    tmp_path: Path, wrong: list[Utterance]
) -> None:
    with pytest.raises(SpeechDataError, match="sample 'a"):
        write_list_file(tmp_path / "out.lst", wrong)
    assert not (tmp_path / "out.lst").exists()


def test_errors_travel_between_processes() -> None:
    error = SpeechDataError("p", "r", path="f", line=3, id="i")
    copied = pickle.loads(pickle.dumps(error))
    assert (str(copied), copied.line, copied.id) == (str(error), 3, "i")


def test_lists_by_name() -> None:
    assert named_lists("clean:a/dev.lst,b/other.lst") == {
        "clean": "a/dev.lst", "other": "b/other.lst",
    }  # fmt: skip
    for wrong in ("a:x,a:y", "a:", "", "x.lst,,"):
        with pytest.raises(SpeechDataError):
            named_lists(wrong)


class TestLibriSpeech:
    @pytest.fixture
    def root(self, write: Write, tmp_path: Path) -> Path:
        write("dev/84/121/84-121-0000.flac", np.zeros(8000), 16000)
        write("dev/84/121/84-121-0001.flac", np.zeros(4000), 16000)
        lines = "84-121-0001 GO ON\n84-121-0000 HELLO WORLD\n"
        (tmp_path / "dev/84/121/84-121.trans.txt").write_text(lines)
        return tmp_path / "dev"

    def test_words_stand_beside_the_recordings(self, root: Path) -> None:
        found = read_librispeech(root)
        assert [(o.id, o.words, o.duration_ms, o.speaker) for o in found] == [
            ("84-121-0000", ("hello", "world"), 500.0, "84"),
            ("84-121-0001", ("go", "on"), 250.0, "84"),
        ]
        assert found[0].path.endswith("84-121-0000.flac") and found[0].line == 2
        assert read_librispeech(root, lower=False)[0].words == ("HELLO", "WORLD")

    @pytest.mark.parametrize("line", ["84-121-0009 NO FILE", "84-121-0000 TWICE"])
    def test_a_line_without_a_recording_of_its_own(self, root: Path, line: str) -> None:
        with open(root / "84/121/84-121.trans.txt", "a") as file:
            file.write(line + "\n")
        with pytest.raises(SpeechDataError, match="84-121.trans.txt, line 3, sample '84-121-000"):
            read_librispeech(root)

    def test_a_folder_without_transcripts(self, tmp_path: Path) -> None:
        with pytest.raises(SpeechDataError, match="no lines"):
            read_librispeech(tmp_path)


class TestDigits:
    def test_takes_below_five_are_the_test_set(self, write: Write, tmp_path: Path) -> None:
        for name in ("7_anna_4", "7_anna_5", "0_bob_12"):
            write(f"{name}.wav", np.zeros(800), 8000)
        train, test = read_digits(tmp_path, "train"), read_digits(tmp_path, "test")
        assert [(o.id, o.text, o.speaker) for o in train] == [
            ("0_bob_12", "zero", "bob"),
            ("7_anna_5", "seven", "anna"),
        ]
        assert [(o.id, o.duration_ms) for o in test] == [("7_anna_4", 100.0)]
        assert len(read_digits(tmp_path)) == 3

    @pytest.mark.parametrize(
        ("name", "split", "error"),
        [
            ("x_a_1", "all", "label 'x'"),
            ("1_a_b", "train", "take 'b'"),
            ("1_a_1", "train", "split"),
        ],
    )
    def test_names_that_do_not_fit(
        self, write: Write, tmp_path: Path, name: str, split: Any, error: str
    ) -> None:
        write(f"{name}.wav", np.zeros(800), 8000)
        with pytest.raises((SpeechDataError, AudioError), match=error):
            read_digits(tmp_path, split)

    def test_the_real_ones(self, recordings: Path) -> None:
        test = read_digits(recordings, "test")
        assert len(test) == 300 and {o.text for o in test[:30]} == {"zero"}
