"""Helpers of this folder are imported by name; compiled kernels are kept for one session only,
and plans are made in the foreground."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
