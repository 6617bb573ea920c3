"""The folder of a run: one process at a time writes to it, and no run replaces another unasked."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import time
import warnings
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from fl_nn.errors import RunFolderError, TrainingWarning
from fl_nn.training.free_space import check_free_space, checkpoint_size
from fl_tensor.annotations import checked
from fl_tensor.files import target_of, unwritable

if TYPE_CHECKING:
    from fl_nn.checkpoint import Part

CHECKPOINT, LOG, LOCK = "checkpoint.safetensors", "log.jsonl", "run.lock"
BEST = "best-*.safetensors"
#: How long to wait for the owner of a lock to write who it is, in seconds.
_WRITTEN_WITHIN = 1.0
_NOT_OFFERED = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK)


class _Lock:
    """`flock` on a file of the folder, which the system ends with the process."""

    def __init__(self, folder: Path) -> None:
        path = folder / LOCK
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self.file: BinaryIO | None = open(target_of(path), "a+b", buffering=0)
        except OSError as error:
            raise unwritable(path, error) from error
        try:
            _lock(self.file, folder)
            self.file.truncate(0)
            self.file.write(f"{os.getpid()} {socket.gethostname()}\n".encode())
        except OSError as error:
            self.close()
            raise unwritable(path, error) from error
        except BaseException:
            self.close()
            raise
        _LOCKS.add(self)

    def release(self) -> None:
        """Give the folder back. The file stays: who waits for a lock may have opened it."""
        if self.file is not None:
            self.file.truncate(0)
            with suppress(OSError):  # no locks there
                fcntl.flock(self.file, fcntl.LOCK_UN)
        self.close()

    def close(self) -> None:
        if self.file is not None:
            self.file.close()
            self.file = None


_LOCKS: weakref.WeakSet[_Lock] = weakref.WeakSet()
_HELD: ContextVar[Mapping[Path, _Lock] | None] = ContextVar("fl_nn_run_folders", default=None)


def _not_in_children() -> None:
    # A lock belongs to the open file, which a fork copies: a worker would keep it when its parent
    # is killed.
    for lock in list(_LOCKS):
        lock.close()


os.register_at_fork(after_in_child=_not_in_children)


@contextmanager
@checked
def run_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Inside the block the folder of a run belongs to this process; it is made if it is missing.
    Gives its path.

    `Trainer.fit` and `Trainer.save` enter it. Enter it yourself around what else writes there, such
    as pictures: an inner block shares an outer one of the same context. The lock is `flock`'s on
    the file `run.lock`, and ends with the process, however that ends.

    Raises RunFolderError, with the number of the process that writes there, and FileError where the
    folder cannot be written.
    """
    folder, held = Path(path), _HELD.get() or {}
    key = target_of(folder / LOCK).parent
    outer = held.get(key)
    if outer is not None and outer.file is not None:
        yield folder
        return
    lock = _Lock(folder)
    token = _HELD.set({**held, key: lock})
    try:
        yield folder
    finally:
        _HELD.reset(token)
        lock.release()


class _FileIdentity(NamedTuple):
    """What tells a checkpoint from others of its name: each save makes a new file."""

    device: int
    inode: int
    size: int
    changed: int


class RunFolder:
    """What a Trainer knows of its folder: which checkpoint there is of its own run.

    path        None: there is no folder, or other ranks write there; nothing below does anything
    overwrite   whether a run that is there already may be replaced
    """

    def __init__(self, path: Path | None, overwrite: bool) -> None:
        self.path, self.overwrite = path, overwrite
        self._known: _FileIdentity | None = None

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Inside the block the folder is this process's. Raises RunFolderError where it holds a
        checkpoint of another run, or a later one of this."""
        if self.path is None:
            yield
            return
        with run_folder(self.path):
            present = _file_identity(self.path)
            if present not in (None, self._known):
                if not self.overwrite or self._known is not None:
                    raise self._taken()
            yield

    @contextmanager
    def saving(self, target: Path) -> Iterator[None]:
        """`target` is written in the block."""
        if self.path is None or target != self.path / CHECKPOINT:
            yield
            return
        with self.writing():
            yield
            self._known = _file_identity(self.path)

    @contextmanager
    def resuming(self, source: Path) -> Iterator[None]:
        """The run goes on from `source`, which is read in the block."""
        seen = None if self.path is None else _file_identity(self.path)
        yield
        if source.parent == self.path:
            self._known = seen

    def begin(self) -> None:
        """A run begins or goes on: checkpoints of another one go."""
        if self.path is not None and self._known is None:
            for old in (self.path / CHECKPOINT, *self.path.glob(BEST)):
                target_of(old).unlink(missing_ok=True)

    def check_free_space(self, *parts: Part) -> None:
        """Raise FileError where the next checkpoint, of these, has no room."""
        if self.path is not None:
            present = _file_identity(self.path)
            size = checkpoint_size(parts) if present is None else present.size
            check_free_space(self.path / CHECKPOINT, size, reserve=present is None)

    def _taken(self) -> RunFolderError:
        if self._known is not None:
            return RunFolderError(
                f"{self.path}: another process went on with this run, or began one, since this "
                "Trainer read or wrote its checkpoint: resume() takes what is there now"
            )
        return RunFolderError(
            f"{self.path}: holds a run already: resume() goes on with it, "
            "Trainer(overwrite=True) begins anew in its place, and another `out` keeps both"
        )


def _file_identity(folder: Path) -> _FileIdentity | None:
    try:
        about = os.stat(folder / CHECKPOINT)
    except FileNotFoundError:
        return None
    return _FileIdentity(about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns)


def _lock(file: BinaryIO, folder: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise RunFolderError(
            f"{folder}: {_owner(file)} writes a run there: wait for its end, stop it, or give "
            "this run another folder"
        ) from None
    except OSError as error:
        if error.errno not in _NOT_OFFERED:
            raise
        warnings.warn(
            f"{folder}: this file system has no locks ({error.strerror}): make sure that no other "
            "process writes a run there",
            TrainingWarning,
            stacklevel=2,
        )


def _owner(file: BinaryIO) -> str:
    """Who has the lock, once it has written that: a killed one may have left its own number."""
    until, host = time.monotonic() + _WRITTEN_WITHIN, socket.gethostname()
    while time.monotonic() < until:
        number, _, where = os.pread(file.fileno(), 1024, 0).decode(errors="replace").partition(" ")
        if where.endswith("\n") and number.isdigit():
            if where.strip() != host:
                return f"process {number} on {where.strip()}"
            if _is_alive(int(number)):
                return f"process {number}" + (" (this one)" if int(number) == os.getpid() else "")
        time.sleep(0.01)
    return "another process"


def _is_alive(number: int) -> bool:
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # of another user
        pass
    return True
