"""Libraries written for the array API standard take our tensors and give tensors back.

SciPy does so with ``SCIPY_ARRAY_API=1`` in the environment before it is loaded: see conftest.py.
"""

from __future__ import annotations

import importlib

import numpy as np
import pytest

import fl_tensor as ft

DATA = np.random.default_rng(0).normal(size=(2, 3, 4))


def matches(found, expected, rtol=1e-10) -> None:
    assert isinstance(found, ft.Tensor)
    np.testing.assert_allclose(found.numpy(), np.asarray(expected), rtol=rtol, atol=1e-12)


# ---- array-api-compat ----------------------------------------------------------------------------


def test_array_api_compat_finds_the_namespace():
    compat = pytest.importorskip("array_api_compat")
    x = ft.ones((2, 3))
    assert compat.is_array_api_obj(x)
    assert compat.array_namespace(x, x, 1.0) is ft.array_api
    assert (compat.device(x), compat.size(x)) == (ft.CPU, 6)
    assert compat.to_device(x, "cpu").shape == (2, 3)


# ---- einops -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "function, pattern, arguments",
    [
        ("rearrange", "a b c -> (a c) b", {}),
        ("rearrange", "a b (c d) -> d a (b c)", {"d": 2}),
        ("reduce", "a b c -> a c", {"reduction": "mean"}),
        ("reduce", "a (b s) c -> a b c", {"reduction": "max", "s": 3}),
        ("repeat", "a b c -> a (b r) c", {"r": 2}),
    ],
)
def test_einops(function, pattern, arguments):
    einops = pytest.importorskip("einops")
    api = pytest.importorskip("einops.array_api")
    found = getattr(api, function)(ft.asarray(DATA), pattern, **arguments)
    matches(found, getattr(einops, function)(DATA, pattern, **arguments))


# ---- SciPy --------------------------------------------------------------------------------------


@pytest.fixture
def scipy():
    found = pytest.importorskip("scipy", minversion="1.16")
    for part in "differentiate fft integrate ndimage signal special stats".split():
        importlib.import_module(f"scipy.{part}")
    return found


SCIPY = {
    "logsumexp": lambda scipy, x: scipy.special.logsumexp(x, axis=1),
    "softmax": lambda scipy, x: scipy.special.softmax(x, axis=1),
    "gammaln": lambda scipy, x: scipy.special.gammaln(abs(x)),
    "erf": lambda scipy, x: scipy.special.erf(x),
    "zscore": lambda scipy, x: scipy.stats.zscore(x, axis=1),
    "skew": lambda scipy, x: scipy.stats.skew(x, axis=2),
    "ttest_ind": lambda scipy, x: scipy.stats.ttest_ind(x[0], x[1]).pvalue,
    "pearsonr": lambda scipy, x: scipy.stats.pearsonr(x[0], x[1], axis=1).statistic,
    "gmean": lambda scipy, x: scipy.stats.gmean(abs(x)),
    "rankdata": lambda scipy, x: scipy.stats.rankdata(x, axis=-1),
    "fftconvolve": lambda scipy, x: scipy.signal.fftconvolve(x[0], x[1]),
    "hilbert": lambda scipy, x: scipy.signal.hilbert(x),
    "detrend": lambda scipy, x: scipy.signal.detrend(x),
    "rfft": lambda scipy, x: scipy.fft.rfft(x),
    "dct": lambda scipy, x: scipy.fft.dct(x),
    "gaussian_filter": lambda scipy, x: scipy.ndimage.gaussian_filter(x[0], 1.0),
    "trapezoid": lambda scipy, x: scipy.integrate.trapezoid(x),
}


@pytest.mark.parametrize("name", SCIPY)
def test_scipy(scipy, name):
    matches(SCIPY[name](scipy, ft.asarray(DATA)), SCIPY[name](scipy, DATA))


