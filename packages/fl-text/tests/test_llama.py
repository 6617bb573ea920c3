"""Llama: what it computes, and what is refused of folders with weights."""

from __future__ import annotations

import json

import pytest

import fl_nn as nn
import fl_tensor as ft
from fl_text import TextError, TextFileError, Tokenizer
from fl_text.models import (
    GPT2,
    GPT2_HUGGING_FACE,
    LLAMA_HUGGING_FACE,
    Llama,
    load_language_model,
)

SMALL = dict(tokens=30, steps=16, size=24, heads=4, layers=2, kv_heads=2, hidden=40)
CONFIG = dict(
    model_type="llama",
    vocab_size=30,
    max_position_embeddings=16,
    hidden_size=24,
    num_attention_heads=4,
    num_hidden_layers=2,
    num_key_value_heads=2,
    intermediate_size=40,
    rms_norm_eps=1e-6,
    hidden_act="silu",
    bos_token_id=1,
    eos_token_id=[2, 3],
)


def words(rows, steps, seed=0):
    return ft.Generator(seed).integers(0, 30, (rows, steps))


def near(found, wanted):
    assert ft.allclose(found, wanted, rtol=1e-4, atol=1e-5)


def write(folder, model=None, table=LLAMA_HUGGING_FACE, **changes):
    folder.mkdir(exist_ok=True)
    config = {k: v for k, v in {**CONFIG, **changes}.items() if v != "absent"}
    (folder / "config.json").write_text(json.dumps(config))
    nn.save_weights(folder / "model.safetensors", model or Llama(**SMALL), rename=table)
    return folder


# ---- the network ---------------------------------------------------------------------------------


@pytest.mark.parametrize("window", [None, 3])
def test_it_sees_no_later_token(window):
    model = Llama(**SMALL, window=window).eval()
    x = words(2, 8)
    y = model(x)
    assert y.shape == (2, 8, 30)
    changed = ft.concatenate([x[:, :5], (x[:, 5:] + 1) % 30], 1)
    near(model(changed)[:, :5], y[:, :5])
    assert not ft.allclose(model(changed)[:, 5:], y[:, 5:])


def test_a_window_hides_what_is_further_back_than_all_layers_reach():
    model = Llama(**SMALL, window=3).eval()
    x = words(1, 9)
    changed = ft.concatenate([(x[:, :4] + 1) % 30, x[:, 4:]], 1)
    near(model(changed)[:, 8:], model(x)[:, 8:])  # 2 layers reach 2 steps each
    assert not ft.allclose(model(changed)[:, 7:8], model(x)[:, 7:8])


@pytest.mark.parametrize("window", [None, 3])
def test_it_generates_with_caches_what_it_gives_at_once(window):
    model = Llama(**SMALL, window=window).eval()
    x, caches = words(2, 8), model.caches()
    steps = [model(x[:, :3], caches), *[model(x[:, t : t + 1], caches) for t in range(3, 8)]]
    near(ft.concatenate(steps, 1), model(x))
    assert caches[0].keys.shape == (2, 2, 8, 6)


def test_caches_branch():
    model = Llama(**SMALL).eval()
    x, caches = words(2, 6), model.caches()
    model(x[:, :5], caches)
    for cache in caches:
        cache.select(ft.asarray([1, 0, 1]))
    rows = ft.gather(x, ft.asarray([1, 0, 1]), 0)
    near(model(rows[:, 5:], caches), model(rows)[:, 5:])


def test_scores_are_the_output_of_the_hidden_features():
    model = Llama(**SMALL).eval()
    near(model.output(model.hidden(words(1, 5))), model(words(1, 5)))


def test_a_tied_output_is_the_matrix_of_the_embedding():
    model = Llama(**SMALL, tied=True)
    assert model.output.weight is model.embedding.weight
    model(words(1, 5)).sum().backward()
    assert all(p.grad is not None for p in model.parameters())


def test_parameters_are_counted_as_published():
    with ft.use("null"):
        assert nn.num_total_params(Llama()) == 6_738_415_616


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(heads=5), "heads must divide size"),
        (dict(kv_heads=3), "kv_heads must divide heads"),
        (dict(layers=0), "layers=0"),
        (dict(window=0), "window=0"),
    ],
)
def test_sizes_that_do_not_fit(options, message):
    with pytest.raises(TextError, match=message):
        Llama(**{**SMALL, **options})


