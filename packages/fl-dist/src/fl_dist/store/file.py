"""``file:/folder``: a store in a folder that all ranks see.

A generation is a sub-folder, a key is a file in it, and a rename commits a value. The sub-folder
appears with its ``owner`` file in one rename, so that two jobs cannot both create it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import hmac
import itertools
import json
import os
import shutil
import socket
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar
from urllib.parse import quote

from fl_dist.errors import ArgumentError, DistTimeoutError
from fl_dist.store.store import Store, StoreError, check_key, check_value, counter

OWNER = "owner"
LENGTH = struct.Struct(">H")  # of the key, in front of key and value
FIRST_NAP, LONGEST_NAP = 1e-3, 50e-3


class FileStore(Store):
    """Works wherever ``rename`` and ``flock`` do: local disks, NFS 4, Lustre."""

    CONTRACT: ClassVar[tuple[int, int]] = (1, 0)

    def __init__(self, folder: Path, generation: int, server: bool) -> None:
        self._folder = folder / name_of(generation)
        self._server = server
        self._numbers = itertools.count()
        self._closed = False

    @classmethod
    def open(cls, url: str, token: str, generation: int, server: bool, timeout: float) -> FileStore:
        folder = Path(url.removeprefix("file:"))
        if not folder.is_absolute():
            raise ArgumentError(f"[store] {url!r}: expected file:/folder, an absolute path")
        refuse_stale(folder, generation)
        made = folder / name_of(generation)
        proof = prove(token, generation)
        if server:
            create(folder, made, proof)
        else:
            check_owner(made, proof, timeout)
        return cls(folder, generation, server)

    def set(self, key: str, value: bytes) -> None:
        raw = check_key(key)
        content = LENGTH.pack(len(raw)) + raw + check_value(key, value)
        part = self._folder / f".part-{os.getpid()}-{id(self)}-{next(self._numbers)}"
        with self._errors(f"cannot write {key!r}"):
            try:
                part.write_bytes(content)
                part.rename(self._path(key))
            except OSError:
                part.unlink(missing_ok=True)
                raise

    def get(self, key: str, timeout: float) -> bytes:
        check_key(key)
        for _ in naps(timeout):
            value = self._read(key)
            if value is not None:
                return value
            if not self._folder.exists():
                raise StoreError(f"[store] {self._folder} is gone: rank 0 closed the store")
        raise DistTimeoutError(f"[store] gave up after {timeout:g} s waiting for {key!r}")

    def add(self, key: str, n: int) -> int:
        check_key(key)
        with self._locked():
            count = counter(key, self._read(key) or b"0") + n
            self.set(key, b"%d" % count)
        return count

    def delete(self, prefix: str) -> None:
        with self._errors("cannot delete"):
            for entry in list(self._folder.iterdir()):
                if entry.name.startswith(".") or entry.name == OWNER:
                    continue
                with contextlib.suppress(FileNotFoundError):
                    content = entry.read_bytes()
                    if key_of(content).startswith(prefix.encode()):
                        entry.unlink()

    def close(self) -> None:
        if self._server and not self._closed:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._closed = True

    def _path(self, key: str) -> Path:
        digest = hashlib.blake2b(key.encode(), digest_size=8).hexdigest()
        return self._folder / f"{quote(key, safe='')[:150]}-{digest}"

    def _read(self, key: str) -> bytes | None:
        try:
            with self._errors(f"cannot read {key!r}"):
                content = self._path(key).read_bytes()
        except FileNotFoundError:
            return None
        return content[LENGTH.size + len(key_of(content)) :]

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        with self._errors("cannot lock"), open(self._folder / ".lock", "ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # closing the file ends it
            yield

    @contextlib.contextmanager
    def _errors(self, what: str) -> Iterator[None]:
        """A missing file passes; any other failure of the disk becomes a StoreError."""
        try:
            yield
        except FileNotFoundError:
            if not self._folder.exists():
                raise StoreError(
                    f"[store] {self._folder} is gone: rank 0 closed the store"
                ) from None
            raise
        except OSError as error:
            raise StoreError(
                f"[store] {what} in {self._folder}: {error.strerror or error}"
            ) from error


def name_of(generation: int | str) -> str:
    """The sub-folder of a generation."""
    return f"generation-{generation}"


def key_of(content: bytes) -> bytes:
    """The key in a file of the store."""
    (length,) = LENGTH.unpack_from(content)
    return content[LENGTH.size : LENGTH.size + length]


def prove(token: str, generation: int) -> str:
    """What only a holder of the token can write into ``owner``."""
    return hmac.new(token.encode(), f"fl-dist {generation}".encode(), "sha256").hexdigest()


def naps(timeout: float) -> Iterator[None]:
    """One step per look, with growing sleeps between them, until time is up."""
    end, nap = time.monotonic() + timeout, FIRST_NAP
    while True:
        yield
        left = end - time.monotonic()
        if left <= 0:
            return
        time.sleep(min(nap, left))
        nap = min(2 * nap, LONGEST_NAP)


def refuse_stale(folder: Path, generation: int) -> None:
    """Raise StoreError where the job has been restarted since ``generation``."""
    numbers = [entry.name.removeprefix(name_of("")) for entry in folder.glob(name_of("*"))]
    newest = max((int(number) for number in numbers if number.isdigit()), default=generation)
    if newest > generation:
        raise StoreError(
            f"[store] {folder}: generation {newest} of the job is there, this process is of "
            f"generation {generation}: it is left over from before a restart; end it"
        )


def create(folder: Path, made: Path, proof: str) -> None:
    """Make the sub-folder of this generation with its owner file, as one step."""
    part = folder / f".part-{os.getpid()}-{threading.get_ident()}"
    owner = {
        "proof": proof, "host": socket.gethostname(), "pid": os.getpid(),
        "since": time.strftime("%Y-%m-%d %H:%M:%S"),
    }  # fmt: skip
    try:
        folder.mkdir(parents=True, exist_ok=True)
        part.mkdir()
        (part / OWNER).write_text(json.dumps(owner))
        part.rename(made)
    except OSError as error:
        shutil.rmtree(part, ignore_errors=True)
        if made.exists():
            raise StoreError(
                f"[store] {made} exists already, {describe(made)}: another job uses this folder, "
                "or one that crashed left it behind; remove it, or give the job another folder"
            ) from None
        raise StoreError(f"[store] cannot create {made}: {error.strerror or error}") from error


def check_owner(made: Path, proof: str, timeout: float) -> None:
    """Wait for the sub-folder; StoreError unless it was made with our token."""
    for _ in naps(timeout):
        owner = read_owner(made)
        if owner is not None:
            break
    else:
        raise DistTimeoutError(
            f"[store] gave up after {timeout:g} s waiting for {made}, which rank 0 makes: it has "
            "not started, or sees another file system"
        )
    if not hmac.compare_digest(owner.get("proof", ""), proof):
        raise StoreError(
            f"[store] {made}, {describe(made)}, has another token than this process: it belongs "
            "to another job, or FL_DIST_TOKEN differs between the ranks"
        )


def read_owner(made: Path) -> dict[str, str] | None:
    """What the owner wrote; None where there is nothing yet, StoreError where it is damaged."""
    try:
        owner = json.loads((made / OWNER).read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise StoreError(f"[store] {made / OWNER} cannot be read: {error}") from error
    return owner if isinstance(owner, dict) else {}


def describe(made: Path) -> str:
    """Who made the sub-folder, in words."""
    owner = read_owner(made) or {}
    return "made by process {} on {} at {}".format(
        *(owner.get(name, "?") for name in ("pid", "host", "since"))
    )
