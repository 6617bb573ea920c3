"""``fl-tensor backends``: installed backends, their capabilities and load errors."""

from __future__ import annotations

import argparse
import json
from typing import Any

from fl_tensor.cli.survey import surveys
from fl_tensor.dispatch import registry


def main(arguments: list[str]) -> int:
    """Print the installed backends; 0 also when one of them is broken."""
    parser = argparse.ArgumentParser(
        prog="fl-tensor backends",
        description="List the installed backends: what each offers, how many of the operations it "
        "offers are borrowed from another, or why it cannot be loaded.",
    )
    parser.add_argument("--json", action="store_true", help="everything that is known, as JSON")
    given = parser.parse_args(arguments)
    found = surveys()
    if given.json:
        problems = registry.REGISTRY.problems()
        print(json.dumps({"backends": found, "problems": problems}, indent=1))
        return 0
    for facts in found:
        print("\n".join(_lines(facts)))
    listed = {facts["error"] for facts in found}
    for problem in registry.REGISTRY.problems():
        if problem not in listed:
            print(f"! {problem}")
    return 0


def _lines(facts: dict[str, Any]) -> list[str]:
    head = f"{facts['name']:<12} {facts['origin']}"
    if facts["error"]:
        return [head, f"  cannot be used: {facts['error']}"]
    rows = {
        "class": facts["class"],
        "contract": facts["contract"],
        "devices": ", ".join(facts["devices"]),
        "dtypes": ", ".join(facts["dtypes"]),
        "capabilities": ", ".join(facts["capabilities"]) or "none",
        "derived": f"{len(facts['own_derived'])} operations with a version of its own",
    }
    if facts["borrowed"]:
        rows["borrowed"] = f"{len(facts['borrowed'])} operations"
    return [head, *(f"  {key:<13}{value}" for key, value in rows.items())]
