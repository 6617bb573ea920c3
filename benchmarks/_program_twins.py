"""The programs of ``examples/programs`` in PyTorch: a function for each makes its training step."""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

Step = Callable[[], Any]


def updating(optimizer: Any, loss_of: Step, after: Step = lambda: None) -> Step:
    """A step: the loss, its gradients, the update; ``after`` the gradients something else."""

    def step() -> Any:
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        after()
        optimizer.step()
        return loss

    return step


def network(*sizes: int, between: Callable[[], nn.Module] = nn.ReLU) -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs, outputs in zip(sizes, sizes[1:], strict=False):
        layers += [nn.Linear(inputs, outputs), between()]
    return nn.Sequential(*layers[:-1])


def vae() -> Step:
    side, latent, count = 14, 8, 128
    encoder, decoder = network(side**2, 128, 2 * latent), network(latent, 128, side**2)

    def images() -> torch.Tensor:
        corner = torch.randint(0, side - 6, (4, count, 1))
        at = torch.arange(side)
        rows = (at >= corner[0]) & (at < corner[0] + 3 + corner[2] // 2)
        columns = (at >= corner[1]) & (at < corner[1] + 3 + corner[3] // 2)
        return (rows[:, :, None] & columns[:, None]).reshape(count, -1).float()

    def loss() -> torch.Tensor:
        x = images()
        mean, log_variance = encoder(x).split(latent, -1)
        logits = decoder(mean + (0.5 * log_variance).exp() * torch.randn(mean.shape))
        likelihood = F.binary_cross_entropy_with_logits(logits, x, reduction="sum")
        divergence = 0.5 * (log_variance.exp() + mean * mean - 1.0 - log_variance).sum()
        return (likelihood + divergence) / count

    return updating(torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], 2e-3), loss)


def wgan_gp() -> Step:
    count, latent = 128, 4
    angles = torch.arange(8) * (2.0 * math.pi / 8)
    centres = torch.stack([angles.cos(), angles.sin()], 1) * 2.0
    critic, generator = network(2, 64, 64, 1), network(latent, 64, 64, 2)
    adams = [torch.optim.Adam(n.parameters(), 1e-3, (0.5, 0.9)) for n in (critic, generator)]

    def critic_loss() -> torch.Tensor:
        x = centres[torch.randint(0, 8, (count,))] + 0.05 * torch.randn(count, 2)
        with torch.no_grad():
            fake = generator(torch.randn(count, latent))
        share = torch.rand(count, 1)
        between = (share * x + (1.0 - share) * fake).requires_grad_()
        (slope,) = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
        excess = ((slope * slope).sum(1) + 1e-12).sqrt() - 1.0
        return critic(fake).mean() - critic(x).mean() + (excess * excess).mean()

    critic_step = updating(adams[0], critic_loss)
    generator_step = updating(
        adams[1], lambda: -critic(generator(torch.randn(count, latent))).mean()
    )
    return lambda: (critic_step(), critic_step(), critic_step(), generator_step())


