# /// script
# requires-python = ">=3.10"
# dependencies = ["nox"]
# ///
"""The developer's one entry: `python -m pip install nox`, then

nox                     everything that needs no heavy oracle (what a change must pass)
nox -l                  all sessions
nox -t fl-nn            the sessions of one package
nox -s demo             train a convolutional network on real digits
nox -s oracles          compare with PyTorch (Python 3.11)
nox -s interop          exchange weights with torchvision and transformers (Python 3.11)
nox -s torch_backend    run on PyTorch, wrapped by an outside package (Python 3.11)

Arguments after `--` go to the tool: `nox -s "tests(fl-nn)" -- -k dropout`.

Two kinds of environment. The *workshop* is made once, holds all packages as editable installs
together with the tools, and serves every session where isolation is not the point. `isolated`,
`thirdparty`, `demo`, `oracles`, `interop` and `torch_backend` make their own, because there the
point is what gets installed.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import nox

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.envdir = f".nox/{sys.version_info[0]}.{sys.version_info[1]}"
nox.options.error_on_missing_interpreters = False

ROOT = Path(__file__).resolve().parent
DIST = ROOT / "dist"

# Bottom to top: an earlier package never needs a later one.
PACKAGES = (
    "fl-memory fl-tensor fl-dist fl-autograd fl-data fl-nn fl-speech fl-vision fl-text".split()
)
LIGHT_EXAMPLES = ["acme-backend", "acme-arena", "acme-ring", "acme-kernels"]
EXAMPLES = [*LIGHT_EXAMPLES, "torch-backend"]
CONTRACTS = ["fl-memory", "fl-tensor", "fl-dist"]
IMPLEMENTATIONS = [
    ("memory", "system"),
    ("memory", "caching"),
    ("tensor", "numpy"),
    ("tensor", "numpy-wrapped"),
    ("tensor", "jit"),
    ("tensor", "null"),
    ("dist", "local"),
    ("dist", "threads"),
]
BUILD = ["hatchling>=1.24,<2", "editables"]
TOOLS = ["ruff>=0.14", "mypy>=1.18", "import-linter>=2.3", "pytest>=8"]
#: Have `jit` put off everything and plan it at once, not only what is worth it.
FORCED = {"FL_JIT_SMALLEST": "1", "FL_JIT_SIGHTINGS": "1"}
TORCH = "torch==2.13.0"
#: What publishes weights in files.
HUBS = ["torchvision>=0.28,<0.29", "transformers>=5.20,<6", "safetensors>=0.4,<1"]
# The revision of data-apis/array-api-tests that array-api-deviations.txt was written for.
ARRAY_API_TESTS = "55fcc60179efa2680ddd6cd926ddf17b83530e2b"

if os.environ.get("FL_TEST_DATA"):  # sessions change directory
    os.environ["FL_TEST_DATA"] = os.path.abspath(os.environ["FL_TEST_DATA"])

each_package = nox.parametrize("package", [nox.param(p, id=p, tags=[p]) for p in PACKAGES])


# --- what the packages say about themselves ------------------------------------------------------


def project(package: str) -> dict:
    folder = "examples" if package in EXAMPLES else "packages"
    return nox.project.load_toml(ROOT / folder / package / "pyproject.toml")


def closure(*packages: str) -> list[str]:
    """The packages of this repository that `packages` declare, directly or not, and themselves."""
    found: set[str] = set()
    queue = list(packages)
    while queue:
        package = queue.pop()
        if package not in found:
            found.add(package)
            declared = project(package)["project"].get("dependencies", [])
            queue += [p for p in PACKAGES if any(_names(line, p) for line in declared)]
    return [p for p in PACKAGES if p in found]


def _names(requirement: str, package: str) -> bool:
    rest = requirement.removeprefix(package)
    return rest != requirement and not rest[:1].isalnum() and rest[:1] not in ("-", "_", ".")


def test_requirements(*packages: str) -> list[str]:
    """pytest, and the `test` dependency group of each package."""
    needed = {"pytest>=8"}
    for package in packages:
        table = project(package)
        if "test" in table.get("dependency-groups", {}):
            needed |= set(nox.project.dependency_groups(table, "test"))
    return sorted(needed)


def editable(*packages: str, extras: dict[str, str] | None = None) -> list[str]:
    args: list[str] = []
    for package in packages:
        args += ["-e", f"./packages/{package}{(extras or {}).get(package, '')}"]
    return args


def wheel(package: str) -> str:
    """The wheel in dist/, by path: a package of the same name on an index can never win."""
    folder = DIST / "examples" if package in EXAMPLES else DIST
    (path,) = folder.glob(f"{package.replace('-', '_')}-*.whl")
    return str(path)


@contextmanager
def outside_the_checkout(*copies: Path) -> Iterator[Path]:
    """A folder that knows of the repository only `copies` and the configuration of pytest."""
    with tempfile.TemporaryDirectory(prefix="fl-outside-") as name:
        folder = Path(name).resolve()
        shutil.copy(ROOT / "pyproject.toml", folder)
        for path in copies:
            target = folder / path.parent.name
            ignore = shutil.ignore_patterns("__pycache__", "oracles")
            shutil.copytree(path, target / path.name, ignore=ignore)
            readme = path.parent / "README.md"
            if readme.is_file():  # a package's tests run the examples of its README
                shutil.copy(readme, target)
        yield folder


# --- environments --------------------------------------------------------------------------------

workshop_bin = ""


@nox.session(default=False, reuse_venv=True)
def workshop(session: nox.Session) -> None:
    """The shared environment: all packages editable, all light tools; renewed when they change."""
    global workshop_bin
    workshop_bin = session.bin
    digest = hashlib.sha256(repr((sys.version, BUILD, TOOLS)).encode())
    for package in PACKAGES:
        digest.update((ROOT / "packages" / package / "pyproject.toml").read_bytes())
    stamp = Path(session.bin).parent / "workshop.sha256"
    if stamp.is_file() and stamp.read_text() == digest.hexdigest():
        session.log("the workshop is up to date")
        return
    session.install(*BUILD)
    session.install(
        "--no-build-isolation",
        *editable(*PACKAGES, extras={"fl-vision": "[digits]"}),
        *test_requirements(*PACKAGES),
        *TOOLS,
    )
    stamp.write_text(digest.hexdigest())


def in_workshop(session: nox.Session, program: str, *args: str, **env: str) -> None:
    path = os.pathsep.join([workshop_bin, os.environ.get("PATH", "")])
    tool = os.path.join(workshop_bin, program)
    session.run(tool, *args, env={"PATH": path, **env}, external=True)


shared = {"requires": ["workshop"], "venv_backend": "none"}


# --- the checkout --------------------------------------------------------------------------------


@nox.session(**shared)
def lint(session: nox.Session) -> None:
    """Style and likely mistakes (ruff)."""
    in_workshop(session, "ruff", "check", *(session.posargs or ["."]))


@nox.session(**shared)
def types(session: nox.Session) -> None:
    """Type check every package, every example and the tools (mypy)."""
    in_workshop(session, "mypy", *session.posargs)


@nox.session(**shared)
def layers(session: nox.Session) -> None:
    """Who may import whom (import-linter): an arrow up is a failure."""
    in_workshop(session, "lint-imports", "--no-cache", *session.posargs)


@nox.session(tags=CONTRACTS, **shared)
def contracts(session: nox.Session) -> None:
    """Regenerate pinned contracts and their cards and compare (`-- --write` to write them)."""
    options = session.posargs or ["--check"]
    for package in CONTRACTS:
        in_workshop(session, "python", "-m", package.replace("-", "_") + ".contract", *options)
    in_workshop(session, "python", "tools/contract_cards.py", *options)


@nox.session(**shared)
@each_package
def tests(session: nox.Session, package: str) -> None:
    """The tests of one package, in the workshop."""
    folder = f"packages/{package}/tests"
    options = ["-q", folder, f"--ignore={folder}/oracles"]
    in_workshop(session, "python", "-m", "pytest", *options, *session.posargs)


@nox.session(**shared)
def benchmark_models(session: nox.Session) -> None:
    """The models of the benchmarks: their sizes, that they learn; every benchmark in miniature."""
    options = ["-q", "benchmarks/tests", "--ignore=benchmarks/tests/oracles"]
    in_workshop(session, "python", "-m", "pytest", *options, *session.posargs)


@nox.session(**shared)
@nox.parametrize(
    "kind,implementation",
    [nox.param(k, i, id=f"{k}-{i}", tags=[f"fl-{k}"]) for k, i in IMPLEMENTATIONS],
)
def conformance(session: nox.Session, kind: str, implementation: str) -> None:
    """The kit that third parties run, on one of our implementations."""
    name, _, wrapped = implementation.partition("-")
    options, env = [], {}
    if implementation == "jit":
        env = FORCED
        options = ["-k", "not test_operation or 32"]
    if wrapped:  # behind all wrappers at once; operations in the dtypes of 32 bits will do
        options = ["--under", "profile,check,count,trace", "-k", "not test_operation or 32"]
    command = ["-m", f"fl_{kind}.testing", name, *options, *session.posargs]
    in_workshop(session, "python", *command, **env)


@nox.session(**shared, tags=["fl-tensor"])
def vectors(session: nox.Session) -> None:
    """The tests of generated kernels at the widths of vectors that are not the processor's own."""
    codegen = "fl_tensor.codegen"
    asks = f"from {codegen} import target; print(target.processor().vector_bits)"
    python = os.path.join(workshop_bin, "python")
    most = int(session.run(python, "-c", asks, silent=True, external=True) or 128)
    tests = ("packages/fl-tensor/tests/jit", "-k", "codegen or pooling or indexing")
    for bits in ("generic", *(str(n) for n in (128, 256) if n < most)):
        env = {"FL_CACHE_DIR": session.create_tmp(), "FL_VECTOR_BITS": bits}
        in_workshop(session, "python", "-m", "pytest", "-q", *tests, *session.posargs, **env)


