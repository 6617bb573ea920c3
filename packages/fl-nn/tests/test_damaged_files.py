"""Damaged files: hundreds of seeded mutations of valid ones, each an error that names the file.
None is loaded, and no claim of a header takes memory."""

from __future__ import annotations

import json
import random
import struct
import tracemalloc
from pathlib import Path

import pytest

import fl_nn as nn
import fl_tensor as ft

EACH = 10  # mutations of each kind of each file
#: Beyond a few times the file itself; a header's or an index's claims must not be believed.
MEMORY_LIMIT = 4_000_000


def build(seed=0):
    ft.seed(seed)
    return nn.Sequential(*[nn.Linear(6, 6) for _ in range(4)])


def trained(seed):
    model = build(seed)
    optimizer = nn.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model(ft.ones((1, 6))).sum().backward()
    optimizer.step()
    return model, optimizer


def save(kind, path, seed=0):
    model, optimizer = trained(seed)
    size = 400 if "shard" in kind or kind == "index" else None
    if kind.startswith("weights") or kind == "index":
        nn.save_weights(path, model, shard_size=size)
    else:
        nn.save_checkpoint(path, model, optimizer, shard_size=size)


def load(kind, path):
    model, optimizer = trained(9)
    before = [x.tolist() for x in model.state_dict().values()]
    try:
        if kind.startswith("weights") or kind == "index":
            nn.load_weights(path, model)
        else:
            nn.load_checkpoint(path).restore(model, optimizer)
    except nn.CheckpointError:
        assert [x.tolist() for x in model.state_dict().values()] == before
        raise
    return model


def victim(kind, path):
    """The file to be damaged."""
    if kind == "index":
        return path.with_name(path.name + ".index.json")
    return path if path.exists() else sorted(path.parent.glob("model-0*"))[1]


KINDS = ["weights", "checkpoint", "weights in shards", "checkpoint in shards", "index"]


def header_of(data):
    length = struct.unpack("<Q", data[:8])[0]
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def with_header(header, rest):
    text = json.dumps(header, separators=(",", ":")).encode()
    return struct.pack("<Q", len(text)) + text + rest


def truncated(data, other, draw):
    return data[: draw.randrange(len(data))]


def torn(data, other, draw):
    place = draw.randrange(1, min(len(data), len(other)) - 1)
    return data[:place] + other[place:]


