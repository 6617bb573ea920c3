"""``python -m fl_jit`` is the command ``fl-jit``."""

import sys

from fl_jit.cli import main

sys.exit(main())