def test_a_text_beyond_the_context_is_refused():
    model, scaled = (
        Llama(**SMALL, rope_scaling=s).eval()
        for s in (None, {"rope_type": "linear", "factor": 2.0})
    )
    with pytest.raises(ft.ShapeError, match=r"\(1, 17\) after 0 .* at most 16 steps; cut the text"):
        model(words(1, 17))
    caches = model.caches()
    model(words(1, 16), caches)
    with pytest.raises(ft.ShapeError, match=r"\(1, 1\) after 16 in the caches"):
        model(words(1, 1), caches)
    assert scaled(words(1, 32)).shape == (1, 32, 30)
    with pytest.raises(ft.ShapeError, match="at most 32 steps"):
        scaled(words(1, 33))


def test_caches_of_another_network_are_refused():
    with pytest.raises(ft.ShapeError, match="1 caches for 2 layers"):
        Llama(**SMALL)(words(1, 2), [nn.KVCache()])


@pytest.mark.parametrize(
    "scaling, message",
    [
        ({"rope_type": "yarn"}, "'yarn': one of default, linear, dynamic, llama3"),
        ({"rope_type": "linear"}, "factor is missing"),
        ({"rope_type": "linear", "factor": 0.5}, "factor=0.5: give a number of at least 1"),
        ({"rope_type": "linear", "factor": 2.0, "beta": 1}, "beta is unknown"),
    ],
)
def test_scaling_of_positions_that_is_not_supported(scaling, message):
    with pytest.raises(nn.ModuleError, match=message):
        Llama(**SMALL, rope_scaling=scaling)


# ---- folders -------------------------------------------------------------------------------------


def test_a_folder_becomes_the_network(tmp_path):
    model = Llama(**SMALL).eval()
    near(Llama.from_huggingface(write(tmp_path, model)).eval()(words(2, 6)), model(words(2, 6)))


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"hidden_act": "gelu"}, r"hidden_act is 'gelu': supported is 'silu'"),
        ({"model_type": "mamba"}, "model_type is 'mamba': supported is 'llama' or"),
        ({"model_type": "absent"}, "model_type is None"),
        ({"vocab_size": "absent"}, "vocab_size is None: supported is a whole number"),
        ({"vocab_size": 10**12}, "vocab_size is 1000000000000: supported is a whole number from 1"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers is 1000000000"),
        ({"num_hidden_layers": 2.0}, "num_hidden_layers is 2.0"),
        ({"num_key_value_heads": 3}, "kv_heads must divide heads"),
        ({"rms_norm_eps": "small"}, "rms_norm_eps is 'small': supported is a number"),
        ({"tie_word_embeddings": 1}, "tie_word_embeddings is 1: supported is true or false"),
        ({"pretraining_tp": 2}, "pretraining_tp is 2: supported is 1 or None"),
        ({"rope_scaling": {"type": "yarn", "factor": 2.0}}, "rope_scaling .*one of default"),
        ({"rope_scaling": 3}, "rope_scaling is 3"),
        ({"router_jitter": 0.1}, r"the key router_jitter \(0.1\) is unknown: .*ignore="),
        (
            {"model_type": "qwen2", "use_sliding_window": True, "sliding_window": 4},
            "max_window_layers .* all layers alike",
        ),
    ],
)
def test_configurations_that_are_not_supported_name_the_key(tmp_path, changes, message):
    write(tmp_path, **changes)
    with pytest.raises(TextFileError, match=message) as error:
        Llama.from_huggingface(tmp_path)
    assert "config.json" in str(error.value)


def test_an_unknown_key_may_be_passed_over(tmp_path):
    write(tmp_path, router_jitter=0.1)
    Llama.from_huggingface(tmp_path, ignore=["router_jitter"])


@pytest.mark.parametrize(
    "text, message",
    [
        (b"", "not valid JSON"),
        (b"[" * 100_000, "not valid JSON"),
        (b"[]", "no JSON object"),
        (b'{"a": 1, "a": 2}', "a name comes twice"),
        (b" " * (1 << 20) + b"{}", "larger than"),
        (None, "No such file"),
    ],
)
def test_damaged_configurations(tmp_path, text, message):
    write(tmp_path)
    (tmp_path / "config.json").unlink()
    if text is not None:
        (tmp_path / "config.json").write_bytes(text)
    with pytest.raises(TextFileError, match=message):
        Llama.from_huggingface(tmp_path)


