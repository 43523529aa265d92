"""The client's part in a server that several people use: one's runtime, sharing, what was used."""

import os
from importlib import import_module
from typing import cast
from urllib.parse import urlencode

from msgspec import Struct

from stellwerk.client.parts import part
from stellwerk.client.requests import Requests
from stellwerk.client.server_wire import ServerStatus
from stellwerk.config import machine_file


class Shared(Struct):
    """Whose a cluster is, and who else may use it."""

    cluster: str
    owner: str = ""
    shared: list[str] = []


class UsedLine(Struct):
    """What somebody, or a project, used in a month or altogether."""

    who: str = ""
    month: str = ""
    workloads: int = 0
    runs: int = 0
    live: int = 0
    gpu_ms: int = 0
    cpu_ms: int = 0
    memory_byte_ms: int = 0
    wait_ms: int = 0
    started: int = 0


class Used(Struct):
    """Lines of use, and until when runs that go on are counted."""

    items: list[UsedLine] = []
    since_ms: int = 0
    until_ms: int = 0
    seq: int = 0


class PeopleCalls(Requests):
    """What a client asks of a server of several people."""

    def server_status(self) -> ServerStatus:
        """What the server is, since when it runs, and who one is to it."""
        return self._get("/v1/server", ServerStatus)

    def offer_runtime(self) -> bool:
        """Starts one's own runtime where somebody else's server needs it; says whether it had to.

        Whoever runs that server can have it start anything as oneself. So it is started unasked
        only for the server that the machine's administrator names, or where it was started before.
        On a server of one's own nothing is done, and nothing asked.
        """
        path = self.transport.path
        if not is_foreign(path):
            return False
        status = self.server_status()
        if not status.shared or status.you is None or status.you.runtime:
            return False
        guest = import_module("stellwerk.client.guest")
        is_the_machines = self.settings.all["socket"].origin == machine_file(os.environ)
        if not is_the_machines and not os.path.isdir(guest.folder_of(self.settings, status.home)):
            if self.tell is not None:
                self.tell(f"{status.owner} runs this server: stw agent start has it work as you")
            return False
        kept = import_module("stellwerk.client.asking").ask("start", path)
        if kept is not None and kept.kept and not kept.failed:
            return True
        return cast(bool, guest.start(self.settings, status))

    def share_cluster(self, name: str, users: list[str]) -> Shared:
        """Lets exactly these users use a cluster of one's own; `*` is everybody."""
        return self._post(f"/v1/clusters/{part(name)}/share", Shared, {"users": users})

    def usage(self, *, by: str = "person", since_ms: int = 0, months: bool = False) -> Used:
        """What was used, by `person` or `project`, with `months` each month for itself."""
        asked = {"by": by, "since_ms": since_ms, "months": int(months)}
        return self._get(f"/v1/usage?{urlencode(asked)}", Used)


def is_foreign(socket: str) -> bool:
    """Whether somebody else's server has bound this socket."""
    try:
        return os.stat(socket).st_uid != os.getuid()
    except OSError:
        return False
