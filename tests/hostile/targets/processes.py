from __future__ import annotations

from cases import Target

TARGETS: list[Target] = []
UNTRIED: dict[str, str] = {}
