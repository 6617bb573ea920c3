"""Datasets that hold or return arrays of NumPy, and classes of an interactive session."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import fl_data as data
import fl_tensor as ft
from fl_data.blobs.codec import decode, encode

pytestmark = pytest.mark.defect("N32")


class Arrays(data.Dataset):
    """What a dataset written for another library returns."""

    def __len__(self):
        return 4

    def __getitem__(self, index):
        x = np.full(3, index, np.float32)
        return x, np.int64(index), np.float64(index / 2), np.bool_(index > 1)


def test_a_batch_has_their_dtypes():
    batch = data.Batch(Arrays(), 3)[0]
    assert all(isinstance(field, ft.Tensor) for field in batch)
    assert [field.shape for field in batch] == [(3, 3), (3,), (3,), (3,)]
    assert [str(field.dtype) for field in batch] == ["float32", "int64", "float64", "bool"]
    assert batch[0].tolist() == [[0, 0, 0], [1, 1, 1], [2, 2, 2]]
    assert batch[2].tolist() == [0, 0.5, 1]


@pytest.mark.parametrize("options", [{}, {"threads": 2}])
def test_they_pass_through_the_other_datasets(options):
    ds = data.Batch(data.Shuffle(data.Transform(Arrays(), lambda s: s[:2]), seed=1), 2)
    found = [y for _, labels in data.Prefetch(ds, **options) for y in labels.tolist()]
    assert sorted(found) == [0, 1, 2, 3]


def test_they_are_padded():
    samples = [{"x": np.ones(2, np.float32)}, {"x": np.ones(1, np.float32)}]
    assert data.pad_collate()(samples)["x"].tolist() == [[1, 1], [1, 0]]


def test_they_are_stored_in_a_blob():
    blob = data.MemoryBlob()
    blob.add(Arrays()[2])
    x, label, half, large = blob[0]
    assert (x.tolist(), x.dtype, label.item(), half, large.item()) == ([2] * 3, ft.float32, 2, 1, 1)


def test_a_tensor_dataset_takes_arrays():
    x, y = np.arange(6, dtype=np.float64).reshape(3, 2), np.asarray([5, 6, 7])
    ds = data.TensorDataset(x, y)
    x[0] = 9
    assert [field.tolist() for field in ds[0]] == [[0, 1], 5]
    assert ds.tensors[0].dtype is ft.float64
    named = data.TensorDataset(x=x, y=ft.asarray(y))
    assert named[2]["y"].item() == 7


@pytest.mark.parametrize(
    "make",
    [
        lambda x: data.TensorDataset(x),
        lambda x: data.collate([(x,)]),
        lambda x: data.MemoryBlob().add((x,)),
    ],
)
def test_an_array_of_objects_is_refused(make):
    with pytest.raises(data.SampleTypeError, match=r"field .*0.*: \[asarray\] "):
        make(np.asarray(["a", "b"], object))


@pytest.mark.defect("N30")
def test_a_class_of_a_notebook_in_processes():
    session = """
import fl_data as data
class Squares(data.Dataset):
    def __len__(self): return 4
    def __getitem__(self, i): return (float(i * i),)

try: next(iter(data.Prefetch(Squares(), processes=1)))
except data.IterationError as error: print("said:", error)
"""
    command = [sys.executable, "-i", "-q", "-c", "pass"]
    found = subprocess.run(command, input=session, capture_output=True, text=True, timeout=60)
    assert "said: [prefetch] a worker process could not read the dataset" in found.stdout
    assert "'Squares'" in found.stdout
    assert "define it in a module (a file .py) and import it, or use Prefetch(..., " in found.stdout
    assert "UnboundLocalError" not in found.stderr


@pytest.mark.defect("N32")
def test_scalars_of_numpy_are_stored_as_those_of_python():
    sample = {"number": np.float64(1.5), "text": np.str_("cat")}
    assert decode(memoryview(encode(sample))) == {"number": 1.5, "text": "cat"}
