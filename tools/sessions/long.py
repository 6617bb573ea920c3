"""Long sessions, and those that are run by name only."""

from __future__ import annotations

import time

import nox

from sessions.environments import in_workshop, install_editable, pytest_in_workshop, shared
from sessions.settings import FORCED, LIBRARIES, kernels, skip_without_wheel
from sessions.workspace import closure, suite, test_requirements

#: Folders of examples/ that `results` runs by name.
RESULTS = ["spoken_digits", "language_models", "images", "detection"]


@nox.session(default=False, reuse_venv=True, tags=["fl-vision"])
def demo(session: nox.Session) -> None:
    """Train the digits network; results in runs/demo (`-- --seed 1` etc. go to the command)."""
    start = time.monotonic()
    install_editable(session, *closure("fl-vision"), fl_nn="plot", fl_vision="digits")
    session.log(f"set-up took {time.monotonic() - start:.0f} s")
    options = session.posargs or ["--out", "runs/demo", "--overwrite"]
    session.run("fl-vision", "train", "--dataset", "digits", *options)


@nox.session(default=False, tags=["fl-nn"], **shared)
def programs(session: nox.Session) -> None:
    """Train each program of examples/programs to its goal (`-- vae pinn` for a part)."""
    in_workshop(session, "python", "examples/programs/run.py", *session.posargs)


@nox.session(default=False, tags=["fl-speech", "fl-text", "fl-vision"], **shared)
def results(session: nox.Session) -> None:
    """Trainings behind figures: of spoken digits (`-- ctc asg` for a part), or of one of RESULTS
    (`-- language_models char bert`). Needs FL_TEST_DATA."""
    folder, arguments = "spoken_digits", session.posargs
    if arguments[:1] and arguments[0] in RESULTS:
        folder, *arguments = arguments
    in_workshop(session, "python", f"examples/{folder}/results.py", *arguments)


@nox.session(default=False, tags=["fl-tensor"], **shared)
def fuzz(session: nox.Session) -> None:
    """20,000 random programs against NumPy, and 5,000 on numpy and on jit.

    `-- --backend jit --programs N --seed S` for a part.
    """
    folders = ["packages/fl-tensor/tests/fuzz", "backends/fl-jit/tests/fuzz"]
    for folder in folders[-1:] if session.posargs else folders:
        in_workshop(session, "python", folder, *session.posargs)


@nox.session(default=False, tags=["fl-tensor"], **shared)
def numpy_calls(session: nox.Session) -> None:
    """50 random calls of each function that has NumPy's name, against NumPy."""
    tests = "packages/fl-tensor/tests/test_numpy_functions.py"
    in_workshop(session, "python", "-m", "pytest", "-q", tests, env={"FL_NUMPY_CALLS": "50"})


@nox.session(default=False, tags=["fl-memory"], **shared)
def memory_programs(session: nox.Session) -> None:
    """10,000 random programs through each memory manager in each mode, beside a shadow ledger."""
    tests = "packages/fl-memory/tests/test_random_programs.py"
    in_workshop(session, "python", "-m", "pytest", "-q", tests, env={"FL_MEMORY_PROGRAMS": "10000"})


@nox.session(default=False, tags=["fl-autograd"], **shared)
def control_programs(session: nox.Session) -> None:
    """1,000 random programs with control flow on three backends: captured as on values."""
    tests = "packages/fl-autograd/tests/test_control_programs.py"
    in_workshop(session, "python", "-m", "pytest", "-q", tests, env={"FL_CONTROL_PROGRAMS": "1000"})


@nox.session(default=False, tags=["fl-nn"], **shared)
def run_folders(session: nox.Session) -> None:
    """20 pairs of trainings that begin at once in one folder, and 20 that are killed in one."""
    tests = "packages/fl-nn/tests/test_run_folder.py"
    in_workshop(session, "python", "-m", "pytest", "-q", tests, env={"FL_RUN_FOLDERS": "20"})


@nox.session(default=False, tags=["fl-nn"], **shared)
def compiled_training(session: nox.Session) -> None:
    """20 compiled steps of five models with every optimizer against eager ones, and float64."""
    tests = "packages/fl-nn/tests/test_compiled_training.py"
    in_workshop(session, "python", "-m", "pytest", "-q", tests, env={"FL_COMPILED_TRAINING": "all"})


@nox.session(default=False, tags=["fl-data"], **shared)
def resume(session: nox.Session) -> None:
    """Interrupt epochs that worker processes read at 200 random moments, and go on with them."""
    tests = "packages/fl-data/tests/test_resume_in_processes.py"
    moments = {"FL_RESUME_MOMENTS": "29"}  # of seven kinds
    in_workshop(session, "python", "-m", "pytest", "-q", tests, env=moments)


@nox.session(default=False, **shared)
def hostile(session: nox.Session) -> None:
    """Bad inputs to everything public: an error of ours, never a hang, a crash or silence.

    `-- --hostile-share 0.2 --hostile-seed N` for a part, drawn by seed.
    """
    pytest_in_workshop(session, "tests/hostile")


@nox.session(default=False, **shared)
def stress(session: nox.Session) -> None:
    """5,000 random products and 5,000 convolutions between guard pages, against float64.

    `-- --library onednn --kind gemm --count N --seed S` for others than the generated ones.
    """
    in_workshop(session, "python", "backends/fl-jit/tests/stress", *session.posargs)


@nox.session(default=False, tags=["fl-tensor", "fl-nn"], **shared)
@nox.parametrize("library", [nox.param(name, id=name) for name in LIBRARIES])
def whole_on_jit(session: nox.Session, library: str) -> None:
    """The conformance kit in all dtypes, and all tests of fl-nn, on `jit`, by each kernel library.

    Everything is deferred and planned at once. One library computes GEMM and convolutions.
    """
    skip_without_wheel(session, library)
    env = {**FORCED, **kernels(session), "FL_KERNEL_LIBRARIES": library}
    in_workshop(session, "python", "-m", "fl_tensor.testing", "jit", *session.posargs, env=env)
    env["FL_TENSOR_BACKEND"] = "jit"
    options = ["-p", "no:cacheprovider", *suite("fl-nn")]
    pytest_in_workshop(session, *options, workers=2, env=env)


@nox.session(
    default=False, python=["3.10", "3.11", "3.12", "3.13"], reuse_venv=True, tags=["fl-tensor"]
)
def interpreters(session: nox.Session) -> None:
    """What depends on how the interpreter counts references, and keeps its locks, on each Python:
    values that are written in place, and forks; with the kit's tests of them."""
    install_editable(
        session, *closure("fl-nn"), *test_requirements("fl-nn"), fl_tensor="jit,bfloat16"
    )
    tests = "test_refcounts.py test_tensor.py test_indexing.py".split()
    paths = [f"packages/fl-tensor/tests/{name}" for name in tests]
    tests = "test_donation.py test_slice_update.py test_deferred.py".split()
    paths += [f"backends/fl-jit/tests/{name}" for name in tests]
    paths += [f"packages/{name}/tests/test_forks.py" for name in ("fl-memory", "fl-nn")]
    session.run("pytest", "-q", *paths, *session.posargs)
    for backend in ("numpy", "jit"):
        kit = ("-m", "fl_tensor.testing", backend, "-k", "reaches or donated or exported")
        session.run("python", *kit, env=kernels(session))
