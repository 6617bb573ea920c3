"""`fl_nn.plot`: what the figures show, what goes wrong, and what they leave alone."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest

import fl_autograd as ag
import fl_data as data
import fl_nn as nn
import fl_tensor as ft
from fl_nn import plot

matplotlib = pytest.importorskip("matplotlib")

HISTORY = [
    {"epoch": n, "step": 10 * n, "lr": 0.1, "train_loss": 1 / n, "valid_loss": 2 / n}
    | {"train_error": 50.0 / n, "best": True, "seconds": 0.5}
    for n in (1, 2, 3)
]


def lines(axes):
    """Label -> (x, y) of the lines of some axes."""
    return {
        line.get_label(): (list(line.get_xdata()), list(line.get_ydata()))
        for line in axes.get_lines()
    }


def legend(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


def test_a_history_has_axes_for_each_metric_and_a_line_for_each_part():
    figure = plot.curves(HISTORY, title="a run")
    assert isinstance(figure, matplotlib.figure.Figure) and figure.get_suptitle() == "a run"
    loss, error = figure.axes
    assert [loss.get_ylabel(), error.get_ylabel()] == ["loss", "error"]
    assert loss.get_xlabel() == "epoch" and loss.get_yscale() == "linear"
    assert lines(loss) == {
        "train": ([1, 2, 3], [1.0, 0.5, pytest.approx(1 / 3)]),
        "valid": ([1, 2, 3], [2.0, 1.0, pytest.approx(2 / 3)]),
    }
    assert legend(loss) == ["train", "valid"] and legend(error) == ["train"]


def test_metrics_are_chosen_renamed_and_logarithmic():
    named = {"loss": "cross entropy", "valid": "test"}
    (axes,) = plot.curves(HISTORY, metrics=["loss"], labels=named, log=["loss"]).axes
    assert axes.get_ylabel() == "cross entropy" and axes.get_yscale() == "log"
    assert legend(axes) == ["train", "test"]
    (axes,) = plot.curves(HISTORY, metrics=["lr"]).axes
    assert list(lines(axes).values()) == [([1, 2, 3], [0.1, 0.1, 0.1])]
    assert axes.get_legend() is None


def test_runs_are_told_apart_by_name():
    (axes,) = plot.curves({"a": HISTORY[:1], "b": HISTORY}, metrics=["loss"]).axes
    assert legend(axes) == ["a train", "a valid", "b train", "b valid"]
    assert lines(axes)["a valid"] == ([1], [2.0])


def test_the_log_of_a_trainer_is_drawn_by_epoch_and_by_step(tmp_path):
    model = nn.Linear(2, 1, generator=ft.Generator(1))
    run = nn.Trainer(
        model, nn.SGD(model.parameters(), lr=0.1), nn.mse, out=tmp_path, log_every=1, progress=False
    )
    x = ft.randn((12, 2), ft.Generator(0))
    samples = data.Batch(data.TensorDataset(x, x[:, :1]), 4)
    run.fit(samples, samples, epochs=2)
    path = tmp_path / "log.jsonl"
    for run_of in (path, str(path), run.history):
        (axes,) = plot.curves(run_of, metrics=["loss"]).axes
        expected = [record["valid_loss"] for record in run.history]
        assert lines(axes)["valid"] == ([1, 2], expected)
    (axes,) = plot.curves({"first": path}, by="step").axes
    assert axes.get_xlabel() == "step" and legend(axes) == ["first"]
    assert lines(axes)["first"][0] == [1, 2, 3, 4, 5, 6]
    assert lines(axes)["first"][1][-1] == pytest.approx(run.last_loss)


def test_values_are_tensors_variables_and_lists():
    values = {"a": ft.asarray([1.0, 2.0]), "b": ag.Variable(ft.asarray([3.0])), "c": [4]}
    axes = plot.curves(values).axes
    assert [each.get_ylabel() for each in axes] == ["a", "b", "c"]
    assert [line.get_ydata().tolist() for each in axes for line in each.get_lines()] == [
        [1, 2], [3], [4],
    ]  # fmt: skip
    named = plot.curves({"first": {"a": [1]}, "second": {"a": [2]}})
    assert legend(named.axes[0]) == ["first", "second"]


def test_values_that_are_not_finite_are_gaps():
    records = [{"epoch": n + 1, "loss": x} for n, x in enumerate([1.0, None, math.inf, 0.5])]
    (axes,) = plot.curves(records).axes
    (found,) = axes.get_lines()
    assert [math.isnan(y) for y in found.get_ydata()] == [False, True, True, False]


def test_a_smoothed_line_is_drawn_before_the_values():
    (axes,) = plot.curves({"loss": [1.0, 0.0, math.nan, 1.0]}, smooth=0.5).axes
    behind, front = axes.get_lines()
    assert behind.get_alpha() < 1 and behind.get_color() == front.get_color()
    assert list(behind.get_ydata())[:2] == [1.0, 0.0]
    # (0.5 * (0.5 * 1 + 0.5 * 0) ...) over its weights 1/4, 1/2 and so on
    assert list(front.get_ydata()) == pytest.approx([1.0, 1 / 3, math.nan, 5 / 7], nan_ok=True)


@pytest.mark.parametrize(
    ("runs", "options", "message"),
    [
        (HISTORY, {"metrics": ["bleu"]}, "no metric 'bleu' by epoch; there are: lr, loss, error"),
        ([], {}, "nothing to draw by epoch; there are: none"),
        (HISTORY, {"by": "year"}, "by='year': expected 'epoch' or 'step'"),
        (HISTORY, {"smooth": 1.0}, "smooth=1.0: expected 0 <= smooth < 1"),
        ({"a": [[1.0]]}, {}, r"a \(1, 1\): expected 1 axes"),
    ],
)
def test_curves_that_cannot_be_drawn(runs, options, message):
    with pytest.raises(ValueError, match=message):
        plot.curves(runs, **options)


@pytest.mark.parametrize("shape", [(5, 4, 6), (5, 1, 4, 6), (5, 3, 4, 6), (5, 4, 4, 6)])
def test_images_are_a_grid(shape):
    batch = ft.rand(shape, ft.Generator(0))
    figure = plot.images(batch, columns=2, titles=list("abcde"), marked=[1], limits=(0, 1))
    assert [axes.get_title() for axes in figure.axes] == list("abcde")
    assert figure.axes[0].get_subplotspec().get_gridspec().get_geometry() == (3, 2)
    for image, axes in zip(batch, figure.axes, strict=True):
        (shown,) = axes.get_images()
        wanted = image.permute(1, 2, 0) if image.ndim == 3 else image
        assert shown.get_array().ravel().tolist() == pytest.approx(wanted.reshape(-1).tolist())
    colours = [axes.title.get_color() for axes in figure.axes]
    assert colours[1] == "tab:red" and "tab:red" not in colours[:1] + colours[2:]


def test_levels_of_images_are_their_least_and_largest_value_or_those_of_bytes():
    def levels(*images, **options):
        found = plot.images(images, **options).axes
        return [axes.get_images()[0].get_array().ravel().tolist() for axes in found]

    assert levels([[-1.0, 0.0]], [[1.0], [3.0]]) == [[0.0, 0.25], [0.5, 1.0]]
    assert levels(ft.asarray([[51, 255]], dtype=ft.uint8)) == [[pytest.approx(0.2), 1.0]]
    assert levels([[0, 8, 99]], limits=(0, 16)) == [[0.0, 0.5, 1.0]]
    assert levels([[7.0, 7.0]]) == [[0.0, 0.0]]


@pytest.mark.parametrize(
    ("images", "options", "message"),
    [
        ([], {}, "there are no images"),
        (ft.zeros((2, 5, 4, 4)), {}, r"an image \(5, 4, 4\): expected \(H, W\), or \(C, H, W\)"),
        (ft.zeros((2, 4)), {}, r"an image \(4,\): expected 2 or 3 axes"),
        (ft.zeros((1, 0, 4)), {}, r"an image \(0, 4\) without pixels"),
        (ft.zeros((2, 4, 4)), {"titles": ["a"]}, "1 titles for 2 images"),
        (ft.zeros((2, 4, 4)), {"columns": 0}, "columns=0: expected 1 or more"),
    ],
)
def test_images_that_cannot_be_drawn(images, options, message):
    with pytest.raises(ValueError, match=message):
        plot.images(images, **options)


def test_a_confusion_matrix_counts_what_was_taken_for_what():
    truth, predicted = ft.asarray([0, 1, 2, 2, 1]), [0, 1, 1, 2, 1]
    axes, bar = plot.confusion(truth, predicted, ["cat", "dog", "owl"]).axes
    assert axes.get_images()[0].get_array().tolist() == [[1, 0, 0], [0, 2, 0], [0, 1, 1]]
    assert [axes.get_xlabel(), axes.get_ylabel()] == ["predicted", "truth"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["cat", "dog", "owl"]
    cells = {text.get_position(): text.get_text() for text in axes.texts}
    assert cells == {(0, 0): "1", (1, 1): "2", (1, 2): "1", (2, 2): "1"}


def test_a_normalised_confusion_matrix_has_shares_of_rows():
    axes = plot.confusion([0, 2, 2, 2], [0, 2, 2, 0], normalise=True).axes[0]
    found = axes.get_images()[0].get_array()
    assert found[0].tolist() == [1, 0, 0] and found[1].tolist() == [0, 0, 0]
    assert found[2].tolist() == pytest.approx([1 / 3, 0, 2 / 3])
    assert [text.get_text() for text in axes.texts] == ["1.00", "0.33", "0.67"]


@pytest.mark.parametrize(
    ("truth", "predicted", "classes", "message"),
    [
        ([0, 1], [0], None, r"truth \(2,\) and predicted \(1,\): expected two vectors"),
        ([], [], None, "expected two vectors of one length, not empty"),
        ([0, 3], [0, 1], ["a", "b"], "class 3: expected 0 to 1"),
        ([0, -1], [0, 1], None, "class -1: expected 0 to 1"),
    ],
)
def test_confusion_that_cannot_be_drawn(truth, predicted, classes, message):
    whole = {"dtype": ft.int64}
    with pytest.raises(ValueError, match=message):
        plot.confusion(ft.asarray(truth, **whole), ft.asarray(predicted, **whole), classes)
    with pytest.raises(TypeError, match="predicted float32: expected class numbers"):
        plot.confusion([0, 1], [0.5, 1.0])


def test_attention_has_axes_for_each_head():
    weights = ft.softmax(ft.randn((3, 2, 4), ft.Generator(0)), axis=-1)
    figure = plot.attention(weights, queries=["a", "b"], keys=["the", "cat", "sat", "down"])
    heads = [axes for axes in figure.axes if axes.get_xlabel() == "keys"]
    assert [axes.get_title() for axes in heads] == ["head 0", "head 1", "head 2"]
    for head, axes in zip(weights, heads, strict=True):
        shown = axes.get_images()[0].get_array()
        assert shown.ravel().tolist() == pytest.approx(head.reshape(-1).tolist())
    assert [label.get_text() for label in heads[0].get_xticklabels()] == "the cat sat down".split()
    (one, bar) = plot.attention(ag.Variable(weights[0], requires_grad=True)).axes
    assert one.get_title() == "" and one.get_ylabel() == "queries"


@pytest.mark.parametrize(
    ("shape", "options", "message"),
    [
        ((4,), {}, r"weights \(4,\): expected 2 or 3 axes"),
        ((0, 4), {}, r"weights \(0, 4\): an axis has size 0"),
        ((2, 4), {"keys": ["a"]}, "1 keys for 4 of the matrix"),
        ((2, 4), {"queries": "abc"}, "3 queries for 2 of the matrix"),
    ],
)
def test_attention_that_cannot_be_drawn(shape, options, message):
    with pytest.raises(ValueError, match=message):
        plot.attention(ft.ones(shape), **options)


def test_bars_stand_in_groups():
    groups = {"alexnet": {"eager": 1.5, "jax": 0.5}, "bert": {"eager": 2.0}}
    (axes,) = plot.bars(groups, line=1.0, ylabel="ratio", title="Speed").axes
    assert {c.get_label(): [bar.get_height() for bar in c] for c in axes.containers} == {
        "eager": [1.5, 2.0], "jax": [0.5],
    }  # fmt: skip
    assert [label.get_text() for label in axes.get_xticklabels()] == ["alexnet", "bert"]
    assert axes.get_ylabel() == "ratio" and list(axes.get_lines()[0].get_ydata()) == [1.0, 1.0]
    assert {text.get_text() for text in axes.texts} == {"1.50", "0.50", "2.00"}
    for wrong, message in (({"a": {}}, "no bars"), ({"a": {"b": math.nan}}, "a, b: nan is not")):
        with pytest.raises(ft.ArgumentError, match=message):
            plot.bars(wrong)


SWEEP = nn.LRSweep([0.01, 0.1, 1.0, 10.0], [3.0, 3.0, 2.0, 9.0], [3.0, 3.0, 2.5, 5.0], True)


def test_a_sweep_of_learning_rates_shows_losses_their_mean_and_the_suggestion():
    (axes,) = plot.lr_sweep(SWEEP, title="rates").axes
    assert axes.get_xscale() == "log" and axes.get_xlabel() == "learning rate"
    assert lines(axes) == {
        "_": (SWEEP.rates, SWEEP.losses),
        "mean loss": (SWEEP.rates, SWEEP.smoothed),
        "suggested: 0.1": ([0.1, 0.1], [0, 1]),
    }
    assert legend(axes) == ["mean loss", "suggested: 0.1"]
    (axes,) = plot.lr_sweep(SWEEP._replace(losses=[1.0] * 4)).axes
    assert legend(axes) == ["mean loss"]
    with pytest.raises(ft.ArgumentError, match="no steps"):
        plot.lr_sweep(nn.LRSweep([], [], [], True))


def calibrated():
    meter = nn.CalibrationMeter(4)
    meter.add(ft.asarray([0.1, 0.8, 0.9, 0.9]), ft.asarray([0, 1, 1, 0]))
    return meter


def test_reliability_shows_accuracy_and_samples_of_the_bins_that_have_some():
    upper, lower = plot.reliability(calibrated()).axes
    assert [bar.get_height() for bar in upper.patches] == [0.0, pytest.approx(2 / 3)]
    assert [bar.get_height() for bar in lower.patches] == [0.25, 0.75]
    means = lines(upper)["mean confidence"]
    assert means == (pytest.approx([0.1, 2.6 / 3]), [0.0, pytest.approx(2 / 3)])
    with pytest.raises(ft.ArgumentError, match="nothing was added"):
        plot.reliability(nn.CalibrationMeter())


def test_a_confusion_meter_is_drawn_as_its_counts():
    meter = nn.ConfusionMeter(3)
    meter.add(ft.asarray([0, 1, 1]), ft.asarray([0, 1, 0]))
    axes = plot.confusion(meter, classes=["a", "b", "c"]).axes[0]
    assert axes.images[0].get_array().tolist() == [[1, 1, 0], [0, 1, 0], [0, 0, 0]]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b", "c"]
    with pytest.raises(ft.ArgumentError, match="2 classes for 3"):
        plot.confusion(meter, classes=["a", "b"])
    with pytest.raises(ft.ArgumentError, match="stands alone"):
        plot.confusion(meter, ["a", "b", "c"])


@pytest.mark.parametrize(
    ("suffix", "start"),
    [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml"), ("PNG", b"\x89PNG")],
)
def test_the_suffix_of_the_path_says_which_file_is_written(tmp_path, suffix, start):
    path = tmp_path / f"plot.{suffix}"
    plot.curves(HISTORY, path=path)
    assert path.read_bytes().startswith(start)
    plot.images(ft.zeros((1, 2, 2)), path=str(path))  # replaced
    assert path.read_bytes().startswith(start)


def test_a_file_that_cannot_be_written(tmp_path, fifo):
    with pytest.raises(ft.ArgumentError, match=r"path 'a.mp3': expected a file name that ends in"):
        plot.curves(HISTORY, path="a.mp3")
    with pytest.raises(ft.FileError, match="cannot be written"):
        plot.curves(HISTORY, path=tmp_path / "absent" / "a.png")
    link = tmp_path / "link.png"
    link.symlink_to(fifo)
    with pytest.raises(ft.FileError, match="it is a FIFO, not a regular file"):
        plot.curves(HISTORY, path=link)


def test_without_matplotlib_both_ways_to_install_it_are_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.delitem(sys.modules, "fl_memory.plot.notebook_figure", raising=False)
    for call in (
        lambda: plot.curves(HISTORY),
        lambda: plot.images([[[1.0]]]),
        lambda: plot.confusion([0], [0]),
        lambda: plot.attention([[1.0]]),
        lambda: plot.bars({"a": {"b": 1.0}}),
        lambda: plot.lr_sweep(SWEEP),
        lambda: plot.reliability(calibrated()),
    ):
        with pytest.raises(ft.MissingError, match="needs matplotlib") as caught:
            call()
        assert "install 'fl-nn[plot]', or from a clone" in str(caught.value)
        assert "'./packages/fl-nn[plot]'" in str(caught.value)
        assert isinstance(caught.value, ImportError)


NOTHING_ELSE = """
import sys
from fl_nn import plot
assert "matplotlib" not in sys.modules, "it is loaded when it is needed"
import matplotlib
before = matplotlib.rcParams.copy()
plot.curves({"loss": [2.0, 1.0]}, path=sys.argv[1])
assert dict.__eq__(matplotlib.rcParams, before)
assert "matplotlib.pyplot" not in sys.modules
"""


def test_matplotlib_is_loaded_late_and_no_window_or_setting_is_touched(tmp_path):
    path = tmp_path / "a.png"
    done = subprocess.run(
        [sys.executable, "-c", NOTHING_ELSE, str(path)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert path.is_file()


@pytest.mark.defect("N34")
def test_notebooks_show_a_figure():
    shown = plot.curves(HISTORY)._repr_png_()
    assert shown.startswith(b"\x89PNG")
