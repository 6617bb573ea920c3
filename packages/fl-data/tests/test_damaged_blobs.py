"""250 ways to damage a blob: each is a clear error, none is read as if nothing were wrong, and none
makes the reader take memory that the file does not account for.

Half of the mutations know the format and renew the checksums, as someone would who means harm.
"""

from __future__ import annotations

import random
import struct
import subprocess
import sys
import tracemalloc
from zlib import crc32

import pytest

import fl_data as data
import fl_tensor as ft
from fl_data.blobs.codec import DTYPES, decode
from fl_data.blobs.container import HEADER

EACH = 25
LARGE = (2**31, 2**32 - 1, 2**40, 2**62, 2**63 - 1, 2**64 - 1)
#: What reading the undamaged file takes is some 50 kB.
MOST_BYTES = 1 << 20


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> bytes:
    """A file of three commits."""
    path = tmp_path_factory.mktemp("blob") / "whole.blob"
    with data.FileBlob(path, "w") as blob:
        for i in range(12):
            blob.add(
                {
                    "x": ft.full((5 + i, 3), i, dtype=ft.float32),
                    "half": ft.ones((i,), dtype=ft.bfloat16),
                    "mask": ft.ones((4,), dtype=ft.bool),
                    "text": "word " * i,
                    "boxes": [ft.zeros((i, 4)), (i, None, True)],
                }
            )
            if i % 4 == 3:
                blob.commit()
    return path.read_bytes()


class Parts:
    """The last segment of a file, taken apart; `sealed` puts it together with right checksums."""

    def __init__(self, content: bytes) -> None:
        numbers = [struct.unpack_from("<QQQ", content, at)[:2] for at in (16, 40)]
        self.number, self.end = max(numbers)
        self.content = content
        self.start, self.count = struct.unpack_from("<QQ", content, self.end - 24)
        table = self.end - 24 - 12 * self.count
        self.sizes = list(struct.unpack_from(f"<{self.count}Q", content, table))
        self.records = []
        at = self.start
        for size in self.sizes:
            self.records.append(bytearray(content[at : at + size]))
            at += size

    def sealed(self) -> bytes:
        records = b"".join(self.records)
        checksums = [crc32(record) for record in self.records]
        table = struct.pack(f"<{len(self.sizes)}Q{len(checksums)}I", *self.sizes, *checksums)
        head = struct.pack("<QQ", self.start, self.count)
        segment = records + table + head + struct.pack("<Q", crc32(head, crc32(table)))
        found = bytearray(self.content[: HEADER if self.start < HEADER else self.start] + segment)
        end = len(found) if self.end == len(self.content) else self.end
        slot = struct.pack("<QQ", self.number, end)
        at = 16 if self.number % 2 else 40
        found[at : at + 24] = slot + struct.pack("<Q", crc32(slot))
        return bytes(found)


def truncated(whole, rng):
    return whole[: rng.randrange(len(whole))]


def torn(whole, rng):
    """Some pages never reached the disk."""
    page = rng.choice((16, 64, 256))
    at = rng.randrange(0, len(whole), page)
    return whole[:at] + bytes(len(whole[at : at + page])) + whole[at + page :]


def bit_flipped(whole, rng):
    found = bytearray(whole)
    found[rng.randrange(len(found))] ^= 1 << rng.randrange(8)
    return bytes(found)


def overwritten(whole, rng):
    at, count = rng.randrange(len(whole)), rng.randrange(1, 64)
    return whole[:at] + rng.randbytes(len(whole[at : at + count])) + whole[at + count :]


def moved(whole, rng):
    """A part is missing in the middle, or is there twice."""
    at, count = rng.randrange(len(whole) - 64), rng.randrange(1, 64)
    return (
        whole[:at] + whole[at + count :] if rng.random() < 0.5 else whole[: at + count] + whole[at:]
    )


def oversized_header(whole, rng):
    """The slot, or the trailer, claims more than there is."""
    parts = Parts(whole)
    if rng.random() < 0.4:
        parts.end = rng.choice((*LARGE[:5], len(whole) + rng.randrange(1, 99)))
    elif rng.random() < 0.5:
        parts.count = rng.choice((0, parts.count + rng.randrange(1, 9), *LARGE))
    else:
        content = parts.sealed()
        head = struct.pack("<QQ", rng.choice((0, 63, len(whole), *LARGE)), parts.count)
        table = content[-24 - 12 * parts.count : -24]
        return content[:-24] + head + struct.pack("<Q", crc32(head, crc32(table)))
    return parts.sealed()


def wrong_sizes(whole, rng):
    """Records that reach outside their segment, in a table that is properly sealed."""
    parts = Parts(whole)
    i, j = rng.sample(range(parts.count), 2)
    if rng.random() < 0.5:
        parts.sizes[i] = rng.choice((0, parts.sizes[i] + rng.randrange(1, 99), *LARGE))
    else:  # their sum is right
        by = rng.randrange(1, parts.sizes[j] + 1)
        parts.sizes[i], parts.sizes[j] = parts.sizes[i] + by, parts.sizes[j] - by
    return parts.sealed()


def wrong_dtype(whole, rng):
    """A dtype that does not exist, or one whose elements are not as wide; properly sealed."""
    parts = Parts(whole)
    record = rng.choice(parts.records)
    found = record.index(b"x") + 1 if rng.random() < 0.5 else record.index(b"half") + 4
    assert record[found : found + 1] == b"A"
    width = DTYPES[record[found + 1]].itemsize
    others = [code for code, dtype in enumerate(DTYPES) if dtype.itemsize != width]
    record[found + 1] = rng.choice((*others, 15, 16, 100, 255))
    return parts.sealed()


