"""Makes what stands in `benchmarks` importable, as it is for the commands there."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
