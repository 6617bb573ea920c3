"""Tokens in columns, sentences of unequal length, and several documents in a row."""

from __future__ import annotations

import random

import pytest

import fl_data as data
import fl_nn as nn
import fl_tensor as ft
import fl_text as text
from fl_data import Batch, BucketBatch, DynamicBatch, Subset
from fl_text.models import GPT2, Llama, MaskedLM, TransformerLanguageModel

#: Tokens of eight sentences, one more than the inputs have.
SENTENCES = [list(range(10, 11 + n)) for n in (7, 6, 5, 5, 5, 4, 7, 7)]


@pytest.mark.parametrize(("tokens", "batches"), [(41, 4), (42, 4), (50, 4), (51, 5)])
def test_columns_go_on_from_batch_to_batch(tokens, batches):
    ds = text.TokenStream(range(tokens), 5, columns=2)
    found = list(Batch(ds, 2))
    assert len(found) == batches
    column = (tokens - 1) // 2
    for row in range(2):
        inputs = [n for x, _ in found for n in x[row].tolist()]
        targets = [n for _, y in found for n in y[row].tolist()]
        first = row * column
        assert inputs == list(range(first, first + 5 * batches))
        assert targets == [n + 1 for n in inputs]


def test_the_columns_of_ranks_are_those_of_one():
    ds = text.TokenStream(range(101), 4, columns=6)
    whole = [x.tolist() for x, _ in Batch(ds, 6)]
    parts = [[x.tolist() for x, _ in Batch(ds, 6, rank=r, world_size=3)] for r in range(3)]
    assert [a + b + c for a, b, c in zip(*parts, strict=True)] == whole


def test_a_carried_state_sees_the_whole_column():
    """A recurrent network over the batches is one over the columns."""
    cell, embed = nn.GRU(4, 4, batch_first=True), nn.Embedding(30, 4)
    ds = text.TokenStream([n % 30 for n in range(61)], 5, columns=2)
    state, found = None, []
    for x, _ in Batch(ds, 2):
        y, state = cell(embed(x), state)
        found.append(y)
    joined = ft.concatenate([x for x, _ in Batch(ds, 2)], axis=1)
    whole, _ = cell(embed(joined))
    assert ft.allclose(ft.concatenate(found, axis=1), whole, atol=1e-5)


def test_too_short_for_the_columns():
    with pytest.raises(data.DataError, match="10 tokens .* of 2 columns each: context=5 needs 11"):
        text.TokenStream(range(10), 5, columns=2)
    with pytest.raises(data.DataError, match="give more text"):
        text.TokenStream([], 5)
    with pytest.raises(data.DataError, match="columns must be at least 1"):
        text.TokenStream(range(10), 5, columns=0)


def test_sentences_are_padded_to_the_longest_of_their_batch():
    ds = text.TokenLines(SENTENCES, None, pad=0, target_pad=-1)
    assert [x.shape for x, _ in Batch(ds, 2)] == [(2, 7), (2, 5), (2, 5), (2, 7)]
    x, y = Batch(ds, 2)[0]
    assert x.tolist() == [[10, 11, 12, 13, 14, 15, 16], [10, 11, 12, 13, 14, 15, 0]]
    assert y.tolist() == [[11, 12, 13, 14, 15, 16, 17], [11, 12, 13, 14, 15, 16, -1]]
    assert ds.truncated == 0
    same = Batch(ds, 2, collate=ds.collate)[0]
    assert [field.tolist() for field in same] == [x.tolist(), y.tolist()]


def test_batches_within_a_budget_of_tokens():
    ds = text.TokenLines(SENTENCES, None, pad=0)
    assert list(ds.lengths) == [7, 6, 5, 5, 5, 4, 7, 7]
    order = sorted(range(8), key=ds.lengths.__getitem__)
    lengths = [ds.lengths[i] for i in order]
    batches = DynamicBatch(Subset(ds, order), lengths, 15, ds.collate)
    assert [x.shape for x, _ in batches] == [(3, 5), (2, 6), (2, 7), (1, 7)]
    shuffled = BucketBatch(ds, ds.lengths, max_size=15, boundaries=[5], collate=ds.collate, seed=1)
    assert sorted(x.shape[1] for x, _ in shuffled)[-1] == 7
    assert sum(x.shape[0] for x, _ in shuffled) == 8


def test_truncation_is_counted():
    ds = text.TokenLines(SENTENCES, 5, pad=0)
    assert (ds.truncated, list(ds.lengths)) == (4, [5, 5, 5, 5, 5, 4, 5, 5])
    assert ds[0][0].tolist() == [10, 11, 12, 13, 14]


def test_documents_fill_the_first_row_with_room():
    documents = [[1, 2, 3, 4], [11, 12, 13], [21, 22, 23, 24, 25], [31, 32]]
    ds = text.PackedDocuments(documents, 5, pad=0, target_pad=-1)
    assert [[field.tolist() for field in sample] for sample in ds] == [
        [[1, 2, 3, 11, 12], [1, 1, 1, 2, 2], [2, 3, 4, 12, 13]],
        [[21, 22, 23, 24, 31], [1, 1, 1, 1, 2], [22, 23, 24, 25, 32]],
    ]
    assert ds.filled == 1.0
    single = text.PackedDocuments([[1, 2, 3]], 4, pad=0, target_pad=-1)[0]
    assert [field.tolist() for field in single] == [[1, 2, 0, 0], [1, 1, 0, 0], [2, 3, -1, -1]]


