"""Wav2Vec2 and Whisper against transformers, with random weights: logits, tokens, features."""

from __future__ import annotations

import numpy as np
import pytest

import fl_nn as nn
import fl_tensor as ft
import fl_text as text
from fl_speech.models import (
    WAV2VEC2_HUGGING_FACE,
    WHISPER_HUGGING_FACE,
    Wav2Vec2,
    Whisper,
    normalized,
    whisper_features,
)
from fl_text.decoder import DecoderOptions, LexiconDecoder

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

SIZES = {
    "vocab_size": 12, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 48, "conv_dim": [16, 20, 24], "conv_kernel": [10, 3, 2],
    "conv_stride": [5, 2, 2], "num_conv_pos_embedding_groups": 4,
}  # fmt: skip
VARIANTS = {
    "base": {"num_conv_pos_embeddings": 16},
    "large": {
        "num_conv_pos_embeddings": 15, "feat_extract_norm": "layer", "conv_bias": True,
        "do_stable_layer_norm": True,
    },
}  # fmt: skip
WORDS = {"vocab_size": 60, "d_model": 32, "num_mel_bins": 80, "encoder_layers": 2,
         "decoder_layers": 3, "encoder_attention_heads": 4, "decoder_attention_heads": 2,
         "encoder_ffn_dim": 48, "decoder_ffn_dim": 40, "max_source_positions": 50,
         "max_target_positions": 24, "decoder_start_token_id": 1, "eos_token_id": 2,
         "pad_token_id": 0, "bos_token_id": 1, "begin_suppress_tokens": None}  # fmt: skip


