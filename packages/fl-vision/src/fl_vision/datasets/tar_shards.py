"""Images in tar archives, in the layout of WebDataset: `key.jpg` and `key.cls` for each image.

An archive is read by place: its headers are read once, and a sample when it is asked for. So a pass
that goes on after a stop opens one archive, and reads no sample twice.
"""

from __future__ import annotations

import io
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fl_tensor as ft
from fl_data import Dataset, ShardStream, check_count, check_index
from fl_tensor.annotations import check, checked
from fl_tensor.arguments import seed_of
from fl_tensor.files import open_regular, replacing
from fl_vision.datasets.labelled_files import contents, require_labels
from fl_vision.errors import DataFileError, DataMissingError, UsageError
from fl_vision.images import MAX_FILE_BYTES, SUFFIXES, decode_image, require_size

if TYPE_CHECKING:
    import tarfile

_BLOCK = 512
_MAX_LABEL = 1 << 20
Place = tuple[int, int]


@checked
def write_image_shards(
    data: Any, folder: str | Path, *, per_shard: int = 1000, seed: int | None = None
) -> list[Path]:
    """Put the image files of `data`, an `ImageFolder` or `ImageNet`, into archives
    `shard-000000.tar` of `per_shard` images each, for `ImageShards`; their paths.

    Images stay encoded. With a `seed` they are in a random order that depends on it alone, so that
    neighbours are of different classes; without, in the order of `data`. `classes.txt` beside them
    has a line for each class. The archives depend on the images alone, not on the time.

    Raises `UsageError` for other data, `DataFileError` and `DataMissingError` for files that cannot
    be read, and `fl_tensor.FileError` where nothing can be written.
    """
    check_count(per_shard, "per_shard", "write_image_shards", least=1)
    paths, labels, classes = require_labels(data, "write_image_shards")
    require_names(classes, "write_image_shards")
    if seed is not None:
        order = ft.Generator(seed_of("write_image_shards", seed)).permutation(len(paths)).tolist()
        paths, labels = [paths[i] for i in order], [labels[i] for i in order]
    made = (
        {path.suffix.lower()[1:]: content, "cls": str(label).encode()}
        for path, content, label in contents(paths, labels)
    )
    return write_archives(made, Path(folder), per_shard, classes)


def require_names(classes: Sequence[str], where: str) -> None:
    """Raise `UsageError` for a class that a line cannot hold."""
    for name in classes:
        if "\n" in name:
            raise UsageError(f"[{where}] the class {name!r} has a line break; rename it")


def write_archives(
    samples: Iterable[Mapping[str, bytes]], folder: Path, per_shard: int, classes: Sequence[str]
) -> list[Path]:
    """Write contents of files by suffix, `per_shard` samples an archive, and `classes.txt` beside
    the archives; their paths."""
    import tarfile

    written: list[Path] = []
    remaining = iter(enumerate(samples))
    first = next(remaining, None)
    while first is not None:
        shard = folder / f"shard-{len(written):06}.tar"
        with (
            replacing(shard, parents=True) as file,
            tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT) as archive,
        ):
            for number, sample in itertools.chain(
                [first], itertools.islice(remaining, per_shard - 1)
            ):
                for suffix, content in sample.items():
                    _add(archive, f"{number:08}.{suffix}", content)
        written.append(shard)
        first = next(remaining, None)
    with replacing(folder / "classes.txt", parents=True) as file:
        file.write("".join(f"{name}\n" for name in classes).encode())
    return written


