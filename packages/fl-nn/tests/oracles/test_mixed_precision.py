"""autocast(bfloat16) and GradScaler of PyTorch, where they mean the same."""

from __future__ import annotations

import math

import pytest
from torch_twins import SEED, Draw, torch, torch_of

import fl_autograd as ag
import fl_nn as nn
import fl_tensor as ft

#: Half of what lies between 1 and the next number of bfloat16.
ROUNDING = 2.0**-8


def apart(mine, theirs):
    """The distance of two lists of arrays by their length, as vectors, in roundings to bfloat16."""
    mine, theirs = (
        torch.cat([torch.tensor(v.tolist(), dtype=torch.float64).flatten() for v in side])
        for side in (mine, theirs)
    )
    return ((mine - theirs).norm() / theirs.norm()).item() / ROUNDING


def network(draw):
    """The same model twice: convolution, linear layers, activations."""
    channels, hidden, classes = draw.randint(1, 3), draw.randint(2, 9), draw.randint(2, 5)
    kernel, size = draw.randint(1, 3), draw.randint(4, 7)
    inner = channels * 2 * (size - kernel + 1) ** 2
    smooth, bias = draw.maybe(), draw.maybe()
    mine = nn.Sequential(
        nn.Conv2D(channels, 2 * channels, kernel, bias=bias), nn.Tanh() if smooth else nn.ReLU(),
        nn.View((0, -1)), nn.Linear(inner, hidden, bias), nn.Sigmoid(), nn.Linear(hidden, classes),
    )  # fmt: skip
    theirs = torch.nn.Sequential(
        torch.nn.Conv2d(channels, 2 * channels, kernel, bias=bias),
        torch.nn.Tanh() if smooth else torch.nn.ReLU(), torch.nn.Flatten(),
        torch.nn.Linear(inner, hidden, bias), torch.nn.Sigmoid(), torch.nn.Linear(hidden, classes),
    )  # fmt: skip
    theirs.load_state_dict({name: torch_of(v) for name, v in mine.state_dict().items()})
    x = draw.values((draw.randint(2, 6), channels, size, size), "float32")
    return mine, theirs, x, draw.integers(0, classes, (x.shape[0],))


def compare(draw):
    """How far outputs and gradients of one network are apart; the dtypes are the same."""
    ft.seed(draw.getrandbits(32))
    mine, theirs, x, classes = network(draw)
    dtypes, other_dtypes = [], []
    for (_, layer), other in zip(mine.named_children(), theirs):
        layer.register_forward_hook(lambda m, i, output: dtypes.append(str(output.dtype)))
        other.register_forward_hook(lambda m, i, output: other_dtypes.append(str(output.dtype)))
    with ag.autocast("O1", compute="bfloat16"):
        output = mine(x)
        loss = nn.cross_entropy(output, classes)
    with torch.autocast("cpu", torch.bfloat16):
        twin = theirs(torch_of(x))
        # Its list for processors leaves the loss in bfloat16; ours and that for GPUs do not.
        expected = torch.nn.functional.cross_entropy(twin.float(), torch_of(classes))
    assert [f"torch.{name}" for name in dtypes] == other_dtypes == ["torch.bfloat16"] * 6
    assert loss.dtype is ft.float32
    loss.backward()
    expected.backward()
    gradients = [p.grad for p in mine.parameters()], [p.grad for p in theirs.parameters()]
    assert {g.dtype for g in gradients[0]} == {ft.float32}
    assert {g.dtype for g in gradients[1]} == {torch.float32}
    return apart([output, loss], [twin, expected]), apart(*gradients)


def test_autocast():
    """On the average of networks, by less than two roundings: in single ones a gradient may be the
    small difference of large numbers."""
    if ft.bfloat16 not in ft.current_backend().dtypes:
        pytest.skip("the backend has no bfloat16 (numpy: with ml_dtypes)")
    found = [compare(Draw(f"{SEED} autocast {number}")) for number in range(60)]
    outputs, gradients = (sum(column) / len(column) for column in zip(*found))
    assert max(outputs, gradients) < 2.0, f"{outputs}, {gradients}; FL_ORACLE_SEED={SEED}"


@pytest.mark.parametrize("number", range(40))
def test_loss_scaling(number):
    draw = Draw(f"{SEED} scaler {number}")
    interval, factor = draw.randint(1, 4), 2.0 ** draw.randint(0, 16)
    start = draw.values((3,), "float32")
    mine, theirs = nn.Parameter(start), torch.nn.Parameter(torch_of(start))
    optimizer, other = nn.SGD([mine], 0.1, 0.9), torch.optim.SGD([theirs], 0.1, 0.9)
    scaler = nn.DynamicLossScaler(factor, interval, maximum=2.0**60, minimum=2.0**-60)
    twin = torch.amp.GradScaler("cpu", init_scale=factor, growth_interval=interval)
    for _ in range(20):
        slope = draw.choice([draw.uniform(-1.0, 1.0)] * 4 + [math.inf, math.nan])
        optimizer.zero_grad()
        scaler.scale((mine * slope).sum()).backward()
        if scaler.unscale(optimizer):
            nn.clip_grad_norm_(mine, 1.0)
            optimizer.step()
        other.zero_grad()
        twin.scale((theirs * slope).sum()).backward()
        twin.unscale_(other)
        torch.nn.utils.clip_grad_norm_([theirs], 1.0)
        twin.step(other)
        twin.update()
        assert scaler.factor == twin.get_scale(), f"FL_ORACLE_SEED={SEED}"
        assert mine.tolist() == pytest.approx(theirs.tolist(), rel=1e-5, abs=1e-6)
