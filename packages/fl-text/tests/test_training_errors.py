"""Bad input of fl-text train and eval: what is said, and where."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from text_runs import NUMPY, SMALL, train, write_texts

import fl_nn as nn
import fl_tensor as ft
import fl_text as text
from fl_dist import local
from fl_text.cli import main
from fl_text.errors import RecipeError
from fl_text.models import LSTMLanguageModel
from fl_text.recipe import Recipe
from fl_text.training import train_language_model
from fl_text.training.carrying import CarriedState
from fl_text.training.objective import Objective


@pytest.fixture
def task(tmp_path: Path) -> Path:
    write_texts(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"size": 0}, "size is 0: give at least 1"),
        ({"lr": "fast"}, "lr is 'fast': give a number"),
        ({"compiled": 1}, "compiled is 1: give true or false"),
        ({"network": "rnn"}, "network is 'rnn': give one of transformer, "),
        ({"sizes": 3}, "unknown settings 'sizes'"),
        ({"size": 10, "heads": 4}, "size 10 is not a multiple of heads 4"),
        ({"task": "masked"}, "masked goes with bert"),
        ({"sample": "carry"}, "carries no state; lstm and gcnn do"),
        ({"network": "gcnn", "sample": "documents"}, "has no attention to mask"),
        ({"network": "gpt2", "head": "sampled"}, "network gpt2 has its own, full"),
        ({"head": "adaptive"}, "cutoffs and head adaptive go together"),
        ({"head": "adaptive", "cutoffs": "5,3"}, "give rising numbers"),
        ({"network": "gcnn", "blocks": "512"}, "'512' is not channels x width"),
        ({"optimizer": "nag"}, "nag needs a momentum above 0"),
        ({"sample": "line", "max_tokens": 8}, "at least context 128"),
        ({"mask_random": 0.6, "mask_same": 0.6}, "more than 1 together"),
    ],
)
def test_settings_that_make_no_sense(tmp_path: Path, values: dict[str, Any], message: str) -> None:
    (tmp_path / "recipe.json").write_text(json.dumps(values))
    with pytest.raises(RecipeError, match=message) as caught:
        Recipe.read(tmp_path / "recipe.json")
    assert "recipe.json" in str(caught.value)


@pytest.mark.parametrize("content", [b"[1]", b"{", b"\xff", b"{" * 100_000])
def test_files_that_are_no_recipe(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "recipe.json").write_bytes(content)
    with pytest.raises(RecipeError, match=r"recipe\.json"):
        Recipe.read(tmp_path / "recipe.json")


def test_a_stream_shorter_than_a_batch(task: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (task / "train.txt").write_text("the cat sees a dog\n")
    assert train(task, "run", "--sample", "stream") == 1
    assert "has no batch: give more text, or a smaller context" in capsys.readouterr().err


def test_a_stream_of_what_is_no_file() -> None:
    with pytest.raises(RecipeError, match="sample stream reads text files, and this is none"):
        train_language_model(Recipe(sample="stream"), ["the cat sees a dog\n"] * 50)


def test_an_unknown_recipe_names_those_that_there_are() -> None:
    with pytest.raises(RecipeError, match="no such file; the recipes .*char-transformer"):
        Recipe.read("char-transfomer")


def told(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().err


def test_a_loss_that_is_not_finite_ends_the_training_and_names_the_step(
    task: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--optimizer", "sgd", "--schedule", "fixed", "--lr", "1e6", "--clip", "0"]
    assert train(task, "run", *options, "--updates", "50") == 1
    assert re.search(r"batch \d+ \(step \d+\), lr=1000000", told(capsys))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (b"ab\n", "do not fill one sample"),
        (b"good\n\xff\xfe\n", "line 2 is not UTF-8"),
        (b"\x00\x01\xff\n", "it seems to be no text"),
    ],
)
def test_corpora_that_cannot_be_used(
    task: Path, capsys: pytest.CaptureFixture[str], content: bytes, message: str
) -> None:
    (task / "train.txt").write_bytes(content)
    assert train(task, "run", "--updates", "1") == 1
    assert message in told(capsys)


def test_a_text_that_is_missing(task: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (task / "valid.txt").unlink()
    assert train(task, "run", "--updates", "1") == 1
    assert "valid.txt: no such file" in told(capsys)


def test_settings_that_do_not_fit_the_vocabulary(
    task: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(task, "run", "--head", "adaptive", "--cutoffs", "5,500") == 1
    assert "cutoffs 5,500: the vocabulary has only" in told(capsys)
    assert train(task, "run", "--head", "sampled", "--samples", "500") == 1
    assert "samples 500: the vocabulary has only" in told(capsys)


def test_a_context_beyond_the_model_to_begin_with(
    task: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(task, "run", "--network", "gpt2", "--updates", "1") == 0
    options = ["--init", str(task / "run"), "--context", "17"]
    assert train(task, "more", *options) == 1
    assert "context 17: the model to begin with has 16 positions" in told(capsys)


def test_a_run_is_not_replaced_unasked(task: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train(task, "run", "--updates", "1") == 0
    assert train(task, "run", "--updates", "1") == 1
    assert "holds a run already: --resume goes on with it" in told(capsys)
    assert train(task, "run", "--updates", "1", "--overwrite") == 0
    out = ["--out", str(task / "run"), "--resume", *NUMPY]
    assert main(["train", *out, "--size", "32"]) == 1
    assert "--size was 16, is 32" in told(capsys)
    assert main(["train", "--out", str(task / "none"), "--resume", *NUMPY]) == 1
    assert "there is no run to resume" in told(capsys)


def test_columns_that_ranks_cannot_share(task: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--network", "lstm", "--sample", "carry", "--batch-size", "5"]
    ranks = ["--ranks", "2", "--communicator", "threads"]
    assert train(task, "run", *options, *ranks) == 1
    assert "give a multiple" in told(capsys)


def test_training_texts_must_be_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--out", str(tmp_path / "run"), *SMALL]) == 1
    assert "give --train" in told(capsys)


def test_a_token_file_needs_its_tokenizer(task: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tokenizer = text.Tokenizer.train(["some words"], "char", 50, min_frequency=1)
    text.write_tokens(task / "train.tokens", ["some words"], tokenizer)
    assert train(task, "run", "--train", str(task / "train.tokens")) == 1
    assert "give the tokenizer that wrote it" in told(capsys)


def test_models_that_are_none(task: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (task / "empty").mkdir()
    assert main(["eval", str(task / "empty"), str(task / "valid.txt"), *NUMPY]) == 1
    assert "it holds no language model" in told(capsys)


def test_a_carried_state_of_other_shapes_is_refused() -> None:
    objective = Objective(Recipe(network="lstm", sample="carry"), LSTMLanguageModel(9, 4), None)
    objective.carry(3)
    carried, (h, c) = CarriedState(objective, local()), objective.state
    carried.load_state_dict({"tensors": {"0-0": h, "1-0": c}})
    with pytest.raises(nn.StateDictError, match="shapes of another network"):
        carried.load_state_dict({"tensors": {"0-0": h, "1-0": ft.zeros((2, 4, 4))}})
    with pytest.raises(nn.StateDictError, match="1 arrays, and 2 on 1 ranks are wanted"):
        carried.load_state_dict({"tensors": {"0-0": h}})