def flipped(data, other, draw):
    changed = bytearray(data)
    changed[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def zeroed(data, other, draw):
    start = draw.randrange(len(data) - 8)
    length = draw.choice([8, 64, 512])
    return data[:start] + b"\0" * len(data[start : start + length]) + data[start + length :]


def lengthened(data, other, draw):
    return data + bytes(draw.randrange(256) for _ in range(draw.randrange(1, 9)))


def oversized(data, other, draw):
    length = draw.choice([draw.randrange(len(data), 1 << 25), 1 << draw.randrange(25, 64)])
    return struct.pack("<Q", length) + data[8:]


def other_dtype(data, other, draw):
    header, rest = header_of(data)
    name = draw.choice([name for name in header if name != "__metadata__"])
    codes = ["I32", "U32", "F16", "BF16", "F64", "I64", "BOOL", "F8_E4M3", "C64", "X", "f32", 32]
    header[name]["dtype"] = draw.choice(codes)
    return with_header(header, rest)


def other_place(data, other, draw):
    header, rest = header_of(data)
    name = draw.choice([name for name in header if name != "__metadata__"])
    entry = header[name]
    key = draw.choice(["shape", "data_offsets"])
    values = [-1, 0, 1, 1 << 40, 1 << 63, 10**30, 1.5, None, "6", [], True]
    place = draw.randrange(len(entry[key]))
    entry[key][place] = draw.choice([v for v in values if v != entry[key][place]])
    return with_header(header, rest)


def other_name(data, other, draw):
    header, rest = header_of(data)
    name = draw.choice(sorted(header))
    header[name[:-1] + chr(draw.randrange(33, 120))] = header.pop(name)
    return with_header(header, rest)


OF_ANY = [truncated, torn, flipped, zeroed, lengthened]
OF_TENSORS = [oversized, other_dtype, other_place, other_name]
CASES = [
    (kind, damage)
    for kind in KINDS
    for damage in (OF_ANY if kind == "index" else OF_ANY + OF_TENSORS)
]


@pytest.mark.fl_heavy
@pytest.mark.parametrize("kind, damage", CASES, ids=lambda x: getattr(x, "__name__", x))
def test_damage_is_noticed(tmp_path, kind, damage):
    path = tmp_path / "one" / "model.safetensors"
    save(kind, path)
    save(kind, tmp_path / "two" / path.name, seed=1)
    load(kind, path)
    file = victim(kind, path)
    data = file.read_bytes()
    other = victim(kind, tmp_path / "two" / path.name).read_bytes()
    for seed in range(EACH):
        changed = damage(data, other, random.Random(f"{kind} {damage.__name__} {seed}"))
        if changed in (data, other):
            continue
        file.write_bytes(changed)
        tracemalloc.start()
        try:
            with pytest.raises(nn.CheckpointError, match=r"model[^ ]*\.(safetensors|json)"):
                load(kind, path)
            assert tracemalloc.get_traced_memory()[1] < MEMORY_LIMIT, seed
        finally:
            tracemalloc.stop()
    file.write_bytes(data)
    load(kind, path)


def test_there_are_hundreds_of_mutations():
    assert EACH * len(CASES) >= 400


def test_tensors_alone_that_lost_their_checksum_are_refused(tmp_path):
    path = tmp_path / "x.safetensors"
    nn.save_tensors(path, build().state_dict(), {})
    path.write_bytes(path.read_bytes().replace(b'"sha256"', b'"sha356"'))
    with pytest.raises(nn.CheckpointError, match="does not match its checksum"):
        nn.load_weights(path, build())


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_of_ours_that_lost_its_checksum_is_refused(tmp_path, kind):
    path = tmp_path / "model.safetensors"
    save(kind, path)
    file = victim(kind, path)
    if kind == "index":
        found = json.loads(file.read_text())
        del found["metadata"]["sha256"]
        file.write_text(json.dumps(found))
    else:
        header, rest = header_of(file.read_bytes())
        del header["__metadata__"]["sha256"]
        file.write_bytes(with_header(header, rest))
    with pytest.raises(nn.CheckpointError, match="does not match|is not the file that this index"):
        load(kind, path)


# ---- shards that do not belong together ----------------------------------------------------------


@pytest.fixture
def shards(tmp_path):
    path = tmp_path / "model.safetensors"
    nn.save_weights(path, build(), shard_size=400)
    return path, sorted(tmp_path.glob("model-0*"))


def edit_index(path, change):
    index = path.with_name(path.name + ".index.json")
    found = json.loads(index.read_text())
    found["metadata"] = {}  # as files of others: nothing but the structure is there to be checked
    change(found)
    index.write_text(json.dumps(found))


def test_a_shard_that_is_missing_is_named(shards):
    path, files = shards
    files[1].unlink()
    with pytest.raises(nn.CheckpointError, match=f"{files[1].name}: cannot be read"):
        nn.load_weights(path, build())


def test_a_shard_of_another_save_is_refused(shards, tmp_path):
    path, files = shards
    nn.save_weights(tmp_path / "b" / "model.safetensors", build(1), shard_size=400)
    files[0].write_bytes(sorted((tmp_path / "b").glob("model-0*"))[0].read_bytes())
    with pytest.raises(nn.CheckpointError, match="is not the file that this index was written"):
        nn.load_weights(path, build())


def test_an_index_and_its_shards_must_agree_on_names(shards):
    path, _ = shards
    edit_index(path, lambda index: index["weight_map"].pop("2.weight"))
    with pytest.raises(nn.CheckpointError, match=r"has \['2.weight'\] beside what the index says"):
        nn.load_weights(path, build())
    edit_index(path, lambda index: index["weight_map"].update(extra=index["weight_map"]["0.bias"]))
    with pytest.raises(nn.CheckpointError, match=r"lacks \['extra'\]"):
        nn.load_weights(path, build())


@pytest.mark.parametrize("name", ["../x.safetensors", "/x.safetensors", "x.bin", 3, "a/../b", ""])
def test_an_index_names_files_beside_it_alone(shards, name):
    path, _ = shards
    edit_index(path, lambda index: index["weight_map"].update({"0.weight": name}))
    with pytest.raises(nn.CheckpointError, match="not the name of a safetensors file beside"):
        nn.load_weights(path, build())


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"weight_map": {}}', "[" * 100_000, '{"a": 1e'])
def test_an_index_that_is_none_is_refused(shards, text):
    path, _ = shards
    path.with_name(path.name + ".index.json").write_text(text)
    with pytest.raises(nn.CheckpointError, match="index.json"):
        nn.load_weights(path, build())


def test_an_index_larger_than_any_is_refused_unread(shards):
    path, _ = shards
    with open(path.with_name(path.name + ".index.json"), "r+b") as file:
        file.truncate(1 << 40)
    with pytest.raises(nn.CheckpointError, match="no index of shards"):
        nn.load_weights(path, build())


@pytest.mark.parametrize("piece", [b"[],", b'"":{},', b"1,", b'"":0,'])
@pytest.mark.parametrize("name", ["x.safetensors", "x.safetensors.index.json"])
def test_a_header_of_millions_of_small_things_takes_no_more_memory_than_itself(
    tmp_path, piece, name
):
    text = b'{"":' + piece * (15_000_000 // len(piece)) + b"0}"
    start = b"" if name.endswith("json") else struct.pack("<Q", len(text))
    (tmp_path / name).write_bytes(start + text)
    tracemalloc.start()
    try:
        with pytest.raises(nn.CheckpointError, match="brackets, colons and commas"):
            nn.load_weights(tmp_path / name, nn.ReLU())
        assert tracemalloc.get_traced_memory()[1] < 32_000_000
    finally:
        tracemalloc.stop()


def test_what_could_not_be_read_is_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr("fl_nn.files.tensorfile.MAX_MARKS", 50)
    with pytest.raises(nn.CheckpointError, match="Keep large values in tensors"):
        nn.save_weights(tmp_path / "x", build())
    assert not list(tmp_path.iterdir())


# ---- files of others, without a checksum ---------------------------------------------------------


@pytest.fixture
def foreign(tmp_path):
    path, header, rest = tmp_path / "theirs.safetensors", {"__metadata__": {"format": "pt"}}, b""
    for name, x in build().state_dict().items():
        end = len(rest) + 4 * x.size
        header[name] = {"dtype": "F32", "shape": x.shape, "data_offsets": [len(rest), end]}
        rest += bytes(x.tobytes())
    path.write_bytes(with_header(header, rest))
    return path


def test_flipped_bits_in_a_header_without_checksum_change_no_weight(foreign):
    data = foreign.read_bytes()
    length = 8 + struct.unpack("<Q", data[:8])[0]
    expected = {name: x.tolist() for name, x in build().state_dict().items()}
    draw, noticed = random.Random(5), 0
    for _ in range(200):
        changed = bytearray(data)
        changed[draw.randrange(length)] ^= 1 << draw.randrange(8)
        foreign.write_bytes(changed)
        model = build(1)
        try:
            nn.load_weights(foreign, model)
        except nn.CheckpointError:
            noticed += 1
        else:  # in the metadata, or white space for white space
            assert {name: x.tolist() for name, x in model.state_dict().items()} == expected
    assert noticed > 150


@pytest.mark.parametrize(
    "damage", [truncated, lengthened, oversized, other_dtype, other_place], ids=lambda d: d.__name__
)
def test_structure_is_checked_without_a_checksum(foreign, damage):
    data = foreign.read_bytes()
    for seed in range(EACH):
        foreign.write_bytes(damage(data, data, random.Random(seed)))
        with pytest.raises(nn.CheckpointError, match=r"theirs\.safetensors"):
            nn.load_weights(foreign, build(1))


def entries(**tensors):
    header = {
        name: {"dtype": "U8", "shape": [end - start], "data_offsets": [start, end]}
        for name, (start, end) in tensors.items()
    }
    return with_header(header, b"\0" * 8)


@pytest.mark.parametrize(
    "data, words",
    [
        (entries(a=(0, 8), b=(0, 8)), "begins at byte 0, expected 8"),
        (
            with_header({"a": {"dtype": "U8", "shape": [4], "data_offsets": [0, 8]}}, b"\0" * 8),
            r"of shape \[4\] needs 4 bytes, not \[0, 8\]",
        ),
        (entries(a=(0, 4), b=(5, 8)), "begins at byte 5, expected 4"),
        (entries(a=(0, 4)), "its tensors take 4 bytes, and 8 are there"),
        (entries(a=(0, 8), b=(8, 16)), "its tensors take 16 bytes, and 8 are there"),
        (struct.pack("<Q", 14) + b'{"a":1,"a":2} ', "a name comes twice"),
        (struct.pack("<Q", 38) + b'{"a":' + b"1" * 32 + b"}", "a number of 32 digits"),
        (struct.pack("<Q", 10) + b'{"a": NaN}', "a number NaN"),
        (with_header({"a": [1]}, b""), "has not exactly a dtype"),
        (
            with_header(
                {"a": {"dtype": "U8", "shape": [0, 1 << 59, 4], "data_offsets": [0, 0]}}, b""
            ),
            "a shape beyond all arrays",
        ),
        (
            with_header({"a": {"dtype": "U8", "shape": [0] * 99, "data_offsets": [0, 0]}}, b""),
            "a shape beyond all arrays",
        ),
    ],
)
def test_tensors_fill_their_file_without_gaps_or_overlaps(tmp_path, data, words):
    path = Path(tmp_path / "x.safetensors")
    path.write_bytes(data)
    with pytest.raises(nn.CheckpointError, match=words):
        nn.load_weights(path, nn.ReLU())
