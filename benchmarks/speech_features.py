"""Features of audio beside torchaudio, and how fast a folder of recordings is read and extracted.

Claims: 80 log filters of Kaldi for 1 s and 10 s take at most the time of
`torchaudio.compliance.kaldi.fbank`, and 3,000 recordings of many lengths are read and extracted,
one by one and in batches, 300 times as fast as they play: the spoken digits in FL_TEST_DATA, or a
few tones.
`MelSpectrogram` of torchaudio, which has neither pre-emphasis nor means of frames, is beside it
without a claim. Each library has one thread and a process of its own, and they take turns. Times
are those of the processor. Without torchaudio only our times are printed.

    python benchmarks/speech_features.py [--rounds 15] [--only 10]
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from _measure import Worker, environment, options, report, serve, take_turns
from _peers import installed

RATE, FILTERS, BATCH = 16000, 80, 32
#: Batches are padded to multiples of this, so that a backend sees few shapes.
BUCKET = 2000
BATCHES = f"files in batches of {BATCH}"
SECONDS = (1, 10)


def ours(folder: Path) -> dict[str, Callable[[], object]]:
    import fl_speech as speech
    import fl_tensor as ft
    from fl_speech.features import FeatureExtractor

    extract = FeatureExtractor(speech.FeatureParams.kaldi(filters=FILTERS))
    paths = sorted(folder.glob("*.wav"))
    rate = speech.audio_info(paths[0]).sample_rate
    digits = FeatureExtractor(speech.FeatureParams(sample_rate=rate, filters=40))

    def one_by_one() -> None:
        for path in paths:
            digits(speech.load_audio(path)).numpy()

    def in_batches() -> None:
        for start in range(0, len(paths), BATCH):
            loaded = [
                speech.load_audio(path)[0].numpy()[0] for path in paths[start : start + BATCH]
            ]
            lengths = [len(x) for x in loaded]
            batch = np.zeros((len(loaded), -(-max(lengths) // BUCKET) * BUCKET), np.float32)
            for row, x in zip(batch, loaded, strict=True):
                row[: len(x)] = x
            digits(ft.asarray(batch), lengths)[0].numpy()

    def case(seconds: int) -> Callable[[], object]:
        x = ft.asarray(signal(seconds))
        return lambda: extract(x).numpy()

    cases: dict[str, Callable[[], object]] = {f"{s}s": case(s) for s in SECONDS}
    return cases | {"one-by-one": one_by_one, "in-batches": in_batches}


def torchaudio_cases(name: str) -> dict[str, Callable[[], object]]:
    import torch
    from torchaudio import transforms
    from torchaudio.compliance import kaldi

    torch.set_num_threads(1)
    mel = transforms.MelSpectrogram(RATE, n_fft=512, win_length=400, hop_length=160, n_mels=FILTERS)

    def case(seconds: int) -> Callable[[], object]:
        x = torch.from_numpy(signal(seconds))[None]
        if name == "MelSpectrogram":
            return lambda: (mel(x) + 1e-6).log()
        return lambda: kaldi.fbank(x * 32768.0, num_mel_bins=FILTERS)

    return {f"{s}s": case(s) for s in SECONDS}


def signal(seconds: int) -> np.ndarray:
    return (np.random.default_rng(0).standard_normal(seconds * RATE) * 0.1).astype(np.float32)


@contextmanager
def recordings(tiny: bool) -> Iterator[Path]:
    """The spoken digits, or a few tones of many lengths."""
    data = os.environ.get("FL_TEST_DATA")
    if data and not tiny:
        yield Path(data, "fsdd", "recordings")
        return
    import soundfile

    with tempfile.TemporaryDirectory() as folder:
        for i in range(8 if tiny else 400):
            x = np.sin(np.arange(1500 + 97 * (i % 60)) * 0.3) * 0.5
            soundfile.write(Path(folder, f"{i}.wav"), x, 8000)
        yield Path(folder)


def main() -> None:
    given = options(__doc__)
    with ExitStack() as stack:
        if given.serve:
            folder = Path(os.environ["FL_RECORDINGS"])
            if given.serve in ("fbank", "MelSpectrogram"):
                cases = torchaudio_cases(given.serve)
            else:
                import fl_tensor as ft

                stack.enter_context(ft.use(given.serve))
                cases = ours(folder)
            serve(cases, clock=time.process_time)
            return
        folder = stack.enter_context(recordings(given.tiny))
        names = ["numpy", *(["jit"] if installed("fl_jit") else [])]
        own = list(names)
        if installed("torchaudio") and not given.tiny:
            names += ["fbank", "MelSpectrogram"]
        workers = {
            name: stack.enter_context(Worker(name, tiny=given.tiny, FL_RECORDINGS=str(folder)))
            for name in names
        }
        rows: list[dict[str, Any]] = []
        for seconds in SECONDS:
            times = take_turns(workers, f"{seconds}s", given.rounds, given.moment)
            row: dict[str, Any] = {"case": f"{seconds} s, 80 filters"}
            row |= {f"{name}, ms": 1e3 * spent for name, spent in times.items()}
            for peer in names[len(own) :]:
                row |= {f"{peer} / {name}": times[peer] / times[name] for name in own}
            rows.append(row)
        audio = seconds_of(folder)
        for case, name_of in (("one-by-one", "files one by one"), ("in-batches", BATCHES)):
            row = {"case": name_of}
            for name in own:
                spent = workers[name].timed(case, 1)  # compilation included
                row[f"{name}, ms"] = 1e3 * spent
                row[f"real time / {name}"] = audio / spent
            rows.append(row)
    about = environment("numpy", "torch", "torchaudio", "fl-speech", "fl-jit")
    report(given, about, rows)


def seconds_of(folder: Path) -> float:
    import fl_speech as speech

    return sum(speech.audio_info(path).seconds for path in folder.glob("*.wav"))


if __name__ == "__main__":
    main()
