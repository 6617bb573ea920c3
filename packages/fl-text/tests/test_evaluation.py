"""Perplexities of texts: windows, whole texts, lines, masked models, n-grams, one table."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import fl_nn as nn
import fl_tensor as ft
import fl_text as text
from fl_text.cli import main
from fl_text.evaluation import evaluate_masked, evaluate_ngrams, evaluate_text
from fl_text.language_model_folder import (
    LanguageModelFolder,
    build_network,
    load_language_model,
    save_language_model,
)
from fl_text.ngram import NGramModel, estimate, write_arpa

LINES = ["the cat sat on the mat\n", "a dog ran\n", "the dog saw the cat\n"] * 3


def made(kind: str, **settings: Any) -> LanguageModelFolder:
    """An untrained model of characters."""
    tokenizer = text.Tokenizer.train(LINES, "char", 100, min_frequency=1)
    more = {key: settings.pop(key) for key in ("sample", "eos", "masked") if key in settings}
    sizes = {"size": 8} if kind == "GCNN" else {"size": 8, "layers": 1}
    settings = {"tokens": len(tokenizer), **sizes, **settings}
    ft.seed(0)
    network = build_network(kind, settings).eval()
    return LanguageModelFolder(network, tokenizer, 8, kind=kind, settings=settings, **more)


@pytest.fixture
def transformer() -> LanguageModelFolder:
    return made("TransformerLanguageModel", heads=2, hidden=16, dropout=0.1)


def nats_of(model: LanguageModelFolder, ids: list[int], first: int) -> float:
    """-log p of the tokens from place `first` on, each after those of `ids` before it."""
    tokens = ft.asarray([ids])
    with nn.evaluating(model.network):
        log_probs = model.network.head.log_probs(model.network.hidden(tokens))[0].tolist()
    return -sum(log_probs[k - 1][ids[k]] for k in range(first, len(ids)))


def test_windows_predict_every_token_but_the_first_once(transformer: LanguageModelFolder) -> None:
    ids = transformer.tokenizer.encode("".join(LINES))
    found = evaluate_text(transformer, LINES, context=8, stride=3)
    assert found.tokens == len(ids) - 1 == found.characters
    expected, done, start = nats_of(transformer, ids[:9], 1), 8, 0
    while done < len(ids) - 1:
        new = min(3, len(ids) - 1 - done)
        start, done = start + new, done + new
        expected += nats_of(transformer, ids[start : start + 9], 9 - new)
    assert found.nats == pytest.approx(expected, rel=1e-5)
    assert "stride 3" in found.windows


def test_batches_of_windows_change_nothing(transformer: LanguageModelFolder) -> None:
    found = [evaluate_text(transformer, LINES, batch_size=size).nats for size in (1, 2, 50)]
    assert found == pytest.approx([found[0]] * 3, rel=1e-5)


def test_perplexities_are_those_of_the_same_nats(transformer: LanguageModelFolder) -> None:
    found = evaluate_text(transformer, LINES)
    assert found.perplexity == pytest.approx(math.exp(found.nats / found.tokens))
    assert found.words == len("".join(LINES).split())
    assert found.word_perplexity == pytest.approx(math.exp(found.nats / found.words))
    assert found.bits_per_character == pytest.approx(found.nats / math.log(2) / found.characters)


@pytest.mark.parametrize(
    ("kind", "settings"),
    [("LSTMLanguageModel", {}), ("GCNN", {"blocks": [[[8, 3]], [[8, 2]]]})],
)
def test_a_state_is_carried_through_the_whole_text(kind: str, settings: dict[str, Any]) -> None:
    model = made(kind, sample="carry", **settings)
    ids = model.tokenizer.encode("".join(LINES))
    found = evaluate_text(model, LINES)
    assert found.nats == pytest.approx(nats_of(model, ids, 1), rel=1e-5)
    assert found.windows == "whole text, one pass"


def test_models_of_lines_are_measured_line_by_line() -> None:
    model = replace(made("LSTMLanguageModel"), context=40, sample="line")
    expected, encoder = 0.0, model.tokenizer
    for line in LINES:
        ids = [encoder.bos_id, *encoder.encode(line.rstrip("\n")), encoder.eos_id]
        expected += nats_of(model, ids, 1)
    found = evaluate_text(model, LINES)
    assert found.nats == pytest.approx(expected, rel=1e-5)
    assert found.characters == len("".join(LINES)) == found.tokens


def test_unknown_characters_are_counted(transformer: LanguageModelFolder) -> None:
    assert evaluate_text(transformer, ["the zebra\n"]).unknown == 2  # z, b


def test_masked_accuracy_beside_that_of_the_commonest_token() -> None:
    model = made("MaskedLM", steps=8, segments=1, heads=2, hidden=16, masked=True)
    found = evaluate_masked(model, LINES, seed=1)
    again = evaluate_masked(model, LINES, seed=1, batch_size=3)
    assert (found.hidden, found.accuracy, found.commonest) == (
        *(again.hidden, again.accuracy, again.commonest),
    )
    assert found.nats == pytest.approx(again.nats, rel=1e-5)
    tokens = len(model.tokenizer.encode("".join(LINES)))
    assert 0.05 * tokens < found.hidden < 0.25 * tokens
    assert 1 / found.hidden <= found.commonest < 0.5


def test_ngrams_are_measured_in_the_same_units(tmp_path: Path) -> None:
    write_arpa(tmp_path / "m.arpa", estimate(LINES, 2, discount_fallback=(0.5, 1.0, 1.5)))
    model = NGramModel.open(tmp_path / "m.arpa")
    found, known = evaluate_ngrams(model, LINES), model.perplexity([x.strip() for x in LINES])
    assert found.word_perplexity == pytest.approx(known.value)
    assert found.characters == len("".join(LINES))


def test_one_table_of_all_models(
    tmp_path: Path, transformer: LanguageModelFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    save_language_model(tmp_path / "run", transformer)
    write_arpa(tmp_path / "m.arpa", estimate(LINES, 2, discount_fallback=(0.5, 1.0, 1.5)))
    (tmp_path / "text.txt").write_text("".join(LINES))
    paths = [str(tmp_path / name) for name in ("run", "text.txt", "m.arpa")]
    command = ["eval", *paths[:2], "--beside", paths[2], "--backend", "numpy"]
    assert main(command) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[0] == "model" and "bits a character" in lines[0]
    assert [line.split()[0] for line in lines[1:3]] == [paths[0], paths[2]]
    assert main([*command, "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    found = evaluate_text(transformer, LINES)
    assert rows[0]["perplexity"] == pytest.approx(found.perplexity, rel=1e-4)
    assert rows[1]["tokens"] == len("".join(LINES).split()) + len(LINES)


def test_a_folder_gives_the_same_model_again(
    tmp_path: Path, transformer: LanguageModelFolder
) -> None:
    save_language_model(tmp_path, transformer)
    again = load_language_model(tmp_path)
    assert again.description() == transformer.description()
    assert evaluate_text(again, LINES).nats == evaluate_text(transformer, LINES).nats


def test_padding_does_not_change_the_figures_of_masked_lines() -> None:
    longest = max(map(len, LINES)) + 2
    settings: dict[str, Any] = {"segments": 1, "heads": 2, "hidden": 16, "sample": "line"}
    model = made("MaskedLM", steps=longest + 20, masked=True, **settings)
    short, wide = (
        evaluate_masked(replace(model, context=context), LINES, mask_prob=0.4)
        for context in (longest, longest + 20)
    )
    assert short.hidden == wide.hidden
    assert short.nats == pytest.approx(wide.nats, rel=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"context": 8, "stride": 9}, "give a stride of 1 to context"),
        ({"context": 0, "stride": 1}, "context 0, stride 1"),
    ],
)
def test_windows_that_make_no_sense(
    transformer: LanguageModelFolder, options: dict[str, int], message: str
) -> None:
    with pytest.raises(text.TextError, match=message):
        evaluate_text(transformer, LINES, **options)


def test_a_window_beyond_the_positions_of_a_model() -> None:
    model = made("GPT2", steps=8, heads=2)
    with pytest.raises(text.TextError, match="context 9: the model has 8 positions"):
        evaluate_text(model, LINES, context=9)


def test_texts_without_two_tokens(transformer: LanguageModelFolder) -> None:
    with pytest.raises(text.TextError, match="two are the least"):
        evaluate_text(transformer, ["a"])


def test_the_wrong_measure_for_a_model(transformer: LanguageModelFolder) -> None:
    masked = made("MaskedLM", steps=8, segments=1, heads=2, hidden=16, masked=True)
    with pytest.raises(text.TextError, match="use evaluate_masked"):
        evaluate_text(masked, LINES)
    with pytest.raises(text.TextError, match="use evaluate_text"):
        evaluate_masked(transformer, LINES)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 9}, "of another version"),
        ({"network": "os.system"}, "malformed: network"),
        ({"settings": {"tokens": 1e30}}, "malformed: settings"),
        ({"context": -1}, "malformed: context"),
        ({"settings": {"tokens": 20, "wrong": 1}}, "build no TransformerLanguageModel"),
        ({"tokenizer": "0" * 32}, "give the tokenizer of the training"),
    ],
)
def test_damaged_folders(
    tmp_path: Path, transformer: LanguageModelFolder, change: dict[str, Any], message: str
) -> None:
    save_language_model(tmp_path, transformer)
    path = tmp_path / "language_model.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(text.TextFileError, match=message):
        load_language_model(tmp_path)


def test_weights_of_other_sizes(tmp_path: Path, transformer: LanguageModelFolder) -> None:
    save_language_model(tmp_path, transformer)
    path = tmp_path / "language_model.json"
    found = json.loads(path.read_text())
    found["settings"]["hidden"] = 1 << 22  # 128 MiB a matrix, were it allocated
    path.write_text(json.dumps(found))
    with pytest.raises(nn.CheckpointError, match="shape"):
        load_language_model(tmp_path)
