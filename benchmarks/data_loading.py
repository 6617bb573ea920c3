"""Samples per second of fl-data beside ``torch.utils.data.DataLoader``: the same files, the same
decoders (Pillow, soundfile), batches of 32, as many workers.

Claim: at least as many as PyTorch at every row; building a batch of 256 small tensors takes at most
3 times as long. Images are JPEG files of 500 x 375: decoded, a
random window of 224 x 224, half of them mirrored, normalised per channel. Audio is 2 s of 16 kHz as
WAV (16 bit) and as FLAC. PyTorch's pipeline crops and mirrors the Pillow picture, as torchvision
does, and normalises in place, which torchvision does not. Its two workers are processes, kept
between the epochs as ours are; ours are two threads or two processes. Each library runs in a
process of its own, and the two take turns: a turn is one epoch. Small samples (rows, streams, the
building of batches) are described in ``_small_samples.py``.

    python benchmarks/data_loading.py [--rounds 9] [--only jpeg] [--json FILE]
"""

from __future__ import annotations

import math
import os
import random
import tempfile
import wave
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import _small_samples as small
from _measure import OneAtATime, Worker, environment, parsed, parser_of, report, serve, take_turns

FILES = ("jpeg", "wav", "flac")
KINDS = (*FILES, *small.KINDS)
#: Of ours, and as many of PyTorch's.
WORKERS = {"none": 0, "threads": 2, "processes": 2}
BATCH = 32
MEAN, DEVIATION = (123.7, 116.3, 103.5), (58.4, 57.1, 57.4)
FOLDER, TINY = "DATA_LOADING_FOLDER", "DATA_LOADING_TINY"


def write_files(folder: Path, tiny: bool) -> None:
    """The files of all kinds, each a folder, in two classes. The same in every run."""
    rng = random.Random(0)
    for kind in FILES:
        for number in range(8 if tiny else 256 if kind == "jpeg" else 512):
            path = folder / kind / f"{number % 2}_{number}.{kind}"
            if kind == "jpeg":  # classes are folders of images, and beginnings of names of audio
                path = path.parent / str(number % 2) / path.name
            path.parent.mkdir(parents=True, exist_ok=True)
            _write_image(path, rng) if kind == "jpeg" else _write_audio(path, rng, tiny)


def _write_image(path: Path, rng: random.Random) -> None:
    from PIL import Image

    size = (500, 375)
    shapes = Image.frombytes("RGB", (25, 19), rng.randbytes(3 * 25 * 19)).resize(size)
    grain = Image.frombytes("L", size, rng.randbytes(size[0] * size[1])).convert("RGB")
    Image.blend(shapes, grain, 0.08).save(path, quality=90)


def _write_audio(path: Path, rng: random.Random, tiny: bool) -> None:
    count, pitch = 1000 if tiny else 32_000, rng.uniform(0.05, 0.2)
    noise = rng.randbytes(count)
    samples = array("h", [int(8000 * math.sin(pitch * i)) + 4 * noise[i] for i in range(count)])
    if path.suffix == ".wav":
        with wave.open(str(path), "wb") as file:
            file.setparams((1, 2, 16_000, count, "NONE", ""))
            file.writeframes(samples.tobytes())
    else:
        import soundfile

        with soundfile.SoundFile(path, "w", 16_000, 1, "PCM_16") as file:
            file.buffer_write(samples, dtype="int16")


def _ours(case: str) -> Callable[[], object]:
    import fl_data as data

    kind, _, workers = case.rpartition("-")
    if kind in small.KINDS:
        return small.ours(kind, WORKERS[workers], TINY in os.environ)
    folder = Path(os.environ[FOLDER]) / kind
    if kind == "jpeg":
        import fl_vision as vision

        crops = vision.RandomCrops(vision.ImageFolder(folder), (224, 224))
        ds: data.Dataset = data.Transform(crops, vision.Normalise(MEAN, DEVIATION), None)
    else:
        import fl_speech as speech

        ds = speech.AudioFolder(folder, "{label}_{index}", suffixes=[f".{kind}"], length=32_000)
    batches = data.Batch(data.Shuffle(ds), BATCH)
    count = {workers: WORKERS[workers]} if WORKERS[workers] else {"threads": 0}
    loader = data.Prefetch(batches, **count)  # type: ignore[arg-type]

    def epoch() -> int:
        loader.set_epoch(loader.epoch + 1)
        return sum(len(y) for x, y in loader)

    return epoch


