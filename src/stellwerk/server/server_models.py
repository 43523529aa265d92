"""What the server tells of itself, and of who asks."""

import msgspec


class You(msgspec.Struct, frozen=True):
    """Who asks: `runtime` says whether something can be started as you on the server's machine."""

    name: str
    is_admin: bool = False
    project: str = ""
    runtime: bool = True


class ServerInfo(msgspec.Struct, frozen=True):
    """The server and how much it looks after; `owner` is its user."""

    pid: int
    version: str
    started_ms: int
    uptime_ms: int
    epoch: int
    seq: int
    home: str
    socket: str
    live: int
    pending: int
    running: int
    clusters: list[str]
    owner: str = ""
    shared: bool = False
    visibility: str = "all"
    you: You | None = None
