"""Pin a contract as JSON, and compare the file with the code.

Only light modules are imported here; ``inspect``, ``json`` and ``hashlib`` load when pinning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fl_memory.contract.versions import Version
from fl_memory.errors import ContractError

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping
    from pathlib import Path

DRAFT = "draft"
FROZEN = "frozen"


def signature_text(function: Callable[..., Any]) -> str:
    """``(self, nbytes: int, *, device: str = 'cpu') -> Block``, alike on every Python version."""
    import inspect

    signature = inspect.signature(function)
    parts: list[str] = []
    starred = False
    parameters = list(signature.parameters.values())
    for position, parameter in enumerate(parameters):
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            parts.append("*")
            starred = True
        stars = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}.get(parameter.kind.name, "")
        starred = starred or stars == "*"
        text = stars + parameter.name
        if parameter.annotation is not parameter.empty:
            text += f": {_annotation_text(parameter.annotation)}"
        if parameter.default is not parameter.empty:
            text += f" = {parameter.default!r}"
        parts.append(text)
        last_positional_only = parameter.kind is parameter.POSITIONAL_ONLY and (
            position + 1 == len(parameters)
            or parameters[position + 1].kind is not parameter.POSITIONAL_ONLY
        )
        if last_positional_only:
            parts.append("/")
    text = f"({', '.join(parts)})"
    if signature.return_annotation is not signature.empty:
        text += f" -> {_annotation_text(signature.return_annotation)}"
    return text


def _annotation_text(annotation: object) -> str:
    if isinstance(annotation, str):
        return annotation
    # A NamedTuple has its annotations as forward references.
    name = getattr(annotation, "__forward_arg__", None) or getattr(annotation, "__name__", None)
    return name or str(annotation)


def describe(cls: type, fields: Iterable[str] = (), apart: Container[str] = ()) -> dict[str, Any]:
    """The public members of one class of a contract.

    Methods and properties come from the class body, without those listed in ``apart``; ``fields``
    names data attributes that belong to the contract although no function shows them. Members are
    "required" iff abstract.
    """
    members: dict[str, Any] = {}
    for name, member in vars(cls).items():
        if (name.startswith("_") and name != "__init__") or name in apart:
            continue
        function = getattr(member, "fget", None) or getattr(member, "__func__", member)
        if not callable(function) or isinstance(function, type):
            continue
        is_property = isinstance(member, property)
        members[name] = {
            "kind": "property" if is_property else "method",
            "signature": signature_text(function),
            "required": bool(getattr(member, "__isabstractmethod__", False)),
        }
    annotations: Mapping[str, object] = vars(cls).get("__annotations__", {})
    for name in fields:
        members[name] = {"kind": "field", "type": _annotation_text(annotations.get(name, ""))}
    return dict(sorted(members.items()))


def manifest(
    name: str,
    version: tuple[int, int],
    classes: Mapping[type, Iterable[str]],
    *,
    status: str = DRAFT,
    apart: Container[str] = (),
    provisional: Iterable[str] = (),
    **sections: Any,
) -> dict[str, Any]:
    """What a contract promises, as data that can be written to JSON.

    name: "memory", "tensor", ...; classes: the classes of the contract, each with the data fields
    that belong to it; apart: members that another section describes; provisional: members, as
    "Class.member", that a minor version may still change; sections: whatever else the
    contract pins (tables of operations, constants).
    """
    if status not in (DRAFT, FROZEN):
        raise ContractError(f"contract status {status!r}: say {DRAFT!r} or {FROZEN!r}")
    body: dict[str, Any] = {
        "contract": name,
        "version": str(Version(*version)),
        "status": status,
        **sections,
    }
    if classes:
        body["classes"] = {
            cls.__name__: describe(cls, names, apart) for cls, names in classes.items()
        }
    for place in provisional:
        owner, _, member = place.partition(".")
        if member not in body.get("classes", {}).get(owner, ()):
            raise ContractError(f"provisional {place!r}: the contract has no such member")
        body["classes"][owner][member]["provisional"] = True
    body["digest"] = digest(body)
    return body


def pin(
    name: str, version: tuple[int, int], operations: Mapping[str, Any], *, status: str = DRAFT
) -> dict[str, Any]:
    """The manifest of a contract that is a table of operations rather than classes."""
    return manifest(name, version, {}, status=status, operations=dict(operations))


def dumps(generated: Mapping[str, Any]) -> str:
    """The text of a pinned contract's file."""
    import json

    return json.dumps(generated, indent=1) + "\n"


def digest(body: Mapping[str, Any]) -> str:
    """Sixteen hexadecimal digits over everything but the status and the digest itself."""
    import hashlib
    import json

    pinned = {key: value for key, value in body.items() if key not in ("status", "digest")}
    text = json.dumps(pinned, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def read(path: Path) -> dict[str, Any]:
    """A pinned contract from its file; ContractError when unreadable or edited by hand."""
    import json

    try:
        body = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ContractError(f"{path.name}: cannot read the pinned contract: {error}") from error
    if not isinstance(body, dict) or body.get("digest") != digest(body):
        raise ContractError(f"{path.name}: the digest does not fit the content; was it edited?")
    return body


def status(path: Path) -> str:
    """Whether a pinned contract is a draft, which need not be in order, or frozen, which must be:
    ContractError otherwise."""
    text = path.read_text(encoding="utf-8")
    return str(read(path)["status"]) if f'"{FROZEN}"' in text else DRAFT


def compare(pinned: Mapping[str, Any], generated: Mapping[str, Any]) -> list[str]:
    """One line per difference, ``where: pinned -> generated``; status and digest do not count."""
    lines: list[str] = []
    _compare("", pinned, generated, lines)
    return lines


def _compare(where: str, pinned: Any, generated: Any, lines: list[str]) -> None:
    if isinstance(pinned, dict) and isinstance(generated, dict):
        for key in sorted(pinned.keys() | generated.keys()):
            place = f"{where}.{key}" if where else str(key)
            if place in ("status", "digest"):
                continue
            if key not in generated:
                lines.append(f"{place}: removed")
            elif key not in pinned:
                lines.append(f"{place}: added")
            else:
                _compare(place, pinned[key], generated[key], lines)
    elif pinned != generated:
        lines.append(f"{where}: {pinned!r} -> {generated!r}")


def check(path: Path, generated: Mapping[str, Any]) -> None:
    """Raise ContractError with the differences unless the pinned file equals the code."""
    import json

    pinned = read(path)
    lines = compare(pinned, json.loads(json.dumps(generated)))
    if not lines:
        return
    way_out = (
        f"it is frozen and never changes: raise the minor and pin a new file beside {path.name}"
        if pinned["status"] == FROZEN
        else "write it anew if the change is meant"
    )
    raise ContractError(f"{path.name} differs from the code; {way_out}\n  " + "\n  ".join(lines))


def write(path: Path, generated: Mapping[str, Any]) -> None:
    """Pin ``generated``; ContractError when the file is frozen and would change."""
    import os

    if path.exists() and status(path) == FROZEN:
        check(path, generated)
        return
    draft = path.with_name(path.name + ".new")
    draft.write_text(dumps(generated), encoding="utf-8")
    os.replace(draft, path)
