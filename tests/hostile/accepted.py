"""Bad values that are taken on purpose, each with its reason.

Keys are patterns of the names of cases. A pattern that matches nothing accepted fails.
"""

from __future__ import annotations

ACCEPTED: dict[str, str] = {}
