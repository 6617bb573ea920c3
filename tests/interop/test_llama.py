"""Llama, Qwen2, Mistral and GPT-2 of folders that transformers writes: the same scores, at once and
token by token, and folders of ours load there."""

from __future__ import annotations

import json

import pytest

import fl_nn as nn
import fl_tensor as ft
from fl_text.models import GPT2, LLAMA_HUGGING_FACE, Llama

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from transformers.utils import logging  # noqa: E402

logging.set_verbosity_error()
logging.disable_progress_bar()

SIZES = dict(
    vocab_size=60,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=3,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=24,
    initializer_range=0.3,
    bos_token_id=1,
    eos_token_id=2,
)


def rope(kind, **settings):
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 10000.0, **settings}}


LLAMA3 = rope(
    "llama3",
    factor=8.0,
    low_freq_factor=1.0,
    high_freq_factor=4.0,
    original_max_position_embeddings=12,
)
CASES = {
    "llama": ("Llama", {}),
    "llama-tied": ("Llama", {"tie_word_embeddings": True}),
    "llama-all-biases": ("Llama", {"attention_bias": True, "mlp_bias": True}),
    "llama-head-dim": ("Llama", {"head_dim": 16, "num_key_value_heads": 1}),
    "llama-theta": ("Llama", rope("default") | {"rms_norm_eps": 1e-4}),
    "llama-linear": ("Llama", rope("linear", factor=4.0)),
    "llama-dynamic": ("Llama", rope("dynamic", factor=2.0)),
    "llama3": ("Llama", LLAMA3),
    "qwen2": ("Qwen2", {"tie_word_embeddings": True}),
    "qwen2-window": (
        "Qwen2",
        {"use_sliding_window": True, "sliding_window": 5, "max_window_layers": 0},
    ),
    "mistral": ("Mistral", {"sliding_window": 5}),
    "mistral-whole": ("Mistral", {"sliding_window": None}),
}


def twin_of(name):
    cls, options = CASES[name]
    torch.manual_seed(3)
    config = getattr(transformers, f"{cls}Config")(**SIZES | options)
    twin = getattr(transformers, f"{cls}ForCausalLM")(config).eval()
    for tensor in twin.state_dict().values():
        if tensor.ndim == 1:  # no scale is one, no bias zero
            tensor.add_(0.1 * torch.rand_like(tensor))
    return twin


def scores(twin, tokens):
    with torch.no_grad():
        return twin(tokens).logits


def near(found, expected):
    assert expected.std() > 0.1
    torch.testing.assert_close(torch.tensor(found.numpy()), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", CASES)
def test_scores_at_once_and_token_by_token(tmp_path, name):
    twin = twin_of(name)
    twin.save_pretrained(tmp_path)
    model = Llama.from_huggingface(tmp_path).eval()
    tokens = torch.randint(0, 60, (2, 20))
    ours, caches = ft.asarray(tokens.numpy()), model.caches()
    expected = scores(twin, tokens)
    near(model(ours), expected)
    parts = [model(ours[:, :8], caches)]
    parts += [model(ours[:, t : t + 1], caches) for t in range(8, 20)]
    near(ft.concatenate(parts, 1), expected)


def test_beyond_the_first_context_dynamic_frequencies_follow(tmp_path):
    twin = twin_of("llama-dynamic")
    twin.save_pretrained(tmp_path)
    model = Llama.from_huggingface(tmp_path).eval()
    for steps in (40, 20):
        tokens = torch.randint(0, 60, (1, steps))
        near(model(ft.asarray(tokens.numpy())), scores(twin, tokens))


@pytest.mark.parametrize("name", ["llama", "llama-tied", "qwen2", "mistral"])
def test_weights_of_ours_load_there(tmp_path, name):
    twin = twin_of(name)
    twin.save_pretrained(tmp_path / "theirs")
    model = Llama.from_huggingface(tmp_path / "theirs").eval()
    twin.config.save_pretrained(tmp_path / "ours")
    nn.save_weights(tmp_path / "ours" / "model.safetensors", model, rename=LLAMA_HUGGING_FACE)
    fresh, notes = type(twin).from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not any(notes.values()), notes
    tokens = torch.randint(0, 60, (2, 9))
    assert torch.equal(scores(fresh.eval(), tokens), scores(twin, tokens))


def test_shards_and_half_precision(tmp_path):
    twin_of("llama").to(torch.bfloat16).save_pretrained(tmp_path, max_shard_size="10KB")
    twin = transformers.LlamaForCausalLM.from_pretrained(tmp_path, dtype=torch.float32).eval()
    assert len(list(tmp_path.glob("*.safetensors"))) > 2
    model = Llama.from_huggingface(tmp_path).eval()
    assert model.embedding.weight.dtype is ft.float32
    tokens = torch.randint(0, 60, (2, 9))
    near(model(ft.asarray(tokens.numpy())), scores(twin, tokens))


def test_configurations_as_older_releases_write_them(tmp_path):
    twin = twin_of("llama3")
    twin.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    scaling = config.pop("rope_parameters")
    config["rope_theta"] = scaling.pop("rope_theta")
    config["rope_scaling"] = scaling
    (tmp_path / "config.json").write_text(json.dumps(config))
    tokens = torch.randint(0, 60, (2, 9))
    model = Llama.from_huggingface(tmp_path).eval()
    near(model(ft.asarray(tokens.numpy())), scores(twin, tokens))


@pytest.mark.parametrize("cls", ["GPT2LMHeadModel", "GPT2Model"])
def test_gpt2(tmp_path, cls):
    torch.manual_seed(3)
    sizes = dict(vocab_size=60, n_positions=24, n_embd=32, n_head=4, n_layer=2)
    config = transformers.GPT2Config(**sizes, initializer_range=0.3, bos_token_id=1, eos_token_id=2)
    twin = getattr(transformers, cls)(config).eval()
    twin.save_pretrained(tmp_path)
    model = GPT2.from_huggingface(tmp_path).eval()
    tokens = torch.randint(0, 60, (2, 9))
    with torch.no_grad():
        found = twin(tokens)
        hidden = getattr(found, "logits", None)
        if hidden is None:
            hidden = found.last_hidden_state @ twin.wte.weight.T
    near(model(ft.asarray(tokens.numpy())), hidden)
