"""Imported by the process alone that forks ranks. It outlives its terminal: the caller ends it."""

import signal

signal.signal(signal.SIGHUP, signal.SIG_IGN)
