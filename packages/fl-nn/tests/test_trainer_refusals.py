"""What a Trainer refuses where it is given, and the call that has nothing to do."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

import fl_data as data
import fl_nn as nn
import fl_tensor as ft
from fl_nn import TrainingError


def batches() -> list[Any]:
    return [(ft.ones((4, 3)), ft.ones((4, 2)))] * 2


def trainer(**options: Any) -> nn.Trainer:
    model = nn.Linear(3, 2)
    return nn.Trainer(model, nn.SGD(model.parameters(), lr=0.1), nn.mse, progress=False, **options)


@pytest.mark.defect("N15", "V19", "item 1")
def test_an_optimizer_of_another_model_is_refused() -> None:
    model, other = nn.Linear(3, 2), nn.Linear(3, 2)
    with pytest.raises(TrainingError, match=r"2 parameters.*Linear.*model\.parameters\(\)"):
        nn.Trainer(model, nn.SGD(other.parameters(), lr=0.1), nn.mse, progress=False)


def test_a_part_of_the_model_and_the_parameters_of_a_loss_are_enough() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            self.scale = nn.Parameter(ft.ones(()))

        def forward(self, output: Any, target: Any) -> Any:
            return nn.mse(output * self.scale, target)

    model, loss = nn.Linear(3, 2), Scaled()
    nn.Trainer(model, nn.SGD([model.bias], lr=0.1), nn.mse, progress=False)
    run = nn.Trainer(model, nn.SGD(loss.parameters(), lr=0.1), loss, progress=False)
    run.fit(batches(), epochs=1)
    assert loss.scale.item() != 1.0


@pytest.mark.defect("item 10")
@pytest.mark.parametrize("part", ["model", "optimizer", "loss"])
def test_parts_of_another_kind_are_refused(part: str) -> None:
    model = nn.Linear(3, 2)
    parts = {"model": model, "optimizer": nn.SGD(model.parameters(), lr=0.1), "loss": nn.mse}
    with pytest.raises(TrainingError, match=f"{part} is a int: give"):
        nn.Trainer(**{**parts, part: 3}, progress=False)


@pytest.mark.defect("V19", "item 10")
@pytest.mark.parametrize("epochs", [-1, 1.5, "3", None, True])
def test_numbers_of_epochs_without_sense_are_refused(epochs: Any) -> None:
    run = trainer()
    with pytest.raises(TrainingError, match=r"fit\(epochs=.*whole number"):
        run.fit(batches(), epochs=epochs)
    assert run.step == 0


@pytest.mark.defect("N13")
def test_fit_again_with_as_many_epochs_warns_of_what_they_count() -> None:
    run = trainer()
    run.fit(batches(), epochs=3)
    with pytest.warns(nn.TrainingWarning, match=r"all epochs.*3 are done.*give epochs=6"):
        history = run.fit(batches(), epochs=3)
    assert len(history) == 3 and run.step == 6
    run.fit(batches(), epochs=6)
    assert run.step == 12


def test_fit_of_no_epochs_and_fit_after_resume_are_no_mistakes(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert trainer().fit(batches(), epochs=0) == []
        trainer(out=tmp_path).fit(batches(), epochs=2)
        again = trainer(out=tmp_path)
        again.resume()
        assert len(again.fit(batches(), epochs=2)) == 2


@pytest.mark.defect("item 1")
def test_a_batch_without_samples_is_no_step() -> None:
    run = trainer()
    with pytest.raises(TrainingError, match=r"no samples in epoch 1, batch 2"):
        run.fit([*batches()[:1], (ft.ones((0, 3)), ft.ones((0, 2)))], epochs=1)
    assert run.step == 1


@pytest.mark.defect("item 1")
def test_double_precision_from_numpy_is_found_in_the_first_batch() -> None:
    np = pytest.importorskip("numpy")
    if ft.float64 not in ft.current_backend().dtypes:
        pytest.skip("the backend has no float64")
    samples = data.TensorDataset(ft.asarray(np.ones((4, 3))), ft.ones((4, 2)))
    with pytest.raises(ft.DTypeError, match="astype"):
        trainer().fit(data.Batch(samples, 2), epochs=1)
