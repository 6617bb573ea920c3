"""``python -m fl_text``: the command ``fl-text``."""

import sys

from fl_text.cli import main

if __name__ == "__main__":
    sys.exit(main())
