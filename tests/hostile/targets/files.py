"""Readers and writers of files: their paths, and files whose content is damaged."""

from __future__ import annotations

import io
import struct
import tempfile
import wave
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fl_data as data
import fl_nn as nn
import fl_speech as speech
import fl_tensor as ft
import fl_text as text
import fl_vision as vision
from bad_values import Bad
from cases import Target
from targets.making import At, target, x


def _written(name: str, write: Callable[[Path], Any]) -> bytes:
    """The content of a file that ``write`` makes."""
    with tempfile.TemporaryDirectory(prefix="fl-hostile-") as folder:
        path = Path(folder) / name
        write(path)
        return path.read_bytes()


def _wav() -> bytes:
    made = io.BytesIO()
    with wave.open(made, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(8000)
        sound.writeframes(bytes(2 * 800))
    return made.getvalue()


def _png() -> bytes:
    from PIL import Image

    made = io.BytesIO()
    Image.new("RGB", (8, 8), (10, 200, 30)).save(made, "PNG")
    return made.getvalue()


def _blob() -> bytes:
    def write(path: Path) -> None:
        with data.FileBlob(path, "w") as blob:
            blob.add((x(),))

    return _written("blob", write)


def model() -> Any:
    return nn.Linear(3, 4)


def _trained() -> Any:
    return text.Tokenizer.train(["some words and more words"] * 3, "bpe", 300)


WEIGHTS = _written("w.safetensors", lambda path: nn.save_weights(path, model()))
CHECKPOINT = _written("c.safetensors", lambda path: nn.save_checkpoint(path, model()))
GRAPH = _written("g.flgraph", lambda path: nn.compile(model()).save(path, x()))
IDX = struct.pack(">BBBBI", 0, 0, 8, 1, 6) + bytes(6)


def damaged(name: str, content: bytes) -> list[Bad]:
    """Files of this name whose content cannot be right."""
    half = len(content) // 2
    kinds = {
        "an empty file": b"",
        "a file of zeros": bytes(len(content)),
        "half a file": content[:half],
        "a file without its last byte": content[:-1],
        "text": b"This is no such file.\n" * 9,
        "random bytes": bytes((i * 7919 + 13) % 251 for i in range(len(content))),
        "a wrong beginning": b"\xff" * 8 + content[8:],
        "a huge length": b"\xff\xff\xff\xff\xff\xff\xff\x7f" + content[8:],
        "deeply nested JSON": struct.pack("<Q", 100_000) + b"[" * 100_000,
        "one byte": b"{",
    }

    def bad(label: str, wrong: bytes) -> Bad:
        return Bad(label, At(name, wrong).make)

    return [bad(label, wrong) for label, wrong in kinds.items()]


def read_blob(path: Any) -> Any:
    blob = data.FileBlob(path)
    return [blob[i] for i in range(len(blob))]


def loaded(path: Any) -> Any:
    return nn.load_weights(path, model())


TARGETS: list[Target] = [
    target(
        "nn.load_weights",
        {"path": At("w.safetensors", WEIGHTS), "model": model},
        path="input_path",
        model="module",
    ),
    target(
        "nn.load_weights of a damaged file",
        {"path": At("w.safetensors", WEIGHTS)},
        call=loaded,
        path=damaged("w.safetensors", WEIGHTS),
    ),
    target("nn.open_tensors", {"path": At("w.safetensors", WEIGHTS)}, path="input_path"),
    target("nn.load_checkpoint", {"path": At("c.safetensors", CHECKPOINT)}, path="input_path"),
    target(
        "nn.load_checkpoint of a damaged file",
        {"path": At("c.safetensors", CHECKPOINT)},
        call=nn.load_checkpoint,
        path=damaged("c.safetensors", CHECKPOINT),
    ),
    target(
        "nn.save_weights",
        {"path": At("w.safetensors"), "model": model},
        path="output_path",
        model="module",
        shard_size="positive",
    ),
    target(
        "nn.save_checkpoint",
        {"path": At("c.safetensors"), "model": model},
        path="output_path",
        model="module",
        optimizer="module",
        position="mapping",
        metadata="mapping",
    ),
    target(
        "nn.save_tensors",
        {"path": At("t.safetensors"), "tensors": lambda: {"a": x()}, "metadata": {}},
        path="output_path",
        tensors="mapping",
        metadata="mapping",
    ),
    target(
        "ft.load_graph",
        {"path": At("g.flgraph", GRAPH)},
        path="input_path",
        backend="choice",
    ),
    target(
        "ft.load_graph of a damaged file",
        {"path": At("g.flgraph", GRAPH)},
        call=ft.load_graph,
        path=damaged("g.flgraph", GRAPH),
    ),
    target(
        "ft.compile saved",
        {"path": At("g.flgraph")},
        call=lambda path: ft.compile(lambda x: x + 1).save(path, x()),
        path="output_path",
    ),
    target("nn.JsonLog", {"path": At("log")}, path="no_path"),
    target("nn.run_folder", {"path": At("run")}, path="no_path", call=lambda path: _entered(path)),
    target(
        "nn.build_sequential",
        {"source": "L NFEAT NLABEL", "n_features": 3, "n_labels": 4},
        source="no_path",
        n_features="positive",
    ),
    target(
        "data.FileBlob",
        {"path": At("new"), "mode": "w"},
        path="output_path",
        mode="choice",
        call=lambda path, mode: data.FileBlob(path, mode).close(),
    ),
    target("data.FileBlob read", {"path": At("blob", _blob())}, path="input_path", call=read_blob),
    target(
        "data.FileBlob of a damaged file",
        {"path": At("blob", _blob())},
        call=read_blob,
        path=damaged("blob", _blob()),
    ),
    target(
        "speech.load_audio",
        {"path": At("a.wav", _wav())},
        path="input_path",
        start="count",
        samples="positive",
        sample_rate="positive",
    ),
    target(
        "speech.load_audio of a damaged file",
        {"path": At("a.wav", _wav())},
        call=speech.load_audio,
        path=damaged("a.wav", _wav()),
    ),
    target("speech.audio_info", {"path": At("a.wav", _wav())}, path="input_path"),
    target("speech.AudioFolder", {"root": At("sounds", {"a_b_0.wav": _wav()})}, root="no_path"),
    target(
        "speech.FeatureParams",
        {},
        sample_rate="positive",
        frame_ms="rate",
        stride_ms="rate",
        filters="positive",
        window="choice",
        mel_floor="rate",
    ),
    target(
        "speech.FeatureParams absurd",
        {},
        filters="absurd",
        call=lambda **o: speech.LogMel(speech.FeatureParams(**o))(ft.zeros(8000)),
    ),
    target(
        "speech.log_mel",
        {"x": lambda: ft.zeros(8000), "params": speech.FeatureParams()},
        x="required_array",
        params="module",
    ),
    target("speech.LogMel", {}, params="module"),
    target("speech.window", {"name": "hann", "size": 8}, name="choice", size="positive"),
    target(
        "speech.mel_filterbank",
        {"filters": 4, "n_fft": 64, "sample_rate": 8000},
        filters="positive",
        n_fft="positive",
        sample_rate="positive",
        low_hz="rate",
    ),
    target("speech.dft_matrix", {"size": 8, "n_fft": 8}, size="positive", n_fft="positive"),
    target(
        "speech.frames",
        {"x": lambda: x(8), "size": 4, "stride": 2},
        x="required_array",
        size="positive",
        stride="positive",
    ),
    target(
        "speech.pre_emphasis",
        {"x": lambda: x(8), "coefficient": 0.9},
        x="required_array",
        coefficient="number",
    ),
    target(
        "speech.power_spectrum",
        {"x": lambda: x(2, 8), "matrix": lambda: speech.dft_matrix(8, 8)},
        x="required_array",
        matrix="required_array",
    ),
    target(
        "speech.fit_length", {"x": lambda: x(8), "length": 4}, x="required_array", length="positive"
    ),
    target("speech.hz_to_mel", {"hz": 100.0}, hz="rate"),
    target("speech.mel_to_hz", {"mel": 100.0}, mel="rate"),
    target(
        "vision.read_image",
        {"path": At("i.png", _png())},
        path="input_path",
        size="shape",
        max_pixels="positive",
    ),
    target(
        "vision.read_image of a damaged file",
        {"path": At("i.png", _png())},
        call=vision.read_image,
        path=damaged("i.png", _png()),
    ),
    target(
        "vision.open_image",
        {"path": At("i.png", _png())},
        path="input_path",
        call=lambda path: _opened(path),
    ),
    target("vision.read_idx", {"path": At("i.idx", IDX)}, path="input_path", max_bytes="positive"),
    target(
        "vision.read_idx of a damaged file",
        {"path": At("i.idx", IDX)},
        call=vision.read_idx,
        path=[bad for bad in damaged("i.idx", IDX) if bad.label != "a huge length"],
    ),
    target(
        "vision.ImageFolder",
        {"root": At("pictures", {"cat/1.png": _png(), "dog/1.png": _png()})},
        root="no_path",
    ),
    target("vision.Normalise", {"mean": (0.5,), "std": (0.5,)}, mean="choice", std="choice"),
    target("vision.cnn", {}, image_shape="shape", classes="positive", dropout="fraction"),
    target("vision.load_dataset", {"name": "digits"}, name="choice"),
    target(
        "text.TextFiles",
        {"0": At("a.txt", b"some words\n")},
        _0="input_path",
        max_bytes="positive",
        call=lambda *paths, **o: list(text.TextFiles(*paths, **o)),
    ),
    target(
        "text.TextFiles of random bytes",
        {"0": At("a.txt", b"some words\n")},
        _0=[Bad("no UTF-8", At("a.txt", b"\xff\xfe\x00\x81" * 9).make)],
        call=lambda path: list(text.TextFiles(path)),
    ),
    target("text.SpecialTokens", {}, pad="string", unk="string"),
    target(
        "text.Tokenizer loaded",
        {"0": At("t.json", _written("t.json", lambda path: _trained().save(path)))},
        _0="input_path",
        call=text.Tokenizer.load,
    ),
]
UNTRIED: dict[str, str] = {
    "nn.Checkpoint": "what load_checkpoint returns",
    "nn.TensorBoard": "needs an extra",
    "speech.AudioInfo": "what audio_info returns",
    "vision.DataOptions": "a record of options; load_dataset checks them",
    "vision.ImageData": "what load_dataset returns",
    "vision.RandomCrops": "reads the files of an ImageFolder",
    "vision.dataset_names": "takes no arguments",
    "vision.pixels_of": "takes an image that Pillow has opened",
}


def _entered(path: Any) -> None:
    with nn.run_folder(path):
        pass


def _opened(path: Any) -> Any:
    with vision.open_image(path) as image:
        return image.size
