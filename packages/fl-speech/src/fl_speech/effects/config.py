"""Files of effects: JSON with the keys of Flashlight."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from typing import Any

from fl_speech.effects.amplitude import Amplify, ClampAmplitude, Normalize
from fl_speech.effects.chain import SoundEffectChain
from fl_speech.effects.effect import SoundEffect
from fl_speech.effects.noise import AdditiveNoise, GaussianNoise
from fl_speech.effects.reverb import ReverbEcho
from fl_speech.effects.stretch import TimeStretch
from fl_speech.errors import AudioError, EffectError
from fl_tensor.annotations import checked
from fl_tensor.files import open_regular, replacing

_KEY = "soundEffectChain"
_ONLY = "normalizeOnlyIfTooHigh"
_LARGEST = 1 << 20
_KINDS: dict[str, type[SoundEffect]] = {
    kind.__name__: kind
    for kind in (
        *(AdditiveNoise, GaussianNoise, ReverbEcho, TimeStretch),
        *(Amplify, ClampAmplitude, Normalize),
    )
}


@checked
def read_effects(path: str | os.PathLike[str]) -> SoundEffectChain:
    """The chain of a JSON file that `write_effects`, or Flashlight, wrote.

    Raises `EffectError` that names the file, the number of the entry from 0, and the key; and
    `AudioError` for a file that cannot be read.
    """
    name = os.fspath(path)
    try:
        with open_regular(name) as file:
            text = file.read(_LARGEST + 1)
    except FileNotFoundError:
        raise AudioError(name, "no such file of effects", "check the path") from None
    except OSError as error:
        raise AudioError(name, f"unreadable ({error})", "check the path") from error
    if len(text) > _LARGEST:
        raise EffectError(name, "the file", f"is larger than {_LARGEST} bytes", "give another one")
    try:
        config = json.loads(text, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise EffectError(name, "the file", f"is no JSON ({error})", "correct it") from error
    return _chain(name, config)


@checked
def write_effects(path: str | os.PathLike[str], effects: SoundEffectChain) -> None:
    """Write a chain as JSON that `read_effects` reads. Raises `EffectError` for effects that are
    of no kind that a file names, chains in chains among them."""
    text = json.dumps({_KEY: [_entry(k, effect) for k, effect in enumerate(effects)]}, indent=4)
    with replacing(path) as file:
        file.write(text.encode() + b"\n")


@checked
def create_effects(config: Mapping[str, Any]) -> SoundEffectChain:
    """The chain of `{"soundEffectChain": [{"type": "Amplify", "amplifyConfig": {...}}, ...]}`, as
    files have it. Raises `EffectError` as `read_effects` does, with `config` for the file."""
    return _chain("config", config)


def _chain(where: str, config: Any) -> SoundEffectChain:
    remedy = f'give {{"{_KEY}": [...]}}'
    if not isinstance(config, Mapping):
        raise EffectError(where, "the whole", f"is a {type(config).__name__}", remedy)
    _no_others(where, config, {_KEY})
    entries = config.get(_KEY)
    if not isinstance(entries, list | tuple):
        raise EffectError(where, _KEY, "is missing" if entries is None else "is no list", remedy)
    effects = [_effect(f"{where}: entry {k}", entry) for k, entry in enumerate(entries)]
    try:
        return SoundEffectChain(effects)
    except EffectError as error:
        raise EffectError(where, "sampleRate", error.problem, error.remedy) from error


def _effect(where: str, entry: Any) -> SoundEffect:
    """One entry: its type, and a block of settings."""
    kinds = f"give one of {', '.join(_KINDS)}"
    if not isinstance(entry, Mapping):
        raise EffectError(where, "it", f"is a {type(entry).__name__}", 'give {"type": ...}')
    name = entry.get("type")
    if not isinstance(name, str) or name not in _KINDS:
        said = "is missing" if "type" not in entry else f"is {name!r}"
        raise EffectError(where, "type", said, kinds)
    kind = _KINDS[name]
    where = f"{where} ({name})"
    block: Any = {}
    if kind is Normalize:
        _no_others(where, entry, {"type", _ONLY})
        block = {"onlyIfTooHigh": entry[_ONLY]} if _ONLY in entry else {}
    elif kind is ClampAmplitude:
        _no_others(where, entry, {"type"})
    else:
        _no_others(where, entry, {"type", _block_of(name)})
        block = entry.get(_block_of(name), {})
        if not isinstance(block, Mapping):
            problem = f"is a {type(block).__name__}"
            raise EffectError(where, _block_of(name), problem, "give a block of settings")
    return _made(where, kind, block)


def _made(where: str, kind: type[SoundEffect], block: Mapping[str, Any]) -> SoundEffect:
    names = {_camel(each.name): each for each in _settings(kind)}
    _no_others(where, block, set(names))
    settings = {}
    for key, value in block.items():
        wanted = names[key].type
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        good = {
            "float": is_number,
            "int": is_number and value == value // 1,
            "bool": isinstance(value, bool),
        }.get(str(wanted), isinstance(value, str))
        if not good:
            raise EffectError(where, _said(kind, key), f"is {value!r}", f"give {_word(wanted)}")
        settings[names[key].name] = int(value) if wanted == "int" else value
    for key, each in names.items():
        if each.default is dataclasses.MISSING and key not in block:
            raise EffectError(where, key, "is missing", f"give {_word(each.type)}")
    try:
        return kind(**settings)
    except EffectError as error:
        remedy = error.remedy
        for key, each in names.items():
            remedy = remedy.replace(each.name, key)
        raise EffectError(where, _camel(error.key), error.problem, remedy) from error
    except AudioError as error:
        raise EffectError(
            where, "listFilePath", f"cannot be used ({error})", "correct it"
        ) from error


def _entry(number: int, effect: SoundEffect) -> dict[str, Any]:
    kind = type(effect)
    name = kind.__name__
    if _KINDS.get(name) is not kind:
        raise EffectError(
            *(f"write_effects: entry {number}", "it", f"is a {name}"),
            f"make a chain of {', '.join(_KINDS)} alone",
        )
    block = {_camel(each.name): getattr(effect, each.name) for each in _settings(kind)}
    if kind is Normalize:
        return {"type": name, _ONLY: block["onlyIfTooHigh"]}
    if not block:
        return {"type": name}
    if "listFilePath" in block:
        block["listFilePath"] = os.fspath(block["listFilePath"])
    return {"type": name, _block_of(name): block}


def _settings(kind: type[SoundEffect]) -> list[dataclasses.Field[Any]]:
    return [each for each in dataclasses.fields(kind) if each.init]  # type: ignore[arg-type]


def _no_others(where: str, found: Mapping[str, Any], known: set[str]) -> None:
    for key in found:
        if key not in known:
            remedy = f"give {' and '.join(sorted(known))}" if known else "remove it"
            raise EffectError(where, repr(key), "is no key of this", remedy)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for key, _ in pairs if sum(key == other for other, _ in pairs) > 1)
        raise ValueError(f"the key {twice!r} stands twice in one block")
    return found


def _camel(name: str) -> str:
    """`min_snr` as files have it: `minSnr`."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _block_of(name: str) -> str:
    return f"{name[0].lower()}{name[1:]}Config"


def _said(kind: type[SoundEffect], key: str) -> str:
    return _ONLY if kind is Normalize else key


def _word(wanted: Any) -> str:
    words = {"float": "a number", "int": "a whole number", "bool": "true or false"}
    return words.get(wanted, "a path")
