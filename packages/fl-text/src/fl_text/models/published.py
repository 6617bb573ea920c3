"""``PublishedConfig``: the config.json beside published weights, read with care."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any, TypeVar

import fl_nn as nn
import fl_tensor as ft
from fl_tensor import untrusted_json
from fl_tensor.files import open_regular
from fl_text.errors import TextFileError

M = TypeVar("M", bound=nn.Module)

MAX_FILE = 1 << 20
"""The largest config.json that is read: 1 MiB."""

#: Keys that do not change what a network computes in evaluation.
_WITHOUT_EFFECT = frozenset(
    "architectures attention_dropout bos_token_id chunk_size_feed_forward dtype eos_token_id "
    "finetuning_task id2label initializer_range is_decoder is_encoder_decoder label2id "
    "max_window_layers model_type name_or_path output_attentions output_hidden_states pad_token_id "
    "problem_type return_dict return_dict_in_generate sep_token_id summary_activation "
    "summary_first_dropout summary_proj_to_labels summary_type summary_use_proj "
    "task_specific_params tokenizer_class torch_dtype torchscript transformers_version "
    "use_bfloat16 use_cache use_return_dict".split()
)


class PublishedConfig:
    """The keys and values of a JSON object in a file, each read at most as what it should be.

    Raises TextFileError, which names the file and the key, for a file that is missing, too large
    or no JSON object.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._read: set[str] = set()
        try:
            with open_regular(self.path) as file:
                text = file.read(MAX_FILE + 1)
        except OSError as error:
            raise TextFileError(
                path, str(error.strerror or error), "get the whole folder"
            ) from error
        if len(text) > MAX_FILE:
            raise TextFileError(path, f"is larger than {MAX_FILE} bytes", "it is no configuration")
        try:
            values = untrusted_json.parse(text)
        except ValueError as error:
            raise TextFileError(path, f"not valid JSON ({error})", "get it again") from error
        if not isinstance(values, dict):
            raise TextFileError(path, "holds no JSON object", "get the config.json of a model")
        self.values: dict[str, Any] = values

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key, as it is."""
        self._read.add(key)
        return self.values.get(key, default)

    def fail(self, key: str, wanted: str) -> TextFileError:
        """The error that the value of a key is not what is wanted."""
        found = repr(self.values.get(key))[:80]
        return TextFileError(self.path, f"{key} is {found}", f"supported is {wanted}")

    def count(self, key: str, default: int | None = None, most: int = 1 << 24) -> int:
        """A whole number from 1 to `most`; without a default the key must be there."""
        value = self.get(key)
        if value is None and default is not None:
            return default
        if type(value) is not int or not 1 <= value <= most:
            raise self.fail(key, f"a whole number from 1 to {most}")
        return value

    def optional_count(self, key: str, most: int = 1 << 24) -> int | None:
        """A whole number from 1 to `most`, or None where the key is absent or null."""
        return None if self.get(key) is None else self.count(key, most=most)

    def number(self, key: str, default: float) -> float:
        """A finite number of at least 0."""
        value = self.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.fail(key, "a number")
        if not 0.0 <= value < math.inf:
            raise self.fail(key, "a finite number of at least 0")
        return float(value)

    def flag(self, key: str, default: bool) -> bool:
        """True or false."""
        value = self.get(key, default)
        if not isinstance(value, bool):
            raise self.fail(key, "true or false")
        return value

    def choice(self, key: str, default: Any, supported: Collection[Any]) -> Any:
        """One of the values that are supported."""
        value = self.get(key, default)
        if not any(type(value) is type(one) and value == one for one in supported):
            raise self.fail(key, " or ".join(map(repr, supported)))
        return value

    def finish(self, ignore: Iterable[str] = ()) -> None:
        """Raises TextFileError for keys that nobody has read: they may change the network."""
        passed = self._read | _WITHOUT_EFFECT | set(ignore)
        for key, value in self.values.items():
            if key not in passed and not key.startswith("_") and value is not None:
                raise TextFileError(
                    self.path,
                    f"the key {key[:80]} ({repr(value)[:80]}) is unknown",
                    f"where it changes nothing, pass ignore=[{key[:80]!r}]",
                )


def load_network(
    config: PublishedConfig,
    build: Callable[[], M],
    folder: str | os.PathLike[str],
    table: nn.rename.Table,
) -> M:
    """The network with the weights of a folder. Nothing is allocated before the names and shapes
    in the files are known to fit."""
    try:
        with ft.use("null"):
            network = build()
    except (nn.ModuleError, ValueError) as error:
        raise TextFileError(config.path, f"{error}", "get it again") from error
    nn.load_weights(folder, network, rename=table, cast=True)
    return network
