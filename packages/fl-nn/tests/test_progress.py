"""The progress bar on a terminal, in a pipe, and in Jupyter."""

from __future__ import annotations

import io
import itertools
import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

import fl_nn as nn
import fl_tensor as ft

WORK = """
import fl_nn as nn, time
clock = [0.0]
time.monotonic = lambda: clock[0]
with nn.Progress("work", 4) as bar:
    for done in range(1, 5):
        clock[0] += 12.0
        bar.update(done, "fine")
print("end")
"""


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds that the clock shows."""
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    return now


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown_on_terminal(columns: int, clock: list[float], monkeypatch: pytest.MonkeyPatch) -> str:
    """The line as it is drawn last."""
    monkeypatch.setenv("COLUMNS", str(columns))
    stream = Terminal()
    bar = nn.Progress("epoch 3/20", 200, stream=stream)
    clock[0] += 1.0
    bar.update(50, "loss 0.1234", 3200)
    return stream.getvalue().removeprefix("\r")


def test_a_bar_on_a_terminal(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown_on_terminal(120, clock, monkeypatch) == (
        "epoch 3/20 [######..................] 50/200  loss 0.1234  3200 samples/s  ETA 0:03"
    )


@pytest.mark.parametrize("columns", [10, 40, 60, 70, 80])
def test_it_fits_the_terminal(
    columns: int, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    line = shown_on_terminal(columns, clock, monkeypatch)
    assert len(line) < columns
    assert ("[" in line) == (columns >= 70)
    assert line.startswith("epoch 3/20 "[: columns - 1])


@pytest.mark.defect("P17")
@pytest.mark.parametrize("columns, parts", [(24, [0]), (30, [0, 3]), (40, [0, 1]), (42, [0, 1, 3])])
def test_no_part_of_the_line_is_cut(
    columns: int, parts: list[int], clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = ["epoch 3/20 50/200", "loss 0.1234", "3200 samples/s", "ETA 0:03"]
    shown = shown_on_terminal(columns, clock, monkeypatch)
    assert shown.split("  ") == [whole[part] for part in parts]


def test_lines_in_a_pipe() -> None:
    run = subprocess.run([sys.executable, "-c", WORK], capture_output=True, text=True, check=True)
    assert run.stderr.splitlines() == [
        "work  1/4  fine  0.1/s  ETA 0:36",
        "work  2/4  fine  0.1/s  ETA 0:24",
        "work  3/4  fine  0.1/s  ETA 0:12",
        "work  4/4  fine  0.1/s  ETA 0:00",
    ]


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals are of POSIX")
def test_a_terminal_of_the_system_is_redrawn_and_left_clean() -> None:
    import fcntl
    import pty
    import struct
    import termios

    lead, follow = pty.openpty()
    fcntl.ioctl(follow, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 30, 0, 0))
    environment = {k: v for k, v in os.environ.items() if k != "COLUMNS"}
    subprocess.run([sys.executable, "-c", WORK], stderr=follow, check=True, env=environment)
    os.close(follow)
    text = os.read(lead, 10000).decode()
    os.close(lead)
    drawn = text.split("\r")
    assert "\n" not in text
    assert drawn[1] == "work 1/4  fine  0.1/s"  # all of it takes 31 of 30 columns
    assert drawn[-2:] == [" " * len(drawn[1]), ""]


class Kernel:
    """IPython as a kernel has it: what is displayed, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, kernel: bool = True) -> None:
        self.outputs: list[list[dict[str, str]]] = []
        shell = SimpleNamespace(kernel=object()) if kernel else SimpleNamespace()
        ipython: Any = SimpleNamespace(get_ipython=lambda: shell)
        monkeypatch.setitem(sys.modules, "IPython", ipython)
        display: Any = SimpleNamespace(display=self.display)
        monkeypatch.setitem(sys.modules, "IPython.display", display)

    def display(self, bundle: dict[str, str], *, raw: bool, display_id: bool) -> Any:
        assert raw and display_id
        output = [bundle]
        self.outputs.append(output)
        return SimpleNamespace(update=lambda bundle, raw: output.append(bundle))


def test_one_output_of_a_cell_in_jupyter(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    jupyter = Kernel(monkeypatch)
    bar = nn.Progress("epoch <1>", 4)
    for epoch in (1, 2):
        bar.restart(f"epoch <{epoch}>", 4)
        for done in (1, 2):
            clock[0] += 1.0
            bar.update(done, "fine")
            bar.update(done, "too soon")
        bar.finish()
    (output,) = jupyter.outputs
    assert [bundle["text/plain"].partition("  fine")[0] for bundle in output] == [
        *("epoch <1>  1/4", "epoch <1>  2/4", ""),
        *("epoch <2>  1/4", "epoch <2>  2/4", ""),
    ]
    assert output[1]["text/html"] == (
        '<progress value="2" max="4"></progress> epoch &lt;1&gt;  2/4  fine  1.0/s  ETA 0:02'
    )


def test_training_has_one_output_in_each_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds, jupyter = itertools.count(), Kernel(monkeypatch)
    monkeypatch.setattr("time.monotonic", lambda: float(next(seconds)))
    net = nn.Linear(2, 1)
    trainer = nn.Trainer(net, nn.SGD(net.parameters(), lr=0.1), nn.mse)
    batches = [(ft.ones((4, 2)), ft.ones((4, 1)))] * 3
    for epochs in (2, 4):  # a cell each
        trainer.fit(batches, epochs=epochs)
    assert len(jupyter.outputs) == 2
    texts = [[bundle["text/plain"][:14] for bundle in output] for output in jupyter.outputs]
    assert texts[0][0] == "epoch 1/2  1/3" and texts[1][0] == "epoch 3/4  1/3"
    assert "epoch 2/2  3/3" in texts[0] and texts[0][-1] == texts[1][-1] == ""


def test_another_stream_than_the_programs_own_is_no_notebook(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    jupyter, file = Kernel(monkeypatch), io.StringIO()
    with nn.Progress("work", 2, stream=file) as bar:
        clock[0] += 20.0
        bar.update(1)
    assert not jupyter.outputs and file.getvalue().startswith("work  1/2")


def test_ipython_in_a_terminal_is_a_terminal(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    shell, stream = Kernel(monkeypatch, kernel=False), Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    with nn.Progress("work", 2) as bar:
        clock[0] += 20.0
        bar.update(1)
    assert not shell.outputs and "\rwork [" in stream.getvalue()
