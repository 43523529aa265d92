"""Carries a command inside a run to this terminal: input, output, window size, Ctrl-C.

One thread gives the input and passes on what happens to the terminal; the main one writes what
comes, each stream to its own. With a terminal there, this one is raw for as long: every key, Ctrl-C
too, goes to the command.
"""

import contextlib
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType

from stellwerk.cli.errors import INTERRUPTED
from stellwerk.client.execs import ExecSession
from stellwerk.core.model.errors import StellwerkError

READ_BYTES = 32 * 1024
_SIZE, _INTERRUPT, _LOOK = b"w", b"i", b"l"
_ENDING = (signal.SIGTERM, signal.SIGHUP)


def window() -> tuple[int, int]:
    """Rows and columns of this terminal."""
    for descriptor in (0, 1, 2):
        with contextlib.suppress(OSError):  # that one is no terminal
            size = os.get_terminal_size(descriptor)
            return size.lines, size.columns
    return 24, 80


def carry(session: ExecSession, *, stdin: bool, terminal: bool) -> int:
    """Until the command has ended; its exit code. A second Ctrl-C hangs up and gives 130."""
    feeder = _Feeder(session, stdin=stdin, terminal=terminal)
    session.on_room = feeder.look
    with _raw() if terminal and stdin else contextlib.nullcontext(), _signals(feeder, terminal):
        feeder.start()
        at_line_start = True
        try:
            for name, data in session:
                _write(1 if name == "stdout" else 2, data)
                at_line_start = data.endswith(b"\n")
        except KeyboardInterrupt:
            return INTERRUPTED
        except StellwerkError:
            if terminal and not at_line_start:
                _write(2, b"\r\n")  # what is said next begins on a line of its own
            raise
        finally:
            session.close()
            feeder.stop()
    return 0 if session.code is None else session.code


def _write(descriptor: int, data: bytes) -> None:
    """Everything at once, past Python's own buffers, which are empty."""
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:
            select.select([], [descriptor], [])


class _Feeder:
    """Says to the command what is typed and what happens here; the only one who says anything."""

    def __init__(self, session: ExecSession, *, stdin: bool, terminal: bool) -> None:
        self._session = session
        self._gives = stdin
        self._is_terminal = terminal
        self._told, self._tell = os.pipe()
        os.set_blocking(self._tell, False)
        self._is_over = False
        self._thread = threading.Thread(target=self._feed, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Says no more."""
        self._is_over = True
        self.look()
        self._thread.join(timeout=1)

    def look(self) -> None:
        """Has the thread see whether there is room for more input."""
        self.note(_LOOK)

    def note(self, what: bytes) -> None:
        """Has the thread pass something on; may be called by a signal's handler."""
        with contextlib.suppress(BlockingIOError):  # it has enough to do, and looks anyway
            os.write(self._tell, what)

    def _feed(self) -> None:
        try:
            while not self._is_over:
                self._pass_on()
        except OSError:
            return  # the command has ended; the main thread tells how

    def _pass_on(self) -> None:
        gives = self._gives and self._session.room > 0
        ready, _, _ = select.select([self._told, *([0] if gives else [])], [], [])
        if self._told in ready:
            notes = os.read(self._told, 4096)
            if _INTERRUPT in notes:
                self._session.send_signal(signal.SIGINT)
            if _SIZE in notes:
                self._session.resize(*window())
        elif 0 in ready:
            try:
                data = os.read(0, min(self._session.room, READ_BYTES))
            except OSError:
                data = b""  # a terminal that has gone, or a folder: nothing can be read
            if data:
                self._session.write(data)
                return
            self._gives = False
            if self._is_terminal:
                # Raw, it gives Ctrl-D as a key: it was closed, and nobody has said an end.
                self._session.interrupt()
            else:
                self._session.close_input()


@contextlib.contextmanager
def _raw() -> Iterator[None]:
    """This terminal passes on every key, and is as before afterwards."""
    import termios
    import tty

    before = termios.tcgetattr(0)
    tty.setraw(0, termios.TCSANOW)  # what was typed already isn't thrown away
    try:
        yield
    finally:
        with contextlib.suppress(termios.error):  # it was closed meanwhile
            termios.tcsetattr(0, termios.TCSADRAIN, before)


@contextlib.contextmanager
def _signals(feeder: _Feeder, terminal: bool) -> Iterator[None]:
    """Ctrl-C is the command's, the second one ours; a terminal that closes ends us in order."""
    interrupts = 0

    def on_interrupt(_number: int, _frame: FrameType | None) -> None:
        nonlocal interrupts
        interrupts += 1
        if interrupts > 1:
            raise KeyboardInterrupt
        feeder.note(_INTERRUPT)

    def on_ending(number: int, _frame: FrameType | None) -> None:
        sys.exit(128 + number)

    handlers: dict[int, Callable[[int, FrameType | None], None]] = {
        signal.SIGINT: on_interrupt,
        **dict.fromkeys(_ENDING, on_ending),
    }
    if terminal:
        handlers[signal.SIGWINCH] = lambda _number, _frame: feeder.note(_SIZE)
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
