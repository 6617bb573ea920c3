"""``fl_nn``: optimizers, schedules, meters, the training loop."""

from __future__ import annotations

from typing import Any

import fl_dist as dist
import fl_nn as nn
import fl_tensor as ft
from cases import Target
from targets.making import Ready, ints, target, x


def model() -> Any:
    return nn.Linear(3, 4)


def parameters() -> Any:
    return model().parameters()


def optimizer() -> Any:
    return nn.SGD(parameters(), lr=0.1)


OPTIMIZERS = """
AMSgrad Adadelta Adafactor Adagrad Adam AdamW LAMB Lion NAG Novograd RMSprop SGD
""".split()
SCHEDULES: dict[str, dict[str, Any]] = {
    "ConstantLR": {"factor": 0.5, "total_iters": 5},
    "LinearLR": {"start_factor": 0.5, "total_iters": 5},
    "ExponentialLR": {"gamma": 0.9},
    "StepLR": {"step_size": 2, "gamma": 0.1},
    "MultiStepLR": {"milestones": [2, 4], "gamma": 0.1},
    "CosineAnnealingLR": {"T_max": 5},
    "CosineAnnealingWarmRestarts": {"T_0": 5},
    "InverseSquareRootLR": {"warmup_steps": 10},
    "PolynomialLR": {"total_iters": 5, "power": 1.0},
    "OneCycleLR": {"max_lr": 1.0, "total_steps": 10},
    "ReduceLROnPlateau": {"factor": 0.1, "patience": 3},
}
KINDS_OF_SCHEDULES = {
    "factor": "rate",
    "total_iters": "positive",
    "start_factor": "rate",
    "gamma": "rate",
    "step_size": "positive",
    "milestones": "iterable",
    "T_max": "positive",
    "T_0": "positive",
    "warmup_steps": "positive",
    "power": "rate",
    "max_lr": "rate",
    "total_steps": "positive",
    "patience": "count",
}


def batches() -> Any:
    return [(x(), x(2, 4))]


def fitted(**options: Any) -> Any:
    m = model()
    trainer = nn.Trainer(m, nn.SGD(m.parameters(), lr=0.1), nn.mse, progress=False)
    return trainer.fit(batches(), **options)


