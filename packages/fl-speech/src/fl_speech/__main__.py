"""``python -m fl_speech``: the command ``fl-speech``."""

import sys

from fl_speech.cli import main

if __name__ == "__main__":
    sys.exit(main())
