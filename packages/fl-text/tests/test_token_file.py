"""Token files: written in one pass, mapped, checked."""

from __future__ import annotations

import itertools
import pickle
import struct
import sys
from zlib import crc32

import pytest

import fl_tensor as ft
import fl_text as text
from fl_data import Batch, Prefetch, Shuffle


@pytest.fixture
def written(tmp_path, tokenizers, lines):
    path = tmp_path / "corpus.tokens"
    count = text.write_tokens(path, lines, tokenizers["char"], eos=True)
    return path, count


def test_a_token_file_has_the_documents(written, tokenizers, lines):
    path, count = written
    tokenizer = tokenizers["char"]
    file = text.TokenFile(path, tokenizer)
    assert (len(file), file.count, file.dtype) == (len(lines), count, ft.uint16)
    assert (file.bos, file.eos, file.vocabulary) == (False, True, len(tokenizer))
    for document, line in zip((file[i] for i in range(len(file))), lines, strict=True):
        assert document.tolist() == tokenizer.encode(line, eos=True)
        assert document.dtype == ft.int64
    assert file[-1].tolist() == file[len(lines) - 1].tolist()
    file.verify()
    assert pickle.loads(pickle.dumps(file))[0].tolist() == file[0].tolist()


def test_datasets_over_a_file_are_those_over_the_texts(tmp_path, tokenizers, lines):
    tokenizer = tokenizers["bpe"]
    plain, framed = tmp_path / "plain", tmp_path / "framed"
    text.write_tokens(plain, lines, tokenizer)
    text.write_tokens(framed, lines, tokenizer, bos=True, eos=True, strip=True)
    cases = [
        (plain, {"mode": "pack"}),
        (plain, {"mode": "pack", "columns": 2}),
        (framed, {"mode": "line"}),
        (framed, {"mode": "documents"}),
    ]
    for path, options in cases:
        file = text.TokenFile(path)
        ours = text.lm_dataset(file, tokenizer, 6, **options)
        theirs = text.lm_dataset(lines, tokenizer, 6, **options)
        assert len(ours) == len(theirs)
        for order in (range(len(ours)), [len(ours) - 1, 0]):
            pairs = zip(ours.__getitems__(order), theirs.__getitems__(order), strict=True)
            assert all(a.tolist() == b.tolist() for a, b in pairs)
        single = [field.tolist() for field in ours[1]]
        assert single == [field.tolist() for field in theirs[1]]


def test_ends_that_a_file_lacks_are_added_to_its_lines(tmp_path, tokenizers):
    tokenizer = tokenizers["char"]
    text.write_tokens(tmp_path / "t", ["cat\n", "\n", "dog"], tokenizer, eos=True, strip=True)
    ds = text.lm_dataset(text.TokenFile(tmp_path / "t"), tokenizer, 6, "line")
    assert [[tokenizer.token(n) for n in x.tolist()] for x, _ in ds] == [
        ["<s>", *"cat", "<pad>", "<pad>"],
        ["<s>", *"dog", "<pad>", "<pad>"],
    ]
    assert [tokenizer.token(n) for n in ds[0][1].tolist()] == [*"cat", "</s>", "<pad>", "<pad>"]


def test_processes_read_the_same_file(tmp_path, tokenizers, lines):
    text.write_tokens(tmp_path / "t", lines * 20, tokenizers["char"])
    ds = text.TokenStream(text.TokenFile(tmp_path / "t"), 16)
    batches = Batch(Shuffle(ds, seed=2), 8)
    expected = [x.tolist() for x, _ in batches]
    batches.set_epoch(0)
    with Prefetch(batches, processes=1).iterate() as read:
        assert [x.tolist() for x, _ in read] == expected


def test_large_vocabularies_take_four_bytes(tmp_path):
    words = text.Dictionary([f"w{i}" for i in range(70_000)])
    encoder = text.WordEncoder(words)
    text.write_tokens(tmp_path / "t", ["w69999 w0", "w1"], encoder)
    file = text.TokenFile(tmp_path / "t", encoder)
    assert (file.dtype, [file[i].tolist() for i in range(2)]) == (ft.uint32, [[69_999, 0], [1]])