def test_weights_of_another_size_are_refused_before_anything_is_allocated(tmp_path):
    write(tmp_path, hidden_size=1 << 16, vocab_size=1 << 22, intermediate_size=1 << 20)
    with pytest.raises(nn.CheckpointError, match=r"embedding.weight has shape \(30, 24\), here"):
        Llama.from_huggingface(tmp_path)


def test_weights_of_another_network_are_refused(tmp_path):
    model = GPT2(tokens=30, steps=16, size=24, heads=4, layers=2)
    write(tmp_path, model, GPT2_HUGGING_FACE)
    with pytest.raises(nn.CheckpointError, match=r"unexpected transformer\.h.*missing"):
        Llama.from_huggingface(tmp_path)


def test_damaged_weights(tmp_path):
    write(tmp_path)
    path = tmp_path / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(nn.CheckpointError):
        Llama.from_huggingface(tmp_path)


# ---- network, tokenizer and settings -------------------------------------------------------------


@pytest.fixture
def tokenizer():
    return Tokenizer.train(["abc abd " * 5], "char", 20, min_frequency=1)


def test_a_language_model_comes_with_tokenizer_and_settings(tmp_path, tokenizer):
    tokenizer.save(write(tmp_path) / "tokenizer.json")
    network, found, settings = load_language_model(tmp_path)
    assert isinstance(network, Llama) and not network.training
    assert found.encode("abc") == tokenizer.encode("abc")
    assert (settings.bos_id, settings.eos_ids, settings.temperature) == (1, (2, 3), None)


def test_settings_of_generation_come_before_those_of_the_network(tmp_path, tokenizer):
    tokenizer.save(write(tmp_path) / "tokenizer.json")
    path = tmp_path / "generation_config.json"
    path.write_text(json.dumps({"eos_token_id": 7, "temperature": 0.6, "top_k": 5, "top_p": 0.9}))
    settings = load_language_model(tmp_path).settings
    assert (settings.bos_id, settings.eos_ids, settings.pad_id) == (1, (7,), None)
    assert (settings.temperature, settings.top_k, settings.top_p) == (0.6, 5, 0.9)
    path.write_text(json.dumps({"eos_token_id": [2, 30]}))
    with pytest.raises(TextFileError, match=r"generation_config.json: eos_token_id is \[2, 30\]"):
        load_language_model(tmp_path)


def test_gpt2_is_told_by_its_configuration(tmp_path, tokenizer):
    model = GPT2(tokens=30, steps=16, size=24, heads=4, layers=2).eval()
    write(tmp_path, model, GPT2_HUGGING_FACE)
    config = dict(model_type="gpt2", vocab_size=30, n_positions=16, n_embd=24, n_head=4, n_layer=2)
    (tmp_path / "config.json").write_text(json.dumps(config))
    tokenizer.save(tmp_path / "tokenizer.json")
    near(load_language_model(tmp_path).network(words(1, 4)), model(words(1, 4)))
    (tmp_path / "config.json").write_text(json.dumps({**config, "n_inner": 50}))
    with pytest.raises(TextFileError, match="n_inner is 50: supported is None or 96"):
        load_language_model(tmp_path)


def test_a_tokenizer_with_more_tokens_than_the_network_is_refused(tmp_path):
    letters = "".join(chr(0x61 + i) for i in range(26)) + "ABCDEFGH"
    tokenizer = Tokenizer.train([letters], "char", 60, min_frequency=1)
    tokenizer.save(write(tmp_path) / "tokenizer.json")
    with pytest.raises(TextFileError, match=r"has \d+ tokens, and the network 30"):
        load_language_model(tmp_path)


def test_an_unknown_kind_of_network_is_refused(tmp_path, tokenizer):
    tokenizer.save(write(tmp_path, model_type="t5") / "tokenizer.json")
    with pytest.raises(TextFileError, match="'t5': supported is 'gpt2' or 'llama'"):
        load_language_model(tmp_path)
