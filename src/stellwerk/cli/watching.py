"""Shows something again whenever the journal says that something happened."""

import contextlib
import sys
import threading
from collections.abc import Callable

from stellwerk.cli.terminal import terminal_of
from stellwerk.client.api import Client
from stellwerk.core.model.errors import StellwerkError

SOONEST_S = 0.2
LATEST_S = 2.0
CLEAR = "\x1b[H\x1b[2J"


def watched(client: Client, show: Callable[[], None]) -> None:
    """Calls `show` for ever, after each change and at least every two seconds; Ctrl-C ends it."""
    changed = threading.Event()
    is_screen = terminal_of(sys.stdout).is_tty
    threading.Thread(target=_listen, args=(client, changed), daemon=True).start()
    while True:
        changed.clear()
        if is_screen:
            sys.stdout.write(CLEAR)
        show()
        sys.stdout.flush()
        pause = threading.Event()
        pause.wait(SOONEST_S)
        changed.wait(LATEST_S)


def _listen(client: Client, changed: threading.Event) -> None:
    own = client.twin()
    with contextlib.suppress(StellwerkError):  # the screen is still drawn anew by the clock
        for _ in own.events(after=own.server_status().seq, follow=True):
            changed.set()
