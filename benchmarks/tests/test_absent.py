"""What is said where a library is not installed, or a case does not exist: no traceback."""

from __future__ import annotations

import sys

import _peers
import complexity
import paper_models
import pytest
import static_steps
from _measure import Worker

import fl_tensor as ft


@pytest.fixture
def nothing_installed(monkeypatch):
    monkeypatch.setattr(_peers, "find_spec", lambda name: None)


def call(monkeypatch, main, *arguments):
    monkeypatch.setattr(sys, "argv", ["benchmark", *arguments])
    main()


def test_models_without_pytorch(nothing_installed, monkeypatch):
    with pytest.raises(SystemExit, match="not installed: torch, safetensors; .* other --peers"):
        call(monkeypatch, paper_models.main)


@pytest.mark.defect("item 12")
def test_models_without_what_the_peers_read_weights_with(monkeypatch):
    monkeypatch.setattr(_peers, "find_spec", lambda name: None if name == "safetensors" else name)
    with pytest.raises(SystemExit, match="not installed: safetensors; "):
        call(monkeypatch, paper_models.main)


@pytest.mark.defect("item 12")
@pytest.mark.parametrize("question", [lambda w: w.value("loss"), lambda w: w.timed("step", 1)])
def test_a_process_that_fails_at_its_start_is_named_without_a_broken_pipe(
    question, monkeypatch, tmp_path
):
    program = tmp_path / "fails.py"
    program.write_text("raise SystemExit(1)")
    monkeypatch.setattr(sys, "argv", [str(program)])
    with Worker("theirs") as worker:
        worker._process.wait()
        with pytest.raises(SystemExit, match="theirs: its process ended at"):
            question(worker)


def test_models_by_themselves_need_no_peer(nothing_installed, monkeypatch, capsys):
    monkeypatch.setattr(paper_models, "measure", lambda name, given: {"model": name, "peers": ""})
    call(monkeypatch, paper_models.main, "--peers", "--only", "bert")
    assert "bert" in capsys.readouterr().out


def test_steps_without_jax_say_that_its_columns_are_missing(nothing_installed, capsys):
    assert "jax.jit" not in static_steps.libraries(tiny=False)
    assert capsys.readouterr().err == "jax is not installed: no columns of jax.jit\n"


def test_steps_beside_jax_where_it_is_installed(monkeypatch, capsys):
    monkeypatch.setattr(_peers, "find_spec", lambda name: name)
    assert static_steps.libraries(tiny=False)[-1] == "jax.jit"
    assert "jax.jit" not in static_steps.libraries(tiny=True)
    assert capsys.readouterr().err == ""


def test_complexity_counts_all_packages(nothing_installed):
    with pytest.raises(SystemExit, match=r"not installed: fl_speech; .*\./packages/fl-speech"):
        complexity.sources("fl_speech")


def test_products_and_convolutions(monkeypatch, capsys):
    pytest.importorskip("fl_jit")
    import gemm_conv

    with pytest.raises(SystemExit):
        call(monkeypatch, gemm_conv.main, "--only", "foo")
    assert "there is no such case or group, such as products" in capsys.readouterr().err
    monkeypatch.setattr(_peers, "find_spec", lambda name: None)
    with pytest.raises(SystemExit, match="not installed: torch"):
        call(monkeypatch, gemm_conv.main)
    threads = ["--threads", str(ft.get_num_threads())]
    with pytest.raises(SystemExit, match=r"onednn_kernels; .*install \./examples/onednn-kernels"):
        call(monkeypatch, gemm_conv.main, "--peers", "onednn", *threads)
    monkeypatch.setattr(gemm_conv, "GROUPS", ())
    monkeypatch.setattr(gemm_conv, "report", lambda *arguments, **options: None)
    call(monkeypatch, gemm_conv.main, "--peers", *threads)
