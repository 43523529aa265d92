"""Which Kubernetes clusters there are: `kubernetes.json` in the folder of the server's state.

Nothing of it loads a library for Kubernetes until a cluster is in it.
"""

import hashlib
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from stellwerk.core.model.errors import Problem, StellwerkError

if TYPE_CHECKING:
    from stellwerk.drivers.kubernetes.driver import KubernetesDriver

FILE = "kubernetes.json"
NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


class KubernetesCluster(msgspec.Struct, frozen=True):
    """One context of a kubeconfig as a cluster; ``image`` is that of runs that name none."""

    name: str
    context: str
    kubeconfig: str
    namespace: str = ""
    image: str = ""


class _File(msgspec.Struct, frozen=True):
    v: int = 1
    clusters: tuple[KubernetesCluster, ...] = ()


def read_clusters(home: Path) -> tuple[KubernetesCluster, ...]:
    """All clusters that are written down. Raises StellwerkError `config/clusters`."""
    try:
        return msgspec.json.decode((home / FILE).read_bytes(), type=_File).clusters
    except FileNotFoundError:
        return ()
    except (OSError, msgspec.DecodeError) as error:
        message = f"{home / FILE} can't be read: {error}"
        remedy = "mend it, or move it away and add the clusters again"
        raise StellwerkError([Problem("config/clusters", message, remedy)]) from error


def write_clusters(home: Path, clusters: tuple[KubernetesCluster, ...]) -> None:
    """Writes them down. Raises OSError; then all is as before."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = home / f"{FILE}.new"
    content = msgspec.json.format(msgspec.json.encode(_File(clusters=clusters)))
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content + b"\n")
    draft.replace(home / FILE)


def on_kubernetes(
    one: KubernetesCluster, *, home: Path, machine: str, blobs: Any, now_ms: Callable[[], int]
) -> "KubernetesDriver":
    """The driver of a cluster for the Stellwerk whose state is in a folder of a machine."""
    from stellwerk.drivers.kubernetes.api import Api, config_of
    from stellwerk.drivers.kubernetes.driver import KubernetesDriver
    from stellwerk.runtime.bundle import packed

    content = packed()
    return KubernetesDriver(
        cluster=one.name,
        # Read anew at each connection: a login that was renewed is used without a restart.
        connect=lambda: Api(config_of(Path(one.kubeconfig), one.context), one.namespace),
        owner=hashlib.sha256(f"{machine}:{home}".encode()).hexdigest()[:12],
        image=one.image,
        folder=home / "kubernetes" / one.name,
        runtime=(content, hashlib.sha256(content).hexdigest()),
        blobs=blobs,
        now_ms=now_ms,
    )
