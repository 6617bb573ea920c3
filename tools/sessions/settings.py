"""The same tests under other settings: implementations, widths of vectors, kernel libraries; all
in the workshop.

Each session changes one thing, and leaves out what it would only repeat.
"""

from __future__ import annotations

import platform

import nox

from sessions.environments import ask_workshop, in_workshop, pytest_in_workshop, shared
from sessions.workspace import suite

IMPLEMENTATIONS = [
    ("memory", "system"),
    ("memory", "caching"),
    ("tensor", "numpy"),
    ("tensor", "numpy-wrapped"),
    ("tensor", "jit"),
    ("tensor", "null"),
    ("dist", "local"),
    ("dist", "threads"),
    ("dist", "processes"),
]
#: Have `jit` put off everything and plan it at once, and hand all contractions to the generated
#: kernels, not only what is worth it.
FORCED = {
    "FL_JIT_MIN_SIZE": "1",
    "FL_JIT_COMPILE_AFTER": "1",
    "FL_KERNEL_LIBRARIES": "generated",
    "FL_KERNELS_FORCE": "1",
}
#: As FL_JIT_MIN_SIZE: have `jit` put off nothing.
NEVER = str(1 << 40)
#: What stands on the tensor contract.
ABOVE = ("fl-autograd", "fl-nn")
#: Kernel libraries that compute GEMM and convolutions, each alone.
LIBRARIES = ("generated", "onednn")


def kernels(session: nox.Session) -> dict[str, str]:
    """Generated code is kept from session to session; its files are named by what it depends on."""
    return {"FL_CACHE_DIR": str(session.cache_dir / "kernels")}


def skip_without_wheel(session: nox.Session, library: str) -> None:
    """Leave a session of oneDNN out where it has no wheel."""
    if library == "onednn" and (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        session.skip("the wheel is for Linux on x86-64")


@nox.session(**shared)
@nox.parametrize(
    "kind,implementation",
    [nox.param(k, i, id=f"{k}-{i}", tags=[f"fl-{k}"]) for k, i in IMPLEMENTATIONS],
)
def conformance(session: nox.Session, kind: str, implementation: str) -> None:
    """The kit that third parties run, on one of our implementations."""
    name, _, wrapped = implementation.partition("-")
    options: list[str] = []
    env: dict[str, str] = {}
    if implementation == "jit":
        env = FORCED | kernels(session)
        options = ["-k", "not test_operation or 32"]
    if wrapped:  # behind all wrappers at once; a sample of each operation in 32 bits will do
        options = ["--under", "profile,check,count,trace", "-k", "not test_operation or 32"]
        options.append("--fl-quick")
    command = ["-m", f"fl_{kind}.testing", name, *options, *session.posargs]
    in_workshop(session, "python", *command, env=env)


@nox.session(**shared, tags=["fl-jit"])
def vectors(session: nox.Session) -> None:
    """The tests of generated kernels at the widths of vectors that are not the processor's own."""
    query = "from fl_jit.kernels.codegen import target; print(target.processor().vector_bits)"
    most = int(ask_workshop(session, query) or 128)
    tests = ("backends/fl-jit/tests", "-k", "codegen or pooling or indexing")
    for bits in ("generic", *(str(n) for n in (128, 256) if n < most)):
        pytest_in_workshop(session, *tests, workers=2, env={"FL_VECTOR_BITS": bits})


@nox.session(**shared)
@nox.parametrize("package", [nox.param(p, id=p, tags=[p]) for p in ABOVE])
def deferred(session: nox.Session, package: str) -> None:
    """The tests of what stands on the contract, on `jit`, all of it in kernels, planned at once.

    Each eighth test of a file (`-- --every 1`: all).
    """
    env = {"FL_TENSOR_BACKEND": "jit", **FORCED, **kernels(session)}
    options = ["-p", "no:cacheprovider", *suite(package)]
    pytest_in_workshop(session, *options, workers=2, every=8, env=env)


@nox.session(tags=["fl-tensor", "fl-nn"], **shared)
@nox.parametrize("library", [nox.param(name, id=name) for name in LIBRARIES])
def kernel_libraries(session: nox.Session, library: str) -> None:
    """Products, convolutions and layers made of them, however small, by one kernel library alone.

    The tests of dispatch, the library's own, the kit's, and each sixth of those of layers and
    gradients (`-- --every 1`: all); on `jit`, in plans and at once.
    """
    skip_without_wheel(session, library)
    part = ["-k", "matmul or conv or linear or pool or batch_norm"]
    above = [option for package in ABOVE for option in suite(package)]
    env = {**kernels(session), "FL_KERNEL_LIBRARIES": library, "FL_KERNELS_FORCE": "1"}
    # The tests of generated code ask for it themselves: `tests(fl-tensor)` has run them.
    own = "backends/fl-jit/tests/kernels"
    pytest_in_workshop(session, "-p", "no:cacheprovider", own, f"--ignore={own}/llvm", env=env)
    if library == "onednn":
        outside = "examples/onednn-kernels/tests"
        pytest_in_workshop(session, "-p", "no:cacheprovider", outside, env=kernels(session))
    for smallest in (FORCED["FL_JIT_MIN_SIZE"], NEVER):
        env = {**FORCED, **env, "FL_TENSOR_BACKEND": "jit", "FL_JIT_MIN_SIZE": smallest}
        in_workshop(session, "python", "-m", "fl_tensor.testing", "jit", *part, env=env)
        # `deferred` runs these with generated kernels in plans, and all others.
        if library != "generated" or smallest == NEVER:
            options = ["-p", "no:cacheprovider", *above, *part]
            pytest_in_workshop(session, *options, every=6, env=env)
