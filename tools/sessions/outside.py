"""Other programs: PyTorch beside us and below us, others' files, the array API suite."""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from pathlib import Path

import nox

from sessions.environments import install_editable, install_wheels
from sessions.workspace import (
    OURS,
    ROOT,
    closure,
    outside_the_checkout,
    test_requirements,
    wheel,
)

TORCH = "torch==2.13.0"
#: What publishes weights in files.
HUBS = ["torchvision>=0.28,<0.29", "transformers>=5.20,<6", "safetensors>=0.4,<1"]
#: What users have beside us, NumPy, SciPy and PyTorch apart.
BESIDE_US = ["pandas>=2.2", "scikit-learn>=1.5", "matplotlib>=3.9"]
#: What PyTorch's own test data imports.
TORCH_TESTING = ["expecttest>=0.2"]
#: Dictionaries, decoders and n-gram models in C++. Each wheel contains a copy of KenLM, so one
#: process imports one of them.
TEXT_PEERS = ["flashlight-text==0.0.7", "kenlm>=0.3,<0.4"]
TEXT_ORACLES = "packages/fl-text/tests/oracles"
#: torchaudio, and the release of PyTorch that it is for.
TORCHAUDIO = ["torch==2.11.0", "torchaudio==2.11.0"]
#: torchvision, the release of PyTorch that its operators are for, and what else detection is
#: compared with.
TORCHVISION = ["torch==2.14.1", "torchvision==0.29.1", "pycocotools>=2.0.8", "scipy>=1.11"]
#: What starts ranks besides `fl-dist run`: mpiexec, torchrun, Ray.
LAUNCHERS = ["mpich>=4", "mpi4py>=4", "ray>=2.9", TORCH]
# The revision of data-apis/array-api-tests that array-api-deviations.txt was written for.
ARRAY_API_TESTS = "55fcc60179efa2680ddd6cd926ddf17b83530e2b"


torch_python = ""


@nox.session(default=False, python="3.11", venv_backend="virtualenv", reuse_venv=True)
def beside_torch(session: nox.Session) -> None:
    """The environment of oracles and interop: all packages editable, PyTorch, torchvision, ..."""
    global torch_python
    torch_python = f"{session.bin}/python"
    needed = [*test_requirements(*OURS), TORCH, *HUBS, *TORCH_TESTING]
    install_editable(session, *OURS, *needed, fl_tensor="bfloat16", fl_vision="digits")


@nox.session(default=False, requires=["beside_torch"], venv_backend="none")
def oracles(session: nox.Session) -> None:
    """Compare with PyTorch on the CPU: packages/*/tests/oracles, benchmarks/tests/oracles."""
    folders = [*sorted(ROOT.glob("packages/*/tests/oracles")), ROOT / "benchmarks/tests/oracles"]
    folders.append(ROOT / TEXT_ORACLES / "pytorch")
    found = [str(p.relative_to(ROOT)) for p in folders if p != ROOT / TEXT_ORACLES]
    session.run(torch_python, "-m", "pytest", "-q", *found, *session.posargs, external=True)


@nox.session(default=False, python="3.11", venv_backend="virtualenv", reuse_venv=True)
def text_oracles(session: nox.Session) -> None:
    """Compare fl-text with flashlight-text and KenLM: packages/fl-text/tests/oracles. What needs
    PyTorch alone is in its folder pytorch, which is skipped here."""
    ours = [*closure("fl-text"), "fl-jit"]
    install_editable(session, *ours, *test_requirements(*ours), *TEXT_PEERS)
    session.run("pytest", "-q", TEXT_ORACLES, *session.posargs)


@nox.session(default=False, python="3.11", venv_backend="virtualenv", reuse_venv=True)
def torchaudio(session: nox.Session) -> None:
    """Compare fl-speech with torchaudio, and use its transforms and datasets."""
    ours = closure("fl-speech")
    install_editable(session, *ours, *test_requirements("fl-speech"), *TORCHAUDIO, fl_speech="soxr")
    session.run("pytest", "-q", "packages/fl-speech/tests/oracles", *session.posargs)


@nox.session(default=False, python="3.11", venv_backend="virtualenv", reuse_venv=True)
def torchvision(session: nox.Session) -> None:
    """Compare fl_vision.detection with torchvision's operators, pycocotools and SciPy
    (FL_COCO_SETS, FL_ASSIGNMENTS)."""
    ours = [*closure("fl-vision"), "fl-jit"]
    install_editable(session, *ours, *test_requirements("fl-vision"), *TORCHVISION)
    command = ["pytest", "-q", "packages/fl-vision/tests/oracles"]
    session.run(*command, *session.posargs, env={"FL_REQUIRED": "torchvision"})


@nox.session(default=False, requires=["beside_torch"], venv_backend="none")
def interop(session: nox.Session) -> None:
    """Files of torchvision and transformers load here, ours load there, and outputs agree."""
    command = [torch_python, "-m", "pytest", "-q", "tests/interop"]
    session.run(*command, *session.posargs, external=True)


@nox.session(default=False, python="3.11", venv_backend="virtualenv", reuse_venv=True)
def interoperability(session: nox.Session) -> None:
    """Each row of docs/interoperability.md with real pandas, Matplotlib, scikit-learn, PyTorch; and
    meters against scikit-learn (FL_ORACLE_COUNT, FL_ORACLE_SEED)."""
    ours = closure("fl-nn")
    install_editable(session, *ours, *test_requirements(*ours), *BESIDE_US, TORCH)
    session.run("pytest", "-q", "tests/interoperability", *session.posargs)