class Block(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.first, self.second = (
            nn.Sequential(nn.GroupNorm(4, n), nn.SiLU(), nn.Conv2d(n, outputs, 3, padding=1))
            for n in (inputs, outputs)
        )
        self.time, self.skip = nn.Linear(16, outputs), nn.Conv2d(inputs, outputs, 1)

    def forward(self, x: Any, time: Any) -> Any:
        return self.skip(x) + self.second(self.first(x) + self.time(time)[:, :, None, None])


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.time = nn.Sequential(nn.Embedding(100, 16), nn.Linear(16, 16), nn.SiLU())
        self.enter, self.leave = nn.Conv2d(1, 16, 3, padding=1), nn.Conv2d(16, 1, 3, padding=1)
        self.down, self.middle = Block(16, 32), Block(32, 32)
        self.pool, self.up = nn.MaxPool2d(2), nn.ConvTranspose2d(32, 16, 2, stride=2)
        self.join = Block(32, 16)

    def forward(self, x: Any, times: Any) -> Any:
        time, x = self.time(times), self.enter(x)
        low = self.middle(self.down(self.pool(x), time), time)
        return self.leave(self.join(torch.cat([x, self.up(low)], 1), time))


def ddpm() -> Step:
    side, count = 16, 16
    signal = torch.cumprod(1.0 - torch.linspace(1e-3, 0.1, 100), 0)
    model = UNet()
    weights = list(model.parameters())
    averages = [p.detach().clone() for p in weights]
    at = torch.arange(side).float()

    def loss() -> torch.Tensor:
        centre = torch.rand(2, count, 1, 1, 1) * 8.0 + 4.0
        x = torch.tanh(3.0 - torch.hypot(at.reshape(side, 1) - centre[0], at - centre[1]))
        noise, times = torch.randn(count, 1, side, side), torch.randint(0, 100, (count,))
        share = signal[times].reshape(count, 1, 1, 1)
        return F.mse_loss(model(share.sqrt() * x + (1.0 - share).sqrt() * noise, times), noise)

    step = updating(
        torch.optim.AdamW(weights, 2e-3), loss, lambda: nn.utils.clip_grad_norm_(weights, 1.0)
    )

    def whole() -> None:
        step()
        with torch.no_grad():
            torch._foreach_lerp_(averages, [p.detach() for p in weights], 0.02)

    return whole


def dqn(moved: Callable[..., Any]) -> Step:
    draw = random.Random(0)
    online, target = network(4, 128, 2), network(4, 128, 2)
    optimizer = torch.optim.Adam(online.parameters(), 1e-3)
    memory: deque[Any] = deque(maxlen=10_000)
    now = (0.0, 0.0, 0.0, 0.0)

    def step() -> None:
        nonlocal now
        if len(memory) % 200 == 0:
            target.load_state_dict(online.state_dict())
        right = draw.random() < 0.5
        if draw.random() >= max(0.05, 1.0 - len(memory) / 1500):
            with torch.no_grad():
                right = bool(online(torch.tensor([now])).argmax().item())
        new, over = moved(now, right)
        memory.append((now, right, new, over))
        now = (draw.uniform(-0.05, 0.05), 0.0, draw.uniform(-0.05, 0.05), 0.0) if over else new
        states, actions, news, ends = zip(*draw.choices(memory, k=64), strict=True)
        with torch.no_grad():
            best = target(torch.tensor(news)).max(1).values
        wanted = 1.0 + 0.99 * best * (1.0 - torch.tensor(ends).float())
        taken = F.one_hot(torch.tensor(actions).long(), 2)
        optimizer.zero_grad()
        F.huber_loss((online(torch.tensor(states)) * taken).sum(1), wanted).backward()
        nn.utils.clip_grad_norm_(online.parameters(), 10.0)
        optimizer.step()

    return step


class Convolution(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x: Any, edges: torch.Tensor) -> Any:
        degree = edges.sum(1, keepdim=True)
        return (edges / (degree * degree.T).sqrt()) @ self.linear(x)


class Attention(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, 4 * outputs, bias=False)
        self.of, self.to_ = (nn.Parameter(torch.randn(4, 1, outputs) * 0.1) for _ in range(2))

    def forward(self, x: Any, edges: torch.Tensor) -> Any:
        x = self.linear(x).reshape(len(x), 4, -1).permute(1, 0, 2)
        of, to = ((x * part).sum(-1, keepdim=True) for part in (self.of, self.to_))
        score = of + to.transpose(1, 2)
        score = torch.maximum(score, 0.2 * score)
        return (torch.where(edges > 0.0, score, -1e9).softmax(-1) @ x).mean(0)


def graph_networks() -> Step:
    nodes, classes = 400, 4
    labels = torch.randint(0, classes, (nodes,))
    linked = torch.rand(nodes, nodes) < torch.where(labels[:, None] == labels, 0.1, 0.005)
    edges = (linked | linked.T | torch.eye(nodes).bool()).float()
    x, known = torch.randn(nodes, 16) + 0.7 * F.one_hot(labels, 16), nodes // 10
    models = [(kind(16, 16), kind(16, classes)) for kind in (Convolution, Attention)]
    weights = [p for pair in models for layer in pair for p in layer.parameters()]

    def loss() -> Any:
        found = [second(first(x, edges).relu(), edges) for first, second in models]
        return sum(F.cross_entropy(f[:known], labels[:known]) for f in found)

    return updating(torch.optim.Adam(weights, 1e-2, weight_decay=5e-4), loss)


def neural_ode() -> Step:
    points, length = 100, 8
    dt = 10.0 / points
    layers = network(2, 50, 2, between=nn.Tanh)
    truth = torch.randn(points + 1, 2)
    optimizer = torch.optim.Adam(layers.parameters(), 1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 300)

    def field(y: Any) -> Any:
        return layers(y * y * y)

    def loss() -> torch.Tensor:
        first = torch.randint(0, points - length, (32,))
        wanted = truth[torch.arange(1, length + 1).reshape(-1, 1) + first]
        y, found = truth[first], []
        for _ in range(length):
            a = field(y)
            b = field(y + 0.5 * dt * a)
            c = field(y + 0.5 * dt * b)
            y = y + dt / 6.0 * (a + 2.0 * b + 2.0 * c + field(y + dt * c))
            found.append(y)
        return ((torch.stack(found) - wanted) ** 2).mean()

    step = updating(optimizer, loss)
    return lambda: (step(), schedule.step())


def pinn() -> Step:
    model = network(2, 32, 32, 1, between=nn.Tanh)
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 1000)

    def u(x: Any, t: Any) -> Any:
        return model(torch.cat([x, t], 1))

    def residual() -> Any:
        x, t = (torch.rand(128, 1, requires_grad=True) for _ in range(2))
        by_x, by_t = torch.autograd.grad(u(x, t).sum(), [x, t], create_graph=True)
        (by_xx,) = torch.autograd.grad(by_x.sum(), x, create_graph=True)
        return by_t - 0.1 * by_xx

    def loss() -> torch.Tensor:
        x, t, zero = torch.rand(64, 1), torch.rand(64, 1), torch.zeros(64, 1)
        begin = ((u(x, zero) - torch.sin(math.pi * x)) ** 2).mean()
        ends = (u(zero, t) ** 2).mean() + (u(zero + 1.0, t) ** 2).mean()
        return (residual() ** 2).mean() + 10.0 * (begin + ends)

    step = updating(optimizer, loss)
    return lambda: (step(), schedule.step())


