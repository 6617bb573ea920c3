"""Caches of keys and values: of fixed capacity, and as one call of a network sees them."""

from __future__ import annotations

import pytest

import fl_autograd as ag
import fl_nn as nn
import fl_tensor as ft


def layer(**options):
    return nn.MultiHeadAttention(16, 4, **options).eval()


def steps(rows, count, seed=0):
    return ft.Generator(seed).normal((rows, count, 16))


def near(found, wanted):
    assert ft.allclose(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("options", [{}, {"kv_heads": 2}, {"rotary": 100.0}])
def test_a_fixed_cache_gives_what_a_growing_one_gives(options):
    attend, x = layer(**options), steps(2, 6)
    growing, fixed = nn.KVCache(), nn.FixedKVCache(8)
    for part in (x[:, :3], x[:, 3:4], x[:, 4:]):
        near(attend(part, causal=True, cache=fixed), attend(part, causal=True, cache=growing))
    assert fixed.steps == growing.steps == 6
    near(fixed.keys, growing.keys)
    near(fixed.values, growing.values)
    assert fixed.all_keys.shape[2] == 8
    near(fixed.all_keys[:, :, 6:], ft.zeros_like(fixed.all_keys[:, :, 6:]))


def test_a_fixed_cache_selects_rows():
    attend, x = layer(), steps(3, 4)
    cache, fixed = nn.KVCache(), nn.FixedKVCache(4)
    for one in (cache, fixed):
        attend(x[:, :3], causal=True, cache=one)
        one.select(ft.asarray([2, 0, 0]))
    last = x[:, 3:]
    near(attend(last, cache=fixed), attend(last, cache=cache))


def test_a_fixed_cache_refuses_more_steps_than_its_capacity():
    cache = nn.FixedKVCache(4)
    layer()(steps(1, 3), cache=cache)
    with pytest.raises(nn.ModuleError, match=r"3 steps and 2 more, the capacity is 4: .*KVCache"):
        layer()(steps(1, 2), cache=cache)
    assert cache.steps == 3


def test_a_fixed_cache_refuses_another_batch():
    cache = nn.FixedKVCache(4)
    layer()(steps(2, 1), cache=cache)
    with pytest.raises(ft.ShapeError, match=r"steps \(3, 4, 1, 4\) for a cache \(2, 4, 4, 4\)"):
        layer()(steps(3, 1), cache=cache)


@pytest.mark.parametrize("capacity", [0, -1, 1.5, True, None])
def test_capacities_are_positive_integers(capacity):
    with pytest.raises(nn.ModuleError, match="capacity"):
        nn.FixedKVCache(capacity)


def test_a_fixed_cache_refuses_a_second_run_under_checkpoint():
    attend, cache = layer(), nn.FixedKVCache(8)
    x = ag.Variable(steps(1, 2), requires_grad=True)
    y = ag.checkpoint(lambda x: attend(x, cache=cache), x)
    with pytest.raises(nn.ModuleError, match="cannot run twice"):
        y.sum().backward()


@pytest.mark.parametrize("options", [{}, {"kv_heads": 2}, {"rotary": 100.0}])
@pytest.mark.parametrize("more", [1, 3])
def test_a_step_sees_the_visible_part_of_a_larger_cache(options, more):
    attend, x = layer(**options), steps(2, 4 + more)
    cache = nn.KVCache()
    attend(x[:, :4], causal=True, cache=cache)
    room = ft.zeros((2, cache.keys.shape[1], 3, 4)) + 100.0  # what lies behind is not looked at
    view = nn.CacheStep(
        ft.asarray([4, 4]),
        ft.concatenate([cache.keys, room], 2),
        ft.concatenate([cache.values, room], 2),
        ft.broadcast_to(ft.arange(7) < 4, (2, 7)),
    )
    found = attend(x[:, 4:], causal=True, cache=view)
    near(found, attend(x[:, 4:], causal=True, cache=cache))
    near(view.new_keys, cache.keys[:, :, 4:])
    near(view.new_values, cache.values[:, :, 4:])


@pytest.mark.parametrize("options", [{}, {"rotary": 100.0}])
def test_padding_before_a_row_changes_nothing(options):
    attend, x = layer(**options), steps(2, 5)
    pads = ft.asarray([0, 2])
    shown = ft.arange(5) >= pads[:, None]
    view = nn.CacheStep(-pads, new_visible=shown)
    found = attend(x, causal=True, cache=view)
    near(found[0], attend(x[:1], causal=True)[0])
    near(found[1, 2:], attend(x[1:, 2:], causal=True)[0])
    assert bool(ft.all(ft.isfinite(found)).item())


def test_a_cache_step_refuses_other_masks():
    view = nn.CacheStep(ft.asarray([0]))
    with pytest.raises(nn.ModuleError, match="a CacheStep has its mask in `visible`"):
        layer()(steps(1, 2), key_mask=ft.ones((1, 2), ft.bool), cache=view)
    with pytest.raises(nn.ModuleError, match="no relative"):
        layer(relative=4)(steps(1, 2), cache=view)


def test_a_compiled_step_is_one_graph_for_all_lengths():
    attend, x = layer(), steps(2, 8)
    cache, growing = nn.FixedKVCache(8), nn.KVCache()

    def run(part, count, keys, values):
        view = nn.CacheStep(
            ft.broadcast_to(count, (2,)),
            keys,
            values,
            ft.broadcast_to(ft.arange(8) < count, (2, 8)),
        )
        return attend(part, cache=view), view.new_keys, view.new_values

    step = nn.compile(run, attend, strict=True)
    with ag.no_grad():
        for one in (cache, growing):
            attend(x[:, :2], causal=True, cache=one)
        for t in range(2, 8):
            y, keys, values = step(x[:, t : t + 1], ft.asarray(t), cache.all_keys, cache.all_values)
            cache.write(keys, values)
            near(y, attend(x[:, t : t + 1], cache=growing))
    assert step.compiled_calls == 5 and step.calls == 6
    near(cache.keys, growing.keys)


def test_positions_of_each_row():
    table, x = nn.PositionEmbedding(6, 4).eval(), ft.zeros((2, 3, 4))
    found = table(x, ft.asarray([2, -1]))
    near(found[0], table.weight[2:5])
    near(found[1], ft.stack([table.weight[0], table.weight[0], table.weight[1]]))
    turn, y = nn.RotaryEmbedding(4), ft.Generator(0).normal((2, 1, 3, 4))
    found = turn(y, ft.asarray([5, 0]))
    near(found[0], turn(y[0], 5))
    near(found[1], turn(y[1]))


def test_positions_of_each_row_fit_the_batch():
    with pytest.raises(ft.ShapeError, match=r"offset \(3,\) of int64 for x \(2, 3, 4\)"):
        nn.PositionEmbedding(6, 4)(ft.zeros((2, 3, 4)), ft.asarray([0, 1, 2]))
    with pytest.raises(ft.ShapeError, match="float32"):
        nn.RotaryEmbedding(4)(ft.zeros((2, 1, 3, 4)), ft.asarray([0.0, 1.0]))


@pytest.mark.parametrize("more", [1, 3, 6])
@pytest.mark.parametrize("window", [1, 2, 4, 20])
def test_a_window_masks_older_steps(more, window):
    """Of a row with two columns of padding, beside attention with a mask."""
    q, k, v = (ft.Generator(seed).normal((1, 4, 5 + more, 8)) for seed in range(3))
    room = ft.zeros((1, 4, 2, 8)) + 50.0
    places = ft.arange(5 + more)
    near_enough = places[None, :] > places[:, None] - window
    wanted = nn.attention(q, k, v, near_enough, causal=True)[:, :, 5:]
    visible = ft.logical_and(ft.arange(9) >= 2, ft.arange(9) < 7)[None]
    view = nn.CacheStep(
        ft.asarray([5]),
        ft.concatenate([room, k[:, :, :5], room], 2),
        ft.concatenate([room, v[:, :, :5], room], 2),
        visible,
    )
    found = view.attention(q[:, :, 5:], k[:, :, 5:], v[:, :, 5:], 8**-0.5, True, window)
    near(found, wanted)
    alone = nn.CacheStep(ft.asarray([0])).attention(q, k, v, 8**-0.5, True, window)
    near(alone[:, :, 5:], wanted)


def test_sinusoidal_positions_have_an_offset_for_each_row():
    add, x = nn.SinusoidalPositionEmbedding(16, 2.0), steps(2, 3)
    found = add(x, ft.asarray([4, 0]))
    near(found[0], add(x[:1], 4)[0])
    near(found[1], add(x[1:])[0])
    with pytest.raises(ft.ShapeError, match="one for each row"):
        add(x, ft.asarray([1, 2, 3]))
