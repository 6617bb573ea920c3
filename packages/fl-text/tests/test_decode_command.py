"""``fl-text decode``: what it prints, and one line for what is wrong."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from decoder_cases import write_arpa

from fl_text.cli import main
from fl_text.ngram import NGramModel

# Without a compiler kernels run in the interpreter, which says so.
pytestmark = pytest.mark.filterwarnings("ignore:kernels run in the interpreter")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two utterances, their tokens, a lexicon, a language model."""
    monkeypatch.chdir(tmp_path)
    Path("tokens.txt").write_text("|\na\nb\n#\n")
    Path("lexicon.txt").write_text("a a |\nab a b |\n")
    for name, path in {"one": (0, 1, 3, 2, 2, 0), "two": (1, 0, 1, 3, 0)}.items():
        np.save(name, np.log(np.eye(4, dtype=np.float32)[list(path)] * 0.96 + 0.01))
    write_arpa(Path("lm.arpa"), ["a", "ab"], np.random.default_rng(0))
    NGramModel.from_arpa("lm.arpa").save("lm.bin")
    return tmp_path


def decode(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    status = main(["decode", "one.npy", "two.npy", "--tokens", "tokens.txt", *arguments])
    captured = capsys.readouterr()
    assert status == 0, captured.err
    return captured.out.splitlines()


@pytest.mark.usefixtures("folder")
def test_a_line_for_each_utterance(capsys: pytest.CaptureFixture[str]) -> None:
    assert decode(capsys) == ["ab", "a a"]
    assert decode(capsys, "--lexicon", "lexicon.txt", "--threads", "1") == ["ab", "a a"]
    boosted = ["--lexicon", "lexicon.txt", "--hot-word", "ab=9", "--beam-size", "50"]
    assert decode(capsys, *boosted) == ["ab", "a ab"]


@pytest.mark.usefixtures("folder")
def test_models_in_both_forms_give_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    common = ["--lexicon", "lexicon.txt", "--lm-weight", "2", "--n-best", "2"]
    lines = decode(capsys, *common, "--lm", "lm.arpa")
    assert lines == decode(capsys, *common, "--lm", "lm.bin")
    fields = [line.split("\t") for line in lines]
    assert [f[:2] for f in fields[:2]] == [["one.npy", "1"], ["one.npy", "2"]]
    assert float(fields[0][2]) > float(fields[1][2])
    assert fields[0][3] == "ab"


@pytest.mark.usefixtures("folder")
def test_json_has_times(capsys: pytest.CaptureFixture[str]) -> None:
    (first, second) = map(json.loads, decode(capsys, "--lexicon", "lexicon.txt", "--json"))
    assert (first["file"], first["rank"], first["text"]) == ("one.npy", 1, "ab")
    (word,) = first["words"]
    assert (word["word"], word["start"], word["end"]) == ("ab", 1, 5)
    assert 0.5 < word["confidence"] <= 1
    assert [w["start"] for w in second["words"]] == [0, 2]


@pytest.mark.usefixtures("folder")
def test_transitions_of_asg(capsys: pytest.CaptureFixture[str]) -> None:
    np.save("transitions", np.zeros((4, 4), np.float32))
    asg = ["--criterion", "asg", "--transitions", "transitions.npy", "--blank", "none"]
    assert decode(capsys, *asg) == ["a#b", "a a#"]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tokens.txt"], "tokens.txt: no .npy file"),
        (["missing.npy"], "missing.npy: no .npy file"),
        (["flat.npy"], r"flat.npy: an array of shape \(4,\): give \(frames, tokens\)"),
        (["one.npy", "--blank", "<b>"], "the dictionary has no '<b>'"),
        (["one.npy", "--lm", "tokens.txt"], "tokens.txt"),
        (["one.npy", "--lexicon", "lexicon.txt", "--hot-word", "c=1"], "hot word 'c'"),
        (["one.npy", "--beam-size", "0"], "beam_size is 0"),
    ],
)
def test_errors_are_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save("flat", np.zeros(4, np.float32))
    assert main(["decode", *arguments, "--tokens", "tokens.txt"]) == 1
    captured = capsys.readouterr()
    (line,) = captured.err.splitlines()
    assert re.search(message, line), line
    assert captured.out == ""


@pytest.mark.usefixtures("folder")
def test_usage_errors_end_with_status_2() -> None:
    for wrong in (["--hot-word", "a=1"], ["--hot-word", "a"], ["--criterion", "s2s"]):
        with pytest.raises(SystemExit) as ended:
            main(["decode", "one.npy", "--tokens", "tokens.txt", *wrong])
        assert ended.value.code == 2
