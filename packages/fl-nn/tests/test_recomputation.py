"""Checkpointing the blocks of a model: the same numbers from less memory."""

from __future__ import annotations

import gc

import pytest
from bits import same

import fl_autograd as ag
import fl_memory
import fl_nn as nn
import fl_tensor as ft

#: Where what is computed anew is rounded otherwise, a ReLU near zero may open that was closed.
DEFERRED = 1e-3
LAYERS, BATCH, STEPS, SIZE = 12, 8, 48, 32


def encoder(norm_first):
    return nn.Sequential(
        *(
            nn.TransformerEncoderLayer(SIZE, 4, 4 * SIZE, dropout=0.1, norm_first=norm_first)
            for _ in range(LAYERS)
        )
    )


def trained(norm_first, call):
    """Two passes forward and backward, `call(layer, x)` for each layer: (loss and gradients, most
    bytes of activations that were alive at a time)."""
    manager = type(fl_memory.get("caching"))(small_bytes=0)  # which then serves every result
    gc.collect()
    gc.disable()
    try:
        with fl_memory.use(manager):
            ft.seed(1)
            x = ft.randn((BATCH, STEPS, SIZE))
            model = encoder(norm_first)
            for _ in range(2):
                # In the second round every parameter has its gradient before the forward pass, so
                # that what comes on top of this are activations.
                before = manager.stats().live_bytes
                h = x
                for layer in model:
                    h = call(layer, h)
                loss = ft.mean(ft.square(h))
                del h
                loss.backward()
                ft.eval(loss, *(p.grad for p in model.parameters()))
    finally:
        gc.enable()
    lasting = x.nbytes + sum(p.nbytes + p.grad.nbytes for p in model.parameters())
    assert lasting <= before < lasting + 1000, "parameters, gradients, input, next to nothing else"
    values = [loss.item(), *(p.grad.tolist() for p in model.parameters())]
    return values, manager.stats().peak_live_bytes - before


@pytest.mark.fl_heavy
@pytest.mark.parametrize("norm_first", [False, True])
def test_checkpointing_each_block_of_a_transformer_halves_the_peak_of_activations(norm_first):
    plain, whole = trained(norm_first, lambda layer, x: layer(x))
    again, least = trained(norm_first, lambda layer, x: ag.checkpoint(layer, x))
    print(f"at the peak {whole:,} bytes of activations, {least:,} with checkpoint")
    assert same(again, plain, DEFERRED), "loss and gradients, bit for bit"
    assert least <= 0.5 * whole


@pytest.mark.fl_heavy
def test_a_policy_is_in_between():
    def call(layer, x):
        return ag.checkpoint(layer, x, policy=("linear", "matmul"))

    plain, whole = trained(True, lambda layer, x: layer(x))
    spared, some = trained(True, call)
    _, least = trained(True, lambda layer, x: ag.checkpoint(layer, x))
    assert same(spared, plain, DEFERRED)
    assert least < some < whole


def test_a_batch_that_is_computed_twice_counts_once():
    x = ft.randn((8, 3))
    plain, again = nn.BatchNorm(3), nn.BatchNorm(3)
    ft.sum(ft.square(plain(x))).backward()
    ft.sum(ft.square(ag.checkpoint(again, x))).backward()
    assert again.weight.grad.tolist() == plain.weight.grad.tolist()
    for name, buffer in plain.named_buffers():
        assert dict(again.named_buffers())[name].tolist() == buffer.tolist(), name
    assert again.num_batches_tracked.item() == 1
