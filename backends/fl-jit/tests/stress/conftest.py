"""The stress's own modules lie in ``stress_test``; kernels and choices are kept for one session."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
