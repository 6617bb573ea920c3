"""Training: it learns, it repeats to the bit, and neither interruption nor ranks change it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import fl_dist as dist
import fl_tensor as ft
from fl_data import Dataset
from fl_nn import CheckpointError, Trainer, load_checkpoint, save_checkpoint
from fl_vision import DataOptions, ImageData, cnn, load_dataset
from fl_vision.classifier import load_classifier
from fl_vision.errors import UsageError
from fl_vision.recipe import Recipe, recipe_for
from fl_vision.training import Output, train_classifier
from fl_vision.training.optimisation import learning_rate

QUICK = Recipe(epochs=2, batch_size=16, lr=4e-3)


@pytest.fixture
def data(tmp_path: Path, write_digits: Callable[..., None]) -> ImageData:
    """60 training and 20 test images of four classes."""
    write_digits("data", "t10k", 80)
    return load_dataset("mnist", DataOptions(data_dir=tmp_path / "data", holdout=20))


def train(data: ImageData, recipe: Recipe, ranks: int = 1, **options: Any) -> list[dict[str, Any]]:
    """The history without the times."""

    def program(communicator: dist.Communicator) -> list[dict[str, Any]]:
        return train_classifier(
            data, recipe, communicator=communicator, progress=False, **options
        ).history

    history = dist.threads.run(ranks, program)[0] if ranks > 1 else program(dist.local())
    return [{name: x for name, x in record.items() if name != "seconds"} for record in history]


def weights(folder: Path) -> dict[str, bytes]:
    model = load_checkpoint(folder / "checkpoint.safetensors").model
    return {name: bytes(tensor.tobytes()) for name, tensor in model.items()}


def test_it_learns(data: ImageData) -> None:
    trained = train_classifier(data, Recipe(epochs=6, batch_size=8, lr=4e-3), progress=False)
    assert trained.history[-1]["train_loss"] < trained.history[0]["train_loss"] / 2
    found = trained.classifier.classify(data.test, batch_size=7)
    assert found.accuracy >= 0.9
    assert found.truth == [k % 4 for k in range(20)]
    assert found.accuracy == pytest.approx(trained.history[-1]["valid_accuracy"] / 100)
    assert len(found.mistakes) == round(20 * (1 - found.accuracy))
    assert all(0.1 <= p <= 1 for p in found.probability)


def test_the_same_recipe_gives_the_same_bits(data: ImageData) -> None:
    first = train(data, QUICK)
    ft.seed(12345)
    state = ft.default_generator().state()
    assert train(data, QUICK) == first
    assert ft.default_generator().state() == state
    assert train(data, Recipe(**{**vars(QUICK), "seed": 1})) != first


def test_prefetching_changes_nothing(data: ImageData) -> None:
    assert train(data, QUICK, prefetch=3) == train(data, QUICK)


def test_shifts_repeat_and_matter(data: ImageData) -> None:
    shifted = Recipe(**{**vars(QUICK), "shift": 1})
    assert train(data, shifted) == train(data, shifted) != train(data, QUICK)


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_resumed_run_ends_with_the_bits_of_a_longer_one(
    data: ImageData, tmp_path: Path, ranks: int
) -> None:
    longer = Recipe(**{**vars(QUICK), "epochs": 4})
    whole = train(data, longer, out=tmp_path / "whole", ranks=ranks)
    train(data, QUICK, out=tmp_path / "parts", ranks=ranks)
    assert train(data, longer, out=tmp_path / "parts", ranks=ranks, resume=True) == whole
    assert weights(tmp_path / "parts") == weights(tmp_path / "whole")


EVERYTHING = Recipe(
    epochs=4, batch_size=8, lr=4e-3, amp=True, ema=0.9, clip=1.0, accumulate=2, patience=3, shift=1
)


@pytest.mark.parametrize("ranks", [1, 2])
def test_with_everything_on_it_learns_and_resumes_to_the_bit(
    data: ImageData, tmp_path: Path, ranks: int
) -> None:
    def run(folder: str, epochs: int, **more: Any) -> list[dict[str, Any]]:
        recipe = Recipe(**{**vars(EVERYTHING), "epochs": epochs})
        out = Output(tmp_path / folder, checkpoint_every=1, keep_best=2)
        return train(data, recipe, out=out, prefetch=2, ranks=ranks, **more)

    whole = run("whole", 4)
    assert whole[-1]["valid_loss"] < whole[0]["valid_loss"]
    assert whole[-1]["step"] == 4 * 4  # 54 samples: 7 batches, two of which make a step
    run("parts", 2)
    assert run("parts", 4, resume=True) == whole
    assert weights(tmp_path / "parts") == weights(tmp_path / "whole")
    best = sorted(path.name for path in (tmp_path / "parts").glob("best-*"))
    assert best == sorted(whole[-1]["best"]) and len(best) == 2


def test_compiled_steps_have_the_bits_of_eager_ones(
    write_digits: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainers = []

    class Seen(Trainer):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            trainers.append(self)

    monkeypatch.setattr("fl_vision.training.run.Trainer", Seen)
    made = []
    write_digits("data", "t10k", 80)
    with ft.use("numpy"):
        data = load_dataset("mnist", DataOptions(data_dir=tmp_path / "data", holdout=20))
        for compiled in (False, True):
            folder = tmp_path / str(compiled)
            recipe = Recipe(**{**vars(EVERYTHING), "compiled": compiled})
            made.append((train(data, recipe, out=folder), weights(folder)))
    assert made[0] == made[1]
    eager, graphs = (each.compiled_step for each in trainers)
    assert eager is None and graphs is not None
    assert graphs.call.compiled_calls > graphs.call.calls / 2, graphs.call.explain()


def test_tests_and_predictions_use_averaged_weights(data: ImageData, tmp_path: Path) -> None:
    recipe = Recipe(**{**vars(QUICK), "ema": 0.9})
    trained = train_classifier(data, recipe, out=tmp_path, progress=False)
    loaded, _ = load_classifier(tmp_path)
    assert loaded.classify(data.test) == trained.classifier.classify(data.test)
    averages = load_checkpoint(tmp_path / "checkpoint.safetensors").parts["ema"]["tensors"]
    for name, tensor in loaded.model.state_dict().items():
        assert tensor.tolist() == averages[name].tolist()
    assert weights(tmp_path) != {n: bytes(t.tobytes()) for n, t in averages.items()}


def test_no_more_epochs_without_a_lower_loss(data: ImageData) -> None:
    recipe = Recipe(epochs=9, batch_size=30, lr=1e-20, patience=2)  # it cannot learn
    assert len(train(data, recipe)) == 3


@pytest.mark.parametrize("chooses", [{"patience": 2}, {"validation": 0.25}, {}])
def test_what_is_chosen_by_a_measure_never_sees_the_test_samples(
    data: ImageData, chooses: dict[str, Any]
) -> None:
    seen: list[int] = []

    class Test(Dataset):
        def __len__(self) -> int:
            return len(data.test)

        def __getitem__(self, index: int) -> Any:
            seen.append(index)
            return data.test[index]

    recipe = Recipe(epochs=1, batch_size=30, **chooses)
    trained = train_classifier(replace(data, test=Test()), recipe, progress=False)
    assert (trained.measured_on, bool(seen)) == (
        ("validation", False) if chooses else ("test", True)
    )


def test_held_out_samples_are_not_trained_on(data: ImageData) -> None:
    def steps(**given: Any) -> int:
        return train(data, Recipe(epochs=1, batch_size=1, **given))[0]["step"]

    assert (steps(), steps(validation=0.25), steps(patience=1)) == (60, 45, 54)
    with pytest.raises(UsageError, match="0.01 of 60 samples leaves 60 to train on and 0"):
        steps(validation=0.01)


def test_two_ranks_equal_one_in_float64(data: ImageData) -> None:
    # 50 samples in batches of 16: the last batch has 2, a share of one for each rank.
    recipe = Recipe(
        epochs=3, batch_size=16, lr=4e-3, dropout=0.0, shift=1, dtype="float64", limit=50
    )
    one, two = train(data, recipe), train(data, recipe, ranks=2)
    for alone, shared in zip(one, two, strict=True):
        assert shared == pytest.approx(alone, rel=1e-9, abs=1e-9)


def test_two_ranks_have_the_gradients_of_one_in_float32(data: ImageData, tmp_path: Path) -> None:
    # After one step Adam's running mean is the gradient times a constant.
    recipe = Recipe(epochs=1, batch_size=60, dropout=0.0)
    means = []
    for ranks in (1, 2):
        out = tmp_path / str(ranks)
        assert train(data, recipe, out=out, ranks=ranks)[0]["step"] == 1
        optimizer = load_checkpoint(out / "checkpoint.safetensors").optimizer
        assert optimizer is not None
        means.append({k: v for k, v in optimizer["tensors"].items() if k.endswith(".exp_avg")})
    assert len(means[0]) == 8
    for name, gradient in means[0].items():
        scale = abs(gradient).max().item()
        difference = abs(gradient - means[1][name]).max().item()
        assert difference <= 1e-5 * scale


def test_what_the_data_set_asks_for_can_be_overridden() -> None:
    assert recipe_for("mnist").epochs <= 6
    assert recipe_for("mnist", epochs=2, lr=None) == Recipe(
        **{**vars(recipe_for("mnist")), "epochs": 2}
    )
    assert recipe_for("something else") == Recipe()


def test_the_learning_rate_warms_up_then_decays() -> None:
    recipe = Recipe(lr=1.0, lr_decay=0.5)
    rates = [learning_rate(recipe, step, 100) for step in range(400)]
    assert rates[0] < 0.03
    assert max(rates) < 1.0
    assert rates[200] == pytest.approx(0.25)
    assert rates[100:] == sorted(rates[100:], reverse=True)


def test_a_checkpoint_carries_what_prediction_needs(data: ImageData, tmp_path: Path) -> None:
    trained = train_classifier(data, QUICK, out=tmp_path, progress=False)
    loaded, notes = load_classifier(tmp_path)
    assert loaded.classes == data.classes
    assert loaded.normalise == trained.classifier.normalise
    assert notes["recipe"]["batch_size"] == 16
    assert loaded.classify(data.test) == trained.classifier.classify(data.test)
    pixels = ft.stack([data.test[i][0] for i in range(3)])
    totals = ft.sum(ft.exp(loaded.log_probabilities(pixels)), axis=1)
    assert totals.tolist() == pytest.approx([1.0] * 3, abs=1e-5)
    with pytest.raises(ft.ShapeError, match=r"expected \(N, 1, 8, 8\)"):
        loaded.log_probabilities(ft.zeros((2, 1, 9, 9)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 99}, "not a checkpoint of fl-vision"),
        ({"classes": ["a"]}, "malformed"),
        ({"classes": ["a", "b"]}, "weights, the network for 2 classes"),
        ({"image_shape": [1, 8]}, "malformed"),
        ({"image_shape": [1, 16000, 16000]}, "weights, the network for 10 classes"),
        ({"mean": ["x"]}, "malformed"),
        ({"std": [0.0]}, "malformed"),
        ({"dtype": "int64"}, "malformed"),
    ],
)
def test_a_description_that_does_not_fit_is_refused(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    described = {
        "format": 1,
        "classes": [str(k) for k in range(10)],
        "image_shape": [1, 8, 8],
        "peak": 16,
        "mean": [4.0],
        "std": [6.0],
        "dtype": "float32",
    }
    path = tmp_path / "checkpoint.safetensors"
    model = cnn((1, 8, 8))
    save_checkpoint(path, model, metadata={"fl_vision": described})
    assert load_classifier(path)[0].image_shape == (1, 8, 8)
    save_checkpoint(path, model, metadata={"fl_vision": {**described, **change}})
    with pytest.raises(CheckpointError, match=message):
        load_classifier(path)
