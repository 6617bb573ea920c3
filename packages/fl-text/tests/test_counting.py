"""Counting the tokens of files, and the parts of a file."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

import fl_text as text

#: 13 tokens in 4 lines, as in the tests of Flashlight.
PAGE = "the cat sat on the mat\n\nthe  dog \tsat\non a\xa0log dog\n"


@pytest.fixture
def page(tmp_path):
    path = tmp_path / "page.txt"
    path.write_text(PAGE, "utf-8")
    return path


def test_tokens_are_counted(page):
    found = text.TokenCounts.from_files(page)
    assert (found.total_tokens, found.total_sentences) == (12, 4)
    assert found.most_common() == [
        *[("the", 3), ("dog", 2), ("on", 2), ("sat", 2)],
        *[("a\xa0log", 1), ("cat", 1), ("mat", 1)],
    ]


def test_pruning_keeps_the_frequent(page):
    found = text.TokenCounts.from_files([page, page])
    found.prune(min_count=4)
    assert list(found.counts) == ["the", "dog", "on", "sat"]
    found.prune(max_size=2)
    assert list(found.counts) == ["the", "dog"]
    assert found.total_tokens == 24
    found.prune()
    assert list(found.counts) == ["the", "dog"]
    found.prune(max_size=0)
    assert found.counts == {}


def test_a_dictionary_is_ordered_by_count_then_alphabet(page):
    found = text.TokenCounts.from_files(page)
    made = found.dictionary(["<unk>", "on"])
    order = ["<unk>", "on", "the", "dog", "sat", "a\xa0log", "cat", "mat"]
    assert made.map_indices_to_entries(range(len(made))) == order


def test_sentences_say_where_each_line_begins(page):
    found = text.TokenCounts.from_files(page, sentences=True)
    (table,) = found.sentences
    raw = page.read_bytes()
    lines = raw.split(b"\n")[:-1]
    assert table.dtype == np.int64
    assert table[:, 1].tolist() == [len(line.split()) for line in lines]
    for place, line in zip(table[:, 0], lines, strict=True):
        assert raw[place:].startswith(line)


def test_workers_count_the_same(page, tmp_path):
    other = tmp_path / "other.txt"
    other.write_bytes(b"\xef\xbb\xbfone two\nno line break")
    alone = text.TokenCounts.from_files([page, other], sentences=True)
    several = text.TokenCounts.from_files([page, other], workers=2, sentences=True)
    assert several.counts == alone.counts
    assert several.total_sentences == alone.total_sentences == 6
    assert [t.tolist() for t in several.sentences] == [t.tolist() for t in alone.sentences]
    assert alone.sentences[1].tolist() == [[3, 2], [11, 3]]


def test_an_error_of_a_worker_names_the_place(page):
    with page.open("ab") as file:
        file.write(b"good\nb\xe4d")
    for workers in (1, 2):
        with pytest.raises(text.TextFileError, match="line 6 is not UTF-8 .byte 0xe4 at 1, ") as e:
            text.TokenCounts.from_files(page, workers)
        assert e.value.path == str(page)
        assert f"{page.stat().st_size - 2} of the file" in str(e.value)


def test_counts_that_are_none_are_refused(page):
    with pytest.raises(text.TextError, match="'a' has the count 0"):
        text.TokenCounts({"b": 2, "a": 0})
    with pytest.raises(text.TextError, match="workers=0"):
        text.TokenCounts.from_files(page, workers=0)
    with pytest.raises(text.TextError, match="at least one path"):
        text.TokenCounts.from_files([])


def test_the_parts_of_a_file_are_the_file(tmp_path):
    path = tmp_path / "lines.txt"
    draw = random.Random(1)
    for ending in ("\n", ""):
        lines = ["x" * draw.choice([0, 1, 3, 40]) + "é" * draw.randrange(2) for _ in range(30)]
        path.write_text("\n".join(lines) + ending, "utf-8", newline="")
        whole = list(text.TextFiles(path))
        for world in (1, 2, 3, 7, 29, 200):
            parts = [list(text.PartialFile(path, rank, world)) for rank in range(world)]
            assert [line for part in parts for line in part] == whole
        two = [sum(map(len, text.PartialFile(path, rank, 2))) for rank in range(2)]
        assert abs(two[0] - two[1]) <= 100


def test_blocks_end_at_line_ends(tmp_path, monkeypatch):
    monkeypatch.setattr("fl_text.file_parts._BLOCK", 5)
    path = tmp_path / "lines.txt"
    path.write_bytes(b"a b\nc\n\nlonger than a block\r\nd")
    blocks = list(text.PartialFile(path, 0, 1).blocks())
    assert b"".join(block for _, block in blocks) == path.read_bytes()
    assert all(block.endswith(b"\n") for _, block in blocks[:-1])
    found = text.TokenCounts.from_files(path)
    assert found.counts == Counter(path.read_text().split())
    assert found.total_sentences == 5
    assert list(text.PartialFile(path, 0, 1)) == list(text.TextFiles(path))
    path.write_bytes(b"a b\nc\n\nlonger than a b\xff\n" + b"d\n" * 9)
    with pytest.raises(text.TextFileError, match="line 4 is not UTF-8 .byte 0xff at 15, 22 of"):
        list(text.PartialFile(path, 0, 1))


def test_parts_that_are_none_are_refused(tmp_path, fifo):
    path = tmp_path / "lines.txt"
    path.write_bytes(b"")
    assert list(text.PartialFile(path, 0, 2)) == []
    for rank, world in ((-1, 2), (2, 2), (0, 0)):
        with pytest.raises(text.TextError, match=f"rank {rank} of {world}"):
            text.PartialFile(path, rank, world)
    with pytest.raises(text.TextFileError, match="unreadable"):
        list(text.PartialFile(tmp_path / "missing", 0, 1))
    with pytest.raises(text.TextFileError, match="FIFO"):
        list(text.PartialFile(fifo, 0, 1))


def test_a_line_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("fl_text.file_parts._BLOCK", 1)
    monkeypatch.setattr("fl_text.file_parts.MAX_LINE", 8)
    path = tmp_path / "lines.txt"
    path.write_bytes(b"a\n" + b"x" * 10)
    for rank, world in ((0, 1), (0, 2)):
        with pytest.raises(text.TextFileError, match="line 2 is longer than 8 bytes"):
            list(text.PartialFile(path, rank, world))
