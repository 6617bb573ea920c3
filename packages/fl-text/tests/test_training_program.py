"""The command fl-text train: runs, resumption, ranks, kinds of networks and samples."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from text_runs import NUMPY, SMALL, WHOLE, records, train, write_texts

import fl_nn as nn
import fl_tensor as ft
import fl_text as text
from fl_nn.training import trainer as trainer_module
from fl_text.cli import main
from fl_text.evaluation import evaluate_text
from fl_text.language_model_folder import load_language_model
from fl_text.recipe import Recipe, recipe_names
from fl_text.training.networks import make_network
from fl_text.training.objective import Objective
from fl_text.training.optimisation import factor


@pytest.fixture
def task(tmp_path: Path) -> Path:
    write_texts(tmp_path)
    return tmp_path


CARRY = ("--network", "lstm", "--sample", "carry", "--context", "5")
STREAM = ("--sample", "stream", "--stream-epoch", "7")
MASKED = ("--network", "bert", "--task", "masked")


def test_training_learns_and_leaves_a_run(task: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train(task, "run", "--epochs", "4", "--valid-every", "10") == 0
    files = {path.name for path in (task / "run").iterdir()}
    assert {"checkpoint.safetensors", "log.jsonl", "language_model.json"} <= files
    assert {"weights.safetensors", "tokenizer.json"} <= files
    epochs, steps = records(task / "run", "epoch"), records(task / "run", "step")
    assert epochs[-1]["valid_loss"] < 1.3 < 3.0 < steps[0]["loss"]
    assert 10 in [record["step"] for record in steps if "valid_loss" in record]
    assert epochs[-1]["valid_perplexity"] == pytest.approx(math.exp(epochs[-1]["valid_loss"]))
    assert {"perplexity", "lr", "tokens_per_second", "grad_norm"} <= set(steps[-1])
    lowest = min(record["valid_loss"] for record in (*epochs, *steps) if "valid_loss" in record)
    assert f"validation loss {lowest:.4f}" in capsys.readouterr().out


def test_weights_are_those_of_the_lowest_validation_loss(task: Path) -> None:
    # A learning rate that rises again spoils the weights at the end.
    options = ["--epochs", "3", "--schedule", "step", "--gamma", "1", "--lr", "0.05"]
    assert train(task, "run", *options, "--valid-every", "5") == 0
    points = nn.load_checkpoint(task / "run" / "checkpoint.safetensors").parts["Validate"]["points"]
    best = min(loss for _, loss in points)
    model = load_language_model(task / "run")
    found = evaluate_text(model, text.TextFiles(task / "valid.txt"), stride=16)
    assert found.nats_per_token == pytest.approx(best, abs=0.05)


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(("--dropout", "0.2"), id="transformer"),
        pytest.param(CARRY, id="carry"),
        pytest.param((*CARRY, "--compiled"), id="carry-compiled", marks=WHOLE),
        pytest.param((*STREAM, "--prefetch", "3"), id="stream"),
        pytest.param((*STREAM, *MASKED, "--accumulate", "2"), id="masked-stream", marks=WHOLE),
    ],
)
def test_a_killed_and_resumed_training_ends_with_the_same_bits(
    task: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    options = (*options, "--epochs", "2", "--checkpoint-every", "3", "--seed", "3")
    assert train(task, "whole", *options) == 0
    steps, last = trainer_module.train_step, records(task / "whole", "step")[-1]["step"]

    def killed(trainer: nn.Trainer, *arguments: Any) -> float:
        if trainer.step == last - 2:  # within the second epoch
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
    weights = [(task / name / "weights.safetensors").read_bytes() for name in ("whole", "killed")]
    assert weights[0] == weights[1]


@pytest.mark.parametrize(
    "options",
    [
        pytest.param((), id="pack"),
        pytest.param(CARRY, id="carry"),
        pytest.param(STREAM, id="stream"),
        pytest.param((*MASKED, "--batch-size", "5"), id="masked", marks=WHOLE),
        pytest.param(("--sample", "line", "--context", "40"), id="line", marks=WHOLE),
    ],
)
def test_two_ranks_are_one(task: Path, options: tuple[str, ...]) -> None:
    options = (*options, "--dtype", "float64", "--updates", "20")
    assert train(task, "one", *options) == 0
    assert train(task, "two", *options, "--ranks", "2", "--communicator", "threads") == 0
    one, two = (
        [record["loss"] for record in records(task / name, "step")] for name in ("one", "two")
    )
    assert len(one) == len(two) == 20
    assert one == pytest.approx(two, rel=1e-10)


KINDS = [
    "--network gcnn --blocks 12x3,8x1+8x3+16x1",
    "--network llama",
    "--sample line --context 40 --max-tokens 160",
    "--sample stream",
    "--sample documents --context 60",
    "--sample documents --context 60 --network gpt2",
    "--network lstm --head adaptive --cutoffs 6,12",
    "--head sampled --samples 5",
    "--tokenizer word --eos",
    "--optimizer nag --momentum 0.9 --schedule inverse_sqrt --warmup 5 --warmup-lr 1e-4",
    "--ema 0.9 --schedule onecycle",
]
MORE_KINDS = [
    "--network gcnn --sample carry --context 6",
    "--network lstm --sample carry --context 6 --amp --ema 0.9",
    "--network gpt2",
    "--positions learned --layer-drop 0.1",
    "--sample line --context 40",
    "--network bert --task masked --sample line --context 40",
    "--network bert --task masked --sample documents --context 60",
    "--network llama --sample documents --context 60",
    "--head noise_contrastive --samples 5",
    "--head adaptive --cutoffs 6,12",
    "--label-smoothing 0.1 --accumulate 2",
    "--tokenizer bpe --vocabulary 280",
    "--amp",
]


@pytest.mark.parametrize(
    "options", [*KINDS, *(pytest.param(options, marks=WHOLE) for options in MORE_KINDS)]
)
def test_kinds_of_networks_samples_and_outputs(task: Path, options: str) -> None:
    assert train(task, "run", *options.split(), "--updates", "16") == 0
    losses = [record["loss"] for record in records(task / "run", "step")]
    assert len(losses) == 16
    assert sum(losses[-4:]) < sum(losses[:4])
    model = load_language_model(task / "run")
    assert not model.network.training


def test_a_stream_reads_all_files_again_and_again(task: Path) -> None:
    lines = (task / "train.txt").read_text().splitlines(keepends=True)
    shards = [task / f"shard-{number}.txt" for number in range(3)]
    for number, shard in enumerate(shards):
        shard.write_text("".join(lines[number::3]))
    files = ["--train", *map(str, shards), "--valid", str(task / "valid.txt")]
    options = ["--sample", "stream", "--stream-epoch", "40", "--epochs", "2"]
    assert main(["train", *files, "--out", str(task / "run"), *SMALL, *options]) == 0
    steps, epochs = records(task / "run", "step"), records(task / "run", "epoch")
    assert len(steps) == 80  # more than six times the text
    assert epochs[-1]["valid_loss"] < 1.3 < 3.0 < steps[0]["loss"]
    assert load_language_model(task / "run").sample == "pack"


@WHOLE
def test_compiled_steps_compute_the_same(task: Path) -> None:
    for name, more in (("plain", ()), ("graph", ("--compiled",))):
        assert train(task, name, "--updates", "4", *more, "--backend", "jit") == 0
    plain, graph = ([r["loss"] for r in records(task / n, "step")] for n in ("plain", "graph"))
    assert graph == pytest.approx(plain, rel=1e-4)


@pytest.mark.parametrize("network", ["lstm", "gcnn"])
def test_the_state_of_a_row_goes_on_in_the_next_batch(network: str) -> None:
    """Two halves of a text, one behind the other, give the vectors of the whole."""
    recipe = Recipe(network=network, sample="carry", size=8, blocks="8x3,8x2", dropout=0.0)
    objective = Objective(recipe, make_network(recipe, 9, ()), None)
    objective.carry(3)
    tokens = ft.Generator(0).integers(0, 9, (3, 10))
    halves = ft.concatenate([objective(tokens[:, :5]), objective(tokens[:, 5:])], 1)
    whole = objective.network.hidden(tokens)
    assert ft.max(ft.abs(halves - whole)).item() < 1e-6


@pytest.mark.parametrize("network", ["lstm", "gcnn"])
def test_a_compiled_step_carries_the_state(task: Path, network: str) -> None:
    """Over batches, over the beginning of an epoch, and beside a validation in between."""
    options = (*CARRY[2:], "--network", network, "--epochs", "2", "--valid-every", "3")
    for name, more in (("plain", ()), ("graph", ("--compiled",))):
        assert train(task, name, *options, *more) == 0
    plain, graph = ([r["loss"] for r in records(task / n, "step")] for n in ("plain", "graph"))
    assert graph == pytest.approx(plain, rel=1e-5)
    assert not records(task / "graph", "not compiled")


def test_minutes_end_a_training_and_lead_its_learning_rate(task: Path) -> None:
    assert train(task, "run", "--minutes", "0.02", "--final-lr", "0") == 0
    steps = records(task / "run", "step")
    assert steps[0]["lr"] > 0.009
    assert steps[-1]["lr"] < steps[0]["lr"] / 2
    rates = [record["lr"] for record in steps]
    assert rates == sorted(rates, reverse=True)


def test_a_resumed_run_may_go_on_for_longer(task: Path) -> None:
    assert train(task, "run", "--updates", "5") == 0
    out = ["--out", str(task / "run"), "--resume", "--quiet", *NUMPY]
    assert main(["train", *out, "--updates", "9"]) == 0
    assert [record["step"] for record in records(task / "run", "step")] == list(range(1, 10))


def test_another_run_begins_with_the_weights_of_one(task: Path) -> None:
    assert train(task, "run", "--network", "gpt2", "--epochs", "3") == 0
    low = records(task / "run", "epoch")[-1]["valid_loss"]
    assert train(task, "more", "--init", str(task / "run"), "--updates", "2", "--lr", "1e-5") == 0
    first = records(task / "more", "step")[0]["loss"]
    assert first == pytest.approx(low, abs=0.3)


def test_adapters_are_trained_alone_and_merged_at_the_end(task: Path) -> None:
    assert train(task, "run", "--network", "gpt2", "--epochs", "2") == 0
    options = ["--init", str(task / "run"), "--lora", "2", "--updates", "8"]
    assert train(task, "tuned", *options) == 0
    assert (task / "tuned" / "adapter" / "adapter_config.json").is_file()
    before, after = load_language_model(task / "run"), load_language_model(task / "tuned")
    old, new = before.network.state_dict(), after.network.state_dict()
    changed = {name for name in old if old[name].tolist() != new[name].tolist()}
    assert changed == {"layers.0.self_attn.in_proj_weight"}


def test_recipes_of_the_package_are_read() -> None:
    assert {"char-transformer", "bpe-transformer", "bert-small", "ptb-lstm"} <= set(recipe_names())
    for name in recipe_names():
        assert Recipe.read(name).values()
    lstm = Recipe.read("ptb-lstm", updates=3)
    assert (lstm.size, lstm.layers, lstm.batch_size, lstm.clip, lstm.updates) == (
        200,
        2,
        20,
        0.25,
        3,
    )


def test_the_rate_of_ptb_lstm_is_halved_after_its_fourth_epoch() -> None:
    recipe = Recipe.read("ptb-lstm")
    rates = [recipe.lr * factor(recipe, 10 * e, e, 0.0) for e in range(7)]
    assert rates == [20, 20, 20, 20, 10, 5, 2.5]


def test_a_token_file_is_trained_on(task: Path) -> None:
    tokenizer = text.Tokenizer.train(text.TextFiles(task / "train.txt"), "char", 100)
    tokenizer.save(task / "own.json")
    text.write_tokens(task / "train.tokens", text.TextFiles(task / "train.txt"), tokenizer)
    options = ["--train", str(task / "train.tokens"), "--tokenizer-file", str(task / "own.json")]
    assert train(task, "run", *options, "--updates", "3") == 0
    described = json.loads((task / "run" / "language_model.json").read_text())
    assert described["tokenizer"] == tokenizer.fingerprint()
