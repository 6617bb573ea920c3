"""`nox -t quick`: the loop while editing, under two minutes once the workshop is there.

It is the sessions that are tagged so, the checks of structure among them, and one of tests: of each
package those that say most in the least time. Everything else is asked by `nox`.
"""

from __future__ import annotations

import nox

from sessions.environments import pytest_in_workshop, shared
from sessions.settings import kernels
from sessions.workspace import ROOT, folder_of

#: The tests of each package, by their names without ``test_``; a folder ends in a slash.
TESTS = {
    "fl-memory": "caching checked contract selection plugins",
    "fl-tensor": """
        annotations array_api chained_assignment complex contract default_dtype dispatch dtypes
        errors extend fft graph grids indexing interop linalg losses memory moving package printing
        products promotion random rounding search settings shaping short_methods stack statistics
        tensor threads wrappers graph/
    """,
    "fl-jit": "deferred plans quotients reproducible settings passes/",
    "fl-dist": "communicator contract reducer threads",
    "fl-autograd": """
        backward checkpoint currying extend functional hooks inplace modes rules sparse variable
    """,
    "fl-data": """
        batch blob dataset mapped merge_and_resample sample_table shuffle_and_resume stream views
    """,
    "fl-nn": """
        checkpoint clipping config ema init layers lengths losses meters module optim parameters
        plot progress schedules summary trainer weights
    """,
    "fl-text": "corpus dictionary encoder lexicon replabels tokenizer",
    "fl-speech": "audio features",
    "fl-vision": "idx images report transforms",
}


@nox.session(tags=["quick"], default=False, **shared)
def quick_tests(session: nox.Session) -> None:
    """The quickest tests of every package that say something."""
    others = [package for package in TESTS if package != "fl-jit"]
    for packages in (["fl-jit"], others):  # apart: tests of `jit` change what it defers later
        pytest_in_workshop(session, *quick_paths(packages), workers=2, env=kernels(session))


def quick_paths(packages: list[str]) -> list[str]:
    """The files and folders of ``TESTS``, in the checkout."""
    paths = []
    for package in packages:
        for name in TESTS[package].split():
            file = name if name.endswith(("/", ".py")) else f"test_{name}.py"
            path = f"{folder_of(package)}/tests/{file}"
            if not (ROOT / path).exists():
                raise FileNotFoundError(f"{path}, of TESTS in tools/sessions/quick.py")
            paths.append(path)
    return paths


quick_paths(list(TESTS))  # now, in every session: a test that is renamed is missed at once
