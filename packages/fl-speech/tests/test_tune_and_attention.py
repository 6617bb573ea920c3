"""Commands that tune a language model's weight and draw attention."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from runs import NUMPY, train

import fl_tensor as ft
from fl_speech.cli import main
from fl_speech.cli.attention import attention_of
from fl_speech.datasets import ListFile
from fl_speech.inference import emissions_of
from fl_speech.recogniser import load_recogniser
from fl_text.cli import main as fl_text


def test_pictures_of_attention(task: Path, tmp_path: Path) -> None:
    options = ["--criterion", "transformer", "--encoder-dim", "16", "--epochs", "1"]
    assert train(task, "attention", *options) == 0
    with ft.use("numpy"):
        recogniser = load_recogniser(task / "attention")
        one = ListFile(task / "test.lst")[2]
        weights, tokens = attention_of(recogniser, one)
        _, frames = next(emissions_of(recogniser, [one])).scores.shape[::-1]
    letters = "|".join(one.words) + "|"
    assert "".join(tokens[:-1]) == letters and tokens[-1] == "</s>"
    assert weights.shape == (recogniser.criterion.attentions[-1].heads, len(tokens), frames)
    np.testing.assert_allclose(weights.sum(-1), 1.0, atol=1e-5)
    pytest.importorskip("matplotlib")
    command = ["attention", str(task / "attention"), str(task / "test.lst")]
    assert main([*command, "-o", str(tmp_path), "--most", "2", *NUMPY]) == 0
    found = sorted(path.name for path in tmp_path.iterdir())
    assert found == ["test0.png", "test1.png"]
    assert (tmp_path / "test0.png").read_bytes()[:4] == b"\x89PNG"


def test_attention_needs_a_criterion_that_attends(
    run: Path, task: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["attention", str(run), str(task / "test.lst"), *NUMPY]) == 1
    assert "criterion asg has no attention: use a recogniser of criterion seq2seq" in (
        capsys.readouterr().err
    )


def test_tuning_prints_the_rates_and_the_best_options(
    run: Path, task: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [" ".join(line.split()[3:]) for line in (task / "train.lst").read_text().splitlines()]
    (tmp_path / "text").write_text("".join(f"{line}\n" for line in words))
    arpa = tmp_path / "words.arpa"
    options = ["--order", "2", "--discount-fallback", "0.5", "1", "1.5"]
    assert fl_text(["ngram", "train", str(tmp_path / "text"), "-o", str(arpa), *options]) == 0
    capsys.readouterr()
    command = ["tune", str(run), str(task / "test.lst"), *NUMPY]
    grid = ["--lm-weights", "100,0.5", "--word-scores", "0,-1000"]
    assert main([*command, "--lm", str(arpa), *grid]) == 0
    *rates, best = capsys.readouterr().out.splitlines()
    found = {line.split("%")[1].strip(): float(line.split("%")[0]) for line in rates}
    assert len(found) == 4 and best == f"best: {min(found, key=found.__getitem__)}"
    assert len(set(found.values())) > 1, "the options make a difference"
    decode = ["test", str(run), str(task / "test.lst"), "--lm", str(arpa), *NUMPY]
    assert main([*decode, "--lm-weight", "0.5"]) == 0
    assert f"WER {found['--lm-weight 0.5 --word-score 0']:.2f}" in capsys.readouterr().out
    assert main(command) == 1
    assert "give --lm FILE" in capsys.readouterr().err
