"""Matplotlib."""

from __future__ import annotations

import matplotlib
import numpy as np
import pytest

import fl_autograd as ag
import fl_tensor as ft

matplotlib.use("agg")
plt = pytest.importorskip("matplotlib.pyplot")
pytestmark = pytest.mark.defect("N22")


@pytest.fixture
def axes():
    figure, axes = plt.subplots()
    yield axes
    figure.canvas.draw()
    plt.close(figure)


@pytest.mark.row("Matplotlib", "plt.plot(x, v)")
def test_lines_of_tensors_and_variables(axes, x, v, y):
    for line, expected in (
        (axes.plot(v), [1, 2, 4]),
        (axes.plot(x, y), [2, 4, 8]),
        (axes.plot(x[0], y[0], "o"), [2]),
        (axes.semilogy(x, y), [2, 4, 8]),
        (axes.step(x, y), [2, 4, 8]),
    ):
        assert np.asarray(line[0].get_ydata(), float).tolist() == expected


@pytest.mark.row("Matplotlib", "plt.xlim(x[0], x[-1])")
def test_limits_and_places(axes, x, y):
    axes.set_xlim(x[0], x[-1])
    axes.set_ylim(y[0], y[-1])
    axes.axhline(y[1])
    axes.axvspan(x[0], x[1])
    axes.text(x[0], y[0], "here")
    assert axes.get_xlim() == (1, 4) and axes.get_ylim() == (2, 8)


@pytest.mark.row("Matplotlib", "plt.hist(v)")
def test_other_pictures(axes, x, y):
    counts, edges, _ = axes.hist(y, bins=ft.linspace(0, 8, 5))
    assert counts.tolist() == [0, 1, 1, 1] and edges.tolist() == [0, 2, 4, 6, 8]
    assert axes.scatter(x, y, c=y, s=y).get_offsets().tolist() == [[1, 2], [2, 4], [4, 8]]
    assert [bar.get_height() for bar in axes.bar(x, y)] == [2, 4, 8]
    axes.errorbar(x, y, yerr=y)
    axes.fill_between(x, y, x)
    axes.boxplot(y)


@pytest.mark.row("Matplotlib", "plt.imshow(v)")
def test_images(axes):
    image = ag.Variable(ft.asarray([[0.0, 1.0], [2.0, 3.0]]), requires_grad=True)
    assert axes.imshow(image).get_array().tolist() == [[0, 1], [2, 3]]
    axes.pcolormesh(image)
    axes.contourf(image)