def gaussian_process() -> Step:
    x = torch.rand(80, dtype=torch.float64) * 4.0 - 2.0
    y = torch.sin(3.0 * x)
    logs = torch.tensor([0.0, 0.0, -1.0], dtype=torch.float64, requires_grad=True)

    def loss() -> torch.Tensor:
        kernel = (2.0 * logs[1] - 0.5 * ((x[:, None] - x) / logs[0].exp()) ** 2).exp()
        noise = (2.0 * logs[2]).exp() * torch.eye(80, dtype=torch.float64)
        factor = torch.linalg.cholesky(kernel + noise)
        white = torch.linalg.solve(factor, y[:, None])
        fit = 0.5 * (white**2).sum() + factor.diagonal().log().sum()
        return fit / 80 + 0.5 * math.log(2.0 * math.pi)

    return updating(torch.optim.Adam([logs], 0.05), loss)


def tabular() -> Step:
    x, y = torch.randn(398, 30), torch.randint(0, 2, (398,))
    model = nn.Sequential(nn.Linear(30, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 2))

    def loss() -> torch.Tensor:
        chosen = torch.randint(0, 398, (64,))
        return F.cross_entropy(model(x[chosen]), y[chosen])

    return updating(torch.optim.AdamW(model.parameters(), 3e-3), loss)