def wrong_lengths(whole, rng):
    """Extents, and lengths of text, beyond any memory; properly sealed."""
    parts = Parts(whole)
    record = rng.choice(parts.records)
    if rng.random() < 0.5:
        at = record.index(b"x") + 1
        form, at = ("<Q", at + 3 + 8 * rng.randrange(2)) if rng.random() < 0.7 else ("<B", at + 2)
    else:
        at = record.index(b"text") + 4
        form, at = ("<Q", at + 1) if rng.random() < 0.5 else ("<I", 1)
    large = {"<Q": LARGE, "<I": LARGE[:2], "<B": (1, 3, 64, 65, 255)}[form]
    struct.pack_into(form, record, at, rng.choice(large))
    return parts.sealed()


def wrong_values(whole, rng):
    """Values of no kind, text that is no UTF-8, bools that are neither, too deep; sealed."""
    parts = Parts(whole)
    i = rng.randrange(parts.count)
    record = parts.records[i]
    kind = rng.randrange(5)
    if kind == 0:
        record[0] = rng.choice(b"\0xAisbNT(\xff")
    elif kind == 1:
        record[record.index(b"mask") + 4 + 3 + 8 + rng.randrange(4)] = rng.randrange(2, 256)
    elif kind == 2:
        at = record.index(b"text")
        record[at + rng.randrange(4)] = rng.randrange(128, 192)
    elif kind == 3:
        record += rng.randbytes(rng.randrange(1, 20))
    else:
        record[:] = b"(\1\0\0\0" * rng.choice((33, 1000, 100_000)) + b"N"
    parts.sizes[i] = len(record)
    return parts.sealed()


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux what the process has")
def test_claims_beyond_memory_are_refused_in_a_process_that_has_little(whole, tmp_path):
    """The bound of the system, which sees what is allocated outside Python's own allocator too."""
    kinds = (oversized_header, wrong_sizes, wrong_dtype, wrong_lengths)
    for mutation in kinds:
        for seed in range(EACH):
            damaged = mutation(whole, random.Random(f"{mutation.__name__} {seed}"))
            (tmp_path / f"{mutation.__name__}-{seed}.blob").write_bytes(damaged)
    code = f"""
import resource, pathlib, fl_data as data, fl_tensor as ft
ft.zeros(3) + 1  # all is loaded
used = int(pathlib.Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (32 << 20),) * 2)
for path in pathlib.Path({str(tmp_path)!r}).glob("*.blob"):
    try:
        for sample in data.FileBlob(path):
            pass
    except data.BlobError:
        continue
    raise SystemExit(f"{{path}} was read")
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_header_of_another_time_is_noticed(whole, tmp_path):
    path = tmp_path / "x.blob"
    parts = Parts(whole)
    for number, end in ((parts.number + 2, parts.end), (parts.number - 2, parts.end)):
        slot = struct.pack("<QQ", number, end)
        at = 16 if parts.number % 2 else 40
        path.write_bytes(
            whole[:at] + slot + struct.pack("<Q", crc32(slot)) + whole[at + len(slot) + 8 :]
        )
        with pytest.raises(data.BlobError, match="its header is damaged"):
            data.FileBlob(path)


def test_a_damaged_index_is_noticed_when_the_file_is_opened(whole, tmp_path):
    path = tmp_path / "x.blob"
    for before in range(1, 48):
        damaged = bytearray(whole)
        damaged[-24 - before] ^= 16
        path.write_bytes(damaged)
        with pytest.raises(data.BlobError, match="the index at byte .* its checksum"):
            data.FileBlob(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"(\1\0\0\0A\x0b\3" + struct.pack("<QQQ", 0, 2**62, 8), "no tensor has the shape"),
        (b"(\1\0\0\0A\x0b\x41" + bytes(8 * 65), "65 axes: there are at most 64"),
        (b"{\2\0\0\0" + b"\1\0\0\0aN" * 2, "'a' comes twice"),
        (b"{\1\0\0\0\1\0\0\0\xffN", "not UTF-8"),
        (b"(\xff\xff\xff\xff" + b"N" * 100, "1 bytes are announced at byte 105, 0 are left"),
        (b"[\0\0\0\0", "a tuple or a dict, found list"),
        (b"A\0\0\1", "found RawTensor"),
        (b"", "1 bytes are announced at byte 0"),
    ],
)
def test_a_sample_that_cannot_be_is_refused(content, message):
    with pytest.raises(data.BlobError, match=message):
        decode(memoryview(content))


MUTATIONS = (
    truncated,
    torn,
    bit_flipped,
    overwritten,
    moved,
    oversized_header,
    wrong_sizes,
    wrong_dtype,
    wrong_lengths,
    wrong_values,
)


def read(path) -> None:
    blob = data.FileBlob(path)
    for i in range(len(blob)):
        blob[i]


def test_taking_apart_and_putting_together_changes_nothing(whole, tmp_path):
    assert Parts(whole).sealed() == whole
    (tmp_path / "x.blob").write_bytes(whole)
    read(tmp_path / "x.blob")


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.__name__)
def test_no_damage_goes_unnoticed(whole, tmp_path, mutation):
    path = tmp_path / "x.blob"
    for seed in range(EACH):
        rng = random.Random(f"{mutation.__name__} {seed}")
        damaged = mutation(whole, rng)
        while damaged == whole:  # zeros in place of zeros
            damaged = mutation(whole, rng)
        path.write_bytes(damaged)
        tracemalloc.start()
        try:
            with pytest.raises(data.BlobError) as caught:
                read(path)
            most = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert "x.blob" in str(caught.value), seed
        assert most < MOST_BYTES, seed
