"""Runs beside a job on a machine: starts it, watches it, stops it, writes down how it ended.

Standard library only, Python 3.9 or later, and nothing else of Stellwerk: the whole package travels
as one file (see `bundle`). Files on a machine and the protocol are described in `docs/runtime.md`.
"""

from __future__ import annotations

VERSION = "0.1.0"
PROTOCOL = 1
"""What is spoken on the socket and in the files of a run; raised only when a meaning changes."""
EXIT_UNUSABLE = 69
"""How an agent ends that can't work on this machine."""
EXIT_ALREADY_THERE = 75
"""How an agent ends where another one serves its root."""
