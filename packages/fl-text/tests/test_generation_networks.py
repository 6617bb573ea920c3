"""Generation by every kind of network: through compiled steps of fixed shapes where it has keys and
values alone, through caches that grow or hold a state otherwise."""

from __future__ import annotations

import pytest

import fl_nn as nn
import fl_tensor as ft
from fl_text.generation import CompiledNetwork, beam_search, generate
from fl_text.models import GCNN, Llama, LSTMLanguageModel, TransformerLanguageModel

PROMPTS = [[1, 2, 3], [4], [5, 6, 7, 8, 9, 10, 11], [9, 8, 7]]
LLAMA = dict(tokens=30, steps=40, size=24, heads=4, layers=2, kv_heads=2, hidden=40)
TRANSFORMER = dict(tokens=30, size=24, heads=4, layers=2, hidden=40)
DYNAMIC = {"rope_type": "dynamic", "factor": 2.0, "original_max_position_embeddings": 40}
FIXED = {
    "llama": lambda: Llama(**LLAMA),
    "llama with a window": lambda: Llama(**LLAMA, window=5),
    "llama with a window of one": lambda: Llama(**LLAMA, window=1),
    "llama, scaled": lambda: Llama(**LLAMA, rope_scaling={"rope_type": "linear", "factor": 2.0}),
    "sinusoidal positions": lambda: TransformerLanguageModel(**TRANSFORMER),
    "learned positions": lambda: TransformerLanguageModel(
        **TRANSFORMER, positions="learned", steps=40, norm_first=True
    ),
    "adaptive": lambda: TransformerLanguageModel(**TRANSFORMER, cutoffs=[10, 20]),
}
GROWING = {
    "lstm": lambda: LSTMLanguageModel(30, 24),
    "gcnn": lambda: GCNN(30, 16, [[(16, 3)], [(24, 1), (16, 4)]]),
    "llama, dynamic": lambda: Llama(**LLAMA, rope_scaling=DYNAMIC),
}


def made(make):
    """A network with weights so wide that texts vary."""
    ft.seed(1)
    model = make().eval()
    for name, parameter in model.named_parameters():
        if "norm" not in name:
            parameter.tensor = parameter.tensor * 4.0
    return model


def highest(model, prompt, count):
    """Greedy generation with caches that grow."""
    tokens, caches, new = list(prompt), model.caches(), ft.asarray([prompt])
    for _ in range(count):
        best = int(ft.argmax(model(new, caches)[0, -1]).item())
        tokens.append(best)
        new = ft.asarray([[best]])
    return tokens[len(prompt) :]


def tokens_of(results):
    return [one.tokens for one in results]


@pytest.mark.parametrize("name", [*FIXED, *GROWING])
def test_rows_of_different_lengths_are_continued_as_they_are_alone(name):
    model = made({**FIXED, **GROWING}[name])
    run = CompiledNetwork(model)
    found = tokens_of(generate(run, PROMPTS, max_new_tokens=15))
    assert found == [highest(model, row, 15) for row in PROMPTS]
    assert len({token for row in found for token in row}) >= 4
    assert ("14 of 15 calls ran a graph" in run.explain()) == (name in FIXED)


@pytest.mark.parametrize("name", ["llama with a window", "lstm", "gcnn", "llama, dynamic"])
def test_beams_are_searched_as_they_are_alone(name):
    model = made({**FIXED, **GROWING}[name])
    settings = dict(beams=3, best=3, max_new_tokens=6, eos=[7])
    together = beam_search(model, PROMPTS, **settings)
    for row, prompt in zip(together, PROMPTS, strict=True):
        ((first, *rest),) = beam_search(model, [prompt], **settings)
        assert tokens_of(row) == tokens_of([first, *rest])
        assert first.score == pytest.approx(row[0].score, rel=1e-4)


def test_dynamic_scaling_is_for_contexts_longer_than_those_of_training():
    model = made(GROWING["llama, dynamic"])
    (found,) = generate(model, [[3]], max_new_tokens=60)
    assert found.tokens == highest(model, [3], 60)


def test_int8_weights_generate_what_they_generate_with_growing_caches():
    model = made(FIXED["llama with a window"])
    nn.quantization.quantize_weights(model)
    found = generate(model, PROMPTS, max_new_tokens=10)
    assert tokens_of(found) == [highest(model, row, 10) for row in PROMPTS]