def test_writing_does_not_hold_the_corpus(tmp_path):
    """The first part is in the file before the last text is asked for."""
    seen = []

    def texts():
        for number in range(300):
            if number == 299:
                seen.append((tmp_path / "t.partial").stat().st_size)
            yield "a b " * 200

    encoder = text.WordEncoder(text.Dictionary(["a", "b"]))
    count = text.write_tokens(tmp_path / "t", texts(), encoder)
    assert seen[0] > count  # bytes, of which a token takes two: more than half
    text.TokenFile(tmp_path / "t").verify()


def test_fingerprints_tell_tokenizers_apart(tmp_path, tokenizers, lines):
    tokenizers["bpe"].save(tmp_path / "t.json")
    loaded = text.Tokenizer.load(tmp_path / "t.json")
    assert loaded.fingerprint() == tokenizers["bpe"].fingerprint()
    again = text.Tokenizer.train(lines, "bpe", 300, min_frequency=1)
    assert again.fingerprint() == loaded.fingerprint()
    letters = text.Dictionary([*"|abc"])
    read = text.Lexicon({"ab": [["a", "b", "|"]]})
    encoders = [
        *tokenizers.values(),
        text.WordEncoder(text.Dictionary(["a", "b"])),
        text.WordEncoder(text.Dictionary(["b", "a"])),
        text.SpellingEncoder(read, letters),
        text.SpellingEncoder(read, letters, letters=True),
        text.SpellingEncoder(text.Lexicon({"ab": [["b", "a", "|"]]}), letters),
    ]
    assert len({encoder.fingerprint() for encoder in encoders}) == len(encoders)


def test_a_tokenizer_of_another_vocabulary_is_named(written, tokenizers):
    path, _ = written
    bpe = tokenizers["bpe"]
    sizes = f"of {len(tokenizers['char'])} tokens .* has {len(bpe)} and {bpe.fingerprint()}"
    with pytest.raises(text.TextError, match=sizes):
        text.TokenFile(path, bpe)
    with pytest.raises(text.TextError, match=sizes):
        text.lm_dataset(text.TokenFile(path), bpe, 4)
    text.write_tokens(path, ["cat"], tokenizers["char"])
    with pytest.raises(text.TextError, match="no end token after each text: write it with eos"):
        text.lm_dataset(text.TokenFile(path), tokenizers["char"], 2, eos=True)


def _with_head(raw, **changes):
    """The file with other numbers in its head, under a right checksum."""
    names = ["magic", "version", "flags", "width", "vocabulary", "tokens", "documents"]
    form = struct.Struct("<8sIIIIQQ")
    fields = dict(zip(names, form.unpack(raw[: form.size]), strict=True)) | changes
    head = form.pack(*fields.values()) + raw[form.size : 60]
    return head + struct.pack("<I", crc32(head)) + raw[64:]


