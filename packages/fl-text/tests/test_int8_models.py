"""Language models whose weights have 8 bits: outputs, losses, and the commands with --int8."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from text_runs import NUMPY, train, write_texts

import fl_tensor as ft
from fl_nn.quantization import Int8Embedding, quantize_weights
from fl_tensor.testing import needs
from fl_text.cli import main
from fl_text.models import GPT2, Llama, MaskedLM

pytestmark = needs("int8")

SIZES: dict[str, Any] = {"tokens": 40, "steps": 16, "size": 16, "heads": 2, "layers": 1}


def network(kind: str) -> Any:
    ft.seed(0)
    if kind == "gpt2":
        return GPT2(**SIZES)
    if kind.startswith("bert"):
        return MaskedLM(**SIZES, hidden=32, tied=kind == "bert")
    return Llama(**SIZES, hidden=32, tied=kind == "llama")


@pytest.mark.parametrize("embedding", [False, True])
@pytest.mark.parametrize("kind", ["gpt2", "llama", "untied llama", "bert", "untied bert"])
def test_output_and_loss_are_nearly_those_of_floats(kind: str, embedding: bool) -> None:
    model = network(kind).eval()
    tokens = ft.Generator(1).integers(0, 40, (2, 9))
    targets = ft.Generator(2).integers(0, 40, (2, 9))
    scores, loss = model(tokens), model.head.loss(model.hidden(tokens), targets).item()
    quantize_weights(model, embedding=embedding)
    spread = ft.max(ft.abs(scores)).item()
    assert ft.max(ft.abs(model(tokens) - scores)).item() < 0.03 * spread
    assert ft.allclose(model.head(model.hidden(tokens)), model(tokens), atol=1e-5)
    assert model.head.loss(model.hidden(tokens), targets).item() == pytest.approx(loss, abs=0.02)


def test_an_embedding_that_is_the_output_is_kept_once() -> None:
    model = quantize_weights(network("gpt2").eval(), embedding=True)
    assert isinstance(model.embedding, Int8Embedding)
    assert all(parameter.ndim == 1 for name, parameter in model.named_parameters()
               if not name.startswith("positions"))  # fmt: skip


@pytest.mark.parametrize("kind", ["gpt2", "llama", "transformer"])
def test_a_trained_model_loses_at_most_a_fiftieth_of_a_nat(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_texts(tmp_path)
    assert train(tmp_path, "run", "--network", kind, "--updates", "60") == 0
    capsys.readouterr()
    losses = []
    for more in ([], ["--int8"]):
        command = ["eval", str(tmp_path / "run"), str(tmp_path / "valid.txt"), "--json", *more]
        assert main([*command, *NUMPY]) == 0
        losses.append(json.loads(capsys.readouterr().out)["nats_per_token"])
    assert losses[0] < 2.3
    assert losses[0] != losses[1] == pytest.approx(losses[0], abs=0.02)
