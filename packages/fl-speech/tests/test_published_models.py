"""Wav2Vec2 and Whisper: folders, lengths, generation, features. Values: tests/oracles."""

import json

import pytest

import fl_autograd as ag
import fl_nn as nn
import fl_tensor as ft
from fl_speech.models import (
    WAV2VEC2_HUGGING_FACE,
    WHISPER_HUGGING_FACE,
    Wav2Vec2,
    Whisper,
    normalized,
    whisper_features,
)

WAV2VEC2 = {
    "model_type": "wav2vec2", "vocab_size": 7, "hidden_size": 8, "num_hidden_layers": 1,
    "num_attention_heads": 2, "intermediate_size": 12, "conv_dim": [4, 6], "conv_kernel": [10, 3],
    "conv_stride": [5, 2], "num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2,
}  # fmt: skip
WHISPER = {
    "model_type": "whisper", "vocab_size": 20, "d_model": 8, "num_mel_bins": 5,
    "encoder_layers": 1, "decoder_layers": 2, "encoder_attention_heads": 2,
    "decoder_attention_heads": 2, "encoder_ffn_dim": 12, "decoder_ffn_dim": 12,
    "max_source_positions": 10, "max_target_positions": 9, "decoder_start_token_id": 1,
    "eos_token_id": 2,
}  # fmt: skip


def folder(path, config, model=None, table=None):
    path.mkdir(exist_ok=True)
    (path / "config.json").write_text(json.dumps(config))
    if model is not None:
        nn.save_weights(path / "model.safetensors", model, rename=table)
    return path


def wav2vec2(**more):
    return Wav2Vec2(7, 8, 2, 12, 1, (4, 6), (10, 3), (5, 2), reach=4, groups=2, **more).eval()


def whisper():
    return Whisper(20, 5, 8, 2, 12, 1, decoder_layers=2, steps=10, texts=9, start=1, end=2).eval()


def test_wav2vec2_of_a_folder(tmp_path):
    model = wav2vec2()
    found = Wav2Vec2.from_huggingface(folder(tmp_path, WAV2VEC2, model, WAV2VEC2_HUGGING_FACE))
    x = ft.randn((2, 90))
    assert ft.allclose(found(x)[0], model(x)[0], atol=1e-6)
    assert found.blank == 0
    assert not found.training


def test_wav2vec2_lengths():
    model = wav2vec2(norm_every=True, norm_first=True)
    x = ft.randn((1, 90))
    lengths = list(range(25, 91))
    expected = [model(x[:, :n])[0].shape[1] for n in lengths]
    assert model.output_lengths(lengths) == expected
    padded = ft.concatenate([x, x], 0)
    output, counts = model(padded, [90, 47])
    assert counts.tolist() == model.output_lengths([90, 47])
    alone, _ = model(x[:, :47])
    assert ft.allclose(output[1:, : counts.tolist()[1]], alone, atol=1e-5)
    assert model.stride == 10


def test_wav2vec2_trains():
    model = wav2vec2().train()
    model(ft.randn((2, 60)), [60, 50])[0].sum().backward()
    assert all(p.grad is not None for p in model.parameters())


def test_wav2vec2_refuses():
    model = wav2vec2()
    for x in (ft.zeros((90,)), ft.zeros((2, 90, 3))):
        with pytest.raises(ft.ShapeError, match=r"expected \(batch, samples\)"):
            model(x)
    with pytest.raises(ft.ShapeError, match="too few for one score"):
        model(ft.zeros((1, 19)))
    for lengths in ([90], [90, 91], [90, 3]):
        with pytest.raises(ft.ShapeError, match="2 numbers up to 90"):
            model(ft.zeros((2, 90)), lengths)
    with pytest.raises(nn.ModuleError, match="one of each"):
        Wav2Vec2(channels=(4, 4))
    with pytest.raises(nn.ModuleError, match="a class from 0 to 6"):
        wav2vec2(blank=7)


def test_normalized_samples_ignore_padding():
    x = ft.randn((2, 50)) * 3.0 + 1.0
    y = normalized(x, [50, 20])
    assert abs(ft.mean(y[1, :20]).item()) < 1e-5
    assert abs(ft.mean(y[1, :20] * y[1, :20]).item() - 1.0) < 1e-4
    assert ft.all(y[1, 20:] == 0.0).item()
    with pytest.raises(ft.ShapeError, match=r"expected \(batch, samples\)"):
        normalized(x[0])


def test_whisper_of_a_folder(tmp_path):
    model = whisper()
    found = Whisper.from_huggingface(folder(tmp_path, WHISPER, model, WHISPER_HUGGING_FACE))
    x, tokens = ft.randn((2, 20, 5)), ft.asarray([[1, 4, 5], [1, 3, 3]])
    assert ft.allclose(found(x, tokens), model(x, tokens), atol=1e-6)
    assert (found.start, found.end) == (1, 2)