def _torch(case: str) -> Callable[[], object]:
    import numpy as np
    import torch
    from PIL import Image
    from torch.utils.data import DataLoader, Dataset

    kind, _, workers = case.rpartition("-")
    if kind in small.KINDS:
        return small.torch(kind, WORKERS[workers], TINY in os.environ)
    mean, deviation = (torch.tensor(values).reshape(3, 1, 1) for values in (MEAN, DEVIATION))

    class Files(Dataset):  # type: ignore[misc]
        def __init__(self) -> None:
            self.paths = sorted((Path(os.environ[FOLDER]) / kind).rglob(f"*.{kind}"))
            self.labels = [int(path.name[0]) for path in self.paths]

        def __len__(self) -> int:
            return len(self.paths)

        def __getitem__(self, index: int) -> tuple[Any, int]:
            path = self.paths[index]
            return (image if kind == "jpeg" else audio)(path), self.labels[index]

    def image(path: Path) -> Any:
        with Image.open(path) as file:
            picture = file.convert("RGB")
        top = int(torch.randint(picture.height - 224 + 1, (1,)))
        left = int(torch.randint(picture.width - 224 + 1, (1,)))
        picture = picture.crop((left, top, left + 224, top + 224))
        if torch.rand(1) < 0.5:
            picture = picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        pixels = torch.from_numpy(np.array(picture)).permute(2, 0, 1).contiguous()
        return pixels.to(torch.float32).sub_(mean).div_(deviation)

    def audio(path: Path) -> Any:
        import soundfile

        samples, _ = soundfile.read(path, dtype="float32", always_2d=True)
        return torch.from_numpy(samples.T)

    count = WORKERS[workers]
    loader = DataLoader(
        Files(), BATCH, shuffle=True, num_workers=count, persistent_workers=count > 0
    )
    return lambda: sum(len(y) for x, y in loader)


LOADERS = {"ours": _ours, "torch": _torch}


def main() -> None:
    parser = parser_of(__doc__, rounds=9)
    parser.add_argument("--only", nargs="+", default=KINDS, choices=KINDS, metavar="KIND")
    parser.add_argument("--serve", metavar="LIBRARY")
    given = parsed(parser)
    if given.serve:
        serve(OneAtATime(LOADERS[given.serve]))
        return
    libraries = ["ours"] if given.tiny else ["ours", "torch"]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        write_files(Path(folder), given.tiny)
        for case in [f"{k}-{w}" for k in given.only for w in small.KINDS.get(k, WORKERS)]:
            rows.append(_row(case, libraries, given, folder))
    import fl_tensor as ft

    about = environment("pillow", "soundfile", "numpy", "torch")
    settings = {"backend": ft.current_backend().name, "batch": BATCH, "rounds": given.rounds}
    report(given, about | settings, rows)


def _row(case: str, libraries: list[str], given: Any, folder: str) -> dict[str, Any]:
    kind = case.rpartition("-")[0]
    if kind in small.KINDS:
        count = small.samples(kind, given.tiny)
    else:
        count = len(list(Path(folder, kind).rglob("*.*")))
    settings = {FOLDER: folder} | ({TINY: "1"} if given.tiny else {})
    workers = {name: Worker(name, tiny=given.tiny, **settings) for name in libraries}
    try:
        times = take_turns(workers, case, given.rounds, given.moment)
    finally:
        for worker in workers.values():
            worker.__exit__()
    rates = {name: count / seconds for name, seconds in times.items()}
    row: dict[str, Any] = {"case": case, "ours, samples/s": rates["ours"]}
    if "torch" in rates:
        row |= {"torch, samples/s": rates["torch"], "ours / torch": rates["ours"] / rates["torch"]}
    return row


if __name__ == "__main__":
    main()
