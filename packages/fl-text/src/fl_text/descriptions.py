"""The file beside weights that says which network they are of, and the tokenizer beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fl_tensor import untrusted_json
from fl_tensor.files import open_regular
from fl_text.errors import TextFileError
from fl_text.tokenizer import Tokenizer

_REMEDY = "train it again"


def read_description(
    path: Path, what: str, version: int, checks: Mapping[str, Callable[[Any], bool]], most: int
) -> dict[str, Any]:
    """The values of a JSON file of this version, each as `checks` wants it.

    what  "a classifier", for errors
    most  bytes that are read

    Raises `TextFileError`, which names the values that are missing or malformed.
    """
    with open_regular(path) as file:
        text = file.read(most)
    try:
        found = untrusted_json.parse(text)
    except ValueError as error:
        raise TextFileError(path, f"no JSON ({error})", _REMEDY) from error
    if not isinstance(found, dict) or found.get("format") != version:
        raise TextFileError(path, f"not the description of {what}, or of another version", _REMEDY)
    problems = [name for name, fits in checks.items() if not fits(found.get(name))]
    if problems:
        raise TextFileError(path, f"malformed: {', '.join(problems)}", _REMEDY)
    return found


def load_tokenizer(path: Path, fingerprint: str) -> Tokenizer:
    """The tokenizer with which a model was trained. Raises `TextFileError` for another one."""
    tokenizer = Tokenizer.load(path)
    if tokenizer.fingerprint() != fingerprint:
        raise TextFileError(
            path,
            f"it has {len(tokenizer)} tokens and the fingerprint {tokenizer.fingerprint()}, and "
            f"the model was trained with {fingerprint}",
            "give the tokenizer of the training",
        )
    return tokenizer