TARGETS: list[Target] = [
    *(
        target(f"nn.{name}", {"params": parameters, "lr": 0.1}, params="parameters", lr="rate")
        for name in OPTIMIZERS
    ),
    target(
        "nn.SparseAdam",
        {"params": parameters, "lr": 0.1},
        params="parameters",
        lr="rate",
        eps="rate",
    ),
    target(
        "nn.LBFGS",
        {"params": parameters, "lr": 0.1},
        params="parameters",
        lr="rate",
        max_iter="positive",
        max_eval="positive",
        tolerance_grad="rate",
        tolerance_change="rate",
        history_size="positive",
    ),
    target(
        "nn.SGD momentum", {"params": parameters, "lr": 0.1}, momentum="rate", weight_decay="rate"
    ),
    target(
        "nn.Adam moments", {"params": parameters}, betas="choice", eps="rate", weight_decay="rate"
    ),
    *(
        target(
            f"nn.{name}",
            {"optimizer": optimizer, **good},
            optimizer="module",
            **{key: KINDS_OF_SCHEDULES[key] for key in good},
        )
        for name, good in SCHEDULES.items()
    ),
    target(
        "nn.LambdaLR",
        {"optimizer": optimizer, "lr_lambda": Ready(lambda i: 1.0)},
        lr_lambda="callable",
    ),
    target(
        "nn.SequentialLR",
        {"optimizer": optimizer, "schedulers": lambda: [], "milestones": []},
        optimizer="module",
        schedulers="iterable",
        milestones="iterable",
        call=lambda **o: _sequence(**o),
    ),
    target("nn.EMA", {"model": model, "decay": 0.9}, model="module", decay="fraction"),
    target("nn.ClipGradNorm", {"max_norm": 1.0}, max_norm="rate"),
    target(
        "nn.clip_grad_norm_",
        {"parameters": parameters, "max_norm": 1.0},
        parameters="parameters",
        max_norm="rate",
    ),
    target(
        "nn.clip_grad_value_",
        {"parameters": parameters, "clip_value": 1.0},
        parameters="parameters",
        clip_value="rate",
    ),
    target("nn.DynamicLossScaler", {}, factor="rate", growth_interval="positive"),
    target(
        "nn.GradientAccumulation",
        {"optimizer": optimizer, "every": 2},
        optimizer="module",
        every="positive",
    ),
    target("nn.EarlyStop", {}, monitor="string", patience="positive", mode="choice"),
    target("nn.KeepBest", {}, count="positive", monitor="string", mode="choice"),
    target("nn.CountMeter", {"size": 2}, size="positive"),
    target("nn.TopKMeter", {"k": 2}, k="positive"),
    target(
        "nn.TopKMeter added",
        {"0": x, "1": lambda: ints(2)},
        _0="required_array",
        _1="required_array",
        call=lambda a, b: nn.TopKMeter(2).add(a, b),
    ),
    target(
        "nn.FrameErrorMeter added",
        {"0": x, "1": lambda: ints(2)},
        _0="required_array",
        call=lambda a, b: nn.FrameErrorMeter().add(a, b),
    ),
    *(
        target(f"nn.{name}", {"classes": 4}, classes="positive", threshold="number")
        for name in ("ConfusionMeter", "PrecisionMeter", "RecallMeter", "F1Meter")
    ),
    target("nn.CalibrationMeter", {}, bins="positive"),
    *(
        target(
            f"nn.{name} added",
            {"0": lambda: ft.softmax(x(), 1), "1": lambda: ints(2)},
            _0="required_array",
            _1="required_array",
            call=lambda a, b, made=made: made().add(a, b),
        )
        for name, made in (
            ("AccuracyMeter", nn.AccuracyMeter),
            ("ConfusionMeter", lambda: nn.ConfusionMeter(3)),
            ("AUCMeter", nn.AUCMeter),
            ("AveragePrecisionMeter", nn.AveragePrecisionMeter),
            ("CalibrationMeter", nn.CalibrationMeter),
        )
    ),
    target(
        "nn.AverageValueMeter added",
        {"0": 1.0},
        _0="number",
        call=lambda a: nn.AverageValueMeter().add(a),
    ),
    target(
        "nn.MSEMeter added",
        {"0": x, "1": x},
        _0="required_array",
        call=lambda a, b: nn.MSEMeter().add(a, b),
    ),
    target(
        "nn.EditDistanceMeter added",
        {"0": [1, 2], "1": [1, 3]},
        _0="iterable",
        call=lambda a, b: nn.EditDistanceMeter().add(a, b),
    ),
    target("nn.Durations", {"values": [1.0, 2.0]}, values="iterable"),
    target(
        "nn.Trainer",
        {"model": model, "optimizer": lambda: None, "loss": Ready(nn.mse)},
        model="module",
        optimizer="module",
        loss="callable",
        accumulate="positive",
        log_every="count",
        schedule="module",
        call=lambda **o: _trainer(**o),
    ),
    target(
        "nn.GradientAverage",
        {"communicator": dist.local, "parameters": lambda: [nn.Parameter(x())]},
        communicator="module",
        parameters="iterable",
    ),
    target(
        "nn.find_lr",
        {"trainer": lambda: _trainer(model(), None, loss=nn.mse), "batches": batches},
        trainer="module",
        batches="iterable",
        lowest="rate",
        highest="rate",
        steps="positive",
        smooth="rate",
        diverge="rate",
        call=nn.find_lr,
    ),
    target("nn.Trainer fits", {"epochs": 1}, epochs="positive", call=fitted),
]


def _trainer(model: Any, optimizer: Any, **options: Any) -> Any:
    """A Trainer; of a module, where no optimizer is given, with one of its parameters."""
    if optimizer is None and isinstance(model, nn.Module):
        optimizer = nn.SGD(model.parameters(), lr=0.1)
    return nn.Trainer(model, optimizer, **options)


def _sequence(optimizer: Any, schedulers: Any, milestones: Any) -> Any:
    if schedulers == [] and isinstance(optimizer, nn.Optimizer):
        schedulers = [nn.ConstantLR(optimizer), nn.StepLR(optimizer, 2)]
    return nn.SequentialLR(optimizer, schedulers, milestones if milestones != [] else [3])


UNTRIED: dict[str, str] = {
    "nn.Callback": "a base class without arguments",
    "nn.LRScheduler": "a base class: its schedules are tried",
    "nn.Meter": "a base class without arguments",
    "nn.Optimizer": "a base class: its optimizers are tried",
    "nn.KVCache": "takes no arguments",
    "nn.LRSweep": "a record that find_lr makes",
    "nn.StopSignals": "takes no arguments",
    "nn.stop_signals": "takes no arguments",
    "nn.TimeMeter": "takes a flag and a clock",
    "nn.Progress": "what the Trainer shows; made by it",
    "nn.migration": "a decorator of classes",
}
