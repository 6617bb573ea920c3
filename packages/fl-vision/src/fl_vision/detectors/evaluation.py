"""Average precision of a detector on images with boxes."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import fl_autograd as ag
import fl_nn as nn
from fl_dist import Communicator, local
from fl_nn.extend import broadcast_buffers
from fl_tensor.annotations import checked
from fl_vision.datasets import DetectionDataset, Target
from fl_vision.detection import CocoFigures, CocoMeter, Detections, GroundTruth
from fl_vision.detectors.detector import WEIGHTS, Detector
from fl_vision.errors import UsageError

#: What decides which weights are kept.
DECIDES = "valid_ap"


@checked
def evaluate_detector(
    detector: Detector,
    data: DetectionDataset,
    *,
    batch_size: int = 16,
    communicator: Communicator | None = None,
    meters: Sequence[nn.Meter] = (),
) -> CocoFigures:
    """COCO's figures on all images of `data`, of which ranks take shares.

    meters  others that see the same detections, such as a `VocMeter`

    Raises `UsageError` where the classes of the data are others, and for no images.
    """
    check_classes(detector, data)
    if batch_size < 1:
        raise UsageError(f"[evaluate_detector] batch_size {batch_size}: give at least 1")
    ranks = communicator or local()
    meter = CocoMeter(detector.classes)
    mine = range(ranks.rank, len(data), ranks.world_size)
    every: list[Any] = [meter, *meters]
    for number, found, target in detected(detector, data, mine, batch_size):
        for each in every:
            each.add([found], [_truth(number, target)])
    for each in every:
        each.sync(ranks)
    return meter.value


def detected(
    detector: Detector, data: DetectionDataset, chosen: range, batch_size: int = 16
) -> Iterator[tuple[int, Detections, Target]]:
    """The boxes that are found in images of `data`: number, boxes, true boxes."""
    for start in range(0, len(chosen), batch_size):
        numbers = chosen[start : start + batch_size]
        samples = [data[number] for number in numbers]
        found = detector.detect([image for image, _ in samples])
        for number, one, (_, target) in zip(numbers, found, samples, strict=True):
            yield number, one, target


def check_classes(detector: Detector, data: DetectionDataset) -> None:
    """Raise `UsageError` unless data have the classes of a detector, and images."""
    if tuple(data.classes) != detector.classes:
        raise UsageError(
            f"[detect] the data have the classes {_short(data.classes)}, the detector has "
            f"{_short(detector.classes)}: give data of the same classes in the same order"
        )
    if not len(data):
        raise UsageError("[detect] the data have no images: give at least one")


class Validate(nn.Callback):
    """Measures `detector` on `data` after every epoch: figures `valid_ap`, `valid_ap50` and
    `valid_ap75` of the history. The weights of the best AP are `weights.safetensors` of the run;
    without data those of the last epoch."""

    def __init__(self, detector: Detector, data: DetectionDataset | None, every: int = 1) -> None:
        self.detector, self.data, self.every = detector, data, every
        #: The highest AP, and its epoch.
        self.best: tuple[float, int] = (-math.inf, 0)

    def on_epoch_end(self, trainer: nn.Trainer, record: dict[str, Any]) -> None:
        averages: Callable[[], Any] = contextlib.nullcontext
        if trainer.ema is not None:
            averages = trainer.ema.applied
        precision = trainer.precision
        casting = contextlib.nullcontext() if precision is None else ag.autocast(precision)
        with averages():
            if self.data is None:
                self._keep(trainer)
                return
            if record["epoch"] % self.every and record["epoch"] != trainer.epochs:
                return
            broadcast_buffers(trainer.communicator, self.detector)
            with casting:
                found = evaluate_detector(
                    self.detector,
                    self.data,
                    batch_size=self.detector.recipe.batch_size,
                    communicator=trainer.communicator,
                )
            record |= {"valid_ap": found.ap, "valid_ap50": found.ap50, "valid_ap75": found.ap75}
            if record[DECIDES] > self.best[0]:
                self.best = (record[DECIDES], record["epoch"])
                self._keep(trainer)

    def _keep(self, trainer: nn.Trainer) -> None:
        if trainer.out is not None and trainer.communicator.rank == 0:
            nn.save_weights(trainer.out / WEIGHTS, self.detector.network)

    def state_dict(self) -> dict[str, Any]:
        """Plain values: the highest AP and its epoch."""
        return {"best": list(self.best) if self.best[1] else []}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state. Raises StateDictError when it is of another callback."""
        best = state.get("best")
        if not isinstance(best, list) or len(best) not in (0, 2):
            raise nn.StateDictError("this is not the state of a Validate")
        self.best = (float(best[0]), int(best[1])) if best else (-math.inf, 0)


def _truth(number: int, target: Target) -> GroundTruth:
    return GroundTruth(
        target.boxes, target.labels, number, target.areas, target.crowd, target.difficult
    )


def _short(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(map(repr, names[:5])) + more