def test_whisper_generates_what_it_scores_highest():
    model, x = whisper(), ft.randn((3, 20, 5))
    model.embedding.weight.tensor = ft.randn((20, 8))
    found = model.greedy(x, max_tokens=6, suppress=[0, 7])
    for row, tokens in enumerate(found):
        text = [1]
        for _ in range(6):
            scores = model(x[row : row + 1], ft.asarray([text]))[0, -1].tolist()
            best = max((i for i in range(20) if i not in (0, 7)), key=scores.__getitem__)
            if best == 2:
                break
            text.append(best)
        assert tokens == text[1:]
    prompted = model.greedy(x[:1], prompt=[1, 4], max_tokens=1)
    assert prompted[0] in ([], [ft.argmax(model(x[:1], ft.asarray([[1, 4]]))[0, -1]).item()])


def test_generation_ends():
    model = whisper()
    shift = ft.zeros((20, 8)).tolist()
    shift[2] = [1.0] * 8
    model.embedding.weight.tensor = ft.asarray(shift)
    model.decoder_norm.weight.tensor = ft.zeros((8,))
    model.decoder_norm.bias.tensor = ft.ones((8,))
    assert model.greedy(ft.randn((2, 20, 5))) == [[], []]
    assert all(len(t) == 8 for t in model.greedy(ft.randn((2, 20, 5)), suppress=[2]))


def test_whisper_trains():
    model = whisper().train()
    model(ft.randn((2, 20, 5)), ft.asarray([[1, 4], [1, 5]])).sum().backward()
    assert all(p.grad is not None for p in model.parameters())


def test_whisper_refuses():
    model, x = whisper(), ft.randn((1, 20, 5))
    with pytest.raises(ft.ShapeError, match=r"expected \(batch, frames, 5\)"):
        model.encode(x[0])
    with pytest.raises(ft.ShapeError, match="there are 10 positions"):
        model.encode(ft.randn((1, 22, 5)))
    with pytest.raises(ft.ShapeError, match=r"expected \(batch, tokens\)"):
        model(x, ft.asarray([1, 2]))
    for prompt in ([], [20], [-1]):
        with pytest.raises(ft.ArgumentError, match="tokens from 0 to 19"):
            model.greedy(x, prompt)
    for count in (0, 9):
        with pytest.raises(ft.ArgumentError, match="from 1 to 8"):
            model.greedy(x, max_tokens=count)
    with pytest.raises(nn.ModuleError, match="end 20"):
        Whisper(20, start=1, end=20)


def test_whisper_features():
    x = ft.randn((2, 4000)) * 0.1
    assert whisper_features(x).shape == (2, 3000, 80)
    y = whisper_features(x[0], mels=20, seconds=None)
    assert y.shape == (25, 20)
    assert (ft.max(y) - ft.min(y)).item() <= 2.0 + 1e-6
    silence = whisper_features(ft.zeros((16000,)), seconds=1.0)
    assert ft.allclose(silence, ft.full_like(silence, -1.5), atol=1e-5)
    v = ag.Variable(x, requires_grad=True)
    whisper_features(v, seconds=None).sum().backward()
    assert v.grad.shape == x.shape
    with pytest.raises(ft.DTypeError, match="expected floating"):
        whisper_features(ft.zeros((400,), ft.int64))
    with pytest.raises(ft.ShapeError, match="more than 200"):
        whisper_features(ft.zeros((200,)), seconds=None)
    with pytest.raises(ft.ArgumentError, match="at least 1"):
        whisper_features(x, mels=0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "bert"}, "model_type is 'bert', not 'wav2vec2'"),
        ({"hidden_size": "8"}, "hidden_size is '8'"),
        ({"hidden_size": True}, "hidden_size is True"),
        ({"conv_dim": []}, "conv_dim is"),
        ({"conv_dim": [4]}, "one of each for every convolution"),
        ({"hidden_dropout": 2}, "hidden_dropout is 2"),
        ({"conv_bias": 1}, "conv_bias is 1: expected true or false"),
        ({"add_adapter": True}, "add_adapter is True: only False is supported"),
        ({"feat_extract_norm": "batch"}, "feat_extract_norm is 'batch'"),
        ({"num_attention_heads": 3}, "config.json"),
        ({"vocab_size": 9}, "head"),
    ],
)
def test_configurations_that_do_not_fit(tmp_path, change, message):
    path = folder(tmp_path, {**WAV2VEC2, **change}, wav2vec2(), WAV2VEC2_HUGGING_FACE)
    with pytest.raises(nn.CheckpointError, match=message):
        Wav2Vec2.from_huggingface(path)


@pytest.mark.parametrize("content", [None, b"{", b"[1]", b"\xff", b" " * 2_000_000])
def test_damaged_configurations(tmp_path, content):
    if content is not None:
        (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(nn.CheckpointError, match=r"config\.json"):
        Whisper.from_huggingface(tmp_path)
