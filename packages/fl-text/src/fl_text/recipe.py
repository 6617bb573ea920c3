"""``Recipe``: everything that decides which language model is trained, and how."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fl_nn.extend import RecipeSettings
from fl_nn.extend import setting as _f
from fl_text.errors import RecipeError

__all__ = ["Recipe", "recipe_names"]

NETWORKS = ("transformer", "gcnn", "lstm", "gpt2", "llama", "bert")
_NONE = "0: none"


@dataclass(frozen=True)
class Recipe(RecipeSettings):
    """Settings of a language model and of its training.

    Every field is an option of `fl-text train`, `batch_size` as `--batch-size`, and a name of a
    recipe file, a JSON object. What neither gives is the default here. Raises `RecipeError`, which
    names all settings that make no sense.
    """

    PACKAGE: ClassVar[str] = "fl_text"
    FOLDER: ClassVar[str] = "recipes"
    COMMAND: ClassVar[str] = "fl-text train"
    ERROR: ClassVar[type[Exception]] = RecipeError

    # tokens
    tokenizer: str = _f(
        "bpe",
        "tokens",
        "kind that is trained on the training text",
        choices=("char", "bpe", "wordpiece", "word"),
    )
    vocabulary: int = _f(8000, "tokens", "most tokens", 2, 10_000_000)
    min_frequency: int = _f(2, "tokens", "tokens seen less often are unknown", 1)
    eos: bool = _f(False, "tokens", "pack, carry, stream: the end token after each line")

    # task
    task: str = _f(
        "autoregressive",
        "task",
        "the next token, or hidden ones",
        choices=("autoregressive", "masked"),
    )
    sample: str = _f(
        "pack",
        "task",
        "stretches of the whole text, also as a stream of files, one line, or several whole lines",
        choices=("pack", "carry", "stream", "line", "documents"),
    )
    context: int = _f(128, "task", "tokens of a sample", 1, 1 << 20)
    mask_prob: float = _f(0.15, "task", "masked: share of hidden tokens", 0, 1, True)
    mask_random: float = _f(0.1, "task", "masked: of these, replaced by others", 0, 1)
    mask_same: float = _f(0.1, "task", "masked: of these, left as they are", 0, 1)
    mask_min_length: int = _f(1, "task", "masked: tokens of a hidden span", 1, 1000)

    # network
    network: str = _f("transformer", "network", "kind", choices=NETWORKS)
    size: int = _f(256, "network", "features of a token", 1, 1 << 16)
    layers: int = _f(4, "network", "layers", 1, 1000)
    heads: int = _f(4, "network", "heads of attention", 1, 1000)
    hidden: int = _f(0, "network", "width inside a layer; 0: the usual one", 0, 1 << 20)
    dropout: float = _f(0.1, "network", "probability", 0, 0.99)
    layer_drop: float = _f(0.0, "network", "transformer: probability", 0, 0.99)
    positions: str = _f(
        "sinusoidal", "network", "transformer: kind", choices=("sinusoidal", "learned")
    )
    norm_first: bool = _f(True, "network", "transformer: layers normalise first")
    activation: str = _f("gelu", "network", "transformer: function", choices=("gelu", "relu"))
    blocks: str = _f(
        "", "network", "gcnn: residual blocks, such as 512x5,128x1+128x5+512x1; gcnn-14b"
    )
    tied: bool = _f(True, "network", "the output has the matrix of the embedding")

    # output
    head: str = _f(
        "full",
        "output",
        "softmax of training",
        choices=("full", "adaptive", "sampled", "noise_contrastive"),
    )
    cutoffs: str = _f("", "output", "adaptive: where clusters of rarer tokens begin: 10000,50000")
    samples: int = _f(1000, "output", "sampled, noise_contrastive: drawn tokens", 1, 1 << 24)
    proposal_power: float = _f(0.75, "output", "drawn by frequency to this power", 0, 10)
    label_smoothing: float = _f(0.0, "output", "full: share of all tokens", 0, 0.99)

    # optimisation
    stream_epoch: int = _f(
        1000, "optimisation", "stream: batches that count as an epoch", 1, 1 << 40
    )
    epochs: int = _f(
        0, "optimisation", "passes over the text; 0: no limit, or 10 without another", 0, 1_000_000
    )
    updates: int = _f(0, "optimisation", "steps; 0: no limit", 0, 1 << 40)
    minutes: float = _f(0.0, "optimisation", "time; 0: no limit", 0, 1e6)
    batch_size: int = _f(32, "optimisation", "samples a step, of all ranks", 1, 1_000_000)
    max_tokens: int = _f(0, "optimisation", f"line: longest line times lines of a batch; {_NONE}")
    optimizer: str = _f(
        "adamw",
        "optimisation",
        "kind",
        choices=("adamw", "adam", "sgd", "nag", "lamb", "lion", "adafactor", "adagrad", "novograd"),
    )
    lr: float = _f(1e-3, "optimisation", "learning rate, the peak of a schedule", 0, 1e6, True)
    momentum: float = _f(0.0, "optimisation", "sgd, nag", 0, 0.9999)
    beta2: float = _f(0.999, "optimisation", "adamw, adam", 0, 0.999999)
    weight_decay: float = _f(0.0, "optimisation", "decoupled for adamw", 0, 1e3)
    schedule: str = _f(
        "cosine",
        "optimisation",
        "learning rate over the training",
        choices=("fixed", "inverse_sqrt", "cosine", "onecycle", "step"),
    )
    warmup: int = _f(0, "optimisation", "steps of a linear rise, but for onecycle")
    warmup_lr: float = _f(0.0, "optimisation", "where the rise begins", 0, 1e6)
    final_lr: float = _f(0.0, "optimisation", "cosine: share of lr at the end", 0, 1)
    step_epochs: int = _f(1, "optimisation", "step: a decay after each so many epochs", 1)
    step_start: int = _f(0, "optimisation", "step: epochs without decay")
    gamma: float = _f(0.5, "optimisation", "step: factor of a decay", 0, 1, True)
    clip: float = _f(1.0, "optimisation", f"longest norm of the gradients; {_NONE}")
    accumulate: int = _f(1, "optimisation", "batches a step", 1, 1_000_000)
    ema: float = _f(0.0, "optimisation", f"decay of averaged weights; {_NONE}", 0, 0.999999)
    amp: bool = _f(False, "optimisation", "float16 where safe, loss scaling")
    compiled: bool = _f(False, "optimisation", "run steps as graphs")
    dtype: str = _f("float32", "optimisation", "of weights", choices=("float32", "float64"))
    valid_every: int = _f(0, "optimisation", "validate also every so many steps")
    valid_tokens: int = _f(0, "optimisation", "most tokens of a validation; 0: all")
    seed: int = _f(0, "optimisation", "of weights, order, masks, dropout", 0, (1 << 62) - 1)

    # adapters
    lora: int = _f(0, "adapters", f"rank of adapters, which alone are trained; {_NONE}", 0, 4096)
    lora_alpha: float = _f(16.0, "adapters", "the product is multiplied by alpha / rank", 0, 1e6)
    lora_targets: str = _f("q_proj,v_proj", "adapters", "last parts of names of layers")

    def contradictions(self) -> list[str]:
        found = []
        masked = self.task == "masked"
        if masked != (self.network == "bert"):
            found.append(f"task {self.task} with network {self.network}: masked goes with bert")
        if masked and self.sample == "carry":
            found.append("sample carry: masked models have no state to carry")
        if self.sample == "carry" and self.network not in ("lstm", "gcnn"):
            found.append(f"sample carry: network {self.network} carries no state; lstm and gcnn do")
        if self.sample == "documents" and self.network in ("lstm", "gcnn"):
            found.append(f"sample documents: network {self.network} has no attention to mask")
        if self.network in ("transformer", "gpt2", "llama", "bert") and self.size % self.heads:
            found.append(f"size {self.size} is not a multiple of heads {self.heads}")
        if self.optimizer == "nag" and not self.momentum:
            found.append("optimizer nag needs a momentum above 0; 0.99 is usual")
        if self.mask_random + self.mask_same > 1:
            found.append("mask_random and mask_same are more than 1 together")
        if self.head != "full" and self.network in ("gpt2", "llama", "bert"):
            found.append(f"head {self.head}: network {self.network} has its own, full")
        if self.label_smoothing and (self.head != "full" or masked):
            found.append("label_smoothing needs head full and an autoregressive task")
        if (self.head == "adaptive") != bool(self.cutoffs):
            found.append("cutoffs and head adaptive go together: give both or neither")
        if self.max_tokens and (self.sample != "line" or self.max_tokens < self.context):
            found.append(f"max_tokens needs sample line, and at least context {self.context}")
        if self.ranges_problem():
            found.append(self.ranges_problem())
        return found

    @property
    def epoch_limit(self) -> int:
        """Epochs after which the training ends; 0: another limit ends it."""
        return self.epochs or (0 if self.updates or self.minutes else 10)

    def ranges_problem(self) -> str:
        """What is wrong with lists of numbers, in words; nothing if they are good."""
        try:
            self.cutoff_list()
            self.block_list()
        except ValueError as error:
            return str(error)
        return ""

    def cutoff_list(self) -> list[int]:
        """`cutoffs` as numbers. Raises ValueError."""
        parts = [part.strip() for part in self.cutoffs.split(",")] if self.cutoffs else []
        if not all(part.isdecimal() and len(part) < 10 for part in parts):
            raise ValueError(f"cutoffs {self.cutoffs!r}: give rising numbers, such as 10000,50000")
        found = [int(part) for part in parts]
        if found != sorted(set(found)) or (found and found[0] < 1):
            raise ValueError(f"cutoffs {self.cutoffs!r}: give rising numbers, such as 10000,50000")
        return found

    def block_list(self) -> list[list[tuple[int, int]]]:
        """`blocks` as channels and widths. Raises ValueError."""
        if self.network != "gcnn" or self.blocks == "gcnn-14b":
            return []
        blocks = []
        for block in (self.blocks or f"{self.size}x4").split(","):
            convolutions = []
            for each in block.split("+"):
                sizes = each.strip().split("x")
                if len(sizes) != 2 or not all(s.isdecimal() and 0 < len(s) < 7 for s in sizes):
                    raise ValueError(
                        f"blocks {self.blocks!r}: {each!r} is not channels x width; write them as "
                        "512x5,128x1+128x5+512x1"
                    )
                convolutions.append((int(sizes[0]), int(sizes[1])))
            blocks.append(convolutions)
        return blocks if self.blocks else blocks * self.layers


def recipe_names() -> tuple[str, ...]:
    """The names of the recipes of the package: what `Recipe.read` takes in place of a path."""
    return Recipe.recipe_names()
