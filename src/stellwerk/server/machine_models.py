"""What travels about clusters over SSH."""

from msgspec import Struct


class AddCluster(Struct, frozen=True, forbid_unknown_fields=True):
    """`hosts` are `user@host:port` or names of the server's SSH configuration. `python` and
    `folder` say which interpreter is used there and where everything lies, if that isn't to be
    found out. `accept_host_keys` are fingerprints that somebody has compared.
    """

    name: str
    hosts: list[str]
    python: str = ""
    folder: str = ""
    accept_host_keys: list[str] = []


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
    """A cluster over SSH, as it was added."""

    name: str
    hosts: list[str] = []


class SshClusters(Struct, frozen=True):
    """All of them."""

    items: list[SshCluster] = []


class RemovedCluster(Struct, frozen=True):
    """The answer to removing one."""

    name: str


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
