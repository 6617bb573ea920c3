"""Streams of text shards: order, shares, exact resume, bad shards."""

from __future__ import annotations

import gzip
import itertools
import json

import pytest

import fl_data as data
import fl_text as text


@pytest.fixture
def shards(tmp_path):
    """Six shards of 20 lines, every other one compressed."""
    paths = []
    for shard in range(6):
        content = "".join(f"shard {shard} line {i}\n" for i in range(20)).encode()
        path = tmp_path / (f"{shard}.txt.gz" if shard % 2 else f"{shard}.txt")
        path.write_bytes(gzip.compress(content) if shard % 2 else content)
        paths.append(path)
    return paths


def lines_of(stream):
    return [line for (line,) in stream]


def test_plain_and_compressed_files_have_the_same_lines(shards):
    found = lines_of(text.TextShards(shards, shuffle=False))
    assert found == [f"shard {s} line {i}\n" for s in range(6) for i in range(20)]
    assert list(text.TextFiles(*shards)) == found


def test_the_order_depends_on_seed_and_epoch(shards):
    def order(seed, epoch):
        stream = text.TextShards(shards, seed=seed)
        stream.set_epoch(epoch)
        return [line.split()[1] for line in lines_of(stream)[::20]]

    orders = [order(seed, epoch) for seed in (1, 2) for epoch in (0, 1)]
    assert len({tuple(found) for found in orders}) == 4
    assert all(sorted(found) == [*"012345"] for found in orders)
    assert order(1, 1) == orders[1]


def test_ranks_and_their_workers_share_the_shards(shards):
    parts = [
        lines_of(text.TextShards(shards, seed=3, rank=rank * 3 + worker, world_size=6))
        for rank in range(2)
        for worker in range(3)
    ]
    assert sorted(itertools.chain(*parts)) == sorted(lines_of(text.TextShards(shards, seed=3)))
    with pytest.raises(data.DataError, match="6 shards for 7 ranks"):
        text.TextShards(shards, rank=0, world_size=7)


def chunks(shards, tokenizer, context=7):
    return text.TokenChunks(text.TextShards(shards, seed=5), tokenizer, context)


def tokens_of(sample):
    return [field.tolist() for field in sample]


def test_chunks_are_the_stream_of_all_texts(shards, tokenizers):
    tokenizer = tokenizers["bpe"]
    found = list(chunks(shards, tokenizer))
    texts = lines_of(text.TextShards(shards, seed=5))
    whole = text.lm_dataset(texts, tokenizer, 7, eos=True)
    assert [tokens_of(sample) for sample in found] == [tokens_of(sample) for sample in whole]


