"""Sharded tensor files in Hugging Face's layout: `model.safetensors.index.json` maps tensors to
files.

Shards get names that no earlier save has used, and the index is replaced last. A save that is
killed at any moment leaves the previous index and its files.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fl_nn.errors import CheckpointError
from fl_nn.files.header import MAX_HEADER, parse_json
from fl_nn.files.lazy import Loadable
from fl_nn.files.tensorfile import (
    CHECKSUM,
    WRITER,
    TensorFile,
    damaged,
    is_ours,
    write_tensors,
)
from fl_tensor.annotations import checked
from fl_tensor.files import open_regular, replacing, target_of

if TYPE_CHECKING:
    from typing_extensions import Self

INDEX = ".index.json"
_SUFFIX = ".safetensors"
_FILE = "model" + _SUFFIX


@checked
def save_tensors(
    path: str | os.PathLike[str],
    tensors: Mapping[str, Loadable],
    metadata: Mapping[str, str],
    shard_size: int | None = None,
) -> None:
    """Write one file, or, if the tensors take more than `shard_size` bytes, shards of at most so
    many (a larger tensor has one of its own) and `path` + ".index.json". Files of an earlier save
    to the same path are removed once the new ones are complete.

    Raises CheckpointError and OSError as `write_tensors`.
    """
    path = Path(path)
    target_of(path)  # raises for what is no regular file: an earlier one is removed
    parts = _parts(path, tensors, shard_size)
    if len(parts) == 1:
        write_tensors(path, tensors, metadata)
        tidy(path, keep={path.name})
        return
    token = os.urandom(4).hex()
    written: dict[str, str] = {}
    weight_map: dict[str, str] = {}
    try:
        for number, names in enumerate(parts, 1):
            shard = shard_name(path, number, len(parts), token)
            written[shard] = ""  # so that half a file is removed, too
            part = {name: tensors[name] for name in names}
            written[shard] = write_shard(path.with_name(shard), part)
            weight_map.update(dict.fromkeys(names, shard))
        write_index(path, written, weight_map, sum(map(_bytes, tensors.values())), metadata)
    except BaseException:
        for shard in written:
            path.with_name(shard).unlink(missing_ok=True)
        raise
    tidy(path, keep={path.name + INDEX, *written})


def shard_name(path: Path, number: int, count: int, token: str) -> str:
    """The name of a shard, from 1; `token`, eight hexadecimal digits, tells saves apart."""
    return f"{path.name.removesuffix(_SUFFIX)}-{number:05}-of-{count:05}-{token}{_SUFFIX}"


def write_shard(path: Path, tensors: Mapping[str, Loadable]) -> str:
    """Write a shard; its checksum, for the index. Raises as `write_tensors`."""
    return write_tensors(path, tensors, {"format": "pt", WRITER: "shard"})


def write_index(
    path: Path,
    shards: Mapping[str, str],
    weight_map: Mapping[str, str],
    total_size: int,
    metadata: Mapping[str, str],
) -> None:
    """Write the index beside complete shards, which makes them the present ones.

    shards      their names and checksums
    weight_map  the shard that each tensor is in
    """
    index: dict[str, Any] = {WRITER: "tensors", **metadata}
    index |= {"total_size": total_size, "shards": dict(shards)}
    index[CHECKSUM] = _index_checksum(index, weight_map)
    text = json.dumps({"metadata": index, "weight_map": dict(weight_map)}, indent=2).encode()
    if len(text) > MAX_HEADER:
        raise CheckpointError(f"{path}: the index takes more than {MAX_HEADER} bytes")
    with replacing(path.with_name(path.name + INDEX), parents=True) as file:
        file.write(text)


@checked
def open_tensors(path: str | os.PathLike[str]) -> TensorFile | ShardedFile:
    """Open `path` for reading, whichever it is: a safetensors file, an index, a path that was given
    to `save_tensors`, or a folder with `model.safetensors` or its index.

    Raises CheckpointError for what is missing or malformed.
    """
    path = Path(path)
    try:
        if path.is_dir():
            path = path / _FILE
        path.exists()
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror or error})") from error
    index = path.with_name(path.name + INDEX)
    if not path.exists() and index.exists():
        path = index
    return ShardedFile(path) if path.name.endswith(INDEX) else TensorFile(path)


class ShardedFile:
    """All files of an index, opened: `tensors`, `metadata`, `verify` and `close` as TensorFile."""

    def __init__(self, path: Path) -> None:
        self.path = path
        metadata, self._weight_map = _read_index(path)
        checksums = metadata.pop("shards", {})
        self.metadata = {k: v for k, v in metadata.items() if isinstance(v, str)}
        self._files: dict[str, TensorFile] = {}
        try:
            for name in sorted(set(self._weight_map.values())):
                self._files[name] = TensorFile(path.with_name(name))
            self._compare(checksums)
        except BaseException:
            self.close()
            raise
        self.tensors = {
            name: self._files[shard].tensors[name] for name, shard in self._weight_map.items()
        }

    def _compare(self, checksums: Mapping[str, str]) -> None:
        for shard, file in self._files.items():
            listed = {name for name, place in self._weight_map.items() if place == shard}
            absent, extra = sorted(listed - file.tensors.keys()), file.tensors.keys() - listed
            if absent or extra:
                raise CheckpointError(
                    f"{self.path}: does not belong to {shard}: that lacks {absent[:5]}, and has "
                    f"{sorted(extra)[:5]} beside what the index says; get all files from one save"
                )
            if is_ours(self.metadata) and file.checksum != checksums.get(shard):
                raise CheckpointError(
                    f"{self.path}: {shard} is not the file that this index was written with; get "
                    "all files from one save"
                )

    def verify(self) -> None:
        """Compare every shard with its checksum. Raises CheckpointError."""
        for file in self._files.values():
            file.verify()

    def close(self) -> None:
        """Give the files back; tensors that were loaded stay."""
        for file in self._files.values():
            file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _read_index(path: Path) -> tuple[dict[str, Any], dict[str, str]]:
    try:
        size = path.stat().st_size
        if size > MAX_HEADER:
            raise CheckpointError(f"{path}: is larger than {MAX_HEADER} bytes: no index of shards")
        with open_regular(path) as file:
            text = file.read()
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror or error})") from error
    index = parse_json(path, text, "the index")
    # Nothing else may be there: a damaged name must not hide the checksum.
    if not isinstance(index, dict) or not index.keys() <= {"metadata", "weight_map"}:
        raise CheckpointError(f"{path}: is no index of shards, which has metadata and a weight_map")
    metadata, weight_map = index.get("metadata", {}), index.get("weight_map")
    if not (isinstance(weight_map, dict) and weight_map and isinstance(metadata, dict)):
        raise CheckpointError(f"{path}: is no index of shards: its weight_map is empty or missing")
    for name, shard in weight_map.items():
        plain = isinstance(shard, str) and shard.endswith(_SUFFIX) and len(shard) < 256
        if not plain or re.search(r"[/\\:\0]", shard):
            raise CheckpointError(
                f"{path}: {name[:200]!r} is said to be in {str(shard)[:80]!r}, which is not the "
                "name of a safetensors file beside the index"
            )
    found = metadata.pop(CHECKSUM, None)
    if (is_ours(metadata) or found is not None) and found != _index_checksum(metadata, weight_map):
        raise damaged(path)
    return metadata, weight_map


def _index_checksum(metadata: Mapping[str, Any], weight_map: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps([metadata, weight_map], sort_keys=True).encode()).hexdigest()


def _parts(path: Path, tensors: Mapping[str, Loadable], shard_size: int | None) -> list[list[str]]:
    """Names, shard by shard, in their order."""
    if shard_size is not None and shard_size < 1:
        raise CheckpointError(f"{path}: shard_size is {shard_size}; give bytes per file")
    parts: list[list[str]] = [[]]
    filled = 0
    for name, tensor in tensors.items():
        size = _bytes(tensor)
        if shard_size is not None and parts[-1] and filled + size > shard_size:
            parts.append([])
            filled = 0
        parts[-1].append(name)
        filled += size
    return parts


def _bytes(tensor: Loadable) -> int:
    return math.prod(tensor.shape) * tensor.dtype.itemsize


def tidy(path: Path, keep: set[str]) -> None:
    """Remove what earlier saves to this path left, complete or killed."""
    stem = re.escape(path.name.removesuffix(_SUFFIX))
    shard = rf"{stem}-\d{{5}}-of-\d{{5}}-[0-9a-f]{{8}}{re.escape(_SUFFIX)}(\.partial)?"
    whole = re.escape(path.name) + f"({re.escape(INDEX)})?"
    stale = re.compile(f"{shard}|{whole}")
    # An index before its shards: what is left when this is cut short can still be read.
    for found in sorted(path.parent.iterdir(), key=lambda p: not p.name.endswith(INDEX)):
        if stale.fullmatch(found.name) and found.name not in keep:
            found.unlink(missing_ok=True)
