"""What travels about clusters over SSH."""

from typing import Annotated

from msgspec import Meta, Struct

from stellwerk.server.fleet_models import Resumed

MOST_TTL_MS = 366 * 86_400_000


class AddCluster(Struct, frozen=True, forbid_unknown_fields=True):
    """`hosts` are `user@host:port` or names of the server's SSH configuration. `python` and
    `folder` say which interpreter is used there and where everything lies, if that isn't to be
    found out. `accept_host_keys` are fingerprints that somebody has compared. `identity_files` are
    the keys of hosts, by their names in `hosts`.
    """

    name: str
    hosts: list[str]
    python: str = ""
    folder: str = ""
    accept_host_keys: list[str] = []
    identity_files: dict[str, str] = {}


class HostLook(Struct, frozen=True):
    """How a machine was found; an empty `code` says that all is well. `fingerprint` is that of a
    host key that isn't trusted.
    """

    host: str
    node: str
    code: str = ""
    message: str = ""
    help: str = ""
    fingerprint: str = ""
    folder: str = ""
    python: str = ""
    notes: str = ""


class Looked(Struct, frozen=True):
    """How all machines of a cluster were found; `added` says that the cluster is kept."""

    name: str
    hosts: list[HostLook] = []
    added: bool = False


class SshCluster(Struct, frozen=True):
    """A cluster over SSH, as it was added; with `joined` its machines dial in by themselves."""

    name: str
    hosts: list[str] = []
    joined: bool = False


class SshClusters(Struct, frozen=True):
    """All of them."""

    items: list[SshCluster] = []


class HostLeft(Struct, frozen=True):
    """What became of a machine whose cluster was removed: `agent` is `ended`, `goes on` or
    `unknown`, and `purged` says that what lay there is gone. `message` says why it isn't so.
    """

    host: str
    agent: str = ""
    purged: bool = False
    message: str = ""


class RemovedCluster(Struct, frozen=True):
    """The answer to removing one."""

    name: str
    hosts: list[HostLeft] = []


class TokenWish(Struct, frozen=True, forbid_unknown_fields=True):
    """How long a token lets machines join."""

    ttl_ms: Annotated[int, Meta(ge=1_000, le=MOST_TTL_MS)] = 86_400_000


class JoinToken(Struct, frozen=True):
    """A token, which is told once; `url` is where machines dial in, as far as that is known."""

    id: str
    cluster: str
    token: str
    until_ms: int
    url: str = ""


class TokenRow(Struct, frozen=True):
    """What is kept of a token."""

    id: str
    until_ms: int
    made_ms: int
    actor: str = ""


class MemberRow(Struct, frozen=True):
    """A machine that has joined."""

    node: str
    machine_id: str
    joined_ms: int


class JoinTokenList(Struct, frozen=True):
    """The tokens of a cluster that still hold, and the machines that have joined."""

    tokens: list[TokenRow] = []
    machines: list[MemberRow] = []


class Revoked(Struct, frozen=True):
    """What was taken back: ids of tokens, names of machines."""

    gone: list[str] = []


class DrainWish(Struct, frozen=True, forbid_unknown_fields=True):
    """Which nodes are to get nothing new (none named: all), and until when (0: until resumed).
    With `now` what runs there gets notice, and goes elsewhere.
    """

    nodes: list[str] = []
    now: bool = False
    until_ms: int = 0


class ResumeWish(Struct, frozen=True, forbid_unknown_fields=True):
    """Which nodes may be used again; none named: all."""

    nodes: list[str] = []


class NodeNow(Struct, frozen=True):
    """A node as it is now."""

    name: str
    state: str
    note: str = ""


class Drained(Struct, frozen=True):
    """The nodes that get nothing new, and what still runs there."""

    cluster: str
    nodes: list[NodeNow] = []
    runs: list[str] = []
    until_ms: int = 0


class ResumedCluster(Struct, frozen=True):
    """The nodes that were taken back into use."""

    cluster: str
    nodes: list[Resumed] = []


class FarFile(Struct, frozen=True):
    """One entry of a folder: a `file`, `folder`, `link` or something `special`."""

    name: str
    kind: str = ""
    size: int = 0
    modified_ms: int = 0


class FarFiles(Struct, frozen=True):
    """What lies at a path of a job; `is_here` says that the server's own machine has it."""

    is_here: bool = False
    root: str = ""
    is_folder: bool = False
    files: list[FarFile] = []
