"""Links are written through; what is no regular file is neither read nor replaced."""

from __future__ import annotations

import os

import pytest

import fl_text as text


@pytest.mark.defect("V13")
def test_a_tokenizer_is_not_read_from_a_fifo(fifo):
    with pytest.raises(text.TextFileError, match="it is a FIFO, not a regular file"):
        text.Tokenizer.load(fifo)


def test_a_corpus_is_not_read_from_a_fifo(fifo):
    with pytest.raises(text.TextFileError, match="fifo: no such file"):
        text.TextFiles(fifo)


@pytest.mark.defect("V14")
def test_a_tokenizer_is_written_to_no_fifo(fifo, tokenizers):
    with pytest.raises(text.TextFileError, match="it is a FIFO, not a regular file"):
        next(iter(tokenizers.values())).save(fifo)


@pytest.mark.defect("V14")
def test_a_tokenizer_is_written_through_a_link(tmp_path, tokenizers):
    (tmp_path / "link.json").symlink_to("target.json")
    for tokenizer in tokenizers.values():
        tokenizer.save(tmp_path / "link.json")
        assert text.Tokenizer.load(tmp_path / "target.json").encode("cat") == tokenizer.encode(
            "cat"
        )
    assert (tmp_path / "link.json").is_symlink()
    assert sorted(os.listdir(tmp_path)) == ["link.json", "target.json"]
