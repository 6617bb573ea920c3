"""The command fl-speech, from recordings to transcripts and times."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from runs import NUMPY, WHOLE, records, train
from spoken_tones import say

import fl_nn as nn
from fl_nn.training import trainer as trainer_module
from fl_speech.cli import main


def test_training_learns_and_leaves_a_run(run: Path) -> None:
    files = {path.name for path in run.iterdir()}
    assert {"checkpoint.safetensors", "log.jsonl", "recogniser.json"} <= files
    assert {"weights.safetensors", "weights-test.safetensors", "tokens.txt"} <= files
    epochs = records(run, "epoch")
    assert epochs[-1]["test_wer"] <= 10.0 < epochs[0]["test_wer"]
    assert epochs[-1]["train_loss"] < epochs[0]["train_loss"] / 5


def test_weights_are_those_of_the_lowest_error_rate(run: Path) -> None:
    rates = [record["test_wer"] for record in records(run, "epoch")]
    lowest = rates.index(min(rates)) + 1
    assert lowest < len(rates)
    checkpoint = nn.load_checkpoint(run / "checkpoint.safetensors")
    assert checkpoint.parts["Validate"]["best"] == {"test": [min(rates), lowest]}
    assert (run / "weights.safetensors").read_bytes() == (
        run / "weights-test.safetensors"
    ).read_bytes()


def test_error_rates_of_a_list(run: Path, task: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--beam", "--report", str(task / "report"), *NUMPY]
    assert main(["test", str(run), str(task / "test.lst"), *options]) == 0
    assert "WER 0.00 % (0 of 15 words: " in capsys.readouterr().out
    assert "WER 0.00 %" in (task / "report" / "report.txt").read_text()
    assert "WER 0.00 %" in (task / "report" / "report.html").read_text()
    assert main(["test", str(run), str(task / "test.lst"), "--show", *NUMPY]) == 0
    shown = capsys.readouterr().out
    assert shown.count("|T|: ") == shown.count("|P|: ") == 8
    assert "[sample: test0, WER: 0.00%, LER: 0.00%]" in shown


def test_decoding_and_beam_dump(
    run: Path, task: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lists, dump = str(task / "test.lst"), tmp_path / "dump"
    options = ["--n-best", "3", "--beam-dump", str(dump), *NUMPY]
    assert main(["decode", str(run), lists, *options]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line[0] != "#"]
    assert [line.split("\t")[:2] for line in lines[:3]] == [["test0", str(n)] for n in (1, 2, 3)]
    truth = [line.split() for line in (task / "test.lst").read_text().splitlines()]
    for fields, line in zip(truth, lines[::3], strict=True):
        assert line.split("\t")[3].split() == fields[3:]
    first = dump.read_text().splitlines()[0].split(" | ")
    assert first[0] == "test0" and first[4] == "0.00" and first[5].split() == truth[0][3:]


def test_decoding_gives_times_of_words_and_takes_files(
    run: Path, task: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    noise = random.Random(2)
    for number in range(8):  # the same draws as of the list
        words = [noise.choice(("ab", "ba", "cab", "bc")) for _ in range(1 + number % 3)]
        _, times = say(words, noise)
        if number == 2:
            break
    assert main(["decode", str(run), str(task / "test2.wav"), "--json", *NUMPY]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[0])
    assert found["id"] == "test2" and found["text"].split() == words
    for word, (_, start, end) in zip(found["words"], times, strict=True):
        assert abs(word["start"] - start) < 0.08 and abs(word["end"] - end) < 0.12


def test_alignment(
    run: Path, task: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--audacity", str(tmp_path), *NUMPY]
    assert main(["align", str(run), str(task / "test.lst"), *options]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    words = [line[4] for line in lines if line[0] == "test2" and line[4] != "$"]
    truth = [line.split() for line in (task / "test.lst").read_text().splitlines()]
    assert words == truth[2][3:]
    own = [line for line in lines if line[0] == "test2"]
    for before, after in zip(own, own[1:]):  # no gaps
        assert abs(float(before[2]) + float(before[3]) - float(after[2])) < 1e-9
    labels = (tmp_path / "test2.txt").read_text().splitlines()
    assert [line.split("\t")[2] for line in labels] == words


def test_a_killed_and_resumed_training_ends_with_the_same_bits(
    task: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ["--epochs", "2", "--checkpoint-every", "2", "--time-masks", "1", "--seed", "3"]
    assert train(task, "whole", *options) == 0
    steps = trainer_module.train_step

    def killed(trainer: nn.Trainer, *arguments: Any) -> float:
        if trainer.step == 9:  # in the middle of the second epoch, after the checkpoint of step 8
            raise KeyboardInterrupt
        return steps(trainer, *arguments)

    monkeypatch.setattr(trainer_module, "train_step", killed)
    with pytest.raises(KeyboardInterrupt):
        train(task, "killed", *options)
    monkeypatch.undo()
    assert main(["train", "--out", str(task / "killed"), "--resume", "--quiet", *NUMPY]) == 0
    files = [task / name / "checkpoint.safetensors" for name in ("whole", "killed")]
    first, second = map(nn.load_checkpoint, files)
    assert first.model.keys() == second.model.keys()
    for name, tensor in first.model.items():
        assert tensor.tolist() == second.model[name].tolist(), name
    for name in ("weights.safetensors", "weights-test.safetensors"):
        assert (task / "whole" / name).read_bytes() == (task / "killed" / name).read_bytes()


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [("float64", 1e-10), pytest.param("float32", 1e-4, marks=WHOLE)]
)
def test_two_ranks_are_one(task: Path, dtype: str, tolerance: float) -> None:
    options = ["--dtype", dtype, "--norm", "layer", "--epochs", "4", "--batch-size", "5"]
    assert train(task, f"one-{dtype}", *options) == 0
    ranks = ["--ranks", "2", "--communicator", "threads"]
    assert train(task, f"two-{dtype}", *options, *ranks) == 0
    one, two = (
        [record["loss"] for record in records(task / f"{name}-{dtype}", "step")]
        for name in ("one", "two")
    )
    assert len(one) == len(two) == 20
    for a, b in zip(one, two):
        assert abs(a - b) <= tolerance * abs(a)


@pytest.mark.parametrize(
    "criterion",
    ["ctc", pytest.param("seq2seq", marks=WHOLE), pytest.param("transformer", marks=WHOLE)],
)
def test_other_criteria(task: Path, criterion: str, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--criterion", criterion, "--epochs", "4", "--encoder-dim", "24"]
    assert train(task, criterion, *options) == 0
    losses = [record["train_loss"] for record in records(task / criterion, "epoch")]
    assert losses[-1] < losses[0]
    capsys.readouterr()
    beam = ["--beam", "--beam-size", "20"]
    assert main(["test", str(task / criterion), str(task / "test.lst"), *beam, *NUMPY]) == 0
    assert "LER" in capsys.readouterr().out
    aligned = main(["align", str(task / criterion), str(task / "test.lst"), *NUMPY])
    assert aligned == (0 if criterion == "ctc" else 1)
    told = capsys.readouterr()
    assert criterion == "ctc" or f"criterion {criterion} has no alignments" in told.err
