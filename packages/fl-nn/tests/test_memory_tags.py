"""What fl-nn says to memory managers: the purpose of blocks, and where steps begin."""

from __future__ import annotations

import fl_data as data
import fl_memory as mem
import fl_nn as nn
import fl_tensor as ft
from fl_memory.managers.system import SystemManager


def test_the_stack_says_what_memory_is_for():
    seen: list[mem.Event] = []
    with mem.use(SystemManager()) as manager, ft.use("numpy"):
        samples = [(ft.ones((64, 64)), 1.0) for _ in range(2)]
        manager.on_event(lambda event: event.kind == "alloc" and seen.append(event))

        def told():
            found = {event.tag for event in seen}
            seen.clear()
            return found

        model = nn.Linear(64, 64)
        optimizer = nn.Adam(model.parameters(), lr=0.1)
        assert told() == {"parameter"}
        images, _ = data.collate(samples)
        assert told() == {"batch"}
        loss = ft.sum(model(images) ** 2)
        assert told() == {"result"}
        loss.backward()
        assert told() == {"gradient"}
        optimizer.step()
        assert told() == {"state"}


def test_a_program_may_say_it_itself():
    seen: list[mem.Event] = []
    with mem.use(SystemManager()) as manager, ft.use("numpy"):
        manager.on_event(lambda event: event.kind == "alloc" and seen.append(event))
        x = ft.ones((64, 64))
        with mem.tagged("mine"):
            y = x + x
        assert mem.current_tag() == "result" and y.shape == x.shape
    assert [event.tag for event in seen] == ["result", "mine"]


def test_a_trainer_marks_its_steps():
    told = []
    model = nn.Linear(4, 2)
    optimizer = nn.SGD(model.parameters(), lr=0.1)
    trainer = nn.Trainer(model, optimizer, nn.mse, progress=False)
    batches = [(ft.ones((3, 4)), ft.ones((3, 2)))] * 2
    with mem.use(SystemManager()) as manager:
        manager.on_event(lambda e: e.kind == "mark" and told.append((e.tag, e.number)))
        trainer.fit(batches, epochs=2)
    assert told == [("step", number) for number in range(4)]
