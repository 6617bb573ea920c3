"""A model that knows nothing of PyTorch trains on it, step by step as on the reference backend."""

import json
from pathlib import Path

from fl_vision.cli import main

EPOCHS = 4


def train(backend: str, out: Path) -> tuple[list[float], float]:
    """Losses of the first steps, and the accuracy on the test set in percent at the end."""
    options = ["--epochs", str(EPOCHS), "--backend", backend, "--out", str(out), "--quiet"]
    assert main(["train", "--dataset", "digits", *options]) == 0
    log = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    assert log[0]["backend"] == backend
    losses = [record["loss"] for record in log if record["event"] == "step"]
    epochs = [record["valid_accuracy"] for record in log if record["event"] == "epoch"]
    return losses[:20], epochs[-1]


def test_digits_network(tmp_path: Path) -> None:
    ours, accuracy = train("torch", tmp_path / "torch")
    theirs, reference = train("numpy", tmp_path / "numpy")
    assert max(abs(a - b) for a, b in zip(ours, theirs, strict=True)) < 1e-4
    assert accuracy > 95.0
    assert abs(accuracy - reference) <= 1.0
