# /// script
# requires-python = ">=3.10"
# dependencies = ["nox"]
# ///
"""The developer's one entry: `python -m pip install nox`, then

nox                     everything that needs no heavy oracle (what a change must pass)
nox -t quick            the loop while editing: under two minutes
nox -l                  all sessions
nox -t fl-nn            the sessions of one package
nox -s demo             train a convolutional network on real digits
nox -s results          trainings behind figures: speech, language models, images, detection
nox -s notebooks        run the notebooks of docs/tutorials in a Jupyter kernel
nox -s oracles          compare with PyTorch (Python 3.11)
nox -s text_oracles     compare fl-text with flashlight-text and KenLM (Python 3.11)
nox -s torchaudio       compare fl-speech with torchaudio (Python 3.11)
nox -s torchvision      compare fl_vision.detection with torchvision and pycocotools (Python 3.11)
nox -s interop          exchange weights with torchvision and transformers (Python 3.11)
nox -s torch_backend    run on PyTorch, wrapped by an outside package (Python 3.11)
nox -s communicators   train and test in processes, on MPI, and on Gloo (Python 3.10)
nox -s faults           kill, stop and cut off their ranks at random moments
nox -s interpreters     values in place and forks on each Python that is installed (3.10 to 3.13)

Arguments after `--` go to the tool: `nox -s "tests(fl-nn)" -- -k dropout`.

Two kinds of environment. The *workshop* is made once, holds all packages as editable installs
together with the tools, and serves every session where isolation is not the point. Sessions on
wheels make their own, because there the point is what gets installed; so do those with PyTorch.

The sessions are in tools/sessions, a file for each group.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import nox

sys.path.insert(0, str(Path(__file__).resolve().parent / "tools"))

# In the order in which they run.
# isort: off
from sessions import checkout as checkout
from sessions import quick as quick
from sessions import settings as settings
from sessions import published as published
from sessions import outside as outside
from sessions import distributed as distributed
from sessions import long as long

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.envdir = f".nox/{sys.version_info[0]}.{sys.version_info[1]}"
nox.options.error_on_missing_interpreters = False

if os.environ.get("FL_TEST_DATA"):  # sessions change directory
    os.environ["FL_TEST_DATA"] = os.path.abspath(os.environ["FL_TEST_DATA"])
