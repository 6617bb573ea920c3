"""Contract versions: parsing and compatibility."""

from __future__ import annotations

from fl_memory.errors import ContractError


class Version(tuple[int, int]):
    """A contract's number, ``Version(1, 0)``; equal to and ordered like the tuple ``(1, 0)``."""

    __slots__ = ()

    def __new__(cls, major: int, minor: int) -> Version:
        return super().__new__(cls, (major, minor))

    @property
    def major(self) -> int:
        return int(self[0])

    @property
    def minor(self) -> int:
        return int(self[1])

    def __str__(self) -> str:
        return f"{self[0]}.{self[1]}"

    def __repr__(self) -> str:
        return f"Version({self[0]}, {self[1]})"


def negotiate(
    what: str, host: Version, implementation: Version, who: str, host_package: str | None = None
) -> Version:
    """Decide whether ``who`` may serve as ``what`` here; the version both sides understand.

    what: the contract in words ("tensor backend"); host: the version this process offers;
    implementation: the version ``who`` states; host_package: the distribution to upgrade when the
    implementation is newer. Raises ContractError naming both versions and the package to upgrade.
    """
    host, implementation = Version(*host), Version(*implementation)
    ours = host_package or f"the package that hosts the {what} contract"
    met = f"{who} implements {what} contract {implementation}, this process hosts {host}"
    if implementation.major > host.major:
        raise ContractError(f"{met}: upgrade {ours}, or install an older release of {who}")
    if implementation.major < host.major:
        raise ContractError(f"{met}: upgrade {who} to a release for contract {host.major}.x")
    if implementation.minor > host.minor:
        raise ContractError(f"{met}: upgrade {ours} to a release that hosts {implementation}")
    return implementation


def stated_version(cls: type, what: str, who: str) -> Version:
    """The ``CONTRACT`` that ``cls`` states in its own body.

    An inherited number says nothing about the class that inherits it (it would follow the host's
    upgrades without anybody having looked), so it raises ContractError, as does a malformed one.
    """
    stated = vars(cls).get("CONTRACT")
    if stated is None:
        seen = "only inherits CONTRACT" if hasattr(cls, "CONTRACT") else "has no CONTRACT"
        raise ContractError(
            f"{who}: class {cls.__qualname__} {seen}; state the version of the {what} contract "
            f"it was written for in its own class body, e.g. CONTRACT = (1, 0)"
        )
    well_formed = (
        isinstance(stated, tuple)
        and len(stated) == 2
        and all(type(part) is int and part >= 0 for part in stated)
    )
    if not well_formed:
        raise ContractError(
            f"{who}: class {cls.__qualname__} states CONTRACT = {stated!r}; "
            f"it must be two non-negative integers, e.g. CONTRACT = (1, 0)"
        )
    return Version(*stated)
