"""Special tokens."""

from __future__ import annotations

from dataclasses import astuple, dataclass

from fl_tensor.annotations import Checked
from fl_text.errors import TextError


@dataclass(frozen=True)
class SpecialTokens(Checked):
    """How the special tokens of a tokenizer are written; `None` for one that it does not have.

    Padding, unknown piece of text, beginning and end of a text, masked token.
    """

    pad: str | None = "<pad>"
    unk: str | None = "<unk>"
    bos: str | None = "<s>"
    eos: str | None = "</s>"
    mask: str | None = "<mask>"

    def __post_init__(self) -> None:
        names = self.names()
        if len(set(names)) != len(names) or not all(names):
            raise TextError(f"[SpecialTokens] {names} must be different and not empty")

    def names(self) -> list[str]:
        """Those that exist, in the order of their numbers in a tokenizer trained here."""
        return [name for name in astuple(self) if name is not None]


FOREIGN = (
    SpecialTokens(),
    SpecialTokens("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    SpecialTokens("<|padding|>", None, None, "<|endoftext|>", None),
)
"""Spellings that are looked for in a file that does not come from here."""
