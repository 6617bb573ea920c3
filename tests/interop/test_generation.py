"""Generation gives the tokens of transformers' for the same weights: greedy, by beam search, with
its sampling filters."""

from __future__ import annotations

import pytest

import fl_nn as nn
import fl_tensor as ft
from fl_text.generation import MinP, RepetitionPenalty, TopK, TopP, beam_search, generate
from fl_text.models import GPT2, GPT2_HUGGING_FACE

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from safetensors.torch import save_file  # noqa: E402
from transformers.generation import logits_process as theirs  # noqa: E402
from transformers.utils import logging  # noqa: E402

logging.set_verbosity_error()
torch.set_num_threads(1)  # the models are tiny: threads would only wait for one another
VOCABULARY, PAD = 60, 59
PROMPTS = [[1, 2, 3], [4], [5, 6, 7, 8, 9, 10, 11]]


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """The same small GPT-2 in transformers and here, with weights so wide that texts vary."""
    config = transformers.GPT2Config(
        vocab_size=VOCABULARY, n_positions=64, n_embd=24, n_layer=3, n_head=4,
        bos_token_id=None, eos_token_id=None,
    )  # fmt: skip
    torch.manual_seed(0)
    model = transformers.GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "ln_" not in name:
                parameter.mul_(3.0 if name.startswith("transformer.w") else 25.0)
    path = tmp_path_factory.mktemp("gpt2") / "model.safetensors"
    tensors = {k: v for k, v in model.state_dict().items() if k != "lm_head.weight"}
    save_file({k: v.contiguous() for k, v in tensors.items()}, path)
    ours = GPT2(VOCABULARY, 64, 24, 4, 3).eval()
    nn.load_weights(path, ours, rename=GPT2_HUGGING_FACE)
    return model, ours


def generated(model, prompt, **settings):
    """What transformers generates after a prompt, and its scores."""
    config = transformers.GenerationConfig(
        pad_token_id=PAD, output_scores=True, return_dict_in_generate=True, **settings
    )
    found = model.generate(torch.tensor([prompt]), generation_config=config)
    return found.sequences[:, len(prompt) :].tolist(), found


def first_close_call(scores):
    """The first step at which the best two scores are within 1e-4."""
    for step, row in enumerate(scores):
        best, second = row[0].topk(2).values.tolist()
        if best - second < 1e-4:
            return step
    return len(scores)


def test_greedy_tokens_are_the_same_up_to_the_first_close_call(pair):
    model, ours = pair
    found = generate(ours, PROMPTS, max_new_tokens=40)
    compared = 0
    for prompt, row in zip(PROMPTS, found, strict=True):
        (wanted,), result = generated(model, prompt, max_new_tokens=40, do_sample=False)
        until = first_close_call(result.scores)
        assert row.tokens[:until] == wanted[:until]
        compared += until
    assert compared >= 60
    assert len({token for row in found for token in row.tokens}) >= 10


def test_greedy_tokens_with_a_repetition_penalty(pair):
    model, ours = pair
    found = generate(ours, PROMPTS, max_new_tokens=30, repetition_penalty=1.3)
    for prompt, row in zip(PROMPTS, found, strict=True):
        (wanted,), result = generated(
            model, prompt, max_new_tokens=30, do_sample=False, repetition_penalty=1.3
        )
        until = first_close_call(result.scores)
        assert until > 5 and row.tokens[:until] == wanted[:until]


@pytest.mark.parametrize("early_stopping", [True, False, "never"])
@pytest.mark.parametrize("length_penalty", [0.0, 1.0, 2.0, -1.0])
@pytest.mark.parametrize("beams", [2, 4])
def test_beam_search(pair, beams, length_penalty, early_stopping):
    model, ours = pair
    settings = dict(
        num_beams=beams, num_return_sequences=beams, max_new_tokens=10, do_sample=False,
        length_penalty=length_penalty, early_stopping=early_stopping, eos_token_id=[7, 12],
    )  # fmt: skip
    found = beam_search(
        ours, PROMPTS, beams=beams, best=beams, max_new_tokens=10, eos=[7, 12],
        length_penalty=length_penalty, early_stopping=early_stopping,
    )  # fmt: skip
    for prompt, row in zip(PROMPTS, found, strict=True):
        wanted, result = generated(model, prompt, **settings)
        assert [one.score for one in row] == pytest.approx(result.sequences_scores.tolist(), 1e-3)
        padded = [[*one.tokens, *[PAD] * (len(wanted[0]) - len(one.tokens))] for one in row]
        assert padded == wanted


@pytest.mark.parametrize(
    ("ours", "reference"),
    [
        (TopK(5), theirs.TopKLogitsWarper(5)),
        (TopK(500), theirs.TopKLogitsWarper(500)),
        *((TopP(p), theirs.TopPLogitsWarper(p)) for p in (1e-6, 0.3, 0.9, 0.999)),
        *((MinP(p), theirs.MinPLogitsWarper(p)) for p in (0.01, 0.3, 1.0)),
        *((RepetitionPenalty(p), theirs.RepetitionPenaltyLogitsProcessor(p)) for p in (0.7, 1.4)),
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_filters(ours, reference, seed):
    scores = 3 * torch.randn((4, 50), generator=torch.Generator().manual_seed(seed))
    tokens = [[1, 2, 2], [3, 4, 5], [49, 0, 7], [8, 8, 8]]
    found = ours(ft.asarray(scores.numpy()), tokens)
    wanted = reference(torch.tensor(tokens), scores.clone())
    assert torch.allclose(torch.from_numpy(found.numpy().copy()), wanted, rtol=1e-5)
