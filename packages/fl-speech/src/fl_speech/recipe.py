"""``Recipe``: everything that decides what is trained, and how; a JSON file or options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fl_nn.extend import RecipeSettings
from fl_nn.extend import setting as _f
from fl_speech.errors import RecipeError
from fl_speech.relabelling import relabelling_plan, relabelling_problem

__all__ = ["Recipe", "recipe_names"]

#: Beginnings of help texts that several settings share.
_NONE = "0: none"


@dataclass(frozen=True)
class Recipe(RecipeSettings):
    """Settings of a recogniser and of its training.

    Every field is an option of `fl-speech train`, `sample_rate` as `--sample-rate`, and a name of a
    recipe file, a JSON object. What neither gives is the default here. Raises `RecipeError`, which
    names all settings that make no sense.
    """

    PACKAGE: ClassVar[str] = "fl_speech"
    FOLDER: ClassVar[str] = "recipes"
    COMMAND: ClassVar[str] = "fl-speech train"
    ERROR: ClassVar[type[Exception]] = RecipeError

    # features
    features: str = _f("mfsc", "features", "kind", choices=("mfsc", "mfcc", "power", "raw"))
    sample_rate: int = _f(16000, "features", "of all recordings, in Hz", 1000, 1_000_000)
    filters: int = _f(80, "features", "filters of the mel filterbank", 1, 1000)
    cepstra: int = _f(13, "features", "coefficients of mfcc", 1, 1000)
    frame_ms: float = _f(25.0, "features", "length of a frame", 0, 1000, True)
    stride_ms: float = _f(10.0, "features", "distance of frames", 0, 1000, True)
    low_hz: float = _f(0.0, "features", "lowest frequency of the filters")
    high_hz: float = _f(0.0, "features", "highest frequency; 0: half the rate")
    mel_floor: float = _f(1.0, "features", "least output of a filter", above=True)
    deltas: int = _f(0, "features", f"frames of derivatives on each side; {_NONE}", 0, 100)
    normalise: str = _f(
        "utterance",
        "features",
        "mean 0 and variance 1: of each recording, of each feature of a recording, of each feature "
        "of the training list, or in a window",
        choices=("utterance", "per_feature", "global", "local", "none"),
    )
    local_left: int = _f(300, "features", "frames before, of the window", 0, 100_000)
    local_right: int = _f(0, "features", "frames behind, of the window", 0, 100_000)

    # targets
    separator: str = _f("|", "targets", "token between words")
    surround: str = _f("", "targets", "token around each transcript")
    replabels: int = _f(0, "targets", "tokens <1> .. <N> for repetitions (asg)", 0, 9)
    sample_target: float = _f(0.0, "targets", "share of words in another spelling", 0, 1)
    unknown: str = _f(
        "error",
        "targets",
        "words without spelling: letters with the separator right or left of them, or left out",
        choices=("error", "right", "left", "skip"),
    )

    # model
    arch: str = _f("residual", "model", "residual, an architecture file, or a Python file")
    channels: int = _f(128, "model", "residual: channels", 1, 10_000)
    blocks: int = _f(4, "model", "residual: blocks", 0, 1000)
    kernel: int = _f(5, "model", "residual: frames of a kernel, an odd number", 1, 999)
    dilation: int = _f(1, "model", "residual: of the kernels of every second block", 1, 100)
    subsample: int = _f(2, "model", "residual: frames of features for each output", 1, 100)
    dropout: float = _f(0.2, "model", "residual: probability", 0, 0.99)
    norm: str = _f("batch", "model", "residual: normalisation", choices=("batch", "layer"))

    # criterion
    criterion: str = _f(
        "ctc", "criterion", "what is optimised", choices=("ctc", "asg", "seq2seq", "transformer")
    )
    scale: str = _f(
        "none",
        "criterion",
        "divide each loss by",
        choices=("none", "input", "input_sqrt", "target", "target_sqrt"),
    )
    transition_diagonal: float = _f(0.0, "criterion", "asg: first score of staying", -100, 100)
    linseg: int = _f(0, "criterion", "asg: first steps with targets stretched linearly")
    encoder_dim: int = _f(128, "criterion", "seq2seq: size of the encoder's outputs", 1, 100_000)
    attention: str = _f("content", "criterion", "seq2seq: kind of attention")
    attention_window: str = _f("none", "criterion", "seq2seq: window of attention")
    decoder_layers: int = _f(1, "criterion", "seq2seq: layers of the decoder", 1, 100)
    attention_rounds: int = _f(1, "criterion", "seq2seq: attentions one after another", 1, 10)
    teacher_forcing: float = _f(100.0, "criterion", "seq2seq: percent of tokens", 0, 100)
    label_smoothing: float = _f(0.0, "criterion", "seq2seq: share of all tokens", 0, 0.99)
    decoder_dropout: float = _f(0.0, "criterion", "seq2seq: probability", 0, 0.99)
    input_feeding: bool = _f(False, "criterion", "seq2seq: attention is input of the decoder")
    max_output: int = _f(200, "criterion", "seq2seq: most tokens of a transcript", 1, 100_000)
    pretrain_window: int = _f(0, "criterion", "seq2seq: first steps with a soft window")

    # augmentation
    tempo: float = _f(
        0.0, "augmentation", f"logarithm of the widest change of tempo; {_NONE}", 0, 1
    )
    vtlp: float = _f(
        0.0, "augmentation", f"mfsc: logarithm of the widest vocal tract change; {_NONE}", 0, 1
    )
    frequency_masks: int = _f(0, "augmentation", f"SpecAugment: bands; {_NONE}", 0, 100)
    frequency_width: int = _f(27, "augmentation", "SpecAugment: widest band", 0, 10_000)
    time_masks: int = _f(0, "augmentation", f"SpecAugment: stretches; {_NONE}", 0, 100)
    time_width: int = _f(100, "augmentation", "SpecAugment: longest stretch", 0, 100_000)
    time_share: float = _f(1.0, "augmentation", "SpecAugment: of the frames at most", 0, 1)
    spec_augment_start: int = _f(0, "augmentation", "SpecAugment from this step on")
    effects: str = _f("", "augmentation", "JSON file of sound effects")
    effects_start: int = _f(0, "augmentation", "sound effects from this step on")

    # optimisation
    epochs: int = _f(30, "optimisation", "passes over the training list", 1, 1_000_000)
    batch_size: int = _f(32, "optimisation", "recordings a step, of all ranks", 1, 1_000_000)
    batching: str = _f(
        "random",
        "optimisation",
        "batches of any recordings (random), or of like durations",
        choices=("random", "none", "dynamic", "random_dynamic"),
    )
    max_batch_duration: float = _f(0.0, "optimisation", "dynamic: seconds of a padded batch")
    optimizer: str = _f(
        "adamw",
        "optimisation",
        "of encoder and criterion",
        choices=("adamw", "adam", "sgd", "nag", "novograd", "adadelta", "adagrad", "rmsprop"),
    )
    lr: float = _f(3e-3, "optimisation", "learning rate, the peak of a schedule", 0, 1e6, True)
    criterion_lr: float = _f(0.0, "optimisation", "of the criterion; 0: the same", 0, 1e6)
    momentum: float = _f(0.9, "optimisation", "sgd, nag", 0, 0.9999)
    weight_decay: float = _f(0.01, "optimisation", "decoupled for adamw", 0, 1e3)
    schedule: str = _f(
        "onecycle",
        "optimisation",
        "learning rate over the steps",
        choices=("onecycle", "constant", "cosine", "step", "inverse_sqrt"),
    )
    warmup: int = _f(0, "optimisation", "steps of a linear rise, but for onecycle")
    step_size: int = _f(1000, "optimisation", "step: a decay every so many steps", 1)
    gamma: float = _f(0.5, "optimisation", "step: factor of a decay", 0, 1, True)
    clip: float = _f(5.0, "optimisation", f"longest norm of the gradients; {_NONE}")
    accumulate: int = _f(1, "optimisation", "batches a step", 1, 1_000_000)
    ema: float = _f(0.0, "optimisation", f"decay of averaged weights; {_NONE}", 0, 0.999999)
    amp: bool = _f(False, "optimisation", "float16 where safe, loss scaling")
    compiled: bool = _f(False, "optimisation", "run steps as graphs")
    dtype: str = _f("float32", "optimisation", "of weights", choices=("float32", "float64"))
    seed: int = _f(0, "optimisation", "of weights, order, augmentation", 0, (1 << 62) - 1)

    # pseudo-labels
    relabel_epochs: str = _f("", "pseudo-labels", "label recordings after these epochs: 10,20")
    relabel_ratio: str = _f("1", "pseudo-labels", "share of the recordings, of all or each epoch")
    relabel_wer: float = _f(
        0.0, "pseudo-labels", f"not before this WER in % of the first validation list; {_NONE}"
    )
    relabel_decoder: str = _f(
        "greedy", "pseudo-labels", "best path, or beam search", choices=("greedy", "lexicon")
    )
    relabel_lm: str = _f("", "pseudo-labels", "lexicon: n-gram model of words, a file")
    relabel_lm_weight: float = _f(1.0, "pseudo-labels", "lexicon: its weight", -1000, 1000)
    relabel_word_score: float = _f(0.0, "pseudo-labels", "lexicon: of a word", -1000, 1000)
    relabel_beam_size: int = _f(100, "pseudo-labels", "lexicon: hypotheses", 1, 1_000_000)
    relabel_minisz: float = _f(0.0, "pseudo-labels", "shortest recording, in ms")
    relabel_maxisz: float = _f(0.0, "pseudo-labels", f"longest recording, in ms; {_NONE}")
    relabel_mintsz: int = _f(1, "pseudo-labels", "fewest tokens of a label")
    relabel_maxtsz: int = _f(0, "pseudo-labels", f"most tokens of a label; {_NONE}")
    relabel_existing: bool = _f(False, "pseudo-labels", "take labels that the run folder has")

    def contradictions(self) -> list[str]:
        found = []
        if self.kernel % 2 == 0:
            found.append(f"kernel is {self.kernel}: give an odd number")
        if self.high_hz and self.high_hz <= self.low_hz:
            found.append(f"high_hz {self.high_hz:g} is not above low_hz {self.low_hz:g}")
        if self.vtlp and (self.features != "mfsc" or self.deltas):
            found.append("vtlp needs features mfsc without deltas")
        if self.linseg and self.criterion != "asg":
            found.append(f"linseg needs criterion asg, and it is {self.criterion}")
        if self.replabels and self.criterion != "asg":
            found.append(f"replabels need criterion asg, and it is {self.criterion}")
        if len(self.separator.split()) != (1 if self.separator else 0):
            found.append(f"separator {self.separator!r} is not one token")
        for name in ("isz", "tsz"):
            low, high = (getattr(self, f"relabel_{end}{name}") for end in ("min", "max"))
            if high and high < low:
                found.append(f"relabel_max{name} {high:g} is below relabel_min{name} {low:g}")
        if problem := relabelling_problem(self.relabel_epochs, self.relabel_ratio):
            found.append(problem)
        return found

    def relabellings(self) -> dict[int, float]:
        """After which epochs recordings without labels get some, and which share of them."""
        return relabelling_plan(self.relabel_epochs, self.relabel_ratio)


def recipe_names() -> tuple[str, ...]:
    """The names of the recipes of the package: what `Recipe.read` takes in place of a path."""
    return Recipe.recipe_names()
