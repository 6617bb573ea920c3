"""The plug-in registry: entry points, imported on demand.

``import`` of this library never fails because of another package. Entry points are listed at first
use, and ``load`` imports an implementation. A faulty one affects only itself; ``problems()`` lists
all faults. Checks before import use metadata only: the name of the group carries the contract's
major version. A distribution may announce its minor version among the keywords of its metadata as
``<group>.<minor>``, for example ``keywords = ["fl.memory.v1.0"]``.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from fl_memory.contract import Version, negotiate, stated_version
from fl_memory.errors import ContractError, PluginError
from fl_memory.forks import free_after_fork

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fl_memory.installed import Offer

__all__ = ["Registry"]


class Registry:
    """The implementations of one contract: built-ins, those registered by hand, those installed.

    group: entry-point group, ``fl.<contract>.v<major>``; what: one implementation in words; host:
    the contract version this process hosts; host_package: the distribution to upgrade when an
    implementation is newer; base: class (or ``"module:attr"``) each one must derive from; builtins:
    names that need no installed metadata. A built-in name cannot be taken over by a distribution.
    """

    def __init__(
        self,
        group: str,
        what: str,
        host: Version,
        *,
        host_package: str | None = None,
        base: type | str | None = None,
        builtins: Mapping[str, str] | None = None,
    ) -> None:
        if not group.endswith(f".v{host[0]}"):
            raise ContractError(f"group {group!r} must end in .v{host[0]}, the contract's major")
        self.group = group
        self.what = what
        self.host = Version(*host)
        self.host_package = host_package
        self._base = base
        self._own: dict[str, type | str] = dict(builtins or {})
        self._installed: dict[str, list[Offer]] | None = None
        self._loaded: dict[str, type] = {}
        self._failures: dict[str, str] = {}
        self._lock = free_after_fork(threading.RLock())
        self._changes = 0  # of what is registered and installed

    def names(self) -> list[str]:
        """Every name that ``load`` may be asked for, sorted; imports no implementation."""
        return sorted({*self._own, *self._offers()})

    def register(self, name: str, implementation: type | str, *, replace: bool = False) -> None:
        """Offer a class, or ``"module:attr"`` to be imported at first use, under ``name``."""
        with self._lock:
            if name in self._own and not replace:
                raise PluginError(
                    f"{self.what} {name!r} is registered already ({self._own[name]!r}); "
                    f"choose another name or pass replace=True"
                )
            self._own[name] = implementation
            self._changes += 1
            self._loaded.pop(name, None)
            self._failures.pop(name, None)

    def unregister(self, name: str) -> None:
        """Take back a ``register``; PluginError when there was none."""
        with self._lock:
            if name not in self._own:
                raise PluginError(f"{self.what} {name!r} was not registered here")
            del self._own[name]
            self._changes += 1
            self._loaded.pop(name, None)
            self._failures.pop(name, None)

    def refresh(self) -> None:
        """Forget what is installed, so that the next look sees new distributions."""
        from importlib import invalidate_caches

        invalidate_caches()
        with self._lock:
            self._installed = None
            self._changes += 1
            self._loaded.clear()
            self._failures.clear()

    def load(self, name: str) -> type[Any]:
        """The implementation's class, imported, its contract negotiated.

        ``name`` is one of ``names()`` or ``"module:attr"``. Raises PluginError (unknown, offered
        twice, broken: the cause is chained) or ContractError (no version, too new, too old).
        """
        if not isinstance(name, str):
            raise PluginError(
                f"{self.what} {name!r}: expected a name, one of {', '.join(self.names())}"
            )
        found = self._loaded.get(name)
        if found is None:
            before = self._changes
            try:
                # Without the lock: a module of somebody else runs, which may wait for threads.
                found = self._load(name)
            except (PluginError, ContractError) as error:
                self._failures[name] = str(error)
                raise
            with self._lock:
                if before == self._changes:
                    self._loaded[name] = found
                    self._failures.pop(name, None)
        return found

    def accept(self, implementation: type) -> type[Any]:
        """A class that is offered under no name, checked as ``load`` checks one. Raises as it."""
        return self._accept(
            implementation, f"{implementation.__module__}:{implementation.__qualname__}"
        )

    def origin(self, name: str) -> str:
        """The distribution that offers ``name``, with its version; "" for what is built in or
        registered by hand. Imports no implementation."""
        return " and ".join(map(str, self.offers(name)))

    def offers(self, name: str | None = None) -> list[Offer]:
        """The entry points of the group that can be loaded, or those of one name: with what the
        metadata of their distributions says. Imports no implementation."""
        names = [name] if name is not None else self._offers()
        return [o for n in names if n not in self._own for o in self._offers().get(n, ())]

    def problems(self, *, load: bool = False) -> list[str]:
        """What is wrong with installed implementations, one line each.

        Duplicates, other majors and failures seen so far; with ``load=True`` every one is
        imported first, so that broken ones show up as well.
        """
        lines: dict[str, str] = {}
        for name in self.names() if load else ():
            try:
                self.load(name)
            except (PluginError, ContractError) as error:
                lines[name] = str(error)
        for name, found in self._offers().items():
            if name in self._own:
                owners = " and ".join(map(str, found))
                lines[name] = (
                    f"{self.what} {name!r} from {owners} is shadowed by the built-in of that "
                    f"name; ask its author to choose another name"
                )
            elif len(found) > 1:
                lines[name] = self._duplicate(name, found)
        for offer, major in self._other_majors():
            lines.setdefault(offer.name, self._wrong_major(offer, major))
        return [line for _, line in sorted({**self._failures, **lines}.items())]

    # ------------------------------------------------------------------ inside

    def _load(self, name: str) -> type:
        if name in self._own:
            implementation = self._own[name]
            who = f"{self.what} {name!r}"
            if isinstance(implementation, str):
                implementation = self._import(implementation, who)
            return self._accept(implementation, who)
        found = self.offers(name)
        if len(found) > 1:
            raise PluginError(self._duplicate(name, found))
        if found:
            offer = found[0]
            who = f"{self.what} {name!r} from {offer}"
            announced = self._announced(offer)
            if announced is not None:
                negotiate(self.what, self.host, announced, who, self.host_package)
            cls = self._accept(self._import(offer.value, who), who)
            stated = stated_version(cls, self.what, who)
            if announced is not None and stated != announced:
                raise ContractError(
                    f"{who}: its metadata announces contract {announced}, its class states "
                    f"{stated}; the author must make the two agree"
                )
            return cls
        if ":" in name:
            return self._accept(self._import(name, f"{self.what} {name!r}"), name)
        for offer, major in self._other_majors():
            if offer.name == name:
                raise ContractError(self._wrong_major(offer, major))
        raise PluginError(
            f"no {self.what} named {name!r}; there are: {', '.join(self.names()) or 'none'}; "
            f"install the package that offers it in entry-point group {self.group!r}"
        )

    def _import(self, path: str, who: str) -> Any:
        from importlib import import_module

        module, _, attribute = path.partition(":")
        try:
            found: Any = import_module(module.strip())
            # Entry points may carry extras: "module:attr [extra]".
            for part in attribute.split("[")[0].strip().split("."):
                found = getattr(found, part)
        except (Exception, SystemExit) as error:  # a plug-in may fail in any way: show its cause
            raise PluginError(
                f"{who} cannot be imported from {path!r}: {type(error).__name__}: {error}"
            ) from error
        return found

    def _accept(self, implementation: Any, who: str) -> type:
        if not isinstance(implementation, type):
            raise PluginError(f"{who} is {implementation!r}; it must be a class")
        version = stated_version(implementation, self.what, who)
        negotiate(self.what, self.host, version, who, self.host_package)
        if isinstance(self._base, str):
            self._base = self._import(self._base, f"base class of {self.what}")
        if self._base is not None and not issubclass(implementation, self._base):  # type: ignore[arg-type]
            raise PluginError(
                f"{who}: class {implementation.__qualname__} does not derive from "
                f"{self._base.__qualname__}"  # type: ignore[union-attr]
            )
        return implementation

    def _offers(self) -> dict[str, list[Offer]]:
        from fl_memory.installed import offers

        with self._lock:
            if self._installed is None:
                self._installed = {}
                for offer in offers(self.group):
                    self._installed.setdefault(offer.name, []).append(offer)
            return self._installed

    def _other_majors(self) -> list[tuple[Offer, int]]:
        from importlib.metadata import entry_points

        from fl_memory.installed import offers

        stem = self.group[: -len(str(self.host.major))]
        found = []
        for group in sorted(entry_points().groups):
            major = group[len(stem) :]
            if group.startswith(stem) and group != self.group and major.isdigit():
                for offer in offers(group):
                    if offer.name not in self._offers() and offer.name not in self._own:
                        found.append((offer, int(major)))
        return found

    def _announced(self, offer: Offer) -> Version | None:
        for word in offer.keywords:
            minor = word[len(self.group) + 1 :]
            if word.startswith(self.group + ".") and minor.isdigit():
                return Version(self.host.major, int(minor))
        return None

    def _wrong_major(self, offer: Offer, major: int) -> str:
        remedy = (
            f"upgrade {self.host_package or 'the package that hosts it'}, or install a release of "
            f"{offer.distribution} for {self.group}"
            if major > self.host.major
            else f"upgrade {offer.distribution} to a release for {self.group}"
        )
        return (
            f"{self.what} {offer.name!r} from {offer} implements contract {major}.x, "
            f"this process hosts {self.host}: {remedy}"
        )

    def _duplicate(self, name: str, found: list[Offer]) -> str:
        owners = " and ".join(f"{offer} ({offer.value})" for offer in found)
        return (
            f"{self.what} {name!r} is offered by {owners}; uninstall one of them, "
            f"or name the class as 'module:attr'"
        )
