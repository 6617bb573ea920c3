"""Masked language models: what is hidden, what is asked for, and how often."""

from __future__ import annotations

import math

import pytest

import fl_data as data
import fl_nn as nn
import fl_tensor as ft
import fl_text as text

PLAIN = {"random_prob": 0.0, "same_prob": 0.0}


@pytest.fixture
def tokenizer(tokenizers):
    return tokenizers["char"]


def row(tokenizer, length):
    ordinary = [i for i in range(len(tokenizer)) if i >= 5]
    return [ordinary[i % len(ordinary)] for i in range(length)]


def spans(places):
    """The lengths of runs of neighbours."""
    runs: list[list[int]] = []
    for place in places:
        if runs and runs[-1][-1] == place - 1:
            runs[-1].append(place)
        else:
            runs.append([place])
    return [len(run) for run in runs]


def test_rates(tokenizer):
    """Of 40,000 tokens, shares within five standard deviations."""
    tokens, masking = row(tokenizer, 200), text.TokenMasking(tokenizer)
    hidden = masks = same = 0
    for number in range(200):
        x, y = masking((ft.asarray(tokens),), ft.Generator(number))
        for was, given, wanted in zip(tokens, x.tolist(), y.tolist(), strict=True):
            if wanted == -100:
                assert given == was
                continue
            assert wanted == was
            hidden += 1
            masks += given == tokenizer.mask_id
            same += given == was
    assert hidden == pytest.approx(0.15 * 40_000, abs=5)  # 30 of every 200: nothing to round
    ordinary = len(tokenizer) - 5
    for found, share in [(masks, 0.8), (same, 0.1 + 0.1 / ordinary)]:
        deviation = math.sqrt(share * (1 - share) * hidden)
        assert abs(found - share * hidden) < 5 * deviation


def test_counts_are_rounded_so_that_the_mean_is_right(tokenizer):
    tokens, masking = row(tokenizer, 11), text.TokenMasking(tokenizer)  # 1.65 of 11
    counts = []
    for number in range(1000):
        _, y = masking((ft.asarray(tokens),), ft.Generator(number))
        counts.append(sum(n != -100 for n in y.tolist()))
    assert set(counts) == {1, 2}
    assert sum(counts) == pytest.approx(1650, abs=5 * math.sqrt(1000 * 0.65 * 0.35))


def test_every_place_is_as_likely(tokenizer):
    tokens, masking = row(tokenizer, 20), text.TokenMasking(tokenizer, 0.3, mask_min_length=1)
    found = [0] * 20
    for number in range(1000):
        _, y = masking((ft.asarray(tokens),), ft.Generator(number))
        for place, wanted in enumerate(y.tolist()):
            found[place] += wanted != -100
    deviation = math.sqrt(1000 * 0.3 * 0.7)
    assert all(abs(count - 300) < 5 * deviation for count in found)


@pytest.mark.parametrize("least", [2, 3, 5])
def test_spans_have_the_least_length_and_the_same_rate(tokenizer, least):
    tokens = row(tokenizer, 97)
    masking = text.TokenMasking(tokenizer, mask_min_length=least, **PLAIN)
    hidden = 0
    for number in range(300):
        x, y = masking((ft.asarray(tokens),), ft.Generator(number))
        places = [i for i, wanted in enumerate(y.tolist()) if wanted != -100]
        assert all(length >= least for length in spans(places))
        assert [i for i, n in enumerate(x.tolist()) if n == tokenizer.mask_id] == places
        hidden += len(places)
    assert hidden / (300 * 97) == pytest.approx(0.15, abs=0.01)


def test_special_tokens_are_never_hidden(tokenizer):
    special = [tokenizer.need(role) for role in ("pad", "unk", "bos", "eos", "mask")]
    tokens = [special[2], *row(tokenizer, 6), special[1], *row(tokenizer, 5), special[3]]
    tokens += [special[0]] * 4 + [special[4]]
    for least in (1, 2):
        masking = text.TokenMasking(tokenizer, 1.0, mask_min_length=least, same_prob=0.5)
        for number in range(20):
            x, y = masking((ft.asarray(tokens),), ft.Generator(number))
            for was, given, wanted in zip(tokens, x.tolist(), y.tolist(), strict=True):
                if was in special:
                    assert (given, wanted) == (was, -100)
                else:
                    assert given not in special or given == tokenizer.mask_id
    # A run that is shorter than a span is left alone.
    masking = text.TokenMasking(tokenizer, 1.0, mask_min_length=6, **PLAIN)
    _, y = masking((ft.asarray(tokens),), ft.Generator(0))
    assert [n != -100 for n in y.tolist()] == [False] + [True] * 6 + [False] * 12


