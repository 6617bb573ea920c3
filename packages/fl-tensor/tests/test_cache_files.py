"""Cached files stay within their room; the least recently used ones go."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

import fl_tensor as ft
from fl_tensor import cache_files


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("FL_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("FL_CACHE_BYTES", "1000")
    monkeypatch.setattr(cache_files, "_written", float("inf"))
    return tmp_path


def names(root):
    return sorted(p.name for p in root.rglob("*") if p.is_file())


def used(path, ago):
    now = time.time()
    os.utime(path, (now - ago, now - ago))


def test_what_is_written_is_read(root):
    cache_files.write(root / "kernels" / "a", b"code")
    assert cache_files.read(root / "kernels" / "a") == b"code"
    assert cache_files.read(root / "kernels" / "b") is None


def test_the_least_recently_used_files_go(root):
    for i in range(9):
        cache_files.write(root / "x" / str(i), bytes(100))
        used(root / "x" / str(i), 1000 - i)
    cache_files.read(root / "x" / "0")
    cache_files.write(root / "x" / "new", bytes(150))  # 1050 bytes: down to 800 or less
    assert names(root) == ["0", "4", "5", "6", "7", "8", "new"]


def test_all_folders_share_the_limit(root):
    cache_files.write(root / "kernels" / "a", bytes(700))
    used(root / "kernels" / "a", 10)
    cache_files.write(root / "tuner" / "b", bytes(700))
    assert names(root) == ["b"]


def test_files_elsewhere_are_left_alone(root, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    for i in range(3):
        cache_files.write(elsewhere / str(i), bytes(700))
    assert names(elsewhere) == ["0", "1", "2"]


def test_leftovers_of_crashed_writers_go(root):
    cache_files.write(root / "a", b"1")
    (root / "abandoned.part").write_bytes(bytes(10))
    (root / "busy.part").write_bytes(bytes(10))
    used(root / "abandoned.part", 7200)
    cache_files.write(root / "b", bytes(100))
    assert names(root) == ["a", "b", "busy.part"]


def test_a_number_of_bytes_is_asked_for(root, monkeypatch):
    monkeypatch.setenv("FL_CACHE_BYTES", "half a gigabyte")
    with pytest.raises(ft.ArgumentError, match="FL_CACHE_BYTES='half a gigabyte'"):
        cache_files.write(root / "a", b"")


def test_processes_may_write_and_trim_at_the_same_time(root):
    script = """
import os, sys
from pathlib import Path
from fl_tensor import cache_files
root = Path(os.environ["FL_CACHE_DIR"])
for i in range(300):
    cache_files.write(root / str(i % 7) / f"{sys.argv[1]}-{i}", bytes(90))
    found = cache_files.read(root / str(i % 7) / f"{1 - int(sys.argv[1])}-{i}")
    assert found in (None, bytes(90))
"""
    running = [subprocess.Popen([sys.executable, "-c", script, str(k)]) for k in range(2)]
    assert [process.wait() for process in running] == [0, 0]
    cache_files.trim(root, 1000)
    assert sum(p.stat().st_size for p in root.rglob("*") if p.is_file()) <= 1000


def test_the_folder_and_whether_it_can_be_written_are_said(monkeypatch, tmp_path):
    monkeypatch.setenv("FL_CACHE_BYTES", str(3 << 20))
    monkeypatch.setenv("FL_CACHE_DIR", str(tmp_path / "made" / "later"))
    assert cache_files.state() == f"{tmp_path / 'made' / 'later'}, at most 3 MiB"
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("FL_CACHE_DIR", str(tmp_path / "file" / "fl"))
    assert "which cannot be written" in cache_files.state()
