"""Every row of the table in docs/interoperability.md has a test, and every test has a row."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parent.parent / "docs" / "interoperability.md"
MARK = re.compile(r"""mark\.row\("(\w[\w -]*)", (?:'([^']+)'|"([^"]+)")\)""")
ROW = re.compile(r"^\| ([\w -]+) \| `(.+?)` \| ", re.MULTILINE)


def test_rows_and_tests_agree():
    source = "\n".join(p.read_text("utf-8") for p in HERE.glob("test_*.py"))
    tested = {(library, single or double) for library, single, double in MARK.findall(source)}
    rows = {(library, typed) for library, typed in ROW.findall(PAGE.read_text("utf-8"))}
    assert len(rows) > 30
    assert tested == rows
