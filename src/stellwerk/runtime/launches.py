"""Has the daemons of `mpirun` start on the other machines of a job, without ssh between them.

`mpirun` on the first machine starts a program in the place of ssh: the agent below. What it was to
run elsewhere goes into the status of this part, the control plane carries it to the part there, and
the status that it ended with comes back the same way. The part there has nothing of its own to run:
one shell waits until the first machine says that all is over, and what was launched runs beside it.
"""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Callable
from typing import NamedTuple, Optional

from .files import JSONObject, RunFiles, write_atomically
from .launch import Inherited, SpawnError, spawn
from .launchers import MPI_HOSTS, mpi_hosts
from .mpi import close_common_place
from .ranks import Processes
from .spec import Spec
from .telling import make_fifo

OF_MPI = ("ask", "launch", "launched", "over")
"""Orders to a wrapper; the first is the agent's."""
_ID = re.compile(r"[0-9]{1,10}-[0-9]{1,10}")
_MOST_BYTES = 65_536
_NO_SUCH_HOST = 68
"""What `sysexits.h` calls a host that isn't known."""
_NO_START = 126
_C_SHELLS = ("csh", "tcsh")


class Launch(NamedTuple):
    """Something for another machine: variables, and after an empty line what a shell is to do."""

    host: int
    command: str


class Launches:
    """What the MPI of one run has started elsewhere, or here for the first machine."""

    def __init__(
        self, spec: Spec, files: RunFiles, inherited: Inherited, changed: Callable[[], None]
    ) -> None:
        gang = spec.gang
        self._is_of_mpi = gang is not None and MPI_HOSTS in spec.env
        self._host = gang.host if gang is not None else 0
        self._spec = spec
        self._files = files
        self._inherited = inherited
        self._changed = changed
        self._wanted: dict[str, Launch] = {}
        self._begun: dict[str, Optional[int]] = {}
        self._ids: dict[int, str] = {}
        self._end: Optional[int] = None

    @property
    def stands_in(self) -> bool:
        """Whether nothing of the task's own is started here but by launches."""
        return self._is_of_mpi and self._host > 0

    def prepare(self) -> None:
        """Have the shell that stands in for the script be told of its end. Raises OSError."""
        if self.stands_in and self._end is None:
            self._end = make_fifo(self._files.path("over"))

    def obey(self, op: str, order: JSONObject, commands: Optional[Processes]) -> None:
        """Do what an order says that is one of `OF_MPI`."""
        if op == "over":
            self.over()
        elif op == "ask":
            self.ask(str(order["launch"]))
        elif op == "launched":
            self.is_launched(str(order["launch"]), int(order["code"]))
        else:
            self.launch(str(order["launch"]), commands)

    # on the first machine

    def ask(self, ident: str) -> None:
        """The agent wants something started: it has written where and what."""
        if not self._is_of_mpi or not is_launch(ident) or ident in self._wanted:
            return
        name, command = self._read(ident)
        hosts = self._machines()
        if name not in hosts:
            self._answer(ident, _NO_SUCH_HOST)
            return
        self._wanted[ident] = Launch(hosts[name], command)
        self._changed()

    def _read(self, ident: str) -> tuple[str, str]:
        """Where something is to be started; and with which variables what, after an empty line."""
        with open(self._files.path(f"launch-{ident}"), encoding="utf-8") as file:
            name, _, command = file.read(_MOST_BYTES).partition("\n")
        return name, command

    def _machines(self) -> dict[str, int]:
        """Which machine of the gang each name of the file of hosts is."""
        gang = self._spec.gang
        names = mpi_hosts(self._spec.env)
        return {name: host for host, name in enumerate(names) if gang and host < len(gang.hosts)}

    def is_launched(self, ident: str, code: int) -> None:
        """It has ended there, or gone on into the background."""
        if self._wanted.pop(ident, None) is not None:
            self._answer(ident, code)
            self._changed()

    def _answer(self, ident: str, code: int) -> None:
        try:
            fifo = os.open(
                self._files.path(f"launch-{ident}.code"), os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC
            )
        except OSError:
            return  # the agent was ended meanwhile
        try:
            os.write(fifo, b"%d\n" % code)
        finally:
            os.close(fifo)

    # on any of them

    def launch(self, ident: str, commands: Optional[Processes]) -> None:
        """Start it here, beside the first rank of this machine. Twice is once."""
        known = not is_launch(ident) or ident in self._begun
        if not self._is_of_mpi or commands is None or known:
            return
        _, text = self._read(ident)
        carried, _, command = text.partition("\n\n")
        start = commands.launched([_shell(), "-c", command])
        # What the script has made of them there, so that an environment that it entered is found.
        for one in carried.split("\n"):
            name, is_set, value = one.partition("=")
            start.env.update({name: value} if is_set else {})
        self._begun[ident] = None
        try:
            self._ids[spawn(start, self._inherited)] = ident
        except (SpawnError, OSError) as error:
            self._begun[ident] = _NO_START
            with open(start.log, "a", encoding="utf-8") as log:
                log.write(f"stellwerk: what mpirun asked for can't be started: {error}\n")
        self._changed()

    def child_ended(self, pid: int, status: int) -> bool:
        """A child was reaped: was it one of these?"""
        ident = self._ids.pop(pid, None)
        if ident is None:
            return False
        self._begun[ident] = status if status >= 0 else 128 - status
        self._changed()
        return True

    def over(self) -> None:
        """The first machine has ended well: so do the others."""
        if self._end is not None:
            os.write(self._end, b"over\n")

    def clean_up(self) -> None:
        """Nothing of the job is left."""
        if self._is_of_mpi:
            close_common_place(self._spec.run)

    def as_json(self) -> JSONObject:
        """For the gang's part of status.json."""
        if not self._is_of_mpi:
            return {}
        wanted = {ident: [one.host, one.command] for ident, one in self._wanted.items()}
        return {"stands_in": self.stands_in, "launches": wanted, "launched": dict(self._begun)}


def order_of(request: JSONObject, files: RunFiles) -> JSONObject:
    """What a wrapper is told of a request that is one of `OF_MPI`.

    What is to be started is written down before. Raises ValueError and OSError.
    """
    op, ident = request.get("op"), str(request.get("launch"))
    if op == "over":
        return {"op": op}
    if not is_launch(ident):
        raise ValueError("`launch` is no number of a launch")
    if op == "launched":
        code = request.get("code")
        if type(code) is not int:
            raise ValueError("`code` is no whole number")
        return {"op": op, "launch": ident, "code": code}
    text = f"\n{request.get('command')}"
    write_atomically(files.path(f"launch-{ident}"), text.encode(errors="replace"))
    return {"op": op, "launch": ident}


def is_launch(ident: str) -> bool:
    """Whether this is how the agent calls something that it wants started."""
    return _ID.fullmatch(ident) is not None


def _shell() -> str:
    """The shell for a command line that mpirun wrote, which goes by the user's login shell."""
    try:
        login = pwd.getpwuid(os.getuid()).pw_shell
    except KeyError:
        login = ""
    return login if os.path.basename(login) in _C_SHELLS else "/bin/bash"