def test_what_is_hidden_depends_on_seed_epoch_and_index(tokenizer):
    def masked(seed, epoch, threads=0):
        stream = text.TokenStream(row(tokenizer, 400), 40)
        ds = data.RandomTransform(stream, text.TokenMasking(tokenizer), seed)
        batches = data.Prefetch(data.Batch(ds, 4), threads=threads)
        batches.set_epoch(epoch)
        return [x.tolist() for x, _ in batches]

    first = masked(1, 0)
    assert first == masked(1, 0, threads=2)
    assert first != masked(1, 1)
    assert first != masked(2, 0)
    masking, generator = text.TokenMasking(tokenizer), ft.Generator(3)
    tokens = ft.asarray(row(tokenizer, 40))
    found = [masking((tokens,), generator)[1].tolist() for _ in range(2)]
    assert found[0] != found[1]
    assert found[0] == masking((tokens,), ft.Generator(3))[1].tolist()


@pytest.mark.parametrize("least", [1, 3])
def test_batches_have_what_their_samples_have(tokenizer, least):
    masking = text.TokenMasking(tokenizer, mask_min_length=least)
    stream = text.TokenStream(row(tokenizer, 400), 40)
    ds = data.RandomTransform(stream, masking, seed=1)
    ds.set_epoch(2)
    batches = data.Batch(data.Shuffle(ds, seed=1), 4)
    for whole in batches:
        assert [field.shape for field in whole] == [(len(whole[0]), 40)] * 2
    together = ds.__getitems__([7, 2, 5])
    alone = [ds[i] for i in (7, 2, 5)]
    for field, rows in zip(together, zip(*alone)):
        assert field.dtype is ft.int64 and field.tolist() == [each.tolist() for each in rows]


def test_lines_of_unequal_length_are_padded_and_masked(tokenizer):
    lines = text.TokenLines([row(tokenizer, 21), row(tokenizer, 31)], None, tokenizer.pad_id, -100)
    ds = data.RandomTransform(lines, text.TokenMasking(tokenizer, 0.5), seed=1)
    (x, y) = data.Batch(ds, 2)[0]
    assert x.shape == y.shape == (2, 30)
    assert x[0, 20:].tolist() == [tokenizer.pad_id] * 10
    assert y[0].tolist() == [*ds[0][1].tolist(), *[-100] * 10]


def test_fields_between_stay_and_the_loss_ignores_the_rest(tokenizer):
    documents = [row(tokenizer, 9), row(tokenizer, 6)]
    packed = text.PackedDocuments(documents, 16, pad=tokenizer.need("pad"))
    ds = data.RandomTransform(packed, text.TokenMasking(tokenizer, 0.5), seed=1)
    x, numbers, y = data.Batch(ds, 1)[0]
    assert numbers.tolist() == [[1] * 8 + [2] * 5 + [0] * 3]
    logits = ft.Generator(0).normal((1, 16, len(tokenizer)))
    whole = nn.cross_entropy(logits, y, ignore_index=-100, axis=-1)
    asked = [i for i, wanted in enumerate(y.tolist()[0]) if wanted != -100]
    alone = nn.cross_entropy(logits[0, asked], y[0, asked])
    assert float(whole) == pytest.approx(float(alone), rel=1e-5)
    single = text.TokenMasking(tokenizer)((x[0],), ft.Generator(0))
    assert [field.shape for field in single] == [(16,), (16,)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mask_prob": 1.5}, "mask_prob is 1.5: give a share"),
        ({"mask_prob": math.nan}, "mask_prob is nan"),
        ({"random_prob": -0.1}, "random_prob is -0.1"),
        ({"random_prob": 0.6, "same_prob": 0.6}, "more than 1 together"),
        ({"mask_min_length": 0}, "mask_min_length must be at least 1"),
    ],
)
def test_bad_settings_are_refused(tokenizer, options, message):
    with pytest.raises(text.FlError, match=message):
        text.TokenMasking(tokenizer, **options)


def test_bad_samples_and_tokenizers_are_refused(tokenizer, lines):
    masking = text.TokenMasking(tokenizer)
    for sample in [(ft.zeros((2, 3), dtype=ft.int64),), (ft.zeros(3),), (), {"x": ft.zeros(3)}]:
        with pytest.raises(data.DataError, match="the first field of a sample must be"):
            masking(sample, ft.Generator(0))
    for batch in [(ft.zeros(3, dtype=ft.int64),), (), (ft.zeros((2, 3)),)]:
        with pytest.raises(data.DataError, match=r"the integers \(N, T\) of texts"):
            masking.batch(batch, [ft.Generator(0)])
    with pytest.raises(text.TextError, match="1 generators for 2 samples"):
        masking.batch((ft.zeros((2, 3), dtype=ft.int64),), [ft.Generator(0)])
    plain = text.Tokenizer.train(lines, "char", special=text.SpecialTokens(mask=None))
    with pytest.raises(text.TextError, match="no mask token"):
        text.TokenMasking(plain)