@nox.session(**shared)
@nox.parametrize("package", [nox.param(p, id=p, tags=[p]) for p in ("fl-autograd", "fl-nn")])
def deferred(session: nox.Session, package: str) -> None:
    """The tests of what stands on the tensor contract, on `jit`: everything is put off, planned at
    once and computed by kernels."""
    folder = f"packages/{package}/tests"
    options = ["-q", "-p", "no:cacheprovider", folder, f"--ignore={folder}/oracles"]
    env = {"FL_CACHE_DIR": session.create_tmp(), "FL_TENSOR_BACKEND": "jit", **FORCED}
    in_workshop(session, "python", "-m", "pytest", *options, *session.posargs, **env)


@nox.session(reuse_venv=True, tags=["fl-tensor", "fl-nn"])
@nox.parametrize("provider", [nox.param(p, id=p) for p in ("generated", "onednn")])
def providers(session: nox.Session, provider: str) -> None:
    """With one provider alone, however small the operands: its tests, the kit's contractions, the
    layers made of them and their gradients, on `numpy` and on `jit`."""
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        session.skip("the wheel is for Linux on x86-64")
    packages = closure("fl-nn")
    session.install(*BUILD)
    session.install(
        "--no-build-isolation",
        *editable(*packages, extras={"fl-tensor": "[onednn,jit]"}),
        *test_requirements(*packages),
    )
    env = {
        "FL_PROVIDERS": provider,
        "FL_PROVIDERS_EVERYTHING": "1",
        "FL_CACHE_DIR": str(Path(session.create_tmp()) / "choices"),
    }
    part = "matmul or conv or linear or pool"
    run = ["python", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    # The tests of generated code ask for it themselves: `tests(fl-tensor)` has run them.
    tests = "packages/fl-tensor/tests/providers"
    session.run(*run, tests, f"--ignore={tests}/generated", env=env)
    folders = [f"packages/{name}/tests" for name in ("fl-autograd", "fl-nn")]
    ignored = [f"--ignore={folder}/oracles" for folder in folders]
    for backend, more in (("numpy", {}), ("jit", FORCED)):
        env |= {"FL_TENSOR_BACKEND": backend, **more}
        session.run("python", "-m", "fl_tensor.testing", backend, "-k", part, env=env)
        session.run(*run, *folders, *ignored, "-k", part, *session.posargs, env=env)


@nox.session(**shared)
def readmes(session: nox.Session) -> None:
    """The Python in every README and page of docs/ runs, but for the tutorials."""
    in_workshop(session, "python", "tools/run_readmes.py", *session.posargs)


@nox.session(**shared)
def tutorials(session: nox.Session) -> None:
    """Every tutorial runs from its first block to its last, shell commands included."""
    pages = session.posargs or ["--tutorials"]
    in_workshop(session, "python", "tools/run_readmes.py", *pages)


@nox.session(venv_backend="none", tags=["fl-tensor"])
def import_cost(session: nox.Session) -> None:
    """`import fl_tensor` loads only modules of a checked-in list (`-- --write` extends it)."""
    session.run(sys.executable, "tools/import_cost.py", *session.posargs, external=True)


# --- wheels --------------------------------------------------------------------------------------


@nox.session(default=False, reuse_venv=True)
def wheels(session: nox.Session) -> None:
    """Build every wheel once: packages into dist/, examples into dist/examples/."""
    session.install("pip", *BUILD)
    shutil.rmtree(DIST, ignore_errors=True)
    for folder, names, target in (
        ("packages", PACKAGES, DIST),
        ("examples", EXAMPLES, DIST / "examples"),
    ):
        sources = [f"./{folder}/{name}" for name in names if (ROOT / folder / name).is_dir()]
        options = ["-q", "--no-deps", "--no-build-isolation", "--no-cache-dir", "-w", str(target)]
        if sources:
            session.run("python", "-m", "pip", "wheel", *options, *sources)


@nox.session(requires=["wheels"])
@each_package
def isolated(session: nox.Session, package: str) -> None:
    """A fresh environment, one wheel and what it declares, its tests, outside the checkout."""
    session.install(*map(wheel, closure(package)), *test_requirements(package))
    with outside_the_checkout(ROOT / "packages" / package / "tests") as folder:
        session.chdir(folder)
        session.run("pytest", "-q", "-p", "no:cacheprovider", package, *session.posargs)


@nox.session(requires=["wheels"], tags=LIGHT_EXAMPLES)
def thirdparty(session: nox.Session) -> None:
    """Outside packages against our wheels: their kits, and one epoch of training through them."""
    session.install(
        *map(wheel, [*closure(*LIGHT_EXAMPLES, "fl-nn"), *LIGHT_EXAMPLES]),
        wheel("fl-vision") + "[digits]",
        *test_requirements(*LIGHT_EXAMPLES),
    )
    examples = ROOT / "examples"
    copies = [*(examples / name / "tests" for name in LIGHT_EXAMPLES), examples / "thirdparty"]
    with outside_the_checkout(*copies) as folder:
        session.chdir(folder)
        for name in LIGHT_EXAMPLES:
            session.run("pytest", "-q", "-p", "no:cacheprovider", name)
        # Once more by the name of the entry point, as a user finds them; a part of the kit will do.
        for kit, name, part in (
            ("fl_tensor", "acme", "random or value"),
            ("fl_memory", "arena", "stat"),
            ("fl_dist", "acme-ring", "barrier"),
        ):
            session.run("python", "-m", f"{kit}.testing", name, "-k", part)
        readmes = [f"{name}/README.md" for name in LIGHT_EXAMPLES]
        session.run("python", str(ROOT / "tools" / "run_readmes.py"), *readmes)
        session.run("python", "examples/thirdparty/train_digits.py", *session.posargs)


@nox.session(requires=["wheels"], tags=["fl-autograd", "fl-nn", "acme-backend"])
def portability(session: nox.Session) -> None:
    """Nothing above the tensor contract knows NumPy: the tests of fl-autograd and fl-nn on the pure
    Python of acme-backend. A quarter of the cases marked fl_heavy run (`-- --fl-sample 1`: all)."""
    packages = ["fl-autograd", "fl-nn"]
    session.install(
        *map(wheel, [*closure(*packages), "acme-backend"]), *test_requirements(*packages)
    )
    with outside_the_checkout(*(ROOT / "packages" / name / "tests" for name in packages)) as folder:
        session.chdir(folder)
        options = ["-q", "-p", "no:cacheprovider", "--fl-sample", "0.25", *session.posargs]
        session.run("pytest", *options, *packages, env={"FL_TENSOR_BACKEND": "acme"})


@nox.session(requires=["wheels"], tags=["fl-tensor"])
def new_backend(session: nox.Session) -> None:
    """A stranger's first hour: the package that `fl-tensor new-backend` writes passes with two of
    our wheels and nothing else; then docs/writing-a-backend.md, followed to the letter."""
    session.install("pip", *BUILD, wheel("fl-memory"), wheel("fl-tensor") + "[testing]")
    # From here on pip finds what is installed, or nothing: an index can offer no other package.
    alone = {
        "PIP_NO_INDEX": "1",
        "PIP_NO_BUILD_ISOLATION": "0",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    with outside_the_checkout() as folder:
        session.chdir(folder)
        session.run("fl-tensor", "new-backend", "half-moon")
        session.run(
            "python", "-m", "pip", "install", "-q", "./fl-tensor-half-moon[test]", env=alone
        )
        session.chdir(folder / "fl-tensor-half-moon")
        session.run("python", "-m", "pytest", "-q", "-p", "no:cacheprovider")
        session.chdir(ROOT)
    session.install(*map(wheel, closure("fl-nn")), wheel("fl-vision") + "[digits]")
    page = str(ROOT / "docs" / "writing-a-backend.md")
    session.run("python", str(ROOT / "tools" / "follow.py"), page, *session.posargs, env=alone)


# --- long or heavy: only by name -----------------------------------------------------------------


@nox.session(default=False, reuse_venv=True, tags=["fl-vision"])
def demo(session: nox.Session) -> None:
    """Train the digits network; results in runs/demo (`-- --seed 1` etc. go to the command)."""
    start = time.monotonic()
    session.install(*BUILD)
    needed = closure("fl-vision")
    session.install("--no-build-isolation", *editable(*needed, extras={"fl-vision": "[digits]"}))
    session.log(f"set-up took {time.monotonic() - start:.0f} s")
    options = session.posargs or ["--out", "runs/demo"]
    session.run("fl-vision", "train", "--dataset", "digits", *options)


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
    session.install(*BUILD)
    session.install("--no-build-isolation", *editable(*closure("fl-tensor")))
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


@nox.session(default=False, tags=["fl-tensor"], **shared)
def fuzz(session: nox.Session) -> None:
    """20,000 random programs against NumPy, 5,000 on numpy and jit (`-- --backend jit --programs N
    --seed S` for a part)."""
    for options in [session.posargs] if session.posargs else [[], ["--backend", "jit"]]:
        in_workshop(session, "python", "packages/fl-tensor/tests/fuzz", *options)


@nox.session(default=False, **shared)
def campaign(session: nox.Session) -> None:
    """5,000 random products and 5,000 random convolutions of the generated provider, between guard
    pages, against float64 (`-- --provider onednn --kind gemm --count N --seed S` for others)."""
    in_workshop(session, "python", "packages/fl-tensor/tests/campaign", *session.posargs)


@nox.session(default=False, python="3.11", venv_backend="virtualenv", reuse_venv=True)
def oracles(session: nox.Session) -> None:
    """Compare with PyTorch on the CPU: packages/*/tests/oracles, benchmarks/tests/oracles."""
    folders = [*sorted(ROOT.glob("packages/*/tests/oracles")), ROOT / "benchmarks/tests/oracles"]
    found = [str(p.relative_to(ROOT)) for p in folders]
    session.install(*BUILD)
    session.install(
        "--no-build-isolation",
        *editable(*PACKAGES, extras={"fl-vision": "[digits]"}),
        *test_requirements(*PACKAGES),
        TORCH,
    )
    session.run("python", "-m", "pytest", "-q", *found, *session.posargs)


@nox.session(default=False, python="3.11", venv_backend="virtualenv", reuse_venv=True)
def interop(session: nox.Session) -> None:
    """Files of torchvision and transformers load here, ours load there, and outputs agree."""
    session.install(*BUILD)
    packages = editable(*closure("fl-vision", "fl-text"), extras={"fl-tensor": "[bfloat16]"})
    session.install("--no-build-isolation", *packages, "pytest>=8", TORCH, *HUBS)
    session.run("python", "-m", "pytest", "-q", "tests/interop", *session.posargs)


@nox.session(default=False, python="3.11", venv_backend="virtualenv", requires=["wheels"])
def torch_backend(session: nox.Session) -> None:
    """An outside backend over PyTorch against our wheels: the kit, and the digits network on it."""
    example = "torch-backend"
    session.install(
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