def test_files_may_be_larger_than_memory(written):
    """Ten billion tokens, of which the disk holds the first and the last."""
    if sys.platform == "win32":
        pytest.skip("needs files with holes")
    path, _ = written
    count = 10**10
    head = _with_head(path.read_bytes(), tokens=count, documents=1)[:64]
    with path.open("wb") as file:
        file.write(head)
        file.seek(64 + 2 * count - 4)
        file.write(struct.pack("<HHQQ", 7, 8, 0, count))
    ds = text.TokenStream(text.TokenFile(path), 9)
    assert len(ds) == (count - 1) // 9
    assert text.TokenFile(path).stretches([0, count - 3], 3).tolist() == [[0, 0, 0], [0, 7, 8]]
    x, y = ds.__getitems__([len(ds) - 1, 0])
    assert [x.tolist(), y.tolist()] == [[[0] * 8 + [7], [0] * 9], [[0] * 7 + [7, 8], [0] * 9]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda raw: b"", "is no token file: it begins with b''"),
        (lambda raw: b"PK\3\4" + raw[4:], "is no token file: it begins with b'PK"),
        (lambda raw: raw[:30], "cut off inside its head"),
        (lambda raw: raw[:-1], "it was cut off"),
        (lambda raw: raw + b"\0" * 8, "something was appended"),
        (lambda raw: raw[:24] + b"\xff" * 8 + raw[32:], "head does not match its checksum"),
        (lambda raw: _with_head(raw, tokens=1 << 60), "it was cut off"),
        (lambda raw: _with_head(raw, documents=1 << 60), "it was cut off"),
        (lambda raw: _with_head(raw, version=2), "version 2 of the format, not 1"),
        (lambda raw: _with_head(raw, width=3), "head does not match"),
        (lambda raw: raw[:-8] + b"\0" * 8, "do not add up to its tokens"),
    ],
)
def test_damaged_files_are_refused(written, change, message):
    path, _ = written
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(text.TextFileError, match=message) as raised:
        text.TokenFile(path)
    assert str(path) in str(raised.value)


def test_damage_inside_is_found_when_it_is_met(written, tokenizers):
    path, _ = written
    raw = bytearray(path.read_bytes())
    raw[-24:-16] = b"\xff" * 8
    path.write_bytes(raw)
    file = text.TokenFile(path)
    with pytest.raises(text.TextFileError, match="document 3 is said to be tokens"):
        _ = file[3]
    with pytest.raises(text.TextFileError, match="document 2 is said to be tokens"):
        text.lm_dataset(file, tokenizers["char"], 8, "line")
    with pytest.raises(text.TextFileError, match="does not match its checksum"):
        file.verify()


def test_bad_corpora_leave_no_file(tmp_path, tokenizers):
    path, tokenizer = tmp_path / "t", tokenizers["char"]
    for texts, message in [([], "have no tokens"), ([""], "have no tokens")]:
        with pytest.raises(text.TextError, match=message):
            text.write_tokens(path, texts, tokenizer)
    with pytest.raises(text.TextError, match="text 1 is a int"):
        text.write_tokens(path, iter(["a", 3]), tokenizer)
    with pytest.raises(text.TextError, match="one str where several texts"):
        text.write_tokens(path, "text", tokenizer)
    binary = tmp_path / "picture.png"
    binary.write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
    with pytest.raises(text.TextFileError, match="picture.png: line 1 is not UTF-8"):
        text.write_tokens(path, text.TextFiles(binary), tokenizer)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["picture.png"]
    with pytest.raises(text.TextFileError, match="no such file|cannot be|[Nn]o such"):
        text.write_tokens(tmp_path / "missing" / "t", ["cat"], tokenizer)
    with pytest.raises(text.TextFileError, match="unreadable"):
        text.TokenFile(tmp_path / "missing")


def test_encoders_without_fingerprint_are_refused(tmp_path):
    class Letters:
        bos_id = None

        def __len__(self):
            return 300

        def need(self, role):
            return 0

        def encode(self, text, *, bos=False, eos=False):
            return list(text.encode())

        def encode_corpus(self, texts, *, bos=False, eos=False):
            return (list(text.encode()) for text in texts)

        def decode(self, ids, *, skip_special=True):
            return bytes(ids).decode()

    with pytest.raises(text.TextError, match="Letters gives no fingerprint: add a method"):
        text.write_tokens(tmp_path / "t", ["cat"], Letters())


def test_a_real_corpus(tmp_path, corpus):
    lines = list(itertools.islice(text.TextFiles(corpus), 4000))
    tokenizer = text.Tokenizer.train(lines, "char", 500, min_frequency=1)
    count = text.write_tokens(tmp_path / "t", lines, tokenizer)
    assert count == sum(map(len, lines))
    ds = text.lm_dataset(text.TokenFile(tmp_path / "t"), tokenizer, 128)
    assert len(ds) == (count - 1) // 128
    assert tokenizer.decode(ds[0][0]).startswith("First Citizen:\nBefore we proceed any further")
