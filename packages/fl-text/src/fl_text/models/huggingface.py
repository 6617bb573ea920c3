"""Networks from folders of Hugging Face: config.json, weights, tokenizer.json."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from fl_tensor.annotations import checked
from fl_text.errors import TextFileError
from fl_text.models.gpt2 import GPT2
from fl_text.models.llama import Llama
from fl_text.models.published import PublishedConfig
from fl_text.models.published_options import LLAMAS
from fl_text.tokenizer import Tokenizer

AnyPath = str | os.PathLike[str]


@dataclass(frozen=True)
class GenerationSettings:
    """What a folder says of generation. None: it says nothing.

    bos_id, pad_id  the token before a text, and the one that fills up
    eos_ids         tokens that end a text
    temperature, top_k, top_p   of sampling
    """

    bos_id: int | None = None
    eos_ids: tuple[int, ...] = ()
    pad_id: int | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None


class PublishedLanguageModel(NamedTuple):
    """A network in evaluation mode, its tokenizer, and the settings of generation."""

    network: GPT2 | Llama
    tokenizer: Tokenizer
    settings: GenerationSettings


@checked
def load_language_model(folder: AnyPath, ignore: Iterable[str] = ()) -> PublishedLanguageModel:
    """The network, the tokenizer and the settings of generation of a folder with `config.json`,
    `model.safetensors` or shards with an index, `tokenizer.json`, and if there is one
    `generation_config.json`.

    ignore  keys of config.json that are passed over although they are unknown here

    `model_type` says which network it is: gpt2, llama, mistral or qwen2. Raises TextFileError for
    files that are missing, malformed or not supported, and `fl_nn.CheckpointError` for weights that
    do not fit.
    """
    config = PublishedConfig(Path(folder) / "config.json")
    kind = config.choice("model_type", None, ("gpt2", *LLAMAS))
    tokenizer = Tokenizer.load(Path(folder) / "tokenizer.json")
    cls: type[GPT2] | type[Llama] = GPT2 if kind == "gpt2" else Llama
    network = cls.from_huggingface(folder, ignore).eval()
    tokens = network.embedding.count
    if len(tokenizer) > tokens:
        raise TextFileError(
            Path(folder) / "tokenizer.json",
            f"has {len(tokenizer)} tokens, and the network {tokens}",
            "get all files from one model",
        )
    return PublishedLanguageModel(network, tokenizer, _generation(config, tokens))


def _generation(config: PublishedConfig, tokens: int) -> GenerationSettings:
    path = config.path.with_name("generation_config.json")
    own = PublishedConfig(path) if path.exists() else config

    def ids(key: str) -> tuple[int, ...]:
        source = own if own.get(key) is not None else config
        value = source.get(key)
        found = value if isinstance(value, list) else [] if value is None else [value]
        if any(type(one) is not int or not 0 <= one < tokens for one in found):
            raise source.fail(key, f"a token, or a list of tokens, in 0 .. {tokens - 1}")
        return tuple(found)

    def one(key: str) -> int | None:
        found = ids(key)
        return found[0] if found else None

    sampling = {
        key: None if own.get(key) is None else own.number(key, 1.0)
        for key in ("temperature", "top_p")
    }
    top_k = own.get("top_k")
    return GenerationSettings(
        one("bos_token_id"),
        ids("eos_token_id"),
        one("pad_token_id"),
        top_k=None if not top_k else own.count("top_k"),
        **sampling,
    )
