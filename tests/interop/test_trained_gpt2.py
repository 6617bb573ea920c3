"""A small GPT-2 that is trained here and saved in the format of Hugging Face is continued token for
token as transformers does, by the command as well."""

from __future__ import annotations

import json

import pytest

import fl_nn as nn
import fl_tensor as ft
from fl_text import SpecialTokens, Tokenizer
from fl_text.cli import main
from fl_text.models import GPT2, GPT2_HUGGING_FACE

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from transformers.utils import logging  # noqa: E402

logging.set_verbosity_error()
torch.set_num_threads(1)  # the model is tiny: threads would only wait for one another
TEXT = "the quick brown fox jumps over the lazy dog and the cat sat on the mat. " * 4
PROMPTS = ["the quick", "lazy dog and", "a", "cat sat on the m"]
CLOSE = 1e-4


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder of Hugging Face with a GPT-2 that knows a text by heart, up to a few places."""
    path = tmp_path_factory.mktemp("gpt2")
    special = SpecialTokens(None, None, None, "<|endoftext|>", None)
    tokenizer = Tokenizer.train([TEXT], "bpe", 300, special=special)
    tokenizer.save(path / "tokenizer.json")
    ft.seed(0)
    sizes = dict(tokens=len(tokenizer), steps=64, size=32, heads=4, layers=2)
    model = GPT2(**sizes, dropout=0.0)
    optimizer = nn.optim.Adam(model.parameters(), lr=2e-3)
    ids = tokenizer.encode(TEXT)
    rows = ft.asarray([ids[first : first + 33] for first in range(0, 16, 2)])
    step = nn.compile(lambda: _step(model, optimizer, rows), model, optimizer)
    losses = [step().item() for _ in range(90)]
    assert losses[-1] < 0.3 * losses[0]
    nn.save_weights(path / "model.safetensors", model.eval(), rename=GPT2_HUGGING_FACE)
    config = dict(
        model_type="gpt2", architectures=["GPT2LMHeadModel"], vocab_size=len(tokenizer),
        n_positions=64, n_embd=32, n_head=4, n_layer=2, bos_token_id=tokenizer.eos_id,
        eos_token_id=tokenizer.eos_id, attn_pdrop=0.0, embd_pdrop=0.0, resid_pdrop=0.0,
    )  # fmt: skip
    (path / "config.json").write_text(json.dumps(config))
    return path


def _step(model, optimizer, rows):
    optimizer.zero_grad()
    loss = model.head.loss(model.hidden(rows[:, :-1]), rows[:, 1:])
    loss.backward()
    optimizer.step()
    return loss


def test_the_command_gives_the_tokens_of_transformers(folder, tmp_path, capsys):
    (tmp_path / "prompts.txt").write_text("\n".join(PROMPTS) + "\n")
    options = ["--prompts", str(tmp_path / "prompts.txt"), "--max-new-tokens", "40", "--json"]
    assert main(["generate", str(folder), *options]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    theirs = transformers.GPT2LMHeadModel.from_pretrained(folder).eval()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    compared = 0
    for prompt, one in zip(PROMPTS, found, strict=True):
        ids = torch.tensor([tokenizer.encode(prompt, add_special_tokens=False)])
        config = transformers.GenerationConfig(
            max_new_tokens=40, do_sample=False, pad_token_id=0, output_scores=True,
            return_dict_in_generate=True, eos_token_id=theirs.config.eos_token_id,
        )  # fmt: skip
        wanted = theirs.generate(ids, generation_config=config)
        best = torch.stack(wanted.scores)[:, 0].topk(2).values
        close = (best[:, 0] - best[:, 1] < CLOSE).tolist()
        until = [*close, True].index(True)
        tokens = wanted.sequences[0, ids.shape[1] :].tolist()
        assert one["tokens"][:until] == tokens[:until]
        if until == len(tokens):
            assert one["text"] == tokenizer.decode(tokens, skip_special_tokens=True)
            log_probs = torch.stack(wanted.scores)[:, 0].log_softmax(-1)
            score = log_probs[range(len(tokens)), tokens].sum().item()
            assert one["score"] == pytest.approx(score, rel=1e-3, abs=1e-3)
        compared += until
    assert compared >= 100
    assert len({token for one in found for token in one["tokens"]}) >= 10
