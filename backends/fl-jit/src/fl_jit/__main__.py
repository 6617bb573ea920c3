"""The command ``fl-jit``, as ``python -m fl_jit``."""

import sys

from fl_jit.cli import main

sys.exit(main())
