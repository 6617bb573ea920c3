"""Datasets for language models: every target is the token after its input."""

from __future__ import annotations

import pytest

import fl_data as data
import fl_tensor as ft
import fl_text as text


@pytest.mark.parametrize(("n", "samples"), [(5, 1), (8, 1), (9, 2), (12, 2), (13, 3)])
def test_a_stream_is_cut_into_contexts(n, samples):
    ds = text.TokenStream(ft.arange(n), 4)
    assert len(ds) == samples
    inputs = [x for sample in ds for x in sample[0].tolist()]
    targets = [y for sample in ds for y in sample[1].tolist()]
    assert inputs == list(range(4 * samples))
    assert targets == list(range(1, 4 * samples + 1))


def test_batches_of_a_stream_are_gathered_at_once(monkeypatch):
    ds = text.TokenStream(ft.arange(100) * 10, 5)
    singles = [ds[i] for i in (3, 0, -1)]
    x, y = ds.__getitems__([3, 0, -1])
    assert x.tolist() == [s[0].tolist() for s in singles]
    assert y.tolist() == [s[1].tolist() for s in singles]
    monkeypatch.setattr(text.TokenStream, "__getitem__", lambda *_: pytest.fail("single sample"))
    x, y = data.Batch(data.Shuffle(ds), 8)[0]
    assert (x.shape, y.shape, x.dtype) == ((8, 5), (8, 5), ft.int64)
    assert (y - x).tolist() == [[10] * 5] * 8


def test_a_stream_from_a_list():
    x, y = text.TokenStream([5, 6, 7], 2)[0]
    assert (x.tolist(), y.tolist(), x.dtype) == ([5, 6], [6, 7], ft.int64)


@pytest.mark.parametrize(
    ("tokens", "context", "message"),
    [
        ([1, 2, 3, 4], 4, "4 tokens do not fill one sample: context=4 needs 5"),
        ([1, 2, 3], 0, "at least 1, got 0"),
        ([1, 2, 3], 2.0, "integer"),
        ([[1, 2], [3, 4]], 1, r"\(2, 2\) of int64: expected one axis"),
        ([0.5, 1.5], 1, "one axis of integers"),
    ],
)
def test_bad_streams_are_refused(tokens, context, message):
    with pytest.raises(text.FlError, match=message):
        text.TokenStream(ft.asarray(tokens), context)


def test_lines_are_padded_and_shifted():
    ds = text.TokenLines([[7, 8, 9], [5, 6]], context=4, pad=0)
    assert [(x.tolist(), y.tolist()) for x, y in ds] == [
        ([7, 8, 0, 0], [8, 9, 0, 0]),
        ([5, 0, 0, 0], [6, 0, 0, 0]),
    ]
    x, y = data.Batch(ds, 2)[0]
    assert (x.tolist(), y.tolist()) == ([[7, 8, 0, 0], [5, 0, 0, 0]], [[8, 9, 0, 0], [6, 0, 0, 0]])


def test_targets_may_have_a_padding_of_their_own():
    _, y = text.TokenLines([[7, 8]], context=3, pad=0, target_pad=-100)[0]
    assert y.tolist() == [8, -100, -100]


def test_long_lines_are_cut_and_counted():
    ds = text.TokenLines([[1, 2, 3, 4], [1, 2, 3]], context=2, pad=0)
    assert [(x.tolist(), y.tolist()) for x, y in ds] == [([1, 2], [2, 3])] * 2
    assert ds.truncated == 1


def test_bad_lines_are_refused():
    with pytest.raises(data.DataError, match="text 1 has 1 tokens"):
        text.TokenLines([[1, 2], [1]], 2, pad=0)
    with pytest.raises(data.DataError, match="context"):
        text.TokenLines([[1, 2]], 0, pad=0)
    with pytest.raises(IndexError):
        text.TokenLines([[1, 2]], 1, pad=0)[1]


def test_pack_joins_all_texts(tokenizers, lines):
    tokenizer = tokenizers["char"]
    ds = text.lm_dataset(lines, tokenizer, 10)
    assert tokenizer.decode(ds.tokens) == "".join(lines)
    with_ends = text.lm_dataset(["at", "c"], tokenizer, 2, eos=True)
    assert [tokenizer.token(i) for i in with_ends.tokens.tolist()] == [
        "a",
        "t",
        "</s>",
        "c",
        "</s>",
    ]


def test_line_gives_one_sample_for_each_text_that_is_not_blank(tokenizers, lines):
    tokenizer = tokenizers["char"]
    ds = text.lm_dataset(lines, tokenizer, 40, "line")
    assert len(ds) == 4
    for (x, y), line in zip(ds, [line for line in lines if line.strip()], strict=True):
        spelled = [tokenizer.token(i) for i in x.tolist()]
        n = len(line.rstrip("\n"))
        assert spelled[: n + 2] == ["<s>", *line.rstrip("\n"), "<pad>"]
        assert [tokenizer.token(i) for i in y.tolist()][: n + 2] == [*line[:-1], "</s>", "<pad>"]


def test_line_begins_with_the_end_token_where_there_is_no_beginning(lines):
    tokenizer = text.Tokenizer.train(lines, "char", special=text.SpecialTokens(bos=None))
    x, _ = text.lm_dataset(["cat"], tokenizer, 4, "line")[0]
    assert x.tolist()[0] == tokenizer.eos_id


@pytest.mark.parametrize(
    ("texts", "mode", "message"),
    [
        (["some text"], "words", "unknown mode 'words'"),
        (["a"], "pack", "do not fill one sample"),
        ([" ", "\n"], "line", "every text is blank"),
        ("text", "line", "one str"),
        ("text", "pack", "one str"),
        (["a", 3], "line", "text 1 is a int"),
    ],
)
def test_bad_corpora_are_refused(tokenizers, texts, mode, message):
    with pytest.raises(text.FlError, match=message):
        text.lm_dataset(texts, tokenizers["char"], 8, mode)


def test_a_real_corpus_by_characters(corpus):
    files = text.TextFiles(corpus)
    tokenizer = text.Tokenizer.train(files, "char", 500, min_frequency=1)
    assert len(tokenizer) == 65 + 5
    ds = text.lm_dataset(files, tokenizer, 128)
    assert ds.tokens.shape == (1_115_394,)
    assert len(ds) == 1_115_393 // 128
    x, y = data.Batch(data.Shuffle(ds, seed=3), 32)[5]
    assert x[:, 1:].tolist() == y[:, :-1].tolist()
    assert tokenizer.decode(ds[0][0]).startswith("First Citizen:\nBefore we proceed any further")


def test_a_real_corpus_by_byte_pairs(corpus):
    files = text.TextFiles(corpus)
    tokenizer = text.Tokenizer.train(files, "bpe", 2000)
    ds = text.lm_dataset(files, tokenizer, 64)
    assert tokenizer.decode(ds.tokens) == corpus.read_text(encoding="utf-8")
    assert 300_000 < ds.tokens.shape[0] < 500_000
    lines = text.lm_dataset(files, tokenizer, 48, "line")
    assert len(lines) == sum(1 for line in files if line.strip())
    batch = data.Batch(lines, 16)[0]
    assert [field.shape for field in batch] == [(16, 48), (16, 48)]
