"""User files: only regular ones are read, and writes are atomic.

A FIFO would block, a device may have no end, and neither must be replaced by a file. Failures raise
``FileError``. As an ``OSError`` it has a reason in ``strerror``, for readers that raise another
error.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, TypeAlias

from fl_tensor.errors import FileError

__all__ = [
    "found",
    "free_bytes",
    "open_regular",
    "replacing",
    "require_regular",
    "target_of",
    "unwritable",
]

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_NO_FOLDER = (errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EEXIST)
AnyPath: TypeAlias = "str | os.PathLike[str]"

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def require_regular(path: AnyPath, about: os.stat_result) -> None:
    """Raises FileError unless ``about`` is of a regular file."""
    if not stat.S_ISREG(about.st_mode):
        kind = _KINDS.get(stat.S_IFMT(about.st_mode), "something else")
        number = errno.EISDIR if stat.S_ISDIR(about.st_mode) else errno.EINVAL
        raise FileError(number, f"it is {kind}, not a regular file", os.fspath(path))


def open_regular(path: AnyPath, buffering: int = -1) -> BinaryIO:
    """A regular file, to read its bytes. Raises FileError for what is none, and OSError for one
    that is missing or may not be read."""
    require_regular(path, found(path))
    return open(path, "rb", buffering)


def found(path: AnyPath) -> os.stat_result:
    """``os.stat``. Raises FileError for what can be no path, OSError for what is not there."""
    try:
        return os.stat(path)
    except ValueError as error:  # a NUL
        raise FileError(errno.EINVAL, f"it is no path ({error})", os.fspath(path)) from error
    except OSError as error:
        if error.errno not in (errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR):
            raise
        raise FileError(error.errno, f"it is no path ({error.strerror})", path) from error


def target_of(path: AnyPath) -> Path:
    """The file that is to be written for ``path``: where it is a link, what that leads to, which
    need not exist. Raises FileError for what is no regular file."""
    try:
        target = Path(os.path.realpath(path))
        require_regular(path, os.stat(target))
    except FileNotFoundError:
        pass
    except ValueError as error:
        raise FileError(errno.EINVAL, f"it is no path ({error})", os.fspath(path)) from error
    except FileError:
        raise
    except OSError as error:
        raise unwritable(path, error) from error
    return target


def unwritable(path: AnyPath, error: OSError, size: int | None = None) -> FileError:
    """What to raise where ``path`` cannot be written: the reason, the ``size`` in bytes that the
    file would have, if it is known, and the way out."""
    said = f"cannot be written ({error.strerror or error})"
    if error.errno in _NO_ROOM:
        facts = [] if size is None else [f"it takes {_megabytes(size)}"]
        free = free_bytes(path)
        if error.errno == errno.ENOSPC and free is not None:
            facts.append(f"{_megabytes(free)} are free")
        said += f": {' and '.join(facts)}" if facts else ""
        said += "; remove files there, or give a folder on another disk"
    elif error.errno in _NO_FOLDER:
        said += "; give a folder to write to"
    return FileError(error.errno or errno.EIO, said, os.fspath(path))


def free_bytes(path: AnyPath) -> int | None:
    """What is free where ``path`` is, or would be; None where the system does not say. Quotas are
    not looked at."""
    place = Path(os.path.abspath(os.path.realpath(path)))
    for folder in (place, *place.parents):
        with suppress(FileNotFoundError, NotADirectoryError):
            try:
                return shutil.disk_usage(folder).free
            except PermissionError:
                return None
    return None


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"


@contextmanager
def replacing(path: AnyPath, parents: bool = False, size: int | None = None) -> Iterator[BinaryIO]:
    """A file to write, which takes the place of ``path`` when the block ends without an error. A
    link stays, and the file that it leads to is replaced. ``parents``: make missing folders.
    ``size``: in bytes, for the error, where it is known beforehand.

    The bytes reach the disk under another name before the rename, which is atomic, and the rename
    reaches it before the block is left: killed at any moment, ``path`` is whole. Raises FileError
    for what is no regular file, or cannot be written.
    """
    target = target_of(path)
    partial = target.with_name(target.name + ".partial")
    try:
        if parents:
            target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(partial, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, target)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        _sync_folder(target.parent)
    except FileError:
        raise
    except OSError as error:
        raise unwritable(path, error, size) from error


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":  # elsewhere a folder cannot be opened, and the rename is durable enough
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
