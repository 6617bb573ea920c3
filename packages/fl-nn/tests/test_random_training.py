"""Random models are trained on ``jit`` as on ``numpy``: layers, optimizers, batches and modes are
drawn, and all that a step changes is compared after it, in float64."""

from __future__ import annotations

import random

import pytest

import fl_autograd as ag
import fl_nn as nn
import fl_tensor as ft

np = pytest.importorskip("numpy", reason="jit is a backend over NumPy")

STEPS, CLASSES = 4, 5
#: Settings under which rounding stays what it is: the square root of next to nothing is added to.
OPTIMIZERS = {
    "SGD": lambda p: nn.SGD(p, lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.01),
    "NAG": lambda p: nn.NAG(p, lr=0.02, momentum=0.9),
    "Adam": lambda p: nn.Adam(p, lr=0.01, eps=1e-3),
    "AdamW": lambda p: nn.AdamW(p, lr=0.01, eps=1e-3),
    "AMSgrad": lambda p: nn.AMSgrad(p, lr=0.01, eps=1e-3),
    "Adagrad": lambda p: nn.Adagrad(p, eps=1e-3),
    "Adadelta": lambda p: nn.Adadelta(p, lr=0.5, eps=1e-3),
    "RMSprop": lambda p: nn.RMSprop(p, eps=1e-3, momentum=0.9, centered=True),
    "Adafactor": lambda p: nn.Adafactor(p, eps=(1e-3, 1e-3)),
    "LAMB": lambda p: nn.LAMB(p, lr=0.01, eps=1e-3),
    "Novograd": lambda p: nn.Novograd(p, lr=0.01, eps=1e-3),
}
ACTIVATIONS = [nn.ReLU, nn.GELU, nn.Tanh, nn.Swish, nn.ELU, nn.LeakyReLU, nn.Softplus, nn.PReLU]


def images(draw):
    """Convolutions of all kinds, what normalises them, pooling."""
    channels, size, layers = draw.choice([2, 4, 6]), 8, []
    shape = (channels, size, size)
    for _ in range(draw.randint(1, 3)):
        groups = draw.choice([n for n in (1, 2, channels) if not channels % n])
        features = groups * draw.randint(1, 3)
        if draw.random() < 0.3:
            layer = nn.ConvTranspose2D(channels, features, 3, padding=1, groups=groups)
        else:
            dilation = draw.choice([1, 2])
            layer = nn.Conv2D(channels, features, draw.choice([1, 3]), 1, "same", dilation, groups)
        channels = features
        layers.append(nn.WeightNorm(layer) if draw.random() < 0.2 else layer)
        layers.append(draw.choice([nn.BatchNorm, lambda n: nn.GroupNorm(1, n)])(channels))
        layers += [draw.choice(ACTIVATIONS)(), nn.Dropout(0.2)]
        if size > 2 and draw.random() < 0.5:
            layers.append(nn.Pool2D(2, mode=draw.choice(["max", "avg"])))
            size //= 2
    layers += [nn.Flatten(), nn.Linear(channels * size * size, CLASSES)]
    return nn.Sequential(*layers), lambda rng, n: rng.standard_normal((n, *shape))


def vectors(draw):
    """Linear layers, some of them beside what they change."""
    width = first = draw.choice([4, 7, 16])
    layers = []
    for _ in range(draw.randint(1, 3)):
        to = draw.choice([3, 8, 17])
        layers += [nn.Linear(width, to), draw.choice([nn.LayerNorm, nn.RMSNorm, nn.BatchNorm])(to)]
        layers += [draw.choice(ACTIVATIONS)(), nn.Residual(nn.Linear(to, to)).add_shortcut(0, 2)]
        width = to
    layers.append(nn.Linear(width, CLASSES))
    return nn.Sequential(*layers), lambda rng, n: rng.standard_normal((n, first))


class Tied(nn.Module):
    """Tokens through a layer of sequences, and back to tokens by the same table."""

    def __init__(self, draw):
        super().__init__()
        self.table = nn.Embedding(CLASSES, 8)
        self.layer = draw.choice(SEQUENCES)()
        self.norm = nn.LayerNorm(8)

    def forward(self, x):
        y = self.layer(self.table(x))
        y = self.norm(y[0] if isinstance(y, tuple) else y)
        return ft.sum(y @ self.table.weight.T, 1)


SEQUENCES = [
    lambda: nn.TransformerEncoderLayer(8, 2, 12, dropout=0.1, rotary=100.0, causal=True),
    lambda: nn.TransformerEncoderLayer(8, 2, 12, activation="gelu", norm_first=True, relative=3),
    lambda: nn.Conformer(8, 2, 12, 3),
    lambda: nn.LSTM(8, 4, 2, batch_first=True, bidirectional=True, dropout=0.2),
    lambda: nn.GRU(8, 8, batch_first=True),
    lambda: nn.RNN(8, 8, batch_first=True),
]


def tokens(draw):
    return Tied(draw), lambda rng, n: rng.integers(0, CLASSES, (n, 6))


def trained(seed, given=None):
    """What each step made of a random model, by name; ``given`` are its first values."""
    draw, rng = random.Random(seed), np.random.default_rng(seed)
    ft.seed(seed)
    model, inputs = draw.choice([images, vectors, tokens])(draw)
    model.to(ft.float64)
    if given is not None:
        model.load_state_dict({name: ft.asarray(value) for name, value in given.items()})
    name = draw.choice(list(OPTIMIZERS))
    optimizer = OPTIMIZERS[name](model.parameters())
    clips, looks = draw.random() < 0.3, draw.random() < 0.3
    found = [values(model)]
    for step in range(STEPS):
        count = 3 if step == 2 else 4  # another batch in between
        x, y = ft.asarray(inputs(rng, count)), ft.asarray(rng.integers(0, CLASSES, count))
        loss = nn.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        if clips:
            nn.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        state = {f"{name} {k}": v for k, v in optimizer.state_dict()["tensors"].items()}
        found.append({"loss": np.array(loss.tensor), **values(model)})
        found[-1] |= {name: np.array(value) for name, value in state.items()}
        if looks:
            with nn.evaluating(model), ag.no_grad():
                found[-1]["eval"] = np.array(model(x).tensor)
    return found


def values(model):
    return {name: np.array(value) for name, value in model.state_dict().items()}


def noisy(given):
    """The same but for what rounding may come to: equal values stay equal."""
    return {
        name: value * (1.0 + 1e-13 * np.cos(1e4 * value)) if value.dtype.kind == "f" else value
        for name, value in given.items()
    }


@pytest.mark.parametrize("compile_after", [1, 2])
@pytest.mark.parametrize("seed", range(16))
def test_training_is_that_of_numpy(seed, compile_after):
    pytest.importorskip("fl_jit")
    with ft.use("numpy"):
        wanted = trained(seed)
        near = trained(seed, noisy(wanted[0]))
    backend = type(ft.get_backend("jit"))()
    backend.smallest, backend.plans.policy.patience = 1, 0
    backend.plans.compile_after, backend.plans.background = compile_after, False
    with ft.use(backend):
        found = trained(seed, wanted[0])
    assert backend.plans.entries(), "nothing was planned"
    for number, (mine, theirs, other) in enumerate(zip(found, wanted, near, strict=True)):
        assert mine.keys() == theirs.keys()
        for name, value in theirs.items():
            noise = 300.0 * np.max(np.abs(value - other[name]), initial=0.0)
            np.testing.assert_allclose(
                mine[name], value, rtol=1e-8, atol=1e-10 + noise, err_msg=f"{name}, step {number}"
            )
