"""Image files by arguments, decoded ahead of a network."""

from __future__ import annotations

import itertools
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import fl_tensor as ft
from fl_vision.datasets.folder import image_files
from fl_vision.errors import DataFileError, DataMissingError


def image_paths(command: str, given: Sequence[Path]) -> Iterator[Path]:
    """Files as they are, those below folders in order, and for `-` the lines of standard input."""
    for path in given:
        if str(path) == "-":
            yield from (Path(line.rstrip("\n")) for line in sys.stdin if line.strip())
        elif path.is_dir():
            found = image_files(path)
            if not found:
                raise DataMissingError(f"[{command}] {path}: no image files; give another folder")
            yield from found
        else:
            yield path


def unused_path(folder: Path, image: Path, overwrite: bool = False) -> Path:
    """A PNG in `folder` with the name of an image; with a number where that is there already."""
    out = folder / f"{image.stem}.png"
    for number in range(2, 1 << 20):
        if overwrite or not out.exists():
            break
        out = folder / f"{image.stem}-{number}.png"
    return out


def decoded_batches(
    paths: Iterable[Path],
    read: Callable[[Path], ft.Tensor],
    size: int,
    threads: int,
    bad: list[str],
) -> Iterator[list[tuple[Path, ft.Tensor]]]:
    """Batches of `size` pictures that threads `read`, two batches ahead; the errors of files that
    cannot be read go into `bad`."""
    remaining = iter(paths)
    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[tuple[Path, Future[ft.Tensor]]] = deque()

        def ask(count: int) -> None:
            for path in itertools.islice(remaining, count):
                waiting.append((path, pool.submit(read, path)))

        ask(2 * size if size > 1 else max(1, threads))
        batch: list[tuple[Path, ft.Tensor]] = []
        while waiting:
            path, future = waiting.popleft()
            try:
                batch.append((path, future.result()))
            except (DataFileError, DataMissingError) as error:
                bad.append(str(error))
            ask(1)
            if len(batch) == size:
                yield batch
                batch = []
        if batch:
            yield batch
