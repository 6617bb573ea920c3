"""The programs of sharding, pipelines and parallel layers on ranks that are processes."""

from __future__ import annotations

import pytest
import test_mesh_training as mesh_programs
import test_pipeline as pipeline_programs
import test_sharded as programs
import test_sharded_checkpoints as checkpoint_programs
import test_sharded_embedding as embedding_programs
import test_sharded_memory as memory

import fl_dist as dist
import fl_tensor as ft

Processes = dist.load("processes")


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_sharded_training_is_that_without_sharding(stage):
    programs.compare(Processes.run(2, programs.train_sharded, stage), programs.train_plain())


@pytest.mark.parametrize("backend", ["numpy", "jit"])
@pytest.mark.parametrize("stage", [1, 2, 3])
def test_live_bytes_are_those_of_the_formula(stage, backend):
    pytest.importorskip("fl_jit") if backend == "jit" else None
    with ft.use(backend):
        for found in Processes.run(2, memory.sharded_alone, stage):
            assert found == pytest.approx(memory.FORMULAS[stage](2), rel=0.05)


@pytest.mark.parametrize("backend", ["numpy", "jit"])
def test_at_stage_3_one_unit_at_a_time_is_whole(backend):
    pytest.importorskip("fl_jit") if backend == "jit" else None
    with ft.use(backend):
        for forward, backward in Processes.run(2, memory.whole):
            assert len(forward) == len(backward) == memory.LAYERS
            # The communicator keeps the last asynchronous results, up to a unit here.
            assert max(forward) < 3 * memory.P / 2 + 2.1 * memory.UNIT
            # In the backward pass also its gradient, and that of a unit on its way to its owners.
            assert max(backward) < 4 * memory.P / 2 + 3.1 * memory.UNIT


def test_a_pipeline_trains_as_the_whole_model():
    expected = pipeline_programs.train_whole(3)
    for losses, _, _ in Processes.run(3, pipeline_programs.train_pipeline, "1f1b"):
        assert losses == pytest.approx(expected[0], abs=1e-5)


def test_a_sharded_table_trains_as_a_whole_one():
    for found in Processes.run(2, embedding_programs.train_sharded):
        assert ft.allclose(ft.asarray(found), embedding_programs.train_whole(2), 0, 1e-5)


def test_all_kinds_together_train_as_one_process():
    figures, expected = mesh_programs.train_plain()
    for found, state in Processes.run(4, mesh_programs.train, (1, 2, 2), 2):
        assert [loss for loss, _ in found] == pytest.approx([x for x, _ in figures], abs=1e-5)
        programs.close(state, {name: expected[name] for name in state})


def test_a_checkpoint_is_read_at_another_number_of_ranks(tmp_path):
    path = str(tmp_path / "run.safetensors")
    Processes.run(2, checkpoint_programs.begin, path, 3)
    expected = programs.train_plain(2)[1]
    for ranks in (1, 3):
        for found in Processes.run(ranks, checkpoint_programs.go_on, path, 2):
            programs.close(found, expected)
