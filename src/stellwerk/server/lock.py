"""Lets one server at a time work on a state: a lock that dies with its process, and says whose."""

import fcntl
import os

from stellwerk.core.model.errors import StellwerkError

NAME = "server.lock"


class HomeLock:
    """Holds the state's lock from its making to the end of the process (or `release`)."""

    def __init__(self, home: str) -> None:
        path = os.path.join(home, NAME)
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._fd, 32, 0).decode(errors="replace").strip()
            os.close(self._fd)
            raise _taken(home, holder) from None
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, b"%d\n" % os.getpid(), 0)

    def release(self) -> None:
        """Lets the next server begin."""
        os.close(self._fd)


def holder_of(home: str) -> int:
    """The process of the server that works on a state, also one that can't be reached; else 0."""
    try:
        with open(os.path.join(home, NAME), "rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return int(file.read(32) or b"0")
    except (OSError, ValueError):
        pass  # there never was one, or it is another user's
    return 0


def _taken(home: str, holder: str) -> StellwerkError:
    who = f"pid {holder}" if holder else "another process"
    return StellwerkError.of(
        "server/running",
        f"a server already works on {home} ({who})",
        "use it, stop it with `stw server stop`, or name another folder with STELLWERK_HOME",
    )