@pytest.mark.parametrize("context", [1, 7, 150])
def test_a_resume_goes_on_with_exactly_the_next_sample(shards, tokenizers, context):
    """Contexts shorter than a text, longer than one, and over the end of shards."""
    whole = [tokens_of(x) for x in chunks(shards[:3], tokenizers["char"], context)]
    places = range(0, len(whole), max(1, len(whole) // 25))
    iterator = iter(chunks(shards[:3], tokenizers["char"], context))
    states = [iterator.state()]
    states.extend(iterator.state() for _ in iterator)
    for place in places:
        state = json.loads(json.dumps(states[place]))
        again = iter(chunks(shards[:3], tokenizers["char"], context))
        again.load_state(state)
        found = [tokens_of(x) for x in itertools.islice(again, 3)]
        assert found == whole[place : place + 3]


def test_a_resume_in_the_middle_of_shuffled_batches(shards, tokenizers):
    def batches():
        return chunks(shards, tokenizers["char"]).shuffle(16, seed=1).batch(4)

    first = batches()
    first.set_epoch(2)
    iterator = iter(first)
    for _ in range(9):
        next(iterator)
    state = iterator.state()
    rest = [tokens_of(x) for x in iterator]
    again = iter(batches())
    again.load_state(state)
    assert [tokens_of(x) for x in again] == rest


def test_empty_texts_are_read_past(tokenizers):
    class Texts(data.Stream):
        def read(self, place=None):
            for number in range(place or 0, 9):
                yield ("abcdefghi"[number] * (number % 3),), number + 1

    whole = [tokens_of(x) for x in text.TokenChunks(Texts(), tokenizers["char"], 2, eos=False)]
    iterator = iter(text.TokenChunks(Texts(), tokenizers["char"], 2, eos=False))
    for place in range(1, len(whole)):
        next(iterator)
        again = iter(text.TokenChunks(Texts(), tokenizers["char"], 2, eos=False))
        again.load_state(iterator.state())
        assert [tokens_of(x) for x in again] == whole[place:]


def test_a_process_reads_ahead(shards, tokenizers):
    stream = chunks(shards[:2], tokenizers["char"])
    expected = [tokens_of(x) for x in chunks(shards[:2], tokenizers["char"])]
    assert [tokens_of(x) for x in stream.prefetch(4, process=True)] == expected


def test_a_bad_line_is_named_or_skipped_and_counted(shards):
    shards[2].write_bytes(b"good\nb\xffd\nlong" + b"x" * 100 + b"\nlast\n")
    one = {"shuffle": False, "max_line": 50}
    with pytest.raises(text.TextFileError, match=r"2.txt: line 2 is not UTF-8 \(byte 0xff at 1\)"):
        list(text.TextShards([shards[2]], **one))
    stream = text.TextShards(shards[1:4], skip_bad=True, **one)
    found = lines_of(stream)
    assert found[20:22] == ["good\n", "last\n"]
    assert (len(found), stream.skipped) == (42, 2)
    assert len(lines_of(stream)) == 42
    assert stream.skipped == 2  # each counted once
    iterator = iter(text.TextShards(shards[1:4], skip_bad=True, **one))
    for _ in range(21):
        next(iterator)
    again = iter(text.TextShards(shards[1:4], skip_bad=True, **one))
    again.load_state(iterator.state())
    assert lines_of(again) == found[21:]


@pytest.mark.parametrize("damage", ["cut", "flipped"])
def test_damaged_compression_is_named_or_skipped(shards, damage):
    raw = bytearray(shards[1].read_bytes())
    if damage == "cut":
        del raw[-20:]
    else:
        raw[-8] ^= 1  # the checksum of the text
    shards[1].write_bytes(raw)
    with pytest.raises(text.TextFileError, match=r"1.txt.gz: line \d+: damaged gzip data"):
        list(text.TextShards(shards, shuffle=False))
    with pytest.raises(text.TextFileError, match="damaged gzip data"):
        list(text.TextFiles(shards[1]))
    stream = text.TextShards(shards, shuffle=False, skip_bad=True)
    found = lines_of(stream)
    assert stream.skipped == 1
    assert found[-1] == "shard 5 line 19\n"
    assert len([line for line in found if line.startswith("shard 1")]) <= 20


def test_a_missing_shard_is_named_or_skipped(shards):
    shards[0].unlink()
    with pytest.raises(text.TextFileError, match="0.txt: unreadable"):
        list(text.TextShards(shards, seed=0))
    stream = text.TextShards(shards, seed=0, skip_bad=True)
    assert (len(lines_of(stream)), stream.skipped) == (100, 1)


def test_unpacked_text_is_bounded(tmp_path):
    path = tmp_path / "zeros.gz"
    path.write_bytes(gzip.compress((b"0" * 999 + b"\n") * 1000))
    with pytest.raises(text.TextFileError, match="ends beyond max_bytes=100000"):
        list(text.TextFiles(path, max_bytes=100_000))


def test_bad_streams_are_refused(shards, tokenizers):
    with pytest.raises(text.TextError, match="give a list of paths"):
        text.TextShards(str(shards[0]))
    with pytest.raises(text.TextError, match="no paths"):
        text.TextShards([])
    stream = text.TextShards(shards)
    with pytest.raises(data.DataError, match="context must be an integer"):
        text.TokenChunks(stream, tokenizers["char"], 0)
    numbers = text.TokenChunks(stream.map(lambda sample: (3,)), tokenizers["char"], 4)
    with pytest.raises(text.TextError, match=r"a sample is \(3,\), not \(text,\)"):
        next(iter(numbers))
    iterator = iter(chunks(shards, tokenizers["char"]))
    for place in (7, [None], [None, -1], [[0, 0], 10_000]):
        iterator.load_state({"epoch": 0, "place": place})
        with pytest.raises(data.DataError, match="is no place of such|behind token 10000"):
            next(iterator)
