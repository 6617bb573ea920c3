"""Tokenizers: training, encoding, decoding, files."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fl_tensor as ft
import fl_text as text

KINDS = ["bpe", "wordpiece", "char"]


@pytest.mark.parametrize("kind", KINDS)
def test_special_tokens_come_first(tokenizers, kind):
    tokenizer = tokenizers[kind]
    ids = (tokenizer.pad_id, tokenizer.unk_id, tokenizer.bos_id, tokenizer.eos_id)
    assert (*ids, tokenizer.mask_id) == (0, 1, 2, 3, 4)
    assert [tokenizer.token(i) for i in range(5)] == ["<pad>", "<unk>", "<s>", "</s>", "<mask>"]
    assert tokenizer.id("</s>") == 3


@pytest.mark.parametrize("kind", ["bpe", "char"])
def test_decoding_gives_the_text_back(tokenizers, lines, kind):
    whole = "".join(lines)
    assert tokenizers[kind].decode(tokenizers[kind].encode(whole)) == whole


@settings(max_examples=60, deadline=None)
@given(content=st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
def test_byte_pairs_know_every_text(tokenizers, content):
    tokenizer = tokenizers["bpe"]
    assert tokenizer.decode(tokenizer.encode(content)) == content


def test_words_become_pieces(tokenizers):
    tokenizer = tokenizers["wordpiece"]
    assert tokenizer.decode(tokenizer.encode("the dog  sat")) == "the dog sat"
    assert tokenizer.encode("the 犬") == [tokenizer.id("the"), tokenizer.unk_id]


def test_characters(tokenizers):
    tokenizer = tokenizers["char"]
    assert [tokenizer.token(i) for i in tokenizer.encode("at é\n")] == ["a", "t", " ", "é", "\n"]
    assert tokenizer.encode("a!") == [tokenizer.id("a"), tokenizer.unk_id]


def test_vocab_size_bounds_the_vocabulary(lines):
    assert len(text.Tokenizer.train(lines, "char", 12)) == 12
    assert len(text.Tokenizer.train(lines * 20, "bpe", 280)) == 280


@pytest.mark.defect("P7")
@pytest.mark.parametrize("kind", KINDS)
def test_the_name_of_a_file_is_no_text_to_learn_from(tmp_path, lines, kind):
    path = tmp_path / "corpus.txt"
    path.write_text("".join(lines), encoding="utf-8")
    with pytest.warns(UserWarning, match=r"corpus\.txt' is the name of a file") as seen:
        text.Tokenizer.train([*lines, str(path), str(path)], kind, 300)
    assert [one.filename for one in seen] == [__file__]
    text.Tokenizer.train(text.TextFiles(path), kind, 300)
    text.Tokenizer.train([*lines, str(tmp_path), "half \0 a path", "x" * 10_000], kind, 300)


def test_lowercase(lines):
    tokenizer = text.Tokenizer.train(lines, "char", 100, lowercase=True)
    assert tokenizer.encode("CAT") == tokenizer.encode("cat")


def test_training_is_deterministic_and_takes_any_iterable(lines, tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("".join(lines), encoding="utf-8")
    made = [
        text.Tokenizer.train(source, "bpe", 290, min_frequency=1)
        for source in (lines, iter(lines), text.TextFiles(path))
    ]
    vocabularies = [[t.token(i) for i in range(len(t))] for t in made]
    assert vocabularies[0] == vocabularies[1] == vocabularies[2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"texts": "one text"}, r"one str where several texts.*TextFiles"),
        ({"texts": b"bytes"}, "one bytes"),
        ({"texts": ["a", 5]}, "text 1 is a int"),
        ({"texts": []}, "the texts are empty"),
        ({"texts": ["", ""]}, "the texts are empty"),
        ({"kind": "unigram"}, "unknown kind 'unigram'"),
        ({"vocab_size": 260}, "vocab_size 260 must be at least 261 for bpe"),
        ({"kind": "char", "vocab_size": 5}, "must be at least 6 for char"),
        ({"min_frequency": 0}, "min_frequency 0"),
        ({"kind": "char", "special": text.SpecialTokens(unk=None)}, "needs an unk token"),
    ],
)
def test_bad_training_is_refused(arguments, message):
    with pytest.raises(text.TextError, match=message):
        text.Tokenizer.train(**{"texts": ["some text"], **arguments})


def test_an_error_of_the_source_comes_through(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"fine\n\xff\n")
    with pytest.raises(text.TextFileError, match=r"a\.txt: line 2"):
        text.Tokenizer.train(text.TextFiles(path))


def test_a_text_cannot_forge_special_tokens(tokenizers):
    for tokenizer in tokenizers.values():
        ids = tokenizer.encode("the </s> cat <pad>")
        assert not {tokenizer.eos_id, tokenizer.pad_id} & set(ids)
    assert tokenizers["bpe"].decode(tokenizers["bpe"].encode("</s>")) == "</s>"


def test_bos_and_eos_on_request(tokenizers):
    tokenizer = tokenizers["char"]
    ids = tokenizer.encode("cat", bos=True, eos=True)
    assert ids == [tokenizer.bos_id, *tokenizer.encode("cat"), tokenizer.eos_id]
    assert tokenizer.decode(ids) == "cat"
    assert tokenizer.decode(ids, skip_special=False) == "<s>cat</s>"


def test_batches_are_padded_tensors(tokenizers):
    tokenizer = tokenizers["char"]
    ids, lengths = tokenizer.encode_batch(["cat", "", "on"], eos=True)
    assert (ids.shape, ids.dtype, lengths.dtype) == ((3, 4), ft.int64, ft.int64)
    assert lengths.tolist() == [4, 1, 3]
    assert ids[1].tolist() == [tokenizer.eos_id, 0, 0, 0]
    assert [tokenizer.decode(row) for row in ids] == ["cat", "", "on"]
    assert tokenizer.encode_batch(["cat"], length=6)[0].shape == (1, 6)
    assert tokenizer.encode_batch(["", ""])[0].shape == (2, 0)


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (
            lambda t: t.encode_batch(["a", "cat"], length=2),
            "text 1 has 3 tokens, more than length=2",
        ),
        (lambda t: t.encode_batch([]), "no texts"),
        (lambda t: t.encode_batch("cat"), "one str"),
        (lambda t: t.encode(5), "text 0 is a int"),
        (lambda t: t.encode("\ud800"), "cannot process this text"),
        (lambda t: t.decode([0, 10_000]), r"ids\[1\] is 10000, the vocabulary has 0 \.\."),
        (lambda t: t.decode([-1]), r"ids\[0\] is -1"),
        (lambda t: t.decode([1.5]), "expected an integer"),
        (lambda t: t.decode(ft.zeros((2, 2), dtype=ft.int64)), "row by row"),
        (lambda t: t.decode(ft.zeros((2,))), "one axis of integers"),
        (lambda t: t.id("<cls>"), "no token '<cls>'"),
        (lambda t: t.token(10_000), "10000"),
    ],
)
def test_bad_use_is_our_error(tokenizers, use, message):
    with pytest.raises(text.TextError, match=message):
        use(tokenizers["char"])


@pytest.mark.parametrize("kind", KINDS)
def test_files_give_the_same_tokenizer(tokenizers, tmp_path, kind):
    path = tmp_path / "tokenizer.json"
    tokenizers[kind].save(path)
    loaded = text.Tokenizer.load(path)
    sample = "the cat and the café"
    assert loaded.encode(sample) == tokenizers[kind].encode(sample)
    assert (len(loaded), loaded.special) == (len(tokenizers[kind]), tokenizers[kind].special)
    assert os.listdir(tmp_path) == ["tokenizer.json"]


def test_a_failed_save_leaves_the_old_file(tokenizers, tmp_path, monkeypatch):
    path = tmp_path / "tokenizer.json"
    tokenizers["char"].save(path)
    before = path.read_bytes()

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(text.TextFileError, match=r"cannot be written \(disk full\)"):
        tokenizers["bpe"].save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["tokenizer.json"]


def test_saving_into_no_folder_is_our_error(tokenizers, tmp_path):
    with pytest.raises(text.TextFileError, match=r"t\.json: cannot be written"):
        tokenizers["char"].save(tmp_path / "none" / "t.json")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no json",
        b'{"a": 1}',
        b"[]",
        b"\xff\xfe{}",
        b'{"version": "1.0", "model": {"type": "BPE", "vocab": {}, "merges": [["a", "b"]]}}',
        b'{"version": "1.0", "model": {"type": "Nothing"}}',
        b"[" * 100_000,
    ],
)
def test_malformed_files_are_named(tmp_path, content):
    path = tmp_path / "tokenizer.json"
    path.write_bytes(content)
    with pytest.raises(text.TextFileError, match=r"tokenizer\.json: not a tokenizer file"):
        text.Tokenizer.load(path)


def test_every_truncation_of_a_file_is_refused(tokenizers, tmp_path):
    path = tmp_path / "tokenizer.json"
    tokenizers["char"].save(path)
    whole = path.read_bytes().rstrip()
    for size in range(1, len(whole) - 1, 97):
        path.write_bytes(whole[:size])
        with pytest.raises(text.TextFileError):
            text.Tokenizer.load(path)


def test_other_unusable_files(tokenizers, tmp_path):
    with pytest.raises(text.TextFileError, match="unreadable"):
        text.Tokenizer.load(tmp_path / "none.json")
    path = tmp_path / "tokenizer.json"
    tokenizers["char"].save(path)
    with pytest.raises(text.TextFileError, match="more than max_bytes=100"):
        text.Tokenizer.load(path, max_bytes=100)
    content = json.loads(path.read_text())
    content["added_tokens"], content["model"]["vocab"] = [], {}
    path.write_text(json.dumps(content))
    with pytest.raises(text.TextFileError, match="vocabulary is empty|not a tokenizer file"):
        text.Tokenizer.load(path)


def test_foreign_files_with_their_own_spelling_and_settings(lines, tmp_path):
    path = tmp_path / "tokenizer.json"
    bert = text.SpecialTokens("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    text.Tokenizer.train(lines, "wordpiece", 100, special=bert).save(path)
    content = json.loads(path.read_text())
    content["truncation"] = {
        "direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0,
    }  # fmt: skip
    path.write_text(json.dumps(content))
    loaded = text.Tokenizer.load(path)
    assert (loaded.special, loaded.pad_id, loaded.eos_id) == (bert, 0, 3)
    assert len(loaded.encode("the cat sat on the mat")) >= 6


def test_a_missing_special_token_is_named(lines):
    tokenizer = text.Tokenizer.train(lines, special=text.SpecialTokens(pad=None, bos=None))
    assert (tokenizer.pad_id, tokenizer.bos_id) == (None, None)
    with pytest.raises(text.TextError, match=r"no pad token .*SpecialTokens\(pad=\.\.\.\)"):
        tokenizer.encode_batch(["a"])
    with pytest.raises(text.TextError, match="no bos token"):
        tokenizer.encode("a", bos=True)
    with pytest.raises(text.TextError, match="must be different"):
        text.SpecialTokens(pad="<s>")


def run(code, **variables):
    environment = {k: v for k, v in os.environ.items() if k != "TOKENIZERS_PARALLELISM"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**environment, **variables},
    )
    return done.stdout.split()


WATCH = """
import os
import fl_text
look = lambda: print(os.environ.get("TOKENIZERS_PARALLELISM"))
look()
def texts():
    look()
    yield "some text"
t = fl_text.Tokenizer.train(texts(), "char", 50)
look()
for _ in t.encode_corpus(texts()): look()
"""


def test_threads_of_the_library_are_on_for_long_work_only():
    assert run(WATCH) == ["None", "true", "false", "false", "false"]


def test_the_users_own_setting_stands():
    for value in ("true", "false"):
        assert run(WATCH, TOKENIZERS_PARALLELISM=value) == [value] * 5


def test_a_setting_made_later_stands_too():
    code = (
        WATCH + "\nos.environ['TOKENIZERS_PARALLELISM'] = '1'\nlist(t.encode_corpus(['a']))\nlook()"
    )
    assert run(code)[-1] == "1"


def test_import_loads_neither_numpy_nor_the_tokenizer_library():
    code = "import sys, fl_text; print(sorted({'numpy', 'tokenizers'} & set(sys.modules)))"
    assert run(code) == ["[]"]