@pytest.mark.parametrize("seed", range(5))
def test_packing_is_first_fit_and_loses_nothing(seed):
    rng = random.Random(seed)
    documents = [
        [1000 * n + i for i in range(rng.randint(2, 14))] for n in range(rng.randint(1, 90))
    ]
    ds = text.PackedDocuments(documents, 10, pad=0)
    assert ds.truncated == sum(len(document) > 11 for document in documents)
    free: list[int] = []
    rows: list[list[int]] = []
    for document in documents:
        size = min(len(document) - 1, 10)
        row = next((i for i, room in enumerate(free) if room >= size), len(free))
        if row == len(free):
            free.append(10)
            rows.append([])
        free[row] -= size
        rows[row].extend(document[:size])
    x, numbers, y = ds.__getitems__(range(len(ds)))
    assert [[n for n, k in zip(*r) if k] for r in zip(x.tolist(), numbers.tolist())] == rows
    for inputs, kinds, targets in zip(x.tolist(), numbers.tolist(), y.tolist(), strict=True):
        assert all(t == n + 1 for n, k, t in zip(inputs, kinds, targets, strict=True) if k)


def test_attention_does_not_cross_documents():
    """Each document of a row gets the vectors that it gets alone."""
    documents = [[3, 4, 5, 6], [7, 8, 9], [10, 11]]
    ds = text.PackedDocuments(documents, 8, pad=0)
    x, numbers, _ = Batch(ds, 1)[0]
    embed = nn.Embedding(20, 8)
    layer = nn.TransformerEncoderLayer(8, 2, 16, 0.0, causal=True).eval()
    packed = layer(embed(x), mask=text.document_mask(numbers))
    start = 0
    for document in documents:
        alone = layer(embed(ft.asarray([document[:-1]])))
        stop = start + len(document) - 1
        assert ft.allclose(packed[:, start:stop], alone, atol=1e-5)
        start = stop
    assert bool(ft.all(ft.isfinite(packed)))


SIZES = {"size": 8, "heads": 2, "layers": 2}
NETWORKS = {
    "transformer": lambda: TransformerLanguageModel(20, hidden=16, **SIZES),
    "learned": lambda: TransformerLanguageModel(
        20, hidden=16, positions="learned", steps=10, **SIZES
    ),
    "gpt2": lambda: GPT2(tokens=20, steps=10, **SIZES),
    "llama": lambda: Llama(tokens=20, steps=10, hidden=16, window=3, **SIZES),
    "bert": lambda: MaskedLM(tokens=20, steps=10, hidden=16, **SIZES),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_give_documents_of_a_row_what_they_give_them_alone(name):
    documents = [[3, 4, 5, 6], [7, 8, 9], [10, 11], [12, 13, 14, 15]]
    x, numbers, _ = Batch(text.PackedDocuments(documents, 10, pad=0), 1)[0]
    network = NETWORKS[name]().eval()
    packed = network.hidden(x, documents=numbers)
    assert packed.shape == (1, 10, 8) and bool(ft.all(ft.isfinite(packed)))
    for start, document in zip([0, 3, 5, 6], documents, strict=True):
        alone = network.hidden(ft.asarray([document[:-1]]))[0]
        assert ft.allclose(packed[0, start : start + len(alone)], alone, atol=1e-5)


def test_positions_begin_anew_in_each_document():
    numbers = ft.asarray([[1, 1, 1, 2, 2, 0], [1, 2, 3, 3, 3, 3]])
    assert text.document_positions(numbers).tolist() == [[0, 1, 2, 0, 1, 0], [0, 0, 0, 1, 2, 3]]


def test_bad_documents_are_refused():
    network = NETWORKS["gpt2"]()
    tokens, numbers = ft.asarray([[1, 2]]), ft.asarray([[1, 1]])
    with pytest.raises(text.TextError, match=r"documents \(1, 1\): expected a number for each"):
        network.hidden(tokens, documents=numbers[:, :1])
    with pytest.raises(text.TextError, match="beside caches"):
        network.hidden(tokens, network.caches(), numbers)
    with pytest.raises(data.DataError, match="text 1 has 1 tokens"):
        text.PackedDocuments([[1, 2], [1]], 4, pad=0)
    with pytest.raises(data.DataError, match=r"documents \(3,\) of int64"):
        text.document_mask(ft.asarray([1, 1, 2]))


def test_modes_of_lm_dataset(tokenizers):
    tokenizer = tokenizers["char"]
    texts = ["the cat\n", "\n", "a dog\n", "on\n"]
    line = text.lm_dataset(texts, tokenizer, None, "line")
    assert list(line.lengths) == [8, 6, 3]
    packed = text.lm_dataset(texts, tokenizer, 9, "documents", target_pad=-100)
    assert len(packed) == 2
    spelled = [tokenizer.token(n) for n in packed[1][0].tolist()]
    assert spelled == ["<s>", *"a dog", "<s>", *"on"]
    stream = text.lm_dataset(texts, tokenizer, 2, columns=3)
    assert (stream.columns, len(stream)) == (3, 6)
    for mode in ("pack", "documents"):
        with pytest.raises(text.TextError, match="context=None is for the mode 'line'"):
            text.lm_dataset(texts, tokenizer, None, mode)
