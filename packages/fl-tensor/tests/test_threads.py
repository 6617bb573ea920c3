"""One number of threads for all pools."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import fl_tensor as ft
from fl_tensor import threads


@pytest.fixture(autouse=True)
def unchanged(monkeypatch):
    """Each test begins without a choice, and leaves the pools of the process as they were."""
    monkeypatch.setattr(threads, "_pools", {})
    monkeypatch.setattr(threads, "_chosen", None)


def in_a_process(code, **environment):
    command = [sys.executable, "-c", f"import fl_tensor as ft; {code}"]
    env = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "OPENBLAS_"))}
    done = subprocess.run(
        command, env={**env, **environment}, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_the_environment_decides_first():
    assert in_a_process("print(ft.get_num_threads())", OMP_NUM_THREADS="3") == "3"
    assert in_a_process("print(ft.get_num_threads())", OMP_NUM_THREADS="5,2") == "5"
    assert int(in_a_process("print(ft.get_num_threads())", OMP_NUM_THREADS="many")) >= 1


def test_pools_are_told_of_every_change():
    told = []
    threads.register(threads.Pool("first", told.append, lambda: ""))
    assert told == [], "nobody has chosen a number yet"
    ft.set_num_threads(3)
    assert ft.get_num_threads() == 3 and told == [3]


def test_a_pool_that_comes_later_is_told_when_it_comes():
    told = []
    ft.set_num_threads(2)
    threads.register(threads.Pool("late", told.append, lambda: "2 threads"))
    assert told == [2]
    assert [pool.name for pool in threads.pools()] == ["late"]


@pytest.mark.parametrize("count", [0, -1, 1.5, True, "2"])
def test_what_is_no_number_of_threads_is_refused(count):
    with pytest.raises(ft.ArgumentError, match="from 1 to 1024"):
        ft.set_num_threads(count)
