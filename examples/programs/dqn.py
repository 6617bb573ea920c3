"""Deep Q-learning (Mnih et al., 2015) on the cart-pole of Barto, Sutton & Anderson (1983).

The figure is the negative mean length of 10 greedy episodes, each of at most 200 steps.
"""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Callable
from typing import Any

import fl_autograd as ag
import fl_nn as nn
import fl_tensor as ft

STEPS, GOAL = 4000, -60.0
State = tuple[float, float, float, float]


def moved(state: State, right: bool) -> tuple[State, bool]:
    """The state 0.02 s later, and whether the episode is over."""
    x, speed, angle, turn = state
    push = ((10.0 if right else -10.0) + 0.05 * turn * turn * math.sin(angle)) / 1.1
    gravity = 9.8 * math.sin(angle) - math.cos(angle) * push
    turning = gravity / (0.5 * (4.0 / 3.0 - 0.1 * math.cos(angle) ** 2 / 1.1))
    moving = push - 0.05 * turning * math.cos(angle) / 1.1
    new = x + 0.02 * speed, speed + 0.02 * moving, angle + 0.02 * turn, turn + 0.02 * turning
    return new, abs(new[0]) > 2.4 or abs(new[2]) > 0.21


def program() -> tuple[Callable[[], Any], Callable[[], float]]:
    """A step in the environment with one of the training, and the figure."""
    ft.seed(0)
    draw = random.Random(0)
    layers = ((nn.Linear(4, 128), nn.ReLU(), nn.Linear(128, 2)) for _ in range(2))
    online, target = (nn.Sequential(*each) for each in layers)
    optimizer = nn.Adam(online.parameters(), lr=1e-3)
    memory: deque[tuple[State, bool, State, bool]] = deque(maxlen=10_000)
    now = 0.0, 0.0, 0.0, 0.0

    def start() -> State:
        return draw.uniform(-0.05, 0.05), 0.0, draw.uniform(-0.05, 0.05), 0.0

    @ag.no_grad()
    def greedy(state: State) -> bool:
        return bool(ft.argmax(online(ft.asarray([state]))).item())

    @nn.compile
    def learn(states: ft.Tensor, actions: ft.Tensor, news: ft.Tensor, ends: ft.Tensor) -> Any:
        best = ft.max(target(news).detach(), axis=1)
        wanted = 1.0 + 0.99 * best * (1.0 - ends.astype(ft.float32))
        taken = online(states) * ft.one_hot(actions.astype(ft.int64), 2)
        loss = nn.HuberLoss()(ft.sum(taken, axis=1), wanted)
        optimizer.zero_grad()
        loss.backward()
        nn.clip_grad_norm_(online.parameters(), 10.0)
        optimizer.step()
        return loss

    def step() -> Any:
        nonlocal now
        if len(memory) % 200 == 0:
            target.load_state_dict(online.state_dict())
        explores = draw.random() < max(0.05, 1.0 - len(memory) / 1500)
        right = draw.random() < 0.5 if explores else greedy(now)
        memory.append((now, right, *moved(now, right)))
        now = start() if memory[-1][3] else memory[-1][2]
        return learn(*map(ft.asarray, zip(*draw.choices(memory, k=64))))

    def episode() -> int:
        state = start()
        for length in range(200):
            state, over = moved(state, greedy(state))
            if over:
                return length
        return 200

    return step, lambda: -sum(episode() for _ in range(10)) / 10
