"""The versioned JSON manifests of a contract (memory, tensor or dist), one file per version.

They are written, checked against the code, frozen, and printed as Markdown (``--card``).

    python -m fl_tensor.contract [--check | --write | --freeze | --card]

Files are written and frozen where the package is developed, never in an installed one.
A version is a *draft* while it is worked on, and its file follows the code. ``--freeze`` ends that:
a frozen file never changes. Later additions belong to the next minor version, in another file,
which is compared with its predecessor: it may add only optional and derived members.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fl_memory.contract import pinning
from fl_memory.contract.cards import card
from fl_memory.contract.changes import Changes, changes
from fl_memory.contract.pinning import DRAFT, FROZEN
from fl_memory.errors import ContractError

__all__ = ["Contract"]


@dataclass(frozen=True)
class Contract:
    """One contract and its pinned files.

    folder            contains the files ``NAME-MAJOR.MINOR.json``
    build             returns the manifest of the code
    descriptions      returns the texts of the card by name
    module            its command (``python -m``) writes the files
    version_location  where the code states the version, for messages
    since_hint        how to state the version of an addition, for messages; "" if it is not stated
    """

    name: str
    folder: Path
    build: Callable[[], Mapping[str, Any]]
    descriptions: Callable[[], Mapping[str, str]]
    module: str
    version_location: str
    since_hint: str = ""

    def generated(self) -> dict[str, Any]:
        """The manifest of the code, with the status that its file has."""
        body = json.loads(json.dumps(self.build()))
        path = self.folder / f"{self.name}-{body['version']}.json"
        status = pinning.status(path) if path.exists() else DRAFT
        return {**body, "status": status}

    def path(self, version: str | None = None) -> Path:
        """The file of a version; by default of the one that the code states."""
        return self.folder / f"{self.name}-{version or self.build()['version']}.json"

    def versions(self, before: str | None = None) -> list[dict[str, Any]]:
        """Every pinned version, or those ``before`` one, oldest first; ContractError for a damaged
        file among them."""
        paths = self.folder.glob(f"{self.name}-*.json")
        found = {_number(path.stem.removeprefix(f"{self.name}-")): path for path in paths}
        wanted = [n for n in sorted(found) if before is None or n < _number(before)]
        return [pinning.read(found[n]) for n in wanted]

    def check(self) -> None:
        """Raise ContractError unless the file of the code's version equals the code, all earlier
        ones are frozen, and the newest adds only what a minor version may."""
        path, body = self.path(), self.generated()
        self._check_frozen(path, body)
        self._check_history()
        if not path.exists():
            raise ContractError(f"{path.name} is missing: run python -m {self.module} --write")
        pinning.check(path, body)

    def write(self) -> None:
        """Write the file of the code's version, whatever a merge has left of its draft;
        ContractError, and nothing is changed, where it may not be written."""
        self.check_writable()
        pinning.write(self.path(), self.generated())

    def check_writable(self) -> None:
        """Raise ContractError if the file of the code's version is frozen and would change, or if
        that version may not follow its predecessor."""
        self._check_frozen(self.path(), self.generated())
        self._check_history()

    def freeze(self) -> str:
        """Make the code's version final; its digest, for the test that guards it."""
        self.check()
        path = self.path()
        body = {**pinning.read(path), "status": FROZEN}
        pinning.write(path, body)
        return str(body["digest"])

    def refusal(self) -> str:
        """Why the files may not be written here, or "": they belong to the source tree of their
        package, ``PROJECT/src/PACKAGE/contracts`` beside the project's ``pyproject.toml``."""
        package = self.module.partition(".")[0]
        project = self.folder.parents[2] / "pyproject.toml"
        if self.folder.parents[1].name == "src" and project.is_file():
            name = re.escape(package.replace("_", "-"))
            if re.search(rf'^name = "{name}"$', project.read_text(encoding="utf-8"), re.MULTILINE):
                return ""
        return (
            f"{self.folder.parent} is an installed package, whose contract is what it is: --write "
            f"and --freeze are for its source tree, src/{package} beside its pyproject.toml"
        )

    def card(self, version: str | None = None) -> str:
        """The Markdown card of a pinned version, given as a number or as the path of a file."""
        return card(self._read(version or str(self.path())), self.descriptions())

    def changes(self, old: str | None = None, new: str | None = None) -> Changes:
        """What changed between two versions, given as numbers or as paths of files.

        ``new`` is the code by default, ``old`` the newest pinned version.
        """
        latest = self.generated() if new is None else self._read(new)
        return changes(self.versions()[-1] if old is None else self._read(old), latest)

    def main(self, argv: list[str] | None = None) -> int:
        """The command of the contract; the exit status is 1 where something does not fit, 2 where
        files may not be written."""
        parser = argparse.ArgumentParser(
            prog=f"python -m {self.module}", description=f"The pinned contract {self.name}."
        )
        choice = parser.add_mutually_exclusive_group()
        choice.add_argument("--check", action="store_true", help="compare with the code (default)")
        choice.add_argument("--write", action="store_true", help="write the file from the code")
        choice.add_argument("--freeze", action="store_true", help="make this version final")
        choice.add_argument("--card", action="store_true", help="print it as Markdown")
        given = parser.parse_args(argv)
        if (given.write or given.freeze) and (why := self.refusal()):
            print(why, file=sys.stderr)
            return 2
        try:
            if given.card:
                print(self.card(), end="")
                return 0
            if given.freeze:
                digest = self.freeze()
                print(f"{self.path().name} is frozen; the tests should expect {digest!r}")
                return 0
            if given.write:
                self.write()
            self.check()
        except ContractError as error:
            print(error, file=sys.stderr)
            return 1
        body = pinning.read(self.path())
        print(f"{self.path().name}: {body['digest']} ({body['status']})")
        return 0

    def _read(self, given: str) -> dict[str, Any]:
        path = Path(given)
        if path.suffix == ".json":
            return pinning.read(path)
        if not self.path(given).exists():
            have = ", ".join(body["version"] for body in self.versions())
            raise ContractError(f"there is no version {given} of contract {self.name}: {have}")
        return pinning.read(self.path(given))

    def _check_frozen(self, path: Path, body: Mapping[str, Any]) -> None:
        # First of all: what was added to a frozen version is no matter of its history.
        if body["status"] == FROZEN and pinning.compare(pinning.read(path), body):
            raise ContractError(self._frozen(path, body))

    def _check_history(self) -> None:
        now = self.build()
        earlier = self.versions(before=now["version"])
        for body in earlier:
            if body["status"] != FROZEN:
                raise ContractError(
                    f"{self.name} {body['version']} is still a draft: freeze it before "
                    f"{now['version']} begins"
                )
        if earlier and not (found := changes(earlier[-1], now)).allowed:
            lines = [f"  {c.place} {c.kind}: {c.objection}" for c in found.objections]
            if self.since_hint:
                lines.append(self.since_hint.format(version=now["version"]))
            told = f"{self.name} {now['version']} may not follow {earlier[-1]['version']}:"
            raise ContractError("\n".join([told, *lines]))

    def _frozen(self, path: Path, body: Mapping[str, Any]) -> str:
        old = pinning.read(path)
        version = _number(body["version"])
        following = f"{version[0]}.{version[1] + 1}"
        steps = [
            f"state {following} in {self.version_location} (implementations keep their own number)",
            *([self.since_hint.format(version=following)] if self.since_hint else []),
            f"python -m {self.module} --write makes {self.name}-{following}.json, a draft again",
        ]
        return "\n".join(
            [
                f"{path.name} is frozen and never changes, and the code differs:",
                *(f"  {line}" for line in pinning.compare(old, body)),
                "Take the change back, or, if it adds what nobody has to write, start the next "
                "minor version:",
                *(f"  {i}. {step}" for i, step in enumerate(steps, 1)),
            ]
        )


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
