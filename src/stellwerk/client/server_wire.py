"""What a client is told of the server itself, and of who it is there."""

from msgspec import Struct


class You(Struct):
    """Who asks; `runtime` says whether something can be started as them on the server's machine."""

    name: str = ""
    is_admin: bool = False
    project: str = ""
    runtime: bool = True


class ServerStatus(Struct):
    """The server that answered."""

    pid: int
    version: str = ""
    started_ms: int = 0
    epoch: int = 0
    seq: int = 0
    home: str = ""
    socket: str = ""
    live: int = 0
    pending: int = 0
    running: int = 0
    uptime_ms: int = 0
    clusters: list[str] = []
    owner: str = ""
    shared: bool = False
    visibility: str = ""
    you: You | None = None