def test_scipy_calls_our_functions_back(scipy):
    """Adaptive integration: our function, on nodes that SciPy chooses, as often as it needs."""
    low, high = ft.zeros((), ft.float64), ft.ones(2, ft.float64)
    done = scipy.integrate.tanhsinh(lambda t: ft.exp(-t), low, high * 2.0)
    matches(done.integral, 1 - np.exp([-2.0, -2.0]))
    slope = scipy.differentiate.derivative(ft.exp, ft.asarray([1.0, 2.0], ft.float64))
    matches(slope.df, np.exp([1.0, 2.0]), rtol=1e-6)


# ---- scikit-learn --------------------------------------------------------------------------------


@pytest.fixture
def sklearn():
    sklearn = pytest.importorskip("sklearn", minversion="1.7")
    pytest.importorskip("array_api_compat")
    with sklearn.config_context(array_api_dispatch=True):
        yield sklearn


def classes(n: int = 60):
    """Two noisy clouds of points in five dimensions, and which one each point is of."""
    rng = np.random.default_rng(1)
    labels = np.arange(n) % 2
    return rng.normal(size=(n, 5)) + 1.5 * labels[:, None], labels


def test_linear_discriminant_analysis(sklearn):
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    points, labels = classes()
    ours = LinearDiscriminantAnalysis().fit(ft.asarray(points), ft.asarray(labels))
    theirs = LinearDiscriminantAnalysis().fit(points, labels)
    matches(ours.predict_proba(ft.asarray(points)), theirs.predict_proba(points), rtol=1e-7)
    matches(ours.predict(ft.asarray(points)), theirs.predict(points))


@pytest.mark.parametrize("solver", ["full", "covariance_eigh"])
def test_principal_components(sklearn, solver):
    from sklearn.decomposition import PCA

    points, _ = classes()
    ours, theirs = (PCA(3, svd_solver=solver).fit(x) for x in (ft.asarray(points), points))
    matches(ours.explained_variance_, theirs.explained_variance_)
    matches(ours.transform(ft.asarray(points)), theirs.transform(points))


def test_ridge_regression(sklearn):
    from sklearn.linear_model import Ridge

    points, labels = classes()
    target = labels.astype(float)
    ours = Ridge(solver="svd").fit(ft.asarray(points), ft.asarray(target))
    matches(ours.coef_, Ridge(solver="svd").fit(points, target).coef_)


@pytest.mark.parametrize("name", ["StandardScaler", "MinMaxScaler", "PolynomialFeatures"])
def test_preprocessing(sklearn, name):
    import sklearn.preprocessing

    if name != "MinMaxScaler":
        pytest.importorskip("sklearn", minversion="1.8", reason="hands our dtypes to NumPy")
    points, _ = classes()
    scaler = getattr(sklearn.preprocessing, name)
    matches(scaler().fit_transform(ft.asarray(points)), scaler().fit_transform(points))


def test_model_selection(sklearn):
    from sklearn.model_selection import train_test_split

    points, labels = classes()
    ours = train_test_split(ft.asarray(points), ft.asarray(labels), random_state=0)
    for found, expected in zip(ours, train_test_split(points, labels, random_state=0)):
        matches(found, expected)


def test_metrics(sklearn):
    from sklearn import metrics

    points, labels = classes()
    guess = (points[:, 0] > 0.7).astype(np.int64)
    x, y, g = ft.asarray(points), ft.asarray(labels), ft.asarray(guess)
    for score in (metrics.accuracy_score, metrics.f1_score):  # in float32, our default
        assert score(y, g) == pytest.approx(score(labels, guess))
    assert metrics.r2_score(x[:, 0], x[:, 1]) == pytest.approx(
        metrics.r2_score(points[:, 0], points[:, 1])
    )
    matches(metrics.pairwise.rbf_kernel(x), metrics.pairwise.rbf_kernel(points))


def test_a_table_of_labels(sklearn):
    pytest.importorskip("sklearn", minversion="1.8", reason="asks NumPy whether all labels are")
    from sklearn.metrics import confusion_matrix

    points, labels = classes()
    guess = (points[:, 0] > 0.7).astype(np.int64)
    ours = confusion_matrix(ft.asarray(labels), ft.asarray(guess))
    matches(ours, confusion_matrix(labels, guess))
