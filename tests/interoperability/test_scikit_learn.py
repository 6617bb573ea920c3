"""scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fl_autograd as ag
import fl_tensor as ft


@pytest.fixture
def table():
    labels = np.arange(40) % 2
    rows = np.random.default_rng(0).normal(size=(40, 3)) + labels[:, None]
    return ft.asarray(rows, ft.float32), ft.asarray(labels)


@pytest.mark.row("scikit-learn", "train_test_split(x, y)")
def test_a_split_is_of_tensors(table):
    rows, labels = table
    variable = ag.Variable(rows, requires_grad=True)
    how = {"test_size": 10, "random_state": 1}
    for given in (rows, variable):
        parts = train_test_split(given, labels, **how)
        assert [part.shape for part in parts] == [(30, 3), (10, 3), (30,), (10,)]
        assert all(isinstance(part, type(given)) for part in parts[:2])
        expected = train_test_split(
            np.asarray(rows), np.asarray(labels), test_size=10, random_state=1
        )
        for found, wanted in zip(parts, expected, strict=True):
            np.testing.assert_array_equal(np.asarray(found), wanted)
    train = train_test_split(variable, test_size=10)[0]
    assert ag.grad(train.sum(), variable).sum().item() == 90


@pytest.mark.row("scikit-learn", "StandardScaler().fit_transform(x)")
def test_a_transformation_gives_an_array(table):
    found = StandardScaler().fit_transform(table[0])
    assert isinstance(found, np.ndarray)
    np.testing.assert_allclose(found.mean(0), 0, atol=1e-6)
    assert ft.asarray(found).dtype is ft.float32


@pytest.mark.row("scikit-learn", "model.fit(x, y).predict(x)")
def test_a_model_is_fitted_and_its_predictions_come_back(table):
    rows, labels = table
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(rows, labels)
    predicted = ft.asarray(model.predict(rows))
    assert predicted.dtype is labels.dtype
    assert (predicted == labels).astype("float32").mean().item() > 0.7
    assert ft.asarray(model.predict_proba(rows)).shape == (40, 2)
    assert cross_val_score(LogisticRegression(), rows, labels).shape == (5,)


@pytest.mark.row("scikit-learn", "metrics.accuracy_score(y, z)")
def test_scores_read_tensors_and_variables(table):
    rows, labels = table
    scores = ag.Variable(rows[:, 0], requires_grad=True)
    assert metrics.accuracy_score(labels, labels) == 1.0
    assert metrics.confusion_matrix(labels, rows[:, 0] > 0.5).sum() == 40
    assert metrics.roc_auc_score(labels, scores) > 0.5
    assert metrics.mean_squared_error(rows[:, 0], scores) == 0.0
