"""Everything public, with good arguments."""

from __future__ import annotations

import inspect
from types import ModuleType

from cases import Target
from targets import (
    acoustic_models,
    attention_maps,
    autograd,
    datasets,
    decoders,
    detection,
    detectors,
    files,
    generation,
    image_transforms,
    kernels,
    language_model_networks,
    layers,
    llama,
    ngrams,
    numpy_names,
    processes,
    sequence_decoders,
    sounds,
    speech_activity,
    speech_asg,
    speech_criteria,
    speech_data,
    speech_decoders,
    speech_features,
    tensors,
    text_classification,
    text_data,
    text_program,
    texts,
    training,
    vision_datasets,
    vision_evaluation,
    vision_models,
    vision_program,
)
from targets.making import PACKAGES

FAMILIES = (
    *(tensors, numpy_names, autograd, kernels, layers, training, datasets, files, processes),
    *(texts, text_data, text_program, text_classification, ngrams, decoders, sequence_decoders),
    *(language_model_networks, llama, generation, attention_maps),
    *(speech_features, sounds, speech_activity, speech_criteria, speech_asg, speech_decoders),
    *(speech_data, acoustic_models),
    *(vision_datasets, vision_models, vision_program, vision_evaluation, image_transforms),
    *(detection, detectors),
)


def public_names(prefix: str, module: ModuleType) -> set[str]:
    """The functions and classes that a package offers, exceptions aside."""
    root = module.__name__.partition(".")[0]
    found = set()
    for name in dir(module):  # names that load when they are asked for included
        if name.startswith("_"):
            continue
        thing = getattr(module, name)
        if not (inspect.isclass(thing) or inspect.isfunction(thing)):
            continue
        if inspect.isclass(thing) and issubclass(thing, BaseException):
            continue
        home = getattr(thing, "__module__", "")
        inner = home.startswith(("fl_tensor.dispatch", "fl_tensor.arguments"))
        if home.partition(".")[0] == root and not inner:
            found.add(f"{prefix}.{name}")
    return found


PUBLIC: set[str] = set().union(*(public_names(p, m) for p, m in PACKAGES.items()))
for _part in ("linalg", "random"):  # the same functions
    PUBLIC -= {f"ft.{_part}.{name}" for name in dir(PACKAGES["ft"]) if name != "norm"}
PUBLIC -= {f"speech.features.{name}" for name in dir(PACKAGES["speech"])}  # the same
PUBLIC -= {f"vision.datasets.{name}" for name in dir(PACKAGES["vision"])}  # the same
PUBLIC -= {f"vision.transforms.{name}" for name in dir(PACKAGES["vision"])}  # the same
PUBLIC -= {"ft.kernels.kernel", "text.language_model.NGramModel"}  # listed elsewhere
PUBLIC -= {"text.rescoring.CausalNetwork", "text.token_model.Cache"}  # as those of text.models
PUBLIC -= {"text.token_model.arrays_of", "text.token_model.join_rows"}  # used there, not offered
TARGETS: list[Target] = [target for family in FAMILIES for target in family.TARGETS]
UNTRIED: dict[str, str] = {}
for _family in FAMILIES:
    UNTRIED |= _family.UNTRIED
