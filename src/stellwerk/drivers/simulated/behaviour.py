"""What a simulated run does, and how it ends: given in advance, as a function of its order."""

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from stellwerk.drivers.base import StartOrder


class Behaviour(Struct, frozen=True):
    """A run's life: its setup, its work, its end, and what it makes of a notice.

    A run that ``leaves`` ends ``leave_ms`` after a notice with ``leave_code``, or by SIGTERM if
    that is None; one that ``ignores`` goes on until its end or the end of its grace. ``refused`` is
    the code with which the place refuses the start for good. ``metrics`` are the lines it reports,
    each some time after its work began; ``last_lines`` are what it prints in the end.
    """

    setup_ms: int = 0
    setup_code: int = 0
    setup_output: bytes = b""
    run_ms: int = 1_000
    code: int = 0
    signal: int | None = None
    output: bytes = b""
    checkpoints: bool = False
    notice: Literal["leaves", "ignores"] = "leaves"
    leave_ms: int = 100
    leave_code: int | None = None
    refused: str = ""
    metrics: tuple[tuple[int, bytes], ...] = ()
    last_lines: tuple[str, ...] = ()
    peak_memory_bytes: int = 0


Script = Callable[[StartOrder], Behaviour]


def always(behaviour: Behaviour) -> Script:
    """A script in which every run does the same."""
    return lambda _order: behaviour
