"""pandas."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import fl_autograd as ag
import fl_data as data
import fl_nn as nn
import fl_tensor as ft

pytestmark = pytest.mark.defect("N23")


@pytest.fixture
def df():
    return pd.DataFrame({"a": [3.0, 2.0, 1.0], "n": [5, 6, 7], "name": ["p", "q", "r"]})


@pytest.mark.row("pandas", 'ft.asarray(df["a"])')
def test_columns_and_frames_are_copied(df):
    a = ft.asarray(df["a"])
    assert (a.tolist(), a.dtype) == ([3, 2, 1], ft.float64)
    assert ft.asarray(df["n"]).dtype is ft.int64
    assert ft.asarray(df[["a", "n"]]).tolist() == [[3, 5], [2, 6], [1, 7]]
    assert ft.asarray(df["n"].astype("Int32")).tolist() == [5, 6, 7]
    df.loc[0, "a"] = 9.0
    assert a.tolist() == [3, 2, 1]
    with pytest.raises(ft.DTypeError, match="Series of dtype object: expected numbers"):
        ft.asarray(df["name"])


@pytest.mark.row("pandas", 'x + df["a"]')
def test_a_tensor_first_gives_a_tensor(v, df):
    found = v * df["a"]
    assert isinstance(found, ag.Variable) and found.tolist() == [3, 4, 4]
    assert ag.grad(found.sum(), v).tolist() == [3, 2, 1]
    assert (ft.ones(3) + df["a"]).tolist() == [4, 3, 2]


@pytest.mark.row("pandas", 'df["a"] + x')
def test_a_column_first_gives_a_column(v, df):
    for found in (df["a"] * v, np.multiply(df["a"], v), np.multiply(v, df["a"])):
        assert isinstance(found, pd.Series) and found.tolist() == [3, 4, 4]


@pytest.mark.row("pandas", "pd.Series(x)")
def test_a_column_of_a_tensor(x, y):
    assert np.shares_memory(pd.Series(x).to_numpy(), np.asarray(x))
    assert pd.Series(y).tolist() == [2, 4, 8]


@pytest.mark.row("pandas", 'df["b"] = x')
def test_a_column_is_made_of_a_tensor(x, y, df):
    df["b"], df["c"] = x, y
    assert df["b"].tolist() == [1, 2, 4] and df["c"].tolist() == [2, 4, 8]
    frame = pd.DataFrame({"b": x, "c": y})
    for made in (df, frame):
        assert not np.shares_memory(made["b"].to_numpy(), np.asarray(x))
    assert pd.DataFrame(ft.ones((2, 3))).shape == (2, 3)


@pytest.mark.row("pandas", "df[np.asarray(x > 1)]")
def test_rows_are_chosen_by_an_array(x, df):
    assert df[np.asarray(x > 1)]["n"].tolist() == [6, 7]


@pytest.mark.row("pandas", 'model(df[["a", "n"]])')
def test_a_module_reads_a_frame_in_its_own_dtype(df):
    model = nn.Linear(2, 1)
    found = model(df[["a", "n"]])
    assert found.dtype is ft.float32 and found.requires_grad
    assert found.tolist() == model(df[["a", "n"]].to_numpy()).tolist()


@pytest.mark.defect("N32")
@pytest.mark.row("pandas", 'data.TensorDataset(df["a"], df["n"])')
def test_a_dataset_of_columns(df):
    ds = data.TensorDataset(df["a"], df["n"])
    a, n = data.Batch(ds, 2)[0]
    assert (a.tolist(), n.tolist()) == ([3, 2], [5, 6])
