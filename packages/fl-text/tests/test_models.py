"""GPT-2 and BERT: shapes, masks, generation. Published weights: tests/interop of the repository."""

from __future__ import annotations

import pytest

import fl_nn as nn
import fl_tensor as ft
from fl_text.models import (
    BERT,
    BERT_HUGGING_FACE,
    GPT2,
    GPT2_BODY_HUGGING_FACE,
    GPT2_HUGGING_FACE,
    MASKED_LM_HUGGING_FACE,
    MaskedLM,
)

SMALL = dict(tokens=20, steps=8, size=12, heads=3, layers=2)


def words(rows, steps, seed=0):
    return ft.Generator(seed).integers(0, 20, (rows, steps))


def near(found, wanted):
    assert ft.allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_gpt2_sees_no_later_token():
    model = GPT2(**SMALL).eval()
    x = words(2, 6)
    y = model(x)
    assert y.shape == (2, 6, 20)
    changed = ft.concatenate([x[:, :4], (x[:, 4:] + 1) % 20], 1)
    near(model(changed)[:, :4], y[:, :4])


def test_gpt2_generates_with_caches_what_it_gives_at_once():
    model = GPT2(**SMALL).eval()
    x, caches = words(2, 6), model.caches()
    steps = [model(x[:, :3], caches), *[model(x[:, t : t + 1], caches) for t in range(3, 6)]]
    near(ft.concatenate(steps, 1), model(x))


def test_gpt2_has_no_matrix_for_its_output():
    with ft.use("null"):
        assert nn.num_total_params(GPT2()) == 124_439_808


def test_bert_pays_no_attention_to_padding():
    model = BERT(**SMALL).eval()
    x = words(1, 5)
    padded = ft.concatenate([x, words(1, 2, seed=1)], 1)
    mask = ft.asarray([[True] * 5 + [False] * 2])
    near(model(padded, key_mask=mask)[:, :5], model(x))
    near(model.pool(model(padded, key_mask=mask)), model.pool(model(x)))


def test_bert_tells_segments_apart():
    model = BERT(**SMALL).eval()
    x = words(1, 4)
    first = model(x, ft.zeros((1, 4), ft.int64))
    near(model(x), first)
    assert not ft.allclose(model(x, ft.ones((1, 4), ft.int64)), first)


def test_bert_base_has_as_many_parameters_as_published():
    with ft.use("null"):
        assert nn.num_total_params(BERT()) == 109_482_240


def test_without_pooler_there_is_no_pool():
    with pytest.raises(nn.ModuleError, match="pooler=False"):
        BERT(**SMALL, pooler=False).pool(ft.zeros((1, 2, 12)))


def test_a_masked_language_model_learns_its_embedding_from_both_sides():
    model = MaskedLM(**SMALL).eval()
    y = model(words(2, 5))
    assert y.shape == (2, 5, 20)
    y.sum().backward()
    assert all(p.grad is not None for p in model.parameters())


@pytest.mark.parametrize(
    "build, table",
    [
        (GPT2, GPT2_HUGGING_FACE),
        (GPT2, GPT2_BODY_HUGGING_FACE),
        (BERT, BERT_HUGGING_FACE),
        (MaskedLM, MASKED_LM_HUGGING_FACE),
    ],
)
def test_tables_lead_there_and_back(tmp_path, build, table):
    model, twin = build(**SMALL), build(**SMALL)
    nn.save_weights(tmp_path / "x", model, rename=table)
    nn.load_weights(tmp_path / "x", twin, rename=table)
    for name, value in model.state_dict().items():
        assert value.tolist() == twin.state_dict()[name].tolist(), name


def test_the_oldest_files_of_bert_call_scale_and_shift_otherwise(tmp_path):
    model, twin = BERT(**SMALL), BERT(**SMALL)
    nn.save_weights(tmp_path / "x", model, rename=BERT_HUGGING_FACE)
    with nn.open_tensors(tmp_path / "x") as file:
        old = {
            name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
                "LayerNorm.bias", "LayerNorm.beta"
            ): tensor.load()
            for name, tensor in file.tensors.items()
        }
    nn.save_tensors(tmp_path / "old", old, {})
    nn.load_weights(tmp_path / "old", twin, rename=BERT_HUGGING_FACE)
    assert twin.norm.weight.tolist() == model.norm.weight.tolist()
