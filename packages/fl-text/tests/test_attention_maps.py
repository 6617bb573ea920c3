"""Maps of attention: weights of every layer, and pictures of them from fl-text eval."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from text_runs import NUMPY, train, write_texts

import fl_tensor as ft
from fl_text.attention_maps import attention_maps
from fl_text.cli import main
from fl_text.errors import TextError
from fl_text.models import GPT2, Llama, LSTMLanguageModel, MaskedLM, TransformerLanguageModel

SIZES: dict[str, Any] = {"size": 16, "heads": 4, "layers": 2}
NETWORKS = {
    "gpt2": lambda: GPT2(tokens=30, steps=12, **SIZES),
    "llama": lambda: Llama(tokens=30, steps=12, kv_heads=2, hidden=32, **SIZES),
    "transformer": lambda: TransformerLanguageModel(30, hidden=32, **SIZES),
    "bert": lambda: MaskedLM(tokens=30, steps=12, hidden=32, **SIZES),
}
TOKENS = [3, 1, 4, 1, 5, 9, 2]


@pytest.mark.parametrize("name", NETWORKS)
def test_each_layer_has_a_map_for_each_head(name: str) -> None:
    network = NETWORKS[name]()
    scores = network.eval()(ft.asarray([TOKENS]))
    maps = attention_maps(network, TOKENS)
    assert [weights.shape for weights in maps] == [(4, 7, 7)] * 2
    for weights in maps:
        assert ft.allclose(ft.sum(weights, -1), ft.ones((4, 7)), atol=1e-5)
        later = ft.triu(weights[0], 1)
        assert (ft.max(later).item() == 0.0) == (name != "bert")
    assert ft.all(network(ft.asarray([TOKENS])) == scores).item()


def test_the_weights_are_those_of_queries_and_keys() -> None:
    network = GPT2(tokens=30, steps=12, **SIZES).eval()
    layer = network.layers[0]
    x = layer.norm1(network.positions(network.embedding(ft.asarray([TOKENS]))))
    q, k, _ = ft.split(ft.linear(x, layer.self_attn.in_proj_weight), 3, -1)
    q, k = (ft.swapaxes(each.reshape(7, 4, 4), 0, 1) for each in (q, k))
    scores = ft.matmul(q, ft.swapaxes(k, 1, 2)) / 2.0
    seen = ft.tril(ft.ones((7, 7))) > 0.0
    expected = ft.softmax(ft.where(seen, scores, -1e30), -1)
    assert ft.allclose(attention_maps(network, TOKENS)[0], expected, atol=1e-5)


def test_networks_without_attention_and_texts_without_tokens_are_refused() -> None:
    with pytest.raises(TextError, match="LSTMLanguageModel has no attention"):
        attention_maps(LSTMLanguageModel(30, size=4), TOKENS)
    with pytest.raises(TextError, match="at least one whole number"):
        attention_maps(NETWORKS["gpt2"](), [])


def test_eval_draws_the_attention_of_a_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    write_texts(tmp_path)
    for name, more in (("pack", []), ("line", ["--sample", "line", "--context", "40"])):
        assert train(tmp_path, name, "--updates", "2", *more) == 0
        command = ["eval", str(tmp_path / name), str(tmp_path / "valid.txt"), *NUMPY]
        picture = tmp_path / f"{name}.png"
        assert main([*command, "--attention", str(picture)]) == 0
        assert picture.read_bytes().startswith(b"\x89PNG")
    assert main([*command, "--attention", str(picture), "--layer", "1"]) == 1
    assert "layer 1: the network has layers 0 to 0" in capsys.readouterr().err
