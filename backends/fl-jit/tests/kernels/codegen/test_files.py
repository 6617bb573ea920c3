"""Machine code on disk: found by the next process, and never a reason to fail."""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
import threading
from dataclasses import replace

import numpy as np
import pytest
from kernel_programs import run

from fl_jit.kernels.codegen import compile, emit, target
from fl_jit.kernels.codegen.errors import CompileError
from fl_jit.kernels.codegen.kernel import Kernel
from fl_jit.kernels.codegen.program import Builder
from fl_tensor.dtypes import float32


def program(number=1.0):
    b = Builder(1)
    b.output(b("add", b.input(float32, "c"), b.constant(number, float32)), "c")
    return b.program()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("FL_CACHE_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def emitted(monkeypatch):
    """The programs that were compiled from scratch."""
    found = []
    true = emit.emit
    monkeypatch.setattr(emit, "emit", lambda p, *rest: found.append(p) or true(p, *rest))
    return found


def works(kernel):
    x = np.arange(5, dtype=np.float32)
    np.testing.assert_array_equal(run(kernel.program, [x], (5,), kernel=kernel)[0], x + 1)


def files(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


def test_the_second_kernel_is_read_from_a_file(folder, emitted):
    works(Kernel(program()))
    works(Kernel(program()))
    assert len(emitted) == 1 and len(files(folder)) == 1


def test_other_programs_and_processors_have_other_files(folder):
    Kernel(program())
    Kernel(program(2.0))
    Kernel(program(), target.Target(target.generic().cpu, "+sse3", 128))
    assert len(files(folder)) == 3


def test_other_widths_of_vectors_have_other_files(folder):
    text = f'target triple = "{target.triple()}"\ndefine void @nothing() {{ ret void }}'
    machine = target.processor()
    for bits in (128, machine.vector_bits, 128):
        compile.load("nothing", lambda: text, replace(machine, vector_bits=bits))
    assert len(files(folder)) == len({128, machine.vector_bits})


FAULTS = {
    "empty": lambda data: b"",
    "cut": lambda data: data[: len(data) // 2],
    "a bit": lambda data: data[:-100] + bytes([data[-100] ^ 1]) + data[-99:],
    "other": lambda data: b"something else",
    "an older format": lambda data: b"fl kernel 0\n" + data[12:],
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_damaged_file_is_replaced(fault, folder, emitted):
    Kernel(program())
    (path,) = files(folder)
    good = path.read_bytes()
    path.write_bytes(FAULTS[fault](good))
    works(Kernel(program()))
    assert len(emitted) == 2 and path.read_bytes() == good


def test_a_folder_that_cannot_be_written_to(folder, monkeypatch):
    (folder / "kernels").write_text("a file where a folder should be")
    works(Kernel(program()))
    monkeypatch.delenv("FL_CACHE_DIR")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr("pathlib.Path.home", lambda: (_ for _ in ()).throw(RuntimeError()))
    works(Kernel(program()))


def test_an_unreadable_file(folder):
    Kernel(program())
    (path,) = files(folder)
    path.unlink()
    path.mkdir()
    works(Kernel(program()))


SCRIPT = """
import sys
sys.path.insert(0, {folder!r})
from test_files import program, works
from fl_jit.kernels.codegen.kernel import Kernel
works(Kernel(program()))
"""


def test_processes_that_write_at_the_same_time(folder):
    script = SCRIPT.format(folder=os.path.dirname(__file__))
    running = [subprocess.Popen([sys.executable, "-c", script]) for _ in range(3)]
    assert [process.wait(120) for process in running] == [0, 0, 0]
    assert len(files(folder)) == 1


def test_one_process_compiles_a_program_once(folder, emitted):
    found = []
    work = [threading.Thread(target=lambda: found.append(Kernel.of(program(1.5)))) for _ in "1234"]
    for thread in work:
        thread.start()
    for thread in work:
        thread.join()
    assert len(set(map(id, found))) == 1 and len(emitted) == 1


def test_code_that_llvm_rejects_is_in_the_error():
    with pytest.raises(CompileError, match="LLVM refuses a generated kernel"):
        compile.compiled("define void @f() { ret i32 0 }", target.host())


def numbers(requested):
    """What functions that return a number each return, and the modules that were compiled."""
    compiled = []

    def assembly(names):
        compiled.append(names)
        lines = (f"define i64 @{name}() {{ ret i64 {requested[name]} }}" for name in names)
        return "\n".join([f'target triple = "{target.triple()}"', *lines])

    about = {name: f"returns {number}" for name, number in requested.items()}
    found = compile.addresses(about, assembly, target.host())
    return {name: ctypes.CFUNCTYPE(ctypes.c_int64)(at)() for name, at in found.items()}, compiled


def test_new_functions_are_compiled_together_and_others_found(folder, monkeypatch):
    monkeypatch.setattr(compile, "_functions", {})
    assert numbers({"f": 1, "g": 2}) == ({"f": 1, "g": 2}, [["f", "g"]])
    assert numbers({"g": 2, "h": 3, "f": 1}) == ({"f": 1, "g": 2, "h": 3}, [["h"]])
    assert numbers({"f": 4}) == ({"f": 4}, [["f"]]), "it is something else"
    monkeypatch.setattr(compile, "_functions", {})  # as in the next process
    assert numbers({"h": 3, "g": 2, "f": 1}) == ({"f": 1, "g": 2, "h": 3}, [])


def returning(name, number):
    """Machine code of a module with one function, which returns a number."""
    text = f'target triple = "{target.triple()}"\ndefine i64 @{name}() {{ ret i64 {number} }}'
    return compile.Code(compile.compiled(text, target.host()), target.host())


def test_functions_of_the_same_name_differ():
    codes = [returning("f", number) for number in range(20)]
    found = [ctypes.CFUNCTYPE(ctypes.c_int64)(code.address("f"))() for code in codes]
    assert found == list(range(20))


def test_a_module_has_its_own_functions_and_no_others():
    one, other = returning("only_here", 1), returning("only_there", 2)
    assert one.address("only_here") and other.address("only_there")
    assert not one.address("only_there") and not other.address("only_here")
    assert not one.address("nowhere")


def test_nothing_looks_for_cycles_while_instructions_are_written(folder, monkeypatch):
    monkeypatch.setattr(compile, "_functions", {})
    enabled = []

    def assembly(*_):
        enabled.append(gc.isenabled())
        raise ZeroDivisionError

    for load in (compile.load, lambda about, *rest: compile.addresses({"f": about}, *rest)):
        with pytest.raises(ZeroDivisionError):
            load("what fails", assembly, target.host())
        assert gc.isenabled()
    assert enabled == [False, False]


@pytest.mark.parametrize("effort", compile.Effort)
def test_every_effort_makes_code_that_computes_the_same(folder, monkeypatch, effort):
    load = compile.load
    monkeypatch.setattr(compile, "load", lambda *given: load(*given, effort))
    works(Kernel(program()))


def test_less_effort_is_fewer_looks_at_the_code():
    text = emit.emit(program(), target.host())
    sizes = [len(compile.compiled(text, target.host(), effort)) for effort in compile.Effort]
    assert sizes[compile.Effort.LEAST] > sizes[compile.Effort.TIDY]
