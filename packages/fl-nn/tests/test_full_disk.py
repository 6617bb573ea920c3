"""A disk that is full, a quota, a folder that is read-only: which file, how large, what to do."""

from __future__ import annotations

import errno
import os
import shutil
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path

import pytest
from disk import inside

import fl_nn as nn
import fl_tensor as ft

pytestmark = pytest.mark.defect("P14")
Usage = namedtuple("Usage", "total used free")


class Count(nn.Callback):
    """Counts steps, and calls `then` after the one numbered `at`."""

    def __init__(self, at: int = 0, then: Callable[[], object] = lambda: None) -> None:
        self.at, self.then, self.steps = at, then, 0

    def on_step(self, trainer: nn.Trainer) -> None:
        self.steps += 1
        if self.steps == self.at:
            self.then()


def make(out: Path, *callbacks: nn.Callback, **options) -> nn.Trainer:
    model = nn.Linear(100, 250, generator=ft.Generator(0))  # 101,000 bytes
    return nn.Trainer(
        model, nn.Adam(model.parameters(), lr=0.1), nn.mse,
        callbacks=callbacks, out=out, progress=False, **options,
    )  # fmt: skip


def batches() -> list[tuple[ft.Tensor, ft.Tensor]]:
    return [(ft.ones((4, 100)), ft.ones((4, 250)))] * 5


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """disk(n): from now on so many bytes are free."""

    def set_free(free: int) -> None:
        usage = lambda path: Usage(1 << 40, (1 << 40) - free, free)  # noqa: E731
        monkeypatch.setattr(shutil, "disk_usage", usage)

    return set_free


def failing(number: int) -> Callable[..., None]:
    def fail(*arguments: object, **options: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail


def test_a_full_disk_is_found_after_the_first_step(tmp_path: Path, disk) -> None:
    disk(200_000)  # the weights fit, the moments of Adam do not
    run = make(tmp_path, steps := Count())
    said = (
        r"checkpoint\.safetensors: cannot be written \(No space left on device\): it takes 0\.4 MB "
        r"and 0\.2 MB are free; remove files there, or give a folder on another disk"
    )
    with pytest.raises(ft.FileError, match=said):
        run.fit(batches(), epochs=2)
    assert steps.steps == 1
    disk(1 << 30)
    assert [r["step"] for r in run.fit(batches(), epochs=2)] == [5, 10]  # it goes on


def test_no_epoch_is_lost_when_the_disk_fills_up(tmp_path: Path, disk) -> None:
    run = make(tmp_path, steps := Count(8, lambda: disk(1000)))
    with pytest.raises(ft.FileError, match="0.0 MB are free"):
        run.fit(batches(), epochs=5)
    assert steps.steps == 11
    assert nn.load_checkpoint(run.checkpoint).position["epoch"] == 2


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="of Linux and BSD")
def test_a_quota_is_found_after_the_first_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make(tmp_path, steps := Count())
    monkeypatch.setattr(os, "posix_fallocate", failing(errno.EDQUOT))
    with pytest.raises(ft.FileError, match=r"quota exceeded\): it takes 0\.4 MB; remove files"):
        run.fit(batches(), epochs=2)
    assert steps.steps == 1
    assert sorted(os.listdir(tmp_path)) == ["log.jsonl", "run.lock"]


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="of Linux and BSD")
def test_a_file_system_that_cannot_set_bytes_aside_is_as_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "posix_fallocate", failing(errno.EOPNOTSUPP))
    assert len(make(tmp_path).fit(batches(), epochs=1)) == 1


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES])
def test_a_read_only_folder_is_found_before_the_first_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    run = make(tmp_path / "read-only", steps := Count())
    monkeypatch.setattr(os, "mkdir", inside(tmp_path, failing(number), os.mkdir))
    with pytest.raises(ft.FileError, match="cannot be written .*; give a folder to write to"):
        run.fit(batches(), epochs=1)
    assert steps.steps == 0


def test_a_save_names_the_file_and_its_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, disk
) -> None:
    disk(3_000_000)
    model = nn.Linear(500, 1000)
    path = tmp_path / "model.safetensors"
    for save in (nn.save_checkpoint, nn.save_weights):
        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", inside(tmp_path, failing(errno.ENOSPC), os.replace))
            with pytest.raises(ft.FileError) as error:
                save(path, model)
        assert "it takes 2.0 MB and 3.0 MB are free; remove files" in str(error.value)
        assert str(error.value).startswith(str(path))


def test_a_log_names_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = nn.JsonLog(tmp_path / "log.jsonl")
    log.clear()
    monkeypatch.setattr("builtins.open", inside(tmp_path, failing(errno.ENOSPC), open))
    with pytest.raises(ft.FileError, match=r"log\.jsonl: cannot be written \(No space left"):
        log.write({"event": "step"})
