"""The modules of the fuzz lie in ``twins``."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
