"""Files that torchvision and transformers write load here and give the same outputs; files written
here load there, strictly, and give the same outputs.

Weights are random: the models are those of published weights, in miniature and in full size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import fl_nn as nn
import fl_tensor as ft
from fl_nn.rename import Table
from fl_text.models import (
    BERT,
    BERT_HUGGING_FACE,
    GPT2,
    GPT2_BODY_HUGGING_FACE,
    GPT2_HUGGING_FACE,
    MASKED_LM_HUGGING_FACE,
    MaskedLM,
)
from fl_vision.models import RESNET_HUGGING_FACE, VIT_HUGGING_FACE, VIT_TORCHVISION, ResNet, ViT

torch = pytest.importorskip("torch")
torchvision = pytest.importorskip("torchvision")
transformers = pytest.importorskip("transformers")

from safetensors.torch import load_file, save_file  # noqa: E402
from transformers.utils import logging  # noqa: E402

logging.set_verbosity_error()
logging.disable_progress_bar()


# ---- both sides of a model -----------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """theirs, ours build the models; `inputs` makes what both take, and the functions call them."""

    theirs: Callable[[], Any]
    ours: Callable[[], nn.Module]
    table: Table | None
    inputs: Callable[[], tuple[Any, ...]]
    call_theirs: Callable[..., Any]
    call_ours: Callable[..., Any]


def images(pixels):
    return lambda: (torch.randn(2, 3, pixels, pixels),)


def texts(tokens, steps):
    def draw():
        lengths = torch.tensor([steps, steps - 3])
        return (
            torch.randint(0, tokens, (2, steps)),
            torch.randint(0, 2, (2, steps)),
            torch.arange(steps)[None] < lengths[:, None],
        )

    return draw


def of_torchvision(theirs, ours, table, pixels):
    return Case(theirs, ours, table, images(pixels), lambda m, x: m(x), lambda m, x: m(x))


def of_transformers(cls, config, ours, table, pixels):
    return Case(
        lambda: cls(config),
        ours,
        table,
        images(pixels),
        lambda m, x: m(x).logits,
        lambda m, x: m(x),
    )


def of_bert(cls, config, ours, table, call_theirs, call_ours):
    return Case(
        lambda: cls(config),
        ours,
        table,
        texts(config.vocab_size, 12),
        lambda m, x, kinds, mask: call_theirs(
            m(x, attention_mask=mask.long(), token_type_ids=kinds)
        ),
        call_ours,
    )


def of_gpt2(cls, config, ours, table, read):
    def call_theirs(model, x, kinds, mask):
        found = model(x)
        hidden = getattr(found, "logits", None)
        return found.last_hidden_state @ model.wte.weight.T if hidden is None else hidden

    return Case(
        lambda: cls(config),
        ours,
        table,
        texts(config.vocab_size, read),
        call_theirs,
        lambda m, x, kinds, mask: m(x),
    )


def encode(model, x, kinds, mask):
    return model.pool(model(x, kinds, mask))


def predict(model, x, kinds, mask):
    return model(x, segments=kinds, key_mask=mask)


VIT = dict(patch=4, size=24, heads=3, layers=3, image=16, classes=10, hidden=40)
VIT_CONFIG = dict(
    patch_size=4,
    hidden_size=24,
    num_attention_heads=3,
    num_hidden_layers=3,
    image_size=16,
    intermediate_size=40,
    num_labels=10,
)
RESNET_CONFIG = dict(depths=[2, 1, 1, 1], embedding_size=8, hidden_sizes=[32, 64, 128, 256])
BERT_OURS = dict(tokens=50, steps=16, size=24, heads=3, layers=3, hidden=40)
BERT_CONFIG = dict(
    vocab_size=50,
    max_position_embeddings=16,
    hidden_size=24,
    num_attention_heads=3,
    num_hidden_layers=3,
    intermediate_size=40,
)
GPT2_OURS = dict(tokens=50, steps=16, size=24, heads=3, layers=3)
GPT2_CONFIG = dict(
    vocab_size=50,
    n_positions=16,
    n_embd=24,
    n_head=3,
    n_layer=3,
    bos_token_id=0,
    eos_token_id=0,
)

MINIATURES = {
    "resnet": of_torchvision(
        lambda: torchvision.models.ResNet(
            torchvision.models.resnet.Bottleneck, [2, 1, 1, 1], num_classes=10
        ),
        lambda: ResNet((2, 1, 1, 1), classes=10),
        None,
        64,
    ),
    "resnet-transformers": of_transformers(
        transformers.ResNetForImageClassification,
        transformers.ResNetConfig(**RESNET_CONFIG, num_labels=10),
        lambda: ResNet((2, 1, 1, 1), width=8, classes=10),
        RESNET_HUGGING_FACE,
        64,
    ),
    "vit": of_torchvision(
        lambda: torchvision.models.VisionTransformer(16, 4, 3, 3, 24, 40, num_classes=10),
        lambda: ViT(**VIT),
        VIT_TORCHVISION,
        16,
    ),
    "vit-transformers": of_transformers(
        transformers.ViTForImageClassification,
        transformers.ViTConfig(**VIT_CONFIG),
        lambda: ViT(**VIT, eps=1e-12),
        VIT_HUGGING_FACE,
        16,
    ),
    "bert": of_bert(
        transformers.BertModel,
        transformers.BertConfig(**BERT_CONFIG),
        lambda: BERT(**BERT_OURS),
        BERT_HUGGING_FACE,
        lambda found: found.pooler_output,
        encode,
    ),
    "bert-masked-lm": of_bert(
        transformers.BertForMaskedLM,
        transformers.BertConfig(**BERT_CONFIG),
        lambda: MaskedLM(**BERT_OURS),
        MASKED_LM_HUGGING_FACE,
        lambda found: found.logits,
        predict,
    ),
    "gpt2": of_gpt2(
        transformers.GPT2LMHeadModel,
        transformers.GPT2Config(**GPT2_CONFIG),
        lambda: GPT2(**GPT2_OURS),
        GPT2_HUGGING_FACE,
        12,
    ),
    "gpt2-body": of_gpt2(
        transformers.GPT2Model,
        transformers.GPT2Config(**GPT2_CONFIG),
        lambda: GPT2(**GPT2_OURS),
        GPT2_BODY_HUGGING_FACE,
        12,
    ),
}
FULL_SIZE = {
    "resnet50": of_torchvision(torchvision.models.resnet50, ResNet, None, 224),
    "vit_b_16": of_torchvision(torchvision.models.vit_b_16, ViT, VIT_TORCHVISION, 224),
    "bert-base": of_bert(
        transformers.BertModel,
        transformers.BertConfig(),
        BERT,
        BERT_HUGGING_FACE,
        lambda found: found.pooler_output,
        encode,
    ),
    "gpt2": of_gpt2(
        transformers.GPT2LMHeadModel, transformers.GPT2Config(), GPT2, GPT2_HUGGING_FACE, 24
    ),
}


# ---- their files and ours ------------------------------------------------------------------------


def make_twin(case):
    torch.manual_seed(3)
    twin = case.theirs().eval()
    for tensor in twin.state_dict().values():
        if tensor.is_floating_point() and tensor.ndim == 1:  # no scale is one, no shift zero
            tensor.add_(0.1 * torch.rand_like(tensor))
    return twin


def write_theirs(twin, folder, **options):
    if hasattr(twin, "save_pretrained"):
        twin.save_pretrained(folder, **options)
    else:
        folder.mkdir()
        save_file(twin.state_dict(), folder / "model.safetensors")
    return folder


def read_theirs(twin, case, folder):
    """A fresh model of theirs with the weights in `folder`; nothing may be missing or left over."""
    if not hasattr(twin, "save_pretrained"):
        with torch.device("meta"):
            fresh = case.theirs()
        found = load_file(folder / "model.safetensors")
        fresh.load_state_dict(found, strict=True, assign=True)
        return fresh.eval()
    twin.config.save_pretrained(folder)
    fresh, notes = type(twin).from_pretrained(folder, output_loading_info=True)
    assert not any(notes.values()), notes
    return fresh.eval()


def compare(case, folder):
    twin = make_twin(case)
    inputs = case.inputs()
    with torch.no_grad():
        expected = case.call_theirs(twin, *inputs)

    with ft.use("null"):  # no weights are drawn that are replaced at once
        model = case.ours().eval()
    nn.load_weights(write_theirs(twin, folder / "theirs"), model, rename=case.table)
    found = case.call_ours(model, *[ft.asarray(x.numpy()) for x in inputs])
    torch.testing.assert_close(torch.tensor(found.numpy()), expected, rtol=1e-4, atol=1e-4)
    assert expected.std() > 1e-2

    nn.save_weights(folder / "ours" / "model.safetensors", model, rename=case.table)
    fresh = read_theirs(twin, case, folder / "ours")
    with torch.no_grad():
        assert torch.equal(case.call_theirs(fresh, *inputs), expected)


@pytest.mark.parametrize("name", MINIATURES)
def test_miniatures(tmp_path, name):
    compare(MINIATURES[name], tmp_path)


@pytest.mark.parametrize("name", FULL_SIZE)
def test_full_size(tmp_path, name):
    compare(FULL_SIZE[name], tmp_path)


@pytest.mark.parametrize("name", ["gpt2", "bert-masked-lm"])
def test_a_file_of_ours_has_all_names_of_their_state_dict(tmp_path, name):
    case = MINIATURES[name]
    model = case.ours()
    nn.save_weights(tmp_path / "ours.safetensors", model, rename=case.table)
    case.theirs().load_state_dict(load_file(tmp_path / "ours.safetensors"), strict=True)


def test_shards_of_theirs_and_ours(tmp_path):
    case = MINIATURES["bert"]
    twin = make_twin(case)
    folder = write_theirs(twin, tmp_path / "theirs", max_shard_size="10KB")
    assert len(list(folder.glob("*.safetensors"))) > 3
    model = case.ours()
    nn.load_weights(folder, model, rename=case.table)

    path = tmp_path / "ours" / "model.safetensors"
    nn.save_weights(path, model, rename=case.table, shard_size=10_000)
    assert len(list(path.parent.glob("*.safetensors"))) > 3
    fresh = read_theirs(twin, case, path.parent)
    for name, value in fresh.state_dict().items():
        assert torch.equal(value, twin.state_dict()[name]), name


def test_half_precision_is_refused_unless_it_may_be_converted(tmp_path):
    case = MINIATURES["gpt2"]
    folder = write_theirs(make_twin(case).to(torch.bfloat16), tmp_path / "theirs")
    model = case.ours()
    with pytest.raises(nn.CheckpointError, match=r"embedding.weight is bfloat16, here float32"):
        nn.load_weights(folder, model, rename=case.table)
    nn.load_weights(folder, model, rename=case.table, cast=True)
    assert model.embedding.weight.dtype is ft.float32


def test_pickles_are_refused_and_the_recipe_in_the_error_works(tmp_path, monkeypatch):
    twin = torch.nn.Linear(3, 2)
    monkeypatch.chdir(tmp_path)
    torch.save(twin.state_dict(), "x.pt")
    with pytest.raises(nn.CheckpointError, match=r"pickle of PyTorch.*convert it") as error:
        nn.load_weights("x.pt", nn.Linear(3, 2))
    recipe = str(error.value).partition("convert it: ")[2]
    import safetensors.torch

    exec(recipe, {"torch": torch, "safetensors": safetensors})
    model = nn.Linear(3, 2)
    nn.load_weights("x.safetensors", model)
    assert model.weight.tolist() == twin.weight.tolist()


def test_old_pickles_are_refused(tmp_path):
    torch.save(
        torch.nn.Linear(3, 2).state_dict(), tmp_path / "x", _use_new_zipfile_serialization=False
    )
    with pytest.raises(nn.CheckpointError, match="pickle of PyTorch"):
        nn.load_weights(tmp_path / "x", nn.Linear(3, 2))
