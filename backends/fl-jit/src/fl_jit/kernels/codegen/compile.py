"""Compilation of LLVM IR to machine code, with caches in memory and in files.

The name of a file is a digest of everything that determines the code. This is its description, the
generator's sources, the versions of llvmlite and LLVM, the processor and its features. The file
begins with a digest of its contents. A damaged or unreadable file counts as missing. Errors in
writing it are ignored. Concurrent writers write the same contents.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import hashlib
import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import llvmlite
import llvmlite.binding as llvm

from fl_jit.kernels.codegen import target
from fl_jit.kernels.codegen.errors import CompileError
from fl_jit.kernels.codegen.target import Target, lock
from fl_tensor.extend import cache_files, gc_paused

P = ParamSpec("P")
T = TypeVar("T")
_MAGIC = b"fl kernel 2\n"


class Effort(enum.IntEnum):
    """LLVM's optimization level, which determines most of the compile time of a kernel.

    LEAST   no optimization: for code that spends its time in functions that it calls. Takes a fifth
            of the time of ``TIDY``. Loops around calls are about as fast
    TIDY    without CSE and removal of dead branches: for code that needs neither
    FULL    with these passes
    WHOLE   LLVM's default pipeline, with inlining and vectorization: for code that is written by
            people
    """

    LEAST = 0
    TIDY = 1
    FULL = 2
    WHOLE = 3


class Code:
    """Machine code in memory, for the lifetime of this object.

    ``made`` is the result of ``compiled``.
    """

    def __init__(self, compiled: bytes, machine: Target) -> None:
        names, _, machine_code = compiled.partition(b"\n")
        self._names = frozenset(names.decode().split())
        with lock:
            object_file = llvm.ObjectFileRef.from_data(machine_code)
            self._engine = _engine_for(self._names, machine)
            self._engine.add_object_file(object_file)
            self._engine.finalize_object()

    def address(self, name: str) -> int:
        """The address of the function ``name``; 0 if there is none."""
        if name not in self._names:
            return 0
        with lock:
            return int(self._engine.get_function_address(name))


#: The most recent LLVM engines, with the names of all functions in each.
_engines: deque[tuple[Any, set[str]]] = deque(maxlen=8)


def _engine_for(names: frozenset[str], machine: Target) -> Any:
    # An engine without functions of these names. Creating an engine takes twenty times as long as
    # adding to an existing one.
    for engine, used in _engines:
        if used.isdisjoint(names):
            used |= names
            return engine
    empty = llvm.parse_assembly(f'target triple = "{target.triple()}"')
    engine = llvm.create_mcjit_compiler(empty, _machine(machine))
    _engines.append((engine, set(names)))
    return engine


def once(make: Callable[P, T]) -> Callable[P, T]:
    """``functools.cache`` for functions that return machine code, or its address.

    A result is created once, for any number of threads, and lives as long as the process. The plain
    cache would drop one of two concurrent results, and dropped code is freed.
    """
    cached = cast("Callable[P, T]", functools.cache(make))

    @functools.wraps(make)
    def locked(*args: P.args, **kwargs: P.kwargs) -> T:
        with lock:
            return cached(*args, **kwargs)

    return locked


def load(
    about: str, assembly: Callable[[], str], machine: Target, effort: Effort = Effort.FULL
) -> Code:
    """The code that ``about`` describes, from a file or from ``assembly()``.

    ``assembly`` returns LLVM IR. It is called if no file has the compiled code. Raises
    CompileError.
    """
    return _load_cached(about, machine) or _compile([about], assembly, machine, effort)


def addresses(
    wanted: Mapping[str, str],
    assembly: Callable[[Sequence[str]], str],
    machine: Target,
    effort: Effort = Effort.FULL,
) -> dict[str, int]:
    """The address of the machine code of each function in ``wanted``, by name and description.

    The code is created once, for any number of threads, and lives as long as this process.
    Functions without a file are compiled as one module, which ``assembly`` returns for their names.
    For a small function, LLVM spends half of its time before and after the function itself. Raises
    CompileError.
    """
    with lock:
        keys = {name: (name, about, machine) for name, about in wanted.items()}
        new = {name: wanted[name] for name, key in keys.items() if key not in _functions}
        for name, code in _loaded(new, assembly, machine, effort).items():
            _functions[keys[name]] = code, code.address(name)
        return {name: _functions[key][1] for name, key in keys.items()}


_functions: dict[tuple[str, str, Target], tuple[Code, int]] = {}


def _loaded(
    wanted: Mapping[str, str],
    assembly: Callable[[Sequence[str]], str],
    machine: Target,
    effort: Effort,
) -> dict[str, Code]:
    # The code of each function. A file with several functions is found by each of them.
    codes: dict[str, Code] = {}
    for name, about in wanted.items():
        others = (code for code in codes.values() if code.address(name))
        code = next(others, None) or _load_cached(about, machine)
        if code is not None and code.address(name):
            codes[name] = code
    missing = [name for name in wanted if name not in codes]
    if missing:
        abouts = [wanted[name] for name in missing]
        code = _compile(abouts, lambda: assembly(missing), machine, effort)
        codes |= dict.fromkeys(missing, code)
    return codes


def _compile(
    abouts: Sequence[str], assembly: Callable[[], str], machine: Target, effort: Effort
) -> Code:
    with gc_paused():  # llvmlite creates an object per instruction
        text = assembly()
    machine_code = compiled(text, machine, effort)
    for about in abouts:
        _store_cached(about, machine, machine_code)
    return Code(machine_code, machine)


def compiled(assembly: str, machine: Target, effort: Effort = Effort.FULL) -> bytes:
    """The machine code of a module in LLVM IR.

    It is a line with the names of its functions, followed by an object file. Raises CompileError.
    """

    def emit(builder: llvm.TargetMachine, module: llvm.ModuleRef) -> bytes:
        names = [f.name for f in module.functions if not f.is_declaration]
        return " ".join(names).encode() + b"\n" + builder.emit_object(module)

    return bytes(_emitted(assembly, machine, effort, emit))


def listing(assembly: str, machine: Target, effort: Effort = Effort.FULL) -> str:
    """The assembly text of a module in LLVM IR. Raises CompileError."""
    return str(_emitted(assembly, machine, effort, llvm.TargetMachine.emit_assembly))


def _emitted(assembly: str, machine: Target, effort: Effort, emit: Callable[..., Any]) -> Any:
    target.initialize()
    try:
        with lock, llvm.parse_assembly(assembly) as module:
            module.verify()
            builder = _emitter(machine, effort)
            _optimize(module, builder, effort)
            return emit(builder, module)
    except RuntimeError as error:
        raise CompileError(f"LLVM refuses a generated kernel: {error}\n{assembly}") from error


#: Reused for all modules, so that LLVM analyzes the processor once.
@functools.cache
def _emitter(machine: Target, effort: Effort) -> llvm.TargetMachine:
    return _machine(machine, effort)


def _machine(machine: Target, effort: Effort = Effort.FULL) -> llvm.TargetMachine:
    llvm_target = llvm.Target.from_triple(target.triple())
    return llvm_target.create_target_machine(
        cpu=machine.cpu, features=machine.features, opt=int(effort), jit=True
    )


def _optimize(module: llvm.ModuleRef, machine: llvm.TargetMachine, effort: Effort) -> None:
    if effort is Effort.WHOLE:
        options = llvm.create_pipeline_tuning_options(speed_level=3)
        builder = llvm.create_pass_builder(machine, options)
        builder.getModulePassManager().run(module, builder)
        return
    # Loops are already vectorized, with invariants hoisted. Mem2reg and cleanup remain. LLVM's
    # default pipeline takes three times as long.
    passes = llvm.create_new_module_pass_manager()
    passes.add_sroa_pass()
    if effort is Effort.FULL:
        passes.add_simplify_cfg_pass()
        passes.add_instruction_combine_pass()
        passes.add_new_gvn_pass()
        passes.add_loop_simplify_pass()
    if effort is not Effort.LEAST:
        passes.add_loop_rotate_pass()
    if effort is Effort.FULL:
        passes.add_simplify_cfg_pass()
    options = llvm.create_pipeline_tuning_options(speed_level=1)
    passes.run(module, llvm.create_pass_builder(machine, options))


@functools.cache
def sources(folder: Path) -> str:
    """A digest of the Python files in and below a folder, as a part of ``about``.

    A changed generator gives other code for the same description.
    """
    digest = hashlib.sha256()
    paths = [os.path.join(at, name) for at, _, names in os.walk(folder) for name in names]
    for path in sorted(path for path in paths if path.endswith(".py")):
        # Sources in an archive are not readable. The version has to suffice.
        with contextlib.suppress(OSError), open(path, "rb", buffering=0) as file:
            digest.update(file.read())
    return digest.hexdigest()


# --- files ----------------------------------------------------------------------------------------


def _load_cached(about: str, machine: Target) -> Code | None:
    target.initialize()
    path = _path(about, machine)
    content = _read(path) if path else None
    if content is not None:
        with contextlib.suppress(RuntimeError):  # the linker rejects it
            return Code(content, machine)
    return None


def _store_cached(about: str, machine: Target, machine_code: bytes) -> None:
    path = _path(about, machine)
    if path is not None:
        with contextlib.suppress(OSError):  # the cache directory is not writable
            cache_files.write(path, _MAGIC + hashlib.sha256(machine_code).digest() + machine_code)


def _path(about: str, machine: Target) -> Path | None:
    folder = cache_files.folder()
    if folder is None:
        return None
    parts = (
        about,
        sources(Path(__file__).parent),
        llvmlite.__version__,
        str(llvm.llvm_version_info),
        target.triple(),
        machine.cpu,
        machine.features,
        str(machine.vector_bits),
    )
    name = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    return folder / "kernels" / name[:2] / f"{name}.o"


def _read(path: Path) -> bytes | None:
    content = cache_files.read(path)
    if content is None:
        return None
    begin = len(_MAGIC) + hashlib.sha256().digest_size
    machine_code = content[begin:]
    intact = content[:begin] == _MAGIC + hashlib.sha256(machine_code).digest()
    return machine_code if intact else None
