"""``fl-tensor contract card|diff|check|write|freeze``: the pinned contract."""

from __future__ import annotations

import argparse

from fl_tensor import contract

DESCRIPTION = """\
Read, compare and check the tensor contract.

card [VERSION]      a version as a page of Markdown: every operation, its signature and meaning
diff [OLD [NEW]]    what changed, as Markdown, and whether a minor version may: by default the
                    newest pinned version against the installed code
check               whether the pinned contract is that of the installed code

For those who develop fl-tensor, in its source tree only:

write               write the generated files
freeze              make the code's version final
"""
ACTIONS = {"card": 1, "diff": 2, "check": 0, "write": 0, "freeze": 0}


def main(arguments: list[str]) -> int:
    """Do one of the actions; 1 where something does not fit, or a minor may not change so, 2 where
    files may not be written."""
    parser = argparse.ArgumentParser(
        prog="fl-tensor contract",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("action", choices=ACTIONS)
    parser.add_argument(
        "versions", nargs="*", metavar="VERSION", help="such as 1.0, or a JSON file"
    )
    given = parser.parse_args(arguments)
    if len(given.versions) > ACTIONS[given.action]:
        parser.error(f"{given.action} takes at most {ACTIONS[given.action]} versions")
    if given.action == "card":
        print(contract.PINNED.card(*given.versions), end="")
        return 0
    if given.action == "diff":
        found = contract.PINNED.changes(*given.versions)
        print(found.markdown(), end="")
        return 0 if found.allowed else 1
    return contract.main([f"--{given.action}"])
