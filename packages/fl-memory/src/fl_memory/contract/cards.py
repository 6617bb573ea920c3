"""Contract cards: a pinned contract as a page of Markdown, with the meaning of each member.

The meanings come from the docstrings when the card is made. They are no part of the pinned file, so
that a better sentence does not break a frozen contract.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fl_memory.contract.tables import cell, is_member, table

__all__ = ["card", "meanings", "whole"]

_KINDS = {"required": "Required", "derived": "Derived", "optional": "Optional"}


def whole(doc: str | None) -> str:
    """A docstring as one line of Markdown, with breaks between paragraphs and before list items."""
    text = inspect.cleandoc(doc or "").replace("``", "`")
    parts = re.split(r"\n\n+|\n(?=\* )", text)
    return "<br>".join(" ".join(part.split()) for part in parts if part)


def meanings(classes: Iterable[type]) -> dict[str, str]:
    """``{"Block": ..., "Block.view": ...}``: what the classes of a contract and their members say
    of themselves. A method without a docstring refers to that of the base class."""
    found = {}
    for cls in classes:
        found[cls.__name__] = inspect.cleandoc(vars(cls).get("__doc__") or "").replace("``", "`")
        for name, member in vars(cls).items():
            if callable(member) or isinstance(member, (property, classmethod, staticmethod)):
                said = whole(getattr(member, "__doc__", "")) or _inherited(cls, name)
                found[f"{cls.__name__}.{name}"] = said
        for name, words in _comments(cls):
            found[f"{cls.__name__}.{name}"] = whole(words)
    return found


def _inherited(cls: type, name: str) -> str:
    for base in cls.__mro__[1:-1]:
        if getattr(vars(base).get(name), "__doc__", None):
            return f"As `{base.__name__}.{name}`."
    return ""


def _comments(cls: type) -> Iterator[tuple[str, str]]:
    """The ``#:`` comments above the fields of a class."""
    block = r"((?:^ +#: .*\n)+) +(\w+)\b"
    for words, name in re.findall(block, inspect.getsource(cls), re.MULTILINE):
        yield name, re.sub(r"^ +#: ", "", words, flags=re.MULTILINE)


def card(body: Mapping[str, Any], says: Mapping[str, str]) -> str:
    """The card of a pinned contract.

    ``says`` gives a meaning for operations by name, classes by name, members as ``Class.member``,
    and under "" what stands above all of it.
    """
    name, version = body["contract"], body["version"]
    lines = [
        f"# Contract {name} {version}",
        "",
        f"Status: {body['status']}. Digest: `{body['digest']}`. This page is generated from the "
        f"pinned file `{name}-{version}.json` and the docstrings of the code.",
        "",
        *([says[""], ""] if "" in says else []),
    ]
    facts = {k: v for k, v in body.items() if k not in _APART and not isinstance(v, Mapping)}
    lines += [f"- **{_words(k)}**: {_value(v)}" for k, v in facts.items()] + [""] * bool(facts)
    for title, entries in body.items():
        if title not in _APART and isinstance(entries, Mapping):
            lines += [f"## {_words(title).capitalize()}", ""]
            if all(map(is_member, entries.values())):
                lines += [*_members(title, entries, says), ""]
            else:
                facts_of = ((f"`{k}`", _value(v)) for k, v in entries.items())
                lines += [*table(("", ""), facts_of), ""]
    for title, members in body.get("classes", {}).items():
        lines += [f"## {title}", "", says.get(title, ""), "", *_members(title, members, says), ""]
    for title, operations in _groups(body.get("operations", {})).items():
        rows = (
            (f"`{n}`", f"`{cell(op['signature'])}`", cell(says.get(n, "")), op.get("since", ""))
            for n, op in operations.items()
        )
        lines += [f"## {title} ({len(operations)})", ""]
        lines += [*table(("operation", "signature", "meaning", "since"), rows), ""]
    return "\n".join(lines)


_APART = ("contract", "version", "status", "digest", "classes", "operations")


def _members(title: str, members: Mapping[str, Any], says: Mapping[str, str]) -> list[str]:
    rows = (
        (
            f"`{name}`",
            ("you write it" if member.get("required") else member["kind"])
            + (", provisional" if member.get("provisional") else ""),
            f"`{cell(member.get('signature') or member.get('type') or '')}`".replace("``", ""),
            cell(says.get(f"{title}.{name}", "")),
        )
        for name, member in members.items()
        if is_member(member)
    )
    return table(("member", "kind", "signature", "meaning"), rows)


def _groups(operations: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Operations by kind, then by capability, in the order of the file."""
    found: dict[str, dict[str, Any]] = {}
    for kind, words in _KINDS.items():
        for name, op in operations.items():
            if op["kind"] == kind:
                needs = f", capability `{op['capability']}`" if op.get("capability") else ""
                found.setdefault(f"{words} operations{needs}", {})[name] = op
    return found


def _words(key: str) -> str:
    return key.replace("_", " ")


def _value(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(f"`{v}`" for v in value)
    return cell(str(value)) if isinstance(value, str) and " " in value else f"`{value}`"