class TarSamples(Dataset):
    """The samples of one archive: dicts with `"key"` and, by suffix, the content of each file.

    Files of one key follow each other; the key is the name up to the first dot. Folders in the
    archive are skipped. Raises `DataMissingError` for a missing archive, and `DataFileError` for
    one that is compressed, damaged, or cut off, for links, and for a key with one suffix twice.
    """

    def __init__(self, path: str | Path) -> None:
        import tarfile

        check("TarSamples", TarSamples.__init__, (self, path), {})
        self.path = Path(path)
        self._keys: list[str] = []
        self._files: list[dict[str, Place]] = []
        try:
            with open_regular(self.path) as file:
                self._index(file)
        except FileNotFoundError:
            raise DataMissingError(f"[tar] {path}: no such file; check the path") from None
        except DataFileError:
            raise
        except (tarfile.TarError, ValueError, OSError, EOFError) as error:
            problem = f"damaged, cut off, or no plain tar archive ({error})"
            raise self._error(problem, "get the archive again; unpack a compressed one") from None

        if not self._keys:
            raise self._error("holds no files", "write samples into it, or leave it out")

    def __len__(self) -> int:
        return len(self._keys)

    def __getitem__(self, index: int) -> dict[str, Any]:
        number = check_index(index, len(self), "TarSamples")
        found: dict[str, Any] = {"key": self._keys[number]}
        with open_regular(self.path) as file:
            for suffix, (start, size) in self._files[number].items():
                file.seek(start)
                found[suffix] = content = file.read(size)
                if len(content) != size:
                    raise self._error("has become shorter", "get the archive again")
        return found

    def _index(self, file: Any) -> None:
        import tarfile

        size = file.seek(0, io.SEEK_END)
        file.seek(0)
        archive = tarfile.open(fileobj=file, mode="r:")
        before = -1
        while (member := archive.next()) is not None:
            end = member.offset_data + member.size
            if member.offset <= before or member.size < 0 or end > size:
                raise ValueError(f"{member.name!r} does not lie in the file")
            before = member.offset
            archive.members.clear()  # type: ignore[attr-defined]
            if member.isdir():
                continue
            if not member.isreg() or member.sparse is not None:
                raise self._error(f"{member.name!r} is no file", "write files alone")
            self._add(member)
        file.seek(archive.offset)
        if file.read(_BLOCK) != bytes(_BLOCK):  # tarfile ends quietly at a damaged header
            raise ValueError(f"no header and no end mark at byte {archive.offset}")

    def _add(self, member: tarfile.TarInfo) -> None:
        folder, slash, name = member.name.rpartition("/")
        stem, _, suffix = name.partition(".")
        key = f"{folder}{slash}{stem}"
        if not self._keys or self._keys[-1] != key:
            self._keys.append(key)
            self._files.append({})
        if suffix in self._files[-1]:
            raise self._error(f"{member.name!r} comes twice", "give every sample its own key")
        most = _MAX_LABEL if suffix in ("cls", "json") else MAX_FILE_BYTES
        if member.size > most:
            problem = f"{member.name!r} has {member.size} bytes, the limit is {most}"
            raise self._error(problem, "make it smaller")
        self._files[-1][suffix] = (member.offset_data, member.size)

    def _error(self, problem: str, remedy: str) -> DataFileError:
        return DataFileError("tar", self.path, problem, remedy)


class ImageShard(Dataset):
    """Samples `(image (C, H, W) uint8, label)` of one archive: see `ImageShards`."""

    def __init__(self, path: str | Path, classes: int | None = None, **options: Any) -> None:
        self._samples, self._classes, self._options = TarSamples(path), classes, options

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, index: int) -> tuple[ft.Tensor, ft.Tensor]:
        sample = self._samples[index]
        where = f"{self._samples.path}: {sample['key']}"
        for suffix in sample:
            if f".{suffix.lower()}" in SUFFIXES:
                image = decode_image(sample[suffix], name=f"{where}.{suffix}", **self._options)
                return image, ft.asarray(self._label(sample, where), dtype=ft.int64)
        raise DataFileError("tar", where, f"no image among {', '.join(sample)}", "add one")

    def _label(self, sample: dict[str, Any], where: str) -> int:
        try:
            if "cls" in sample:
                label = int(sample["cls"])
            else:
                label = json.loads(sample["json"])["label"]
        except (ValueError, LookupError, TypeError, RecursionError):
            label = None
        if type(label) is not int or not 0 <= label < (self._classes or 2**63):
            known = "" if self._classes is None else f" below {self._classes}"
            raise DataFileError(
                "tar", where, "no label", f"write .cls with a number{known}, or .json with 'label'"
            )
        return label


class ImageShards(ShardStream):
    """A stream of samples `(image (C, H, W) uint8, label)` of tar archives, one after the other.

    For each image an archive has a file of a known suffix (`.jpg`, `.png`, ...) and the label:
    `.cls` with a number, or `.json` with `{"label": number}`. Other files of that key are ignored.
    `shuffle`, `seed`, `rank` and `world_size` are those of `fl_data.ShardStream`: archives come in
    another order in each epoch, and ranks share them. `stream.shuffle(n)` shuffles neighbours. A
    resumed pass goes on at the exact sample, at once. `size`, `grayscale` and `upright` are those
    of `read_image`; labels are below `classes`, if that is given.

    Raises `UsageError` for no paths; at the sample `DataMissingError` and `DataFileError` as
    `TarSamples`, and for a sample without image or label.
    """

    def __init__(
        self,
        paths: Sequence[str | Path],
        *,
        size: tuple[int, int] | None = None,
        grayscale: bool = False,
        upright: bool = True,
        classes: int | None = None,
        shuffle: bool = True,
        seed: int | None = None,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        if isinstance(paths, str | Path) or not paths:
            raise UsageError(f"[ImageShards] {paths!r}: give a list of archives, at least one")
        if size is not None:
            require_size(size)
        if classes is not None:
            check_count(classes, "classes", "ImageShards", least=1)
        make = partial(ImageShard, classes=classes, size=size, grayscale=grayscale, upright=upright)
        super().__init__(
            list(paths), make, shuffle=shuffle, seed=seed, rank=rank, world_size=world_size
        )


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    import tarfile

    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))
