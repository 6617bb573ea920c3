"""Tiles are chosen by rule while a program waits, and measured by ``fl-tensor tune``."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import fl_tensor as ft
from fl_tensor.backends.providers import (
    Convolution,
    ConvolutionData,
    ConvolutionWeights,
    Matmul,
    channels_last,
    row_major,
    seen,
    tuning,
)
from fl_tensor.backends.providers import choose as providers
from fl_tensor.backends.providers.generated import choices, tile
from fl_tensor.backends.providers.generated.convolution import forward
from fl_tensor.backends.providers.generated.products import matmul
from fl_tensor.backends.providers.generated.provider import Generated
from fl_tensor.backends.providers.generated.weights import gradient
from fl_tensor.cli import main
from fl_tensor.codegen import target
from fl_tensor.dtypes import float32

PRODUCT = Matmul(*(row_major(float32, shape) for shape in ((90, 700), (700, 150), (90, 150))))
IMAGE, WEIGHTS, RESULT = (2, 24, 17, 30), (72, 24, 3, 3), (2, 72, 17, 30)
#: A tile that no rule takes here, and what a pretended measurement says of it.
SMALL = next(each for each in (tile.Tile(4, 3), tile.Tile(6, 2)) if tile.fits(each, target.host()))
NAME = f"{SMALL.rows}x{SMALL.vectors}"
FAST = {NAME: 1.0}
AROUND = (1, 1), ((1, 1), (1, 1)), (1, 1)
X, W, Y = channels_last(float32, IMAGE), row_major(float32, WEIGHTS), channels_last(float32, RESULT)
CONVOLUTION = Convolution(X, W, Y, *AROUND)
GRADIENT = ConvolutionData(Y, W, X, *AROUND)
WEIGHTS_GRADIENT = ConvolutionWeights(X, Y, W, *AROUND)
PREPARE = {
    PRODUCT: matmul.prepare,
    CONVOLUTION: forward.prepare,
    GRADIENT: forward.prepare,
    WEIGHTS_GRADIENT: gradient.prepare,
}
#: Whose sums do not depend on tiles, to the last bit.
SAME_BITS = PRODUCT, WEIGHTS_GRADIENT


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("FL_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(seen, "_noted", {})
    return tmp_path


def computed(kernel, rng_seed=3):
    rng = np.random.default_rng(rng_seed)
    arrays = [rng.standard_normal(p.elements, dtype=np.float32) for p in kernel.operands]
    kernel(*(array.ctypes.data for array in arrays))
    return arrays[-1]


@pytest.mark.parametrize(
    "problem", PREPARE, ids=["product", "convolution", "gradient of data", "of weights"]
)
def test_every_tile_gives_the_same(problem):
    prepare = PREPARE[problem]
    expected = computed(prepare(problem, None))
    tried = [each for each in choices._TILES if tile.fits(each, target.host())]
    assert tried
    for each in tried:
        kernel = prepare(problem, each)
        rows = tile.balanced(IMAGE[1], each.rows).size if problem is WEIGHTS_GRADIENT else each.rows
        assert f"{rows}" in kernel.about
        np.testing.assert_allclose(computed(kernel), expected, atol=2e-4)
        if problem in SAME_BITS:
            np.testing.assert_array_equal(computed(kernel), expected)


def test_programs_take_the_rule_and_measure_nothing(folder):
    provider = Generated()
    kernel = provider.find(PRODUCT)
    by_rule = kernel.about
    for _ in range(tuning.PATIENCE + 1):
        computed(kernel)
    assert kernel.about == by_rule and provider.choices() == ""


def test_tune_measures_and_programs_take_what_it_chose(folder, monkeypatch, capsys):
    monkeypatch.setattr(
        tuning, "measure", lambda made, addresses, clock: dict.fromkeys(made, 3.0) | FAST
    )
    provider = Generated()
    monkeypatch.setattr(providers, "current", lambda: provider)
    seen.note(PRODUCT)
    assert main(["tune"]) == 0
    assert "1 problems, 1 with another kernel" in capsys.readouterr().out
    assert f": {NAME} (" in provider.choices()
    another = Generated()
    assert another.find(PRODUCT).about == matmul.prepare(PRODUCT, SMALL).about
    with ft.reproducible():
        assert another.find(PRODUCT).about == matmul.prepare(PRODUCT).about
    files = [json.loads(path.read_text()) for path in folder.glob("choices-*.json")]
    assert [list(file["decisions"]) for file in files] == [[choices.key(PRODUCT)]]


def test_problems_that_differ_have_keys_that_differ():
    problems = [*PREPARE, PRODUCT._replace(accumulate=True), CONVOLUTION._replace(stride=(2, 2))]
    problems += [PRODUCT._replace(activation="relu")]
    assert len({choices.key(each) for each in problems}) == len(problems)


def test_other_instructions_are_other_choices(monkeypatch):
    before = choices.about()
    narrow = replace(target.host(), vector_bits=target.host().vector_bits // 2)
    monkeypatch.setattr(target, "host", lambda: narrow)
    assert choices.about() != before