def spread(model, by):
    """Weights of a size at which layers matter."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * by)
    return model.eval()


@pytest.fixture(params=VARIANTS)
def wav2vec2(request, tmp_path):
    config = transformers.Wav2Vec2Config(**SIZES, **VARIANTS[request.param])
    theirs = spread(transformers.Wav2Vec2ForCTC(config), 0.1)
    theirs.save_pretrained(tmp_path)
    return theirs, Wav2Vec2.from_huggingface(tmp_path), tmp_path


@pytest.fixture
def whisper(tmp_path):
    theirs = spread(
        transformers.WhisperForConditionalGeneration(transformers.WhisperConfig(**WORDS)), 0.1
    )
    theirs.save_pretrained(tmp_path)
    return theirs, Whisper.from_huggingface(tmp_path), tmp_path


def samples(*shape):
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


def test_wav2vec2_scores(wav2vec2):
    theirs, ours, _ = wav2vec2
    x = samples(2, 2000)
    expected = theirs(torch.from_numpy(x)).logits.detach().numpy()
    found, lengths = ours(ft.asarray(x))
    assert lengths is None
    assert found.shape == expected.shape
    assert np.abs(np.asarray(found.tolist()) - expected).max() < 1e-4


def test_wav2vec2_scores_of_a_padded_batch(wav2vec2):
    theirs, ours, _ = wav2vec2
    lengths = [2000, 1203]
    x = samples(2, 2000)
    x[1, 1203:] = 0.0
    mask = (np.arange(2000) < np.asarray(lengths)[:, None]).astype(np.int64)
    expected = theirs(torch.from_numpy(x), attention_mask=torch.from_numpy(mask)).logits
    found, counts = ours(ft.asarray(x)[:, :, None], lengths)
    counts = counts.tolist()
    assert counts == theirs._get_feat_extract_output_lengths(torch.tensor(lengths)).tolist()
    for row, count in enumerate(counts):
        mine = np.asarray(found[row, :count].tolist())
        assert np.abs(mine - expected[row, :count].detach().numpy()).max() < 1e-4


def test_wav2vec2_scores_go_through_a_lexicon(wav2vec2):
    theirs, ours, _ = wav2vec2
    names = ["#", "|", *"abcdefghij"]
    found, _ = ours(ft.asarray(samples(1, 3000)))
    spellings = {word: [[*word, "|"]] for word in ("a", "bad", "fig", "j")}
    options = DecoderOptions(beam_size=500, beam_threshold=500.0)
    decoder = LexiconDecoder(
        text.Lexicon(spellings), text.Dictionary(names), options=options, blank=ours.blank
    )
    scores = ft.log_softmax(found[0], -1)
    best = decoder.decode(np.asarray(scores.tolist(), np.float32))[0]
    assert best.words
    assert np.isfinite(best.score)
    # The frames of the best path spell the words, and perhaps the beginning of one more.
    path = "".join(collapsed([names[token] for token in best.tokens]))
    whole, _, _ = path.rpartition("|")
    assert whole.replace("|", " ").split() == best.text.split()


def collapsed(path):
    """Tokens without repetitions and blanks."""
    kept = [token for i, token in enumerate(path) if i == 0 or token != path[i - 1]]
    return [token for token in kept if token != "#"]


def test_normalized_samples():
    extractor = transformers.Wav2Vec2FeatureExtractor(return_attention_mask=True)
    recordings = [samples(900) * 3 + 1, samples(500)]
    expected = extractor(recordings, sampling_rate=16000, padding=True, return_tensors="np")
    x = np.zeros((2, 900), np.float32)
    x[0], x[1, :500] = recordings
    found = np.asarray(normalized(ft.asarray(x), [900, 500]).tolist())
    assert np.abs(found - expected["input_values"]).max() < 1e-5
    alone = np.asarray(normalized(ft.asarray(x[:1])).tolist())
    assert np.abs(alone - expected["input_values"][:1]).max() < 1e-5


def test_whisper_scores(whisper):
    theirs, ours, _ = whisper
    x, tokens = samples(2, 80, 100), np.asarray([[1, 5, 9, 30], [1, 7, 7, 59]])
    expected = theirs(torch.from_numpy(x), decoder_input_ids=torch.from_numpy(tokens)).logits
    found = ours(ft.asarray(x.swapaxes(1, 2).copy()), ft.asarray(tokens))
    assert np.abs(np.asarray(found.tolist()) - expected.detach().numpy()).max() < 1e-4


@pytest.mark.parametrize("seed", range(4))
def test_greedy_whisper_tokens(whisper, seed):
    theirs, ours, _ = whisper
    x = np.random.default_rng(seed).standard_normal((3, 80, 100)).astype(np.float32) * 2
    generation = transformers.GenerationConfig(
        decoder_start_token_id=1, eos_token_id=2, pad_token_id=0, bos_token_id=1, max_length=24
    )
    with torch.no_grad():
        expected = transformers.GenerationMixin.generate(
            theirs, input_features=torch.from_numpy(x), generation_config=generation,
            decoder_input_ids=torch.ones((3, 1), dtype=torch.int64), do_sample=False,
        )  # fmt: skip
    rows = []
    for row in expected[:, 1:].tolist():
        rows.append(row[: row.index(2)] if 2 in row else row)
    found = ours.greedy(ft.asarray(x.swapaxes(1, 2).copy()))
    assert found == rows
    assert len(set(map(tuple, found))) > 1 or len(set(found[0])) > 1


def test_whisper_features_are_theirs():
    extractor = transformers.WhisperFeatureExtractor(chunk_length=2)
    x = samples(2, 20000) * 0.1
    expected = extractor(list(x), sampling_rate=16000, return_tensors="np")["input_features"]
    found = np.asarray(whisper_features(ft.asarray(x), seconds=2.0).tolist())
    assert np.abs(found.swapaxes(1, 2) - expected).max() < 1e-4


@pytest.mark.parametrize("kind", ["wav2vec2", "whisper"])
def test_weights_go_back(request, kind, tmp_path_factory):
    if kind == "whisper":
        theirs, ours, folder = request.getfixturevalue("whisper")
        table = WHISPER_HUGGING_FACE
    else:
        folder = tmp_path_factory.mktemp("model")
        config = transformers.Wav2Vec2Config(**SIZES, **VARIANTS["large"])
        theirs = spread(transformers.Wav2Vec2ForCTC(config), 0.1)
        theirs.save_pretrained(folder)
        ours, table = Wav2Vec2.from_huggingface(folder), WAV2VEC2_HUGGING_FACE
    before = {name: value.clone() for name, value in theirs.state_dict().items()}
    nn.save_weights(folder / "back.safetensors", ours, rename=table)
    from safetensors.torch import load_file

    back = load_file(folder / "back.safetensors")
    missing, unexpected = theirs.load_state_dict(back, strict=False)
    assert not [n for n in unexpected if not n.endswith(("weight_g", "weight_v"))]
    assert set(missing) <= {"wav2vec2.masked_spec_embed", "proj_out.weight"}
    for name, value in theirs.state_dict().items():
        assert torch.equal(value, before[name]), name