@nox.session(default=False, requires=["beside_torch"], venv_backend="none")
def opinfo(session: nox.Session) -> None:
    """PyTorch's own samples of more than 400 operations: values and gradients agree.

    `-- --opinfo-share 0.2 --opinfo-seed N` for a part, drawn by seed.
    """
    command = [torch_python, "-m", "pytest", "-q", "tests/opinfo"]
    session.run(*command, *session.posargs, external=True)


@nox.session(default=False, python="3.11", venv_backend="virtualenv", reuse_venv=True)
def launchers(session: nox.Session) -> None:
    """One script under `fl-dist run`, mpiexec, torchrun, Ray and the variables of srun."""
    install_editable(session, *closure("fl-dist"), *test_requirements("fl-dist"), *LAUNCHERS)
    tests = [f"packages/fl-dist/tests/test_{name}.py" for name in ("launchers", "ray_example")]
    required = {"FL_REQUIRED": "mpich mpi4py torch ray"}
    session.run("pytest", "-q", *tests, *session.posargs, env=required)


@nox.session(default=False, python="3.11", venv_backend="virtualenv", requires=["wheels"])
def torch_backend(session: nox.Session) -> None:
    """An outside backend over PyTorch against our wheels: the kit, and the digits network on it."""
    example = "torch-backend"
    install_wheels(
        session,
        *map(wheel, [*closure(example, "fl-nn"), example]),
        wheel("fl-vision") + "[digits]",
        *test_requirements(example),
        TORCH,
    )
    with outside_the_checkout(ROOT / "examples" / example / "tests") as folder:
        session.chdir(folder)
        session.run("pytest", "-q", "-p", "no:cacheprovider", example, *session.posargs)
        # Once more by the name of the entry point, as a user finds it; a part of the kit will do.
        session.run("python", "-m", "fl_tensor.testing", "torch", "-k", "random or value")
        readme, runner = f"{example}/README.md", ROOT / "tools" / "run_readmes.py"
        session.run("python", str(runner), readme)


@nox.session(default=False, reuse_venv=True, tags=["fl-tensor"])
def array_api(session: nox.Session) -> None:
    """The public array API suite on ft.array_api: -- PATH_OR_URL [--spec PATH_OR_URL] [pytest ...].

    PATH_OR_URL (or FL_ARRAY_API_TESTS) is a checkout or a clone URL of data-apis/array-api-tests.
    Its submodule array-api comes from the checkout, from --spec, or from git with a URL.
    """
    options, rest = array_api_options(session.posargs)
    if not options.suite:
        session.error(
            "where is the suite? nox -s array_api -- PATH_OR_URL, or set FL_ARRAY_API_TESTS: a "
            "checkout or a clone URL of data-apis/array-api-tests"
        )
    install_editable(session, *closure("fl-tensor"))
    with tempfile.TemporaryDirectory(prefix="fl-array-api-") as name:
        suite = Path(name) / "array-api-tests"
        obtain(session, options.suite, suite, ARRAY_API_TESTS)
        spec = suite / "array-api"
        if options.spec:
            shutil.rmtree(spec, ignore_errors=True)
            obtain(session, options.spec, spec)
        elif not (spec / "src").is_dir() and (suite / ".git").is_dir():
            git = ["git", "-C", str(suite), "submodule", "update", "--init", "--depth=1"]
            session.run(*git, external=True)
        if not (spec / "src").is_dir():
            session.error(
                f"the folder array-api of {options.suite} is empty: run `git submodule update "
                "--init` there, or add --spec PATH_OR_URL of data-apis/array-api"
            )
        session.install("-r", str(suite / "requirements.txt"))
        session.chdir(suite)
        session.run(
            *["python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "array_api_plugin"],
            f"--deviations={ROOT / 'packages/fl-tensor/array-api-deviations.txt'}",
            f"--max-examples={options.max_examples}",
            *["--derandomize", "--disable-deadline"],
            *rest,
            *([] if any(a.startswith("array_api_tests") for a in rest) else ["array_api_tests"]),
            env={
                "ARRAY_API_TESTS_MODULE": "fl_tensor.array_api",
                "HYPOTHESIS_STORAGE_DIRECTORY": str(Path(name) / "hypothesis"),
                "PYTHONPATH": str(ROOT / "tools"),
            },
        )


def array_api_options(arguments: list[str]) -> tuple[argparse.Namespace, list[str]]:
    suite = os.environ.get("FL_ARRAY_API_TESTS")
    if arguments and not arguments[0].startswith("-"):
        suite, *arguments = arguments
    parser = argparse.ArgumentParser(prog="nox -s array_api --", add_help=False, allow_abbrev=False)
    parser.set_defaults(suite=suite)
    parser.add_argument("--spec")
    parser.add_argument("--max-examples", type=int, default=100)
    return parser.parse_known_args(arguments)


def obtain(session: nox.Session, source: str, target: Path, revision: str = "HEAD") -> None:
    """Copy a folder, or fetch a revision of a git repository by its URL."""
    if Path(source).is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns(".git", "__pycache__"))
        return
    session.run("git", "init", "-q", str(target), external=True)
    git = ["git", "-C", str(target)]
    session.run(*git, "fetch", "-q", "--depth=1", source, revision, external=True)
    session.run(*git, "checkout", "-q", "FETCH_HEAD", external=True)
