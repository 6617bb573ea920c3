"""Losses and gradients of the small detectors are those of the same networks in PyTorch."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fl_tensor as ft
from fl_dist import local
from fl_vision.datasets import Scenes
from fl_vision.detectors import DetectionRecipe, Detector, make_criterion
from fl_vision.detectors.batches import training_batches

torch = pytest.importorskip("torch")
pytest.importorskip("scipy")
TWINS = Path(__file__).resolve().parents[4] / "examples" / "detection"
if not TWINS.is_dir():
    pytest.skip("needs the repository", allow_module_level=True)
sys.path.append(str(TWINS))
import torch_detectors  # noqa: E402


def name_there(name: str, network: str) -> str:
    """What a parameter of ours is called in the twin."""
    if network == "detr":
        return name.replace("bbox_embed.layers.", "bbox_embed.")
    name = name.replace("backbone.network.", "backbone.").replace("pyramid.", "")
    for head, number in (("classification", 0), ("regression", 1)):
        name = name.replace(f"{head}.conv.0", f"heads.{number}.0")
        name = name.replace(f"{head}.conv.1", f"heads.{number}.2")
        name = name.replace(f"{head}.predict", f"heads.{number}.4")
    return name


@pytest.mark.parametrize("network", ["detr", "retinanet"])
def test_loss_and_gradients(network: str) -> None:
    recipe = DetectionRecipe.read(
        f"scenes-{network}", width=4, size=16, hidden=16, batch_size=2, heads=4
    )
    scenes = Scenes(2, 3, size=64)
    with ft.use("numpy"):
        detector = Detector(recipe, scenes.classes).train()
        images, mask, targets = training_batches(detector, scenes, local())[0]
        twin: Any = (
            torch_detectors.DETR(5, recipe.queries, 4, 16, 4, 16)
            if network == "detr"
            else torch_detectors.RetinaNet(5, 4, 16, recipe.anchor_scale)
        )
        state = {
            name_there(name, network): torch.tensor(np.asarray(value.numpy()))
            for name, value in detector.network.state_dict().items()
        }
        twin.load_state_dict(state)
        loss = make_criterion(recipe, 5)(detector(images, mask), targets)
        loss.backward()
    theirs = twin.loss(
        torch.tensor(images.numpy()),
        torch.tensor(mask.numpy()),
        [(torch.tensor(one.boxes), torch.tensor(one.labels)) for one in targets],
    )
    theirs.backward()
    assert loss.item() == pytest.approx(theirs.item(), rel=1e-4)
    there = dict(twin.named_parameters())
    for name, parameter in detector.network.named_parameters():
        expected = there[name_there(name, network)].grad.numpy()
        found = np.asarray(parameter.grad.numpy())
        scale = max(np.abs(expected).max(), 1e-3)
        np.testing.assert_allclose(found, expected, atol=2e-3 * scale, err_msg=name)
