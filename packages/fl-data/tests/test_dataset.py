"""The dataset contract: indices, errors, and what counts as a dataset."""

from __future__ import annotations

import subprocess
import sys

import pytest

import fl_data as data
import fl_tensor as ft


def test_negative_indices_count_from_the_end(rows):
    assert rows(5)[-1][1].item() == 4
    assert rows(5)[-5][1].item() == 0


def every_kind(ds):
    return [
        ds,
        data.Batch(ds, 1),
        data.Subset(ds, range(4)),
        data.Span(ds, 0),
        data.Partition(ds, 0, 1),
        data.Concat(ds),
        data.Shuffle(ds),
        data.Transform(ds, lambda sample: sample),
        data.RandomTransform(ds, lambda sample, generator: sample),
        data.Prefetch(ds),
        data.as_dataset([ds[i] for i in range(4)]),
        data.Merge(ds),
        data.Resample(ds, lambda generator: [3, 0, 0, 1]),
        data.Weighted(ds, [1, 2, 0, 1]),
    ]


@pytest.mark.parametrize("kind", range(14))
def test_an_index_outside_is_an_fl_error_and_an_index_error_everywhere(rows, kind):
    ds = every_kind(rows(4))[kind]
    for index in (4, -5, 10**20):
        with pytest.raises(data.SampleIndexError, match=r"out of range for 4 samples") as caught:
            ds[index]
        assert isinstance(caught.value, data.FlError)
        assert isinstance(caught.value, IndexError)


@pytest.mark.parametrize("kind", range(14))
def test_an_index_that_is_no_integer_is_a_type_error(rows, kind):
    with pytest.raises(TypeError, match="integer"):
        every_kind(rows(4))[kind][1.5]


@pytest.mark.parametrize("kind", [kind for kind in range(14) if kind != 1])
def test_a_batch_at_once_equals_the_stacked_samples(rows, kind):
    ds = every_kind(rows(4))[kind]
    for indices in ([2, 0, 2], [-1], range(1, 3), range(3, 0, -2), [1, 0]):
        at_once = ds.__getitems__(indices)
        one_by_one = data.collate([ds[i] for i in indices])
        for a, b in zip(at_once, one_by_one, strict=True):
            assert a.tolist() == b.tolist()
            assert (a.shape, a.dtype) == (b.shape, b.dtype)
    with pytest.raises(IndexError):
        ds.__getitems__([0, 4])


def test_no_index_is_valid_in_an_empty_dataset():
    with pytest.raises(data.SampleIndexError, match="the dataset is empty"):
        data.TensorDataset(ft.zeros((0, 3)))[0]


def test_a_list_of_samples_is_a_dataset():
    ds = data.as_dataset([(ft.ones((2,)), 3), (ft.zeros((2,)), 4)])
    x, y = data.Batch(ds, 2)[0]
    assert x.tolist() == [[1.0, 1.0], [0.0, 0.0]]
    assert y.tolist() == [3, 4]


@pytest.mark.parametrize("thing", [5, "text", {"a": 1}, None, (i for i in range(3))])
def test_other_objects_are_no_datasets(thing):
    with pytest.raises(data.SampleTypeError, match="is not a dataset"):
        data.Batch(thing, 2)


def test_a_sample_is_a_tuple_or_a_dict():
    with pytest.raises(data.SampleTypeError, match=r"return \(x,\)"):
        data.as_dataset([ft.ones((2,))])[0]


def test_named_tensors_give_dicts():
    ds = data.TensorDataset(x=ft.arange(4), y=ft.arange(4))
    assert {name: value.item() for name, value in ds[2].items()} == {"x": 2, "y": 2}
    assert data.Batch(ds, 3)[0]["y"].tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        (lambda: (), "at least one"),
        (lambda: (ft.zeros((3, 2)), ft.zeros((4,))), r"\(3, 2\).*\(4,\).*must be equal"),
        (lambda: (ft.asarray(1.0),), "0-d"),
        (lambda: ([1, 2],), "not a tensor"),
    ],
)
def test_tensor_dataset_refuses_tensors_that_hold_no_common_samples(tensors, message):
    with pytest.raises(data.FlError, match=message):
        data.TensorDataset(*tensors())


