"""Differences between two pinned contracts, and which of them a minor version may contain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fl_memory.contract.pinning import FROZEN
from fl_memory.contract.tables import cell, is_member, table
from fl_memory.contract.versions import Version
from fl_memory.errors import ContractError

#: What a file says of itself rather than of its subject.
_HEADER = ("contract", "version", "status", "digest")


@dataclass(frozen=True)
class Change:
    """One difference: ``kind`` is "added", "removed" or "changed"; ``place`` names the member, as
    in ``operations.add``; ``objection`` says why it may not be, "" when it may."""

    kind: str
    place: str
    before: str
    after: str
    objection: str = ""


@dataclass(frozen=True)
class Changes:
    """All differences from one pinned contract to a later one of the same name."""

    name: str
    old: str
    new: str
    entries: tuple[Change, ...]

    @property
    def objections(self) -> tuple[Change, ...]:
        return tuple(c for c in self.entries if c.objection)

    @property
    def allowed(self) -> bool:
        """Whether providers of the old version go on working with the new one."""
        return not self.objections

    def markdown(self) -> str:
        """A heading, the verdict, and a table per kind of change."""
        lines = [f"# Contract {self.name}: {self.old} to {self.new}", "", self._verdict(), ""]
        for kind in ("added", "removed", "changed"):
            rows = [c for c in self.entries if c.kind == kind]
            if rows:
                lines += [f"## {kind.capitalize()} ({len(rows)})", ""]
                lines += table(("what", "before", "after", "allowed"), map(_row, rows)) + [""]
        return "\n".join(lines)

    def _verdict(self) -> str:
        if not self.entries:
            return "No difference."
        if _parse(self.old)[0] != _parse(self.new)[0]:
            return "A new major version may change anything; providers declare themselves anew."
        if self.allowed:
            return f"Allowed: what was written for {self.old} goes on working."
        bad, all_ = len(self.objections), len(self.entries)
        return f"**Not allowed** in a minor version: {bad} of {all_} changes break {self.old}."


def changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Changes:
    """The differences between two pinned contracts (as ``read`` gives them).

    A minor version may add members that nobody has to write; operations among them say the version
    in ``since``. It may not remove, change, or require anything, except that a provisional member
    may be removed, changed, or made final. A draft may become anything as
    long as its number stays. Raises ContractError for two different contracts and for an older
    ``new``.
    """
    if old["contract"] != new["contract"]:
        raise ContractError(f"{old['contract']} and {new['contract']} are different contracts")
    before, after = _parse(old["version"]), _parse(new["version"])
    if after < before:
        raise ContractError(f"{new['contract']} {after} is older than {before}: swap the two")
    left, right = _flat(old), _flat(new)
    entries = []
    for place in sorted(left.keys() | right.keys()):
        if place not in right:
            kind, words, texts = "removed", f"{before} promises it", (_text(left[place]), "")
            words = "" if _is_provisional(left[place]) else words
        elif place not in left:
            kind, words = "added", _objection_to_new(right[place], after)
            texts = "", _text(right[place])
        elif left[place] != right[place]:
            kind, words = "changed", f"{before} promises it as it was"
            words = (
                _objection_to_new(right[place], after) if _is_provisional(left[place]) else words
            )
            texts = _differing(left[place], right[place])
        else:
            continue
        if before == after:
            words = f"{before} is frozen" if old["status"] == FROZEN else ""
        elif before.major != after.major:
            words = ""
        entries.append(Change(kind, place, *texts, words))
    return Changes(str(new["contract"]), str(before), str(after), tuple(entries))


def _is_provisional(member: Any) -> bool:
    return isinstance(member, Mapping) and bool(member.get("provisional"))


def _objection_to_new(member: Any, version: Version) -> str:
    if not isinstance(member, Mapping):
        return "" if member != "required" else "no provider has it yet"
    if member.get("required") is True or member.get("kind") == "required":
        return f"no provider has it yet: that takes contract {version.major + 1}.0"
    if member.get("since", str(version)) != str(version):
        return f"its since is {member['since']}, it is new in {version}"
    return ""


def _parse(version: str) -> Version:
    major, _, minor = version.partition(".")
    return Version(int(major), int(minor))


def _flat(body: Mapping[str, Any], where: str = "") -> dict[str, Any]:
    """Every member by its dotted place; the elements of lists are members, too."""
    found: dict[str, Any] = {}
    for key, value in body.items():
        place = f"{where}.{key}" if where else key
        if not where and key in _HEADER:
            continue
        if isinstance(value, Mapping) and not is_member(value):
            found |= _flat(value, place)
        elif isinstance(value, list):
            found |= {f"{place}.{item}": "listed" for item in value}
        else:
            found[place] = value
    return found


def _text(member: Any) -> str:
    if not isinstance(member, Mapping):
        return cell(str(member))
    words = [str(member.get("kind", "")), "required" if member.get("required") is True else ""]
    if member.get("capability"):
        words.append(f"({member['capability']})")
    signature = member.get("signature") or member.get("type")
    return " ".join([w for w in words if w] + ([f"`{cell(signature)}`"] if signature else []))


def _differing(old: Any, new: Any) -> tuple[str, str]:
    if not isinstance(old, Mapping) or not isinstance(new, Mapping):
        return _text(old), _text(new)
    keys = [k for k in sorted(old.keys() | new.keys()) if old.get(k) != new.get(k)]
    left, right = (
        "; ".join(f"{k} `{cell(str(side[k]))}`" for k in keys if k in side) for side in (old, new)
    )
    return left, right


def _row(change: Change) -> tuple[str, ...]:
    verdict = f"no: {change.objection}" if change.objection else "yes"
    return f"`{change.place}`", change.before, change.after, verdict
