"""Downloads with a known checksum and a bounded size, written atomically."""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import urllib.error
import urllib.request
import zlib
from collections.abc import Sequence
from http.client import HTTPException
from pathlib import Path

from fl_tensor.files import replacing, target_of
from fl_vision.errors import DataFileError, DataMissingError

TIMEOUT = 20.0
_CHUNK = 1 << 16


def download(
    urls: Sequence[str],
    target: str | Path,
    *,
    sha256: str,
    max_bytes: int,
    timeout: float = TIMEOUT,
    packed: bool = False,
) -> Path:
    """`target`, written from the first of `urls` that gives the right content.

    `sha256` is that of the *unpacked* content of a gzip file (mirrors compress differently), or
    with `packed` that of the file itself, in hexadecimal. The file appears under its name only when
    complete and verified; on failure nothing is left behind.
    Raises `DataMissingError` with what went wrong at each address.
    """
    target = Path(target)
    failures = []
    for url in urls:
        try:
            _fetch(url, target, sha256, max_bytes, timeout, packed)
        except (OSError, HTTPException, ValueError, zlib.error, EOFError) as error:
            reason = getattr(error, "reason", None) or error
            failures.append(f"{url}: {reason}")
        else:
            return target
    raise DataMissingError(
        f"[download] {target.name} could not be fetched ({'; '.join(failures)}); "
        f"put the file into {target.parent} by hand, or try again with a network"
    )


def _fetch(
    url: str, target: Path, sha256: str, max_bytes: int, timeout: float, packed: bool
) -> None:
    target = target_of(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    # Written beside the target: the rename is atomic within one file system.
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as out:
            with urllib.request.urlopen(url, timeout=timeout) as response:
                received = 0
                while chunk := response.read(_CHUNK):
                    received += len(chunk)
                    if received > max_bytes:
                        raise ValueError(f"more than {max_bytes} bytes")
                    out.write(chunk)
            out.flush()
            os.fsync(out.fileno())
        found = _content_sha256(part, max_bytes, packed)
        if found != sha256:
            raise ValueError(f"checksum {found[:12]}... instead of {sha256[:12]}...")
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def unpack(archive: Path, folder: Path, names: Sequence[str], max_bytes: int = 512 << 20) -> None:
    """Write the files `names` of a .tar.gz archive into `folder`, whatever folders they lie in
    there; each appears once it is complete. Raises `DataFileError` for an archive that is damaged
    or lacks one, and for a file of more than `max_bytes`."""
    import tarfile

    folder.mkdir(parents=True, exist_ok=True)
    missing = set(names)
    try:
        with tarfile.open(archive, "r|gz") as members:
            for member in members:
                name = member.name.rpartition("/")[2]
                if name not in missing or not member.isfile():
                    continue
                content = members.extractfile(member)
                if content is None or not 0 <= member.size <= max_bytes:
                    raise ValueError(f"{name} has {member.size} bytes, the limit is {max_bytes}")
                with replacing(folder / name) as out:
                    shutil.copyfileobj(content, out)
                missing.discard(name)
    except (tarfile.TarError, zlib.error, EOFError, ValueError) as error:
        raise DataFileError("download", archive, f"damaged ({error})", "remove it") from None
    if missing:
        lacks = f"lacks {', '.join(sorted(missing))}"
        raise DataFileError("download", archive, lacks, "remove it, and try again")


def _content_sha256(path: Path, max_packed: int, packed: bool) -> str:
    digest = hashlib.sha256()
    left = 64 * max_packed
    with path.open("rb") if packed else gzip.open(path, "rb") as unpacked:
        while chunk := unpacked.read(_CHUNK):
            left -= len(chunk)
            if left < 0:
                raise ValueError("unpacks to far more than its size")
            digest.update(chunk)
    return digest.hexdigest()
