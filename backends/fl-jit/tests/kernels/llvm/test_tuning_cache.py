"""Tiles are chosen by rule while a program waits, and measured by ``fl-jit tune``."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from bias_and_activation import followed

import fl_tensor as ft
from fl_jit.cli import main
from fl_jit.kernels import (
    ConvDataGrad,
    Convolution,
    ConvWeightGrad,
    Matmul,
    autotune,
    channels_last,
    registry,
    row_major,
    workload_log,
)
from fl_jit.kernels.codegen import target
from fl_jit.kernels.llvm import tile, tuning_cache
from fl_jit.kernels.llvm.conv import forward
from fl_jit.kernels.llvm.conv_wgrad import wgrad
from fl_jit.kernels.llvm.gemm import matmul
from fl_jit.kernels.llvm.library import GeneratedKernels
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
GRADIENT = ConvDataGrad(Y, W, X, *AROUND)
WEIGHTS_GRADIENT = ConvWeightGrad(X, Y, W, *AROUND)
PREPARE = {
    PRODUCT: matmul.prepare,
    CONVOLUTION: forward.prepare,
    GRADIENT: forward.prepare,
    WEIGHTS_GRADIENT: wgrad.prepare,
}
#: Whose sums do not depend on tiles, to the last bit.
SAME_BITS = PRODUCT, WEIGHTS_GRADIENT


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("FL_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(workload_log, "_noted", {})
    return tmp_path


def computed(kernel, rng_seed=3):
    rng = np.random.default_rng(rng_seed)
    arrays = [rng.standard_normal(p.elements, dtype=np.float32) for p in kernel.operands]
    kernel(*(array.ctypes.data for array in arrays))
    return arrays[-1]


@pytest.mark.parametrize(
    "descriptor", PREPARE, ids=["product", "convolution", "gradient of data", "of weights"]
)
def test_every_tile_gives_the_same(descriptor):
    prepare = PREPARE[descriptor]
    expected = computed(prepare(descriptor, None))
    tried = [each for each in tuning_cache._TILES if tile.fits(each, target.host())]
    assert tried
    for each in tried:
        kernel = prepare(descriptor, each)
        rows = (
            tile.balanced(IMAGE[1], each.rows).size if descriptor is WEIGHTS_GRADIENT else each.rows
        )
        assert f"{rows}" in kernel.about
        np.testing.assert_allclose(computed(kernel), expected, atol=2e-4)
        if descriptor in SAME_BITS:
            np.testing.assert_array_equal(computed(kernel), expected)


def test_programs_take_the_rule_and_measure_nothing(folder):
    library = GeneratedKernels()
    kernel = library.find(PRODUCT)
    by_rule = kernel.about
    for _ in range(10):
        computed(kernel)
    assert kernel.about == by_rule and library.choices() == ""


def test_tune_measures_and_programs_take_what_it_chose(folder, monkeypatch, capsys):
    monkeypatch.setattr(
        autotune, "measure", lambda made, addresses, clock: dict.fromkeys(made, 3.0) | FAST
    )
    library = GeneratedKernels()
    monkeypatch.setattr(registry, "active_library", lambda: library)
    workload_log.note(PRODUCT)
    assert main(["tune"]) == 0
    assert "1 operations, 1 with another kernel" in capsys.readouterr().out
    assert f": {NAME} (" in library.choices()
    another = GeneratedKernels()
    assert another.find(PRODUCT).about == matmul.prepare(PRODUCT, SMALL).about
    with ft.reproducible():
        assert another.find(PRODUCT).about == matmul.prepare(PRODUCT).about
    files = [json.loads(path.read_text()) for path in folder.glob("choices-*.json")]
    assert [list(file["decisions"]) for file in files] == [[tuning_cache.key(PRODUCT)]]


def test_problems_that_differ_have_keys_that_differ():
    descriptors = [*PREPARE, PRODUCT._replace(accumulate=True), CONVOLUTION._replace(stride=(2, 2))]
    descriptors += [followed(PRODUCT, activation="relu")]
    assert len({tuning_cache.key(each) for each in descriptors}) == len(descriptors)


def test_other_instructions_are_other_choices(monkeypatch):
    before = tuning_cache.about()
    narrow = replace(target.host(), vector_bits=target.host().vector_bits // 2)
    monkeypatch.setattr(target, "host", lambda: narrow)
    assert tuning_cache.about() != before
