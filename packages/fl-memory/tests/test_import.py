"""``import fl_memory`` is light, and a process with live blocks ends in silence."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

import fl_memory

SOURCE = str(Path(fl_memory.__file__).parent.parent)


def python(code: str) -> str:
    done = subprocess.run(
        [
            sys.executable,
            "-I",
            "-S",
            "-W",
            "error",
            "-c",
            f"import sys; sys.path.insert(0, {SOURCE!r})\n{code}",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return done.stdout


def test_import_loads_nothing_heavy() -> None:
    out = python("import json as j, fl_memory; print(j.dumps(sorted(sys.modules)))")
    loaded = set(json.loads(out))
    heavy = {
        "ctypes",
        "inspect",
        "dataclasses",
        "importlib.metadata",
        "argparse",
        "hashlib",
        "logging",
        "pathlib",
        "subprocess",
        "tempfile",
        "random",
        "pytest",
        "numpy",
    }
    assert not loaded & heavy


def test_default_manager_reads_no_metadata() -> None:
    python(
        "import fl_memory\n"
        "fl_memory.current().alloc(5000).free()\n"
        "assert 'importlib.metadata' not in sys.modules"
    )


def test_live_blocks_at_exit() -> None:
    python(
        "import fl_memory, gc\n"
        "class Loop: ...\n"
        "for name in ('caching', 'system'):\n"
        "    blocks = [fl_memory.get(name).alloc(10 ** k) for k in range(8)]\n"
        "    sys.modules['keep_' + name] = blocks\n"
        "    loop = Loop(); loop.self = loop; loop.block = fl_memory.get(name).alloc(100)\n"
        "    loop.view = fl_memory.get(name).alloc(100).view()\n"
        "fl_memory.use(fl_memory.get('system'))\n"
    )


def test_pytest_plugin_imports_pytest_alone() -> None:
    code = Path(SOURCE, "fl_pytest_plugin.py").read_text()
    assert "import fl_memory" not in code and "from fl_" not in code


def test_public_names_are_listed_and_importable() -> None:
    assert {"SMALL_BYTES", "current", "free_after_fork"} <= set(fl_memory.__all__)
    assert all(hasattr(fl_memory, name) for name in fl_memory.__all__)
    assert fl_memory.SMALL_BYTES == fl_memory.current().small_bytes


@pytest.mark.parametrize(
    "module",
    "buffers contract contract.cards contract.series forks host managers.caching managers.system "
    "selection testing.command testing.kit plot traces traces.addresses traces.chrome "
    "traces.compare traces.file traces.plans traces.recorder traces.replay traces.synthetic "
    "traces.timeline traces.trace".split(),
)
def test_public_modules_list_their_names(module: str) -> None:
    found = importlib.import_module(f"fl_memory.{module}")
    assert found.__all__ and all(hasattr(found, name) for name in found.__all__)
