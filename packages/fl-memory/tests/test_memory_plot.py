"""``fl_memory.plot``: what the figures show, and what goes wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fl_memory import TraceError, plot, traces
from fl_memory.cli import main
from fl_memory.traces import AnyManager, Trace

matplotlib = pytest.importorskip("matplotlib")

MIB = 1 << 20
PLOTS: list[Callable[..., Any]] = [plot.over_time, plot.block_map, plot.free_chunks, plot.waste]


def example() -> Trace:
    trace = Trace()
    trace.append("mark", tag="step", nbytes=1)
    for block, (module, phase) in enumerate((("a", "forward"), ("a", ""), ("b", "backward"))):
        size = (block + 1) * MIB // 4 + 100
        trace.append("alloc", block=block, nbytes=size, alignment=64, module=module, phase=phase)
    trace.append("free", block=1)
    return trace


def drawn(
    plot: Callable[..., Any], trace: Trace, manager: AnyManager = "caching", **options: Any
) -> Any:
    return plot(trace, traces.timeline(trace, manager), **options)


def test_over_time(two_mib: AnyManager) -> None:
    (axes,) = drawn(plot.over_time, example(), two_mib).axes
    lines = {line.get_label(): list(line.get_ydata()) for line in axes.get_lines()[:3]}
    assert list(lines) == ["reserved", "used", "live"]
    assert lines["live"][-1] == pytest.approx((MIB + 200) / MIB)
    assert lines["reserved"] == [0.0, 2.0, 2.0, 2.0, 2.0]
    assert len(axes.get_lines()) == 4  # and the step


def test_block_map(two_mib: AnyManager) -> None:
    trace = example()
    (axes,) = drawn(plot.block_map, trace, two_mib, by="phase").axes
    segments, *blocks = axes.collections
    assert len(segments.get_paths()) == 1
    assert {c.get_label() for c in blocks} == {"no phase", "forward", "backward"}
    (path,) = blocks[0].get_paths()  # block 1, without a phase
    assert path.vertices[:, 0].min() == 2 and path.vertices[:, 0].max() == 4
    height = path.vertices[:, 1].max() - path.vertices[:, 1].min()
    assert height == pytest.approx((MIB // 2 + 512) / MIB)
    assert axes.get_ylim() == (0, 2)
    (axes,) = drawn(plot.block_map, trace).axes
    assert [c.get_label() for c in axes.collections[1:]] == ["no tag"]
    with pytest.raises(TraceError, match="by 'module'"):
        drawn(plot.block_map, trace, by="module")


def test_free_chunks(two_mib: AnyManager) -> None:
    trace = example()
    figure = drawn(plot.free_chunks, trace, two_mib)
    above, below = figure.axes
    assert [bar.get_height() for bar in above.patches] == [1]
    assert "1 chunks, 0.5 MiB" in below.get_xlabel()
    later = drawn(plot.free_chunks, trace, two_mib, row=4)
    assert "2 chunks, 1.0 MiB" in later.axes[1].get_xlabel()


def test_waste(two_mib: AnyManager) -> None:
    (axes,) = drawn(plot.waste, example(), two_mib).axes
    asked, lost = axes.containers
    # The blocks of 0.25, 0.5 and 0.75 MiB, with 100 bytes each, are granted 512.
    assert sorted(label.get_text() for label in axes.get_yticklabels()) == ["a", "b"]
    assert sorted(bar.get_width() * MIB for bar in lost) == pytest.approx([412, 412 + 412])
    assert max(bar.get_width() * MIB for bar in asked) == pytest.approx(MIB * 3 / 4 + 200)
    (axes,) = drawn(plot.waste, example(), two_mib, by="phase").axes
    assert {label.get_text() for label in axes.get_yticklabels()} == {
        "(none)",
        "forward",
        "backward",
    }
    with pytest.raises(TraceError, match="by 'colour'"):
        drawn(plot.waste, example(), two_mib, by="colour")


def test_many_modules_share_a_bar() -> None:
    trace = Trace()
    for block in range(50):
        trace.append(
            "alloc", block=block, nbytes=1000 + 1000 * block, alignment=64, module=f"{block}"
        )
    (axes,) = drawn(plot.waste, trace).axes
    assert len(axes.get_yticklabels()) == 21
    assert "(others)" in [label.get_text() for label in axes.get_yticklabels()]


@pytest.mark.parametrize("plot", PLOTS)
def test_files(plot: Callable[..., Any], tmp_path: Path) -> None:
    for trace in (example(), Trace()):
        figure = drawn(plot, trace, title="a run", path=tmp_path / "a.png")
        assert figure.get_suptitle() == "a run"
        assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(TraceError, match="ends in one of"):
        drawn(plot, trace, path=tmp_path / "a.flmt")
    assert os.listdir(tmp_path) == ["a.png"]


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    traces.write(example(), tmp_path / "run.flmt")
    arguments = ["plot", str(tmp_path / "run.flmt"), "-o", str(tmp_path), "--format", "svg"]
    assert main([*arguments, "--manager", "caching", "system", "--plot", "waste", "over-time"]) == 0
    names = [
        f"run-{manager}-{kind}.svg"
        for manager in ("caching", "system")
        for kind in ("waste", "over-time")
    ]
    assert [Path(line).name for line in capsys.readouterr().out.splitlines()] == names
    assert all((tmp_path / name).is_file() for name in names)
    assert main([*arguments[:-1], "flmt"]) == 1
    assert "ends in one of" in capsys.readouterr().err


def test_without_matplotlib() -> None:
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from fl_memory import MissingError, plot, traces\n"
        "try: plot.over_time(traces.Trace(), traces.timeline(traces.Trace(), 'system'))\n"
        "except MissingError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "fl-memory[plot]" in done.stdout
