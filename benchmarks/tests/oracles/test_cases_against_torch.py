"""What the benchmarks time is the same computation in PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

from cases import contractions, small

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("case", small.NAMES)
def test_operations_on_few_elements(case):
    results = [
        np.asarray(call()[case]())
        for call in (small.numpy_calls, small.torch_calls, small.our_calls)
    ]
    for found in results[1:]:
        assert found.dtype == results[0].dtype
        np.testing.assert_allclose(found, results[0], rtol=1e-6)


@pytest.mark.parametrize("last", [False, True])
def test_contractions_have_the_shapes_of_pytorch(monkeypatch, last):
    monkeypatch.setattr(contractions, "PRODUCTS", {})
    monkeypatch.setattr(contractions, "LAYERS", {})
    monkeypatch.setattr(contractions, "GROUPED", {})
    contractions.make_tiny()
    before = torch.is_grad_enabled()
    for case in contractions.operations():
        theirs = contractions.torch_call(case, last)()
        theirs = [x for x in theirs if x is not None] if isinstance(theirs, tuple) else [theirs]
        assert [tuple(x.shape) for x in theirs] == [contractions.our_call(case)().shape]
    torch.set_grad_enabled(before)
