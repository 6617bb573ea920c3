"""Adapters of PEFT load here and ours load there, with the same scores."""

from __future__ import annotations

import pytest

import fl_tensor as ft
from fl_nn import lora
from fl_text.models import GPT2, GPT2_HUGGING_FACE, LLAMA_HUGGING_FACE, Llama

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
peft = pytest.importorskip("peft")


def llama():
    config = transformers.LlamaConfig(
        vocab_size=40,
        hidden_size=24,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        initializer_range=0.3,
        bos_token_id=1,
        eos_token_id=2,
    )
    return transformers.LlamaForCausalLM(config)


def gpt2():
    sizes = dict(vocab_size=40, n_positions=16, n_embd=24, n_head=4, n_layer=2)
    config = transformers.GPT2Config(**sizes, initializer_range=0.3, bos_token_id=1, eos_token_id=2)
    return transformers.GPT2LMHeadModel(config)


CASES = {
    "attention": (llama, Llama, LLAMA_HUGGING_FACE, ["q_proj", "v_proj"], ["q_proj", "v_proj"]),
    "feed-forward": (
        llama,
        Llama,
        LLAMA_HUGGING_FACE,
        ["o_proj", "up_proj"],
        ["o_proj", "up_proj"],
    ),
    "gpt2": (gpt2, GPT2, GPT2_HUGGING_FACE, ["c_attn", "c_fc"], ["in_proj", "linear1"]),
}
pytestmark = pytest.mark.filterwarnings("ignore:fan_in_fan_out", "ignore::FutureWarning")


def scores(model, tokens):
    with torch.no_grad():
        return model(tokens).logits


@pytest.mark.parametrize("name", CASES)
def test_adapters_of_theirs_and_ours(tmp_path, name):
    build, cls, table, theirs, ours = CASES[name]
    torch.manual_seed(0)
    base = build().eval()
    base.save_pretrained(tmp_path / "base")
    tokens = torch.randint(0, 40, (2, 8))
    settings = peft.LoraConfig(
        r=3, lora_alpha=5, target_modules=theirs, init_lora_weights=False, task_type="CAUSAL_LM"
    )
    twin = peft.get_peft_model(base, settings).eval()
    twin.save_pretrained(tmp_path / "theirs")
    expected = scores(twin, tokens)

    model = cls.from_huggingface(tmp_path / "base").eval()
    words = ft.asarray(tokens.numpy())
    plain = torch.tensor(model(words).numpy())
    assert (plain - expected).abs().max() > 0.05
    lora.load_adapter(tmp_path / "theirs", model, rename=table)
    near(model(words), expected)
    near(lora.merge_lora(model)(words), expected)

    model = cls.from_huggingface(tmp_path / "base").eval()
    lora.apply_lora(model, 2, 6.0, targets=ours)
    for place, adapter in enumerate(lora.adapters(model).values()):
        adapter.lora_B.tensor = ft.Generator(place).normal(adapter.lora_B.shape) * 0.3
    lora.save_adapter(tmp_path / "ours", model, rename=table)
    fresh = peft.PeftModel.from_pretrained(
        type(base).from_pretrained(tmp_path / "base"), tmp_path / "ours"
    )
    near(model(words), scores(fresh.eval(), tokens))
    assert not torch.allclose(torch.tensor(model(words).numpy()), plain, atol=1e-2)


def near(found, expected):
    torch.testing.assert_close(torch.tensor(found.numpy()), expected, rtol=1e-4, atol=1e-4)