@pytest.mark.defect("V20")
def test_tensor_dataset_says_that_a_list_of_tensors_is_to_be_taken_apart():
    x = ft.ones((3, 2))
    with pytest.raises(TypeError, match=r"field 0 is a list.*TensorDataset\(x, y\) or.*\*xs"):
        data.TensorDataset([x, x])
    with pytest.raises(TypeError, match="field 'y' is a list, not a tensor: convert it with ft.as"):
        data.TensorDataset(x=x, y=[1, 2, 3])


@pytest.mark.defect("item 12")
@pytest.mark.parametrize("name", ["Batch", "Shuffle", "Merge", "FileBlob"])
def test_the_names_of_flashlight_lead_to_ours(name):
    program = f"import fl_data; fl_data.{name}Dataset"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    message = (
        f"AttributeError: module 'fl_data' has no attribute '{name}Dataset': it is '{name}' here"
    )
    assert found.stderr.splitlines()[-1] == message  # and no other name is proposed
    with pytest.raises(AttributeError, match="no attribute 'NoDataset'$"):
        _ = data.NoDataset


def test_repr_shows_the_whole_pipeline(rows):
    ds = data.Prefetch(data.Batch(data.Shuffle(rows(4), seed=3), 2), threads=1, depth=2)
    assert repr(ds) == (
        "Prefetch(Batch(Shuffle(TensorDataset((4, 2) float32, (4,) int64), seed=3), size=2), "
        "threads=1, depth=2)"
    )


def test_import_is_light():
    """Importing loads neither numpy nor the thread machinery's heavier friends."""
    heavy = {"numpy", "asyncio", "multiprocessing"}
    code = f"import sys, fl_data; print(sorted({heavy} & set(sys.modules)))"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"


def test_check_indices_counts_from_the_front_and_names_what_is_outside():
    assert list(data.check_indices([2, -1, 0], 3, "here")) == [2, 2, 0]
    assert data.check_indices(range(3), 3, "here") == range(3)
    assert list(data.check_indices([], 0, "here")) == []
    for outside in ([3], [0, -4], range(4)):
        with pytest.raises(data.SampleIndexError, match="here.*out of range for 3"):
            data.check_indices(outside, 3, "here")


def test_a_dataset_of_its_own_epochs():
    class Growing(data.EpochDataset):
        def __len__(self):
            return 3

        def __getitem__(self, index):
            return (data.check_index(index, 3, "Growing") + 10 * self.epoch,)

    ds = Growing()
    batches = data.Batch(ds, 3)
    assert (ds.epoch, batches.epoch) == (0, 0)
    batches.set_epoch(2)
    assert (ds.epoch, batches.epoch) == (2, 2)
    assert batches[0][0].tolist() == [20, 21, 22]
    above = data.RandomTransform(ds, lambda sample, generator: sample)
    above.set_epoch(4)
    assert ds.epoch == 4, "it reaches what is below"
    ds.set_epoch(2)
    with pytest.raises(data.DataError, match=r"\[Growing\] epoch must be at least 0"):
        ds.set_epoch(-1)
    samples = iter(ds)
    next(samples)
    ds.set_epoch(3)
    with pytest.raises(data.IterationError, match="went from epoch 2 to 3"):
        next(samples)


class Noise:
    """Adds a drawn number to the first field, of one sample or of a batch."""

    def __init__(self) -> None:
        self.calls: list[int] = []

    def __call__(self, sample, generator):
        self.calls.append(1)
        return (sample[0] + generator.uniform(()), *sample[1:])

    def batch(self, batch, generators):
        self.calls.append(len(generators))
        drawn = ft.stack([generator.uniform(()) for generator in generators])
        return (batch[0] + drawn, *batch[1:])


def test_a_random_function_of_batches_gives_what_it_gives_sample_by_sample():
    rows = data.TensorDataset(ft.arange(10, dtype=ft.float32), ft.arange(10))
    noise = Noise()
    ds = data.RandomTransform(rows, noise, seed=3)
    ds.set_epoch(1)
    (whole,) = list(data.Batch(data.Subset(ds, [4, 9, 1]), 3))
    assert noise.calls == [3]
    for field, alone in zip(whole, zip(*(ds[i] for i in (4, 9, 1)))):
        assert field.tolist() == [float(each) for each in alone]
    with pytest.raises(data.SampleIndexError):
        ds.__getitems__([0, 10])
