"""Imports torchvision where its compiled half is for another build of PyTorch, say for CUDA beside
one for the CPU. Models need none of its operators, but two must be known by name."""

from __future__ import annotations

import importlib
import importlib.util
import warnings


def pytest_configure():
    if importlib.util.find_spec("torchvision") is None or importlib.util.find_spec("torch") is None:
        return
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            importlib.import_module("torchvision")
        except RuntimeError:
            for name in ("nms", "qnms"):
                schema = "(Tensor boxes, Tensor scores, float threshold) -> Tensor"
                torch.library.define(f"torchvision::{name}", schema)
            importlib.import_module("torchvision")
