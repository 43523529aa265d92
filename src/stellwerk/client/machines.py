"""What travels about clusters over SSH and about files on machines elsewhere, and the calls."""

from collections.abc import Mapping, Sequence
from typing import Literal
from urllib.parse import urlencode

from msgspec import Struct

from stellwerk.client.data import DataCalls
from stellwerk.client.fleet import GpuHistory, Resumed
from stellwerk.client.parts import decode, part

LOOK_S = 120.0
PURGE_S = 660.0
Area = Literal["work", "outputs", "checkpoints"]


class HostLook(Struct):
    """How a machine was found; an empty `code` says that all is well."""

    host: str
    node: str = ""
    code: str = ""
    message: str = ""
    help: str = ""
    fingerprint: str = ""
    folder: str = ""
    python: str = ""
    notes: str = ""


class Looked(Struct):
    """How all machines of a cluster were found; `added` says that the cluster is kept."""

    name: str
    hosts: list[HostLook] = []
    added: bool = False


class SshCluster(Struct):
    """A cluster over SSH, as it was added."""

    name: str
    hosts: list[str] = []


class SshClusters(Struct):
    """All of them."""

    items: list[SshCluster] = []


class JoinToken(Struct):
    """A token with which machines join a cluster; it is told once."""

    id: str
    cluster: str
    token: str
    until_ms: int = 0
    url: str = ""


class TokenRow(Struct):
    """What is kept of a token."""

    id: str
    until_ms: int = 0
    made_ms: int = 0
    actor: str = ""


class MemberRow(Struct):
    """A machine that has joined."""

    node: str
    machine_id: str = ""
    joined_ms: int = 0


class JoinTokenList(Struct):
    """The tokens of a cluster that still hold, and the machines that have joined."""

    tokens: list[TokenRow] = []
    machines: list[MemberRow] = []


class Revoked(Struct):
    """What was taken back."""

    gone: list[str] = []


class HostLeft(Struct):
    """What became of a machine whose cluster was removed."""

    host: str
    agent: str = ""
    purged: bool = False
    message: str = ""


class RemovedCluster(Struct):
    """The answer to removing one."""

    name: str
    hosts: list[HostLeft] = []


class NodeNow(Struct):
    """A node as it is now."""

    name: str
    state: str = ""
    note: str = ""


class Drained(Struct):
    """The nodes that get nothing new, and what still runs there."""

    cluster: str
    nodes: list[NodeNow] = []
    runs: list[str] = []
    until_ms: int = 0


class ResumedCluster(Struct):
    """The nodes that were taken back into use."""

    cluster: str
    nodes: list[Resumed] = []


class FarFile(Struct):
    """One entry of a folder."""

    name: str
    kind: str = ""
    size: int = 0
    modified_ms: int = 0


class FarFiles(Struct):
    """What lies at a path of a job; `is_here` says that the server's own machine has it."""

    is_here: bool = False
    root: str = ""
    is_folder: bool = False
    files: list[FarFile] = []


class MachineCalls(DataCalls):
    """Clusters over SSH, and what their machines keep."""

    def gpu_history(self, cluster: str = "", since_ms: int = 0) -> GpuHistory:
        """How full and how busy GPUs were."""
        asked = urlencode({"cluster": cluster, "since_ms": since_ms})
        return self._get(f"/v1/gpus/history?{asked}", GpuHistory)

    def ssh_clusters(self) -> Sequence[SshCluster]:
        """Those that were added."""
        return self._get("/v1/ssh-clusters", SshClusters).items

    def add_ssh_cluster(
        self,
        name: str,
        hosts: Sequence[str],
        *,
        python: str = "",
        folder: str = "",
        accept_host_keys: Sequence[str] = (),
        identity_files: Mapping[str, str] | None = None,
    ) -> Looked:
        """Connects to every host; keeps the cluster if nothing speaks against it."""
        body = {
            "name": name,
            "hosts": list(hosts),
            "python": python,
            "folder": folder,
            "accept_host_keys": list(accept_host_keys),
            "identity_files": dict(identity_files or {}),
        }
        return self._post("/v1/ssh-clusters", Looked, body, timeout_s=LOOK_S)

    def probe_ssh_cluster(self, name: str) -> Looked:
        """Looks at its machines now."""
        target = f"/v1/ssh-clusters/{part(name)}/probe"
        return self._post(target, Looked, {}, timeout_s=LOOK_S)

    def remove_ssh_cluster(self, name: str, *, purge: bool = False) -> RemovedCluster:
        """Forgets a cluster on which nothing runs, with ``purge`` all that lies there too."""
        target = f"/v1/ssh-clusters/{part(name)}" + ("?purge=true" if purge else "")
        return decode(self._send("DELETE", target, timeout_s=PURGE_S).body, RemovedCluster)

    def make_join_token(self, name: str, ttl_ms: int) -> JoinToken:
        """A token with which machines dial in and join a cluster."""
        return self._post(f"/v1/clusters/{part(name)}/tokens", JoinToken, {"ttl_ms": ttl_ms})

    def join_tokens(self, name: str) -> JoinTokenList:
        """Tokens of a cluster that still hold, and machines that have joined."""
        return self._get(f"/v1/clusters/{part(name)}/tokens", JoinTokenList)

    def revoke_join(self, name: str, which: str) -> Revoked:
        """Takes back a token by its id, a machine's secret by its name, or `all`."""
        target = f"/v1/clusters/{part(name)}/tokens/{part(which)}"
        return decode(self._send("DELETE", target).body, Revoked)

    def drain_cluster(
        self, name: str, nodes: Sequence[str] = (), *, now: bool = False, until_ms: int = 0
    ) -> Drained:
        """Lets nothing new start on a cluster of any kind, or on some of its nodes."""
        body = {"nodes": list(nodes), "now": now, "until_ms": until_ms}
        return self._order(f"/v1/clusters/{part(name)}/drain", Drained, body)

    def resume_cluster(self, name: str, nodes: Sequence[str] = ()) -> ResumedCluster:
        """Takes drained and quarantined nodes back into use."""
        body = {"nodes": list(nodes)}
        return self._order(f"/v1/clusters/{part(name)}/resume", ResumedCluster, body)

    def files(self, name: str, area: Area, path: str, node: int = 0) -> FarFiles:
        """What lies at a path of a job's newest run, on one of its machines by number."""
        asked = urlencode({"area": area, "path": path, **({"node": node} if node else {})})
        return self._get(f"/v1/workloads/{part(name)}/files?{asked}", FarFiles)

    def file_bytes(
        self, name: str, area: Area, path: str, offset: int, limit: int, node: int = 0
    ) -> bytes:
        """Bytes of a file of a job's newest run; none at its end."""
        more = {"node": node} if node else {}
        asked = urlencode({"area": area, "path": path, "offset": offset, "limit": limit, **more})
        return self._send("GET", f"/v1/workloads/{part(name)}/content?{asked}").body
