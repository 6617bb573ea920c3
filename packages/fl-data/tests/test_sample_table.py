"""What notebooks show of a dataset."""

from __future__ import annotations

from typing import Any

import pytest

import fl_data as data
import fl_tensor as ft

pytestmark = pytest.mark.defect("N34")


def test_length_fields_and_first_samples() -> None:
    ds = data.TensorDataset(image=ft.zeros((1200, 3, 8)), label=ft.arange(1200))
    image = "<td>float32 (3, 8)</td>"
    assert ds._repr_html_() == (
        "<div>TensorDataset: 1,200 samples</div><table>"
        "<tr><th></th><th>image</th><th>label</th></tr>"
        f"<tr><td>0</td>{image}<td>0</td></tr><tr><td>1</td>{image}<td>1</td></tr>"
        f"<tr><td>2</td>{image}<td>2</td></tr></table>"
    )


def test_fields_without_names_are_numbered() -> None:
    shown = data.Batch(data.TensorDataset(ft.zeros((5, 2)), ft.ones(5)), 4)._repr_html_()
    assert shown.startswith("<div>Batch: 2 samples</div><table><tr><th></th><th>0</th><th>1</th>")
    assert "<tr><td>1</td><td>float32 (1, 2)</td><td>float32 (1,)</td></tr>" in shown


def test_an_empty_dataset_has_a_length_alone() -> None:
    empty = data.TensorDataset(ft.zeros((0, 2)))
    assert empty._repr_html_() == "<div>TensorDataset: 0 samples</div><table></table>"


def test_other_values_and_fields_that_some_samples_lack() -> None:
    samples: list[Any] = [{"text": "<b>" + "x" * 100}, {"text": "y", "weight": 0.5}]
    shown = data.as_dataset(samples)._repr_html_()
    assert "&lt;b&gt;xx" in shown and "x" * 50 not in shown
    assert shown.endswith("<td>&#x27;y&#x27;</td><td>0.5</td></tr></table>")


def test_only_the_first_samples_are_made() -> None:
    made: list[int] = []

    def noted(sample: Any) -> Any:
        made.append(sample[0].item())
        return sample

    data.Transform(data.TensorDataset(ft.arange(100)), noted)._repr_html_()
    assert made == [0, 1, 2]


def test_showing_a_dataset_changes_no_random_numbers_and_raises_nothing():
    def noisy(sample):
        return (sample[0] + ft.randn(()),)

    def broken(sample):
        raise ValueError("no")

    base = data.TensorDataset(ft.arange(4.0))
    ft.seed(0)
    expected = ft.randn(2).tolist()
    ft.seed(0)
    assert "4 samples" in data.Transform(base, noisy)._repr_html_()
    assert ft.randn(2).tolist() == expected
    assert "4 samples" in data.Transform(base, broken)._repr_html_()
