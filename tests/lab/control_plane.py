"""A real Kubernetes control plane on loopback: etcd, API server, controllers and scheduler.

Its nodes are whatever a test writes, so that hundreds cost nothing. Each control plane has ports,
keys and a folder of its own; several run side by side, as hub and members.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.lab.engines.build import KUBERNETES
from tests.processes import end_started

READY_S = 90
ADMIN = "admin-token"


def missing() -> str:
    """Why no control plane can be had here; empty if one can."""
    if KUBERNETES.missing:
        return KUBERNETES.missing
    return "" if shutil.which("etcd") else "there is no etcd (apt install etcd-server)"


class ControlPlane:
    """One API server with what belongs to it, and the tokens that it knows."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self.folder = folder
        self.port = free_port()
        self.etcd_port = free_port()
        self.url = f"https://127.0.0.1:{self.port}"
        self.tokens: dict[str, tuple[str, str]] = {ADMIN: ("admin", "system:masters")}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig, whose one context has the name of the cluster."""
        return self.folder / "kubeconfig"

    def write_kubeconfig(self, path: Path, token: str, *, namespace: str = "default") -> Path:
        """Writes a kubeconfig with the server's own certificate and a token."""
        context = {"cluster": self.name, "user": self.name, "namespace": namespace}
        path.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": self.name,
                    "clusters": [
                        {
                            "name": self.name,
                            "cluster": {
                                "server": self.url,
                                "certificate-authority": str(self.folder / "certs/apiserver.crt"),
                            },
                        }
                    ],
                    "users": [{"name": self.name, "user": {"token": token}}],
                    "contexts": [{"name": self.name, "context": context}],
                }
            )
        )
        path.chmod(0o600)
        return path

    def start(self, *, controllers: bool = True, scheduler: bool = True) -> None:
        """Starts all of it, and waits until the API server says that it is ready."""
        (self.folder / "certs").mkdir(parents=True, exist_ok=True)
        self._write_keys()
        self.start_etcd()
        self.start_api_server()
        self.write_kubeconfig(self.kubeconfig, ADMIN)
        kubeconfig = f"--kubeconfig={self.kubeconfig}"
        common = [kubeconfig, "--leader-elect=false", "--bind-address=127.0.0.1"]
        if controllers:
            self._run(
                "kube-controller-manager",
                *common,
                f"--secure-port={free_port()}",
                "--controllers=*,-nodeipam",
                f"--service-account-private-key-file={self.folder / 'service.key'}",
            )
        if scheduler:
            self._run("kube-scheduler", *common, f"--secure-port={free_port()}")

    def start_etcd(self) -> None:
        """Starts the store of the API server, without waiting for the disk."""
        here, peers = (f"http://127.0.0.1:{port}" for port in (self.etcd_port, free_port()))
        self._run(
            "etcd",
            f"--data-dir={self.folder / 'etcd'}",
            "--unsafe-no-fsync",
            f"--listen-client-urls={here}",
            f"--advertise-client-urls={here}",
            f"--listen-peer-urls={peers}",
            program=shutil.which("etcd") or "etcd",
        )

    def start_api_server(self, *more: str) -> None:
        """Starts the API server (again), and waits until it is ready."""
        tokens = "".join(
            f'{token},{user},{user},"{groups}"\n' for token, (user, groups) in self.tokens.items()
        )
        (self.folder / "tokens.csv").write_text(tokens)
        self._run(
            "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{self.etcd_port}",
            f"--secure-port={self.port}",
            "--bind-address=127.0.0.1",
            f"--cert-dir={self.folder / 'certs'}",
            f"--service-account-key-file={self.folder / 'service.pub'}",
            f"--service-account-signing-key-file={self.folder / 'service.key'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            "--authorization-mode=Node,RBAC",
            "--service-cluster-ip-range=10.96.0.0/24",
            "--allow-privileged=true",
            "--kubelet-preferred-address-types=InternalIP",
            "--disable-admission-plugins=ServiceAccount",
            *more,
        )
        self._wait_until_ready()

    def stop(self, name: str, with_signal: int = signal.SIGTERM) -> None:
        """Ends one of its processes."""
        process = self.processes.pop(name, None)
        if process is not None:
            end_started(process, with_signal, 10)

    def stop_all(self) -> None:
        """Ends all of it, the API server before its store."""
        for name in sorted(self.processes, key=lambda one: (one == "etcd", one)):
            self.stop(name, signal.SIGKILL)

    def log(self, name: str) -> str:
        """What one of its processes has written."""
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def call(
        self, method: str, path: str, body: object = None, content_type: str = "application/json"
    ) -> dict[str, object]:
        """Asks the API server as administrator; an answer that is an error raises HTTPError."""
        request = urllib.request.Request(
            self.url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {ADMIN}", "Content-Type": content_type},
        )
        trust = ssl.create_default_context(cafile=str(self.folder / "certs/apiserver.crt"))
        try:
            with urllib.request.urlopen(request, context=trust, timeout=30) as answer:
                read: dict[str, object] = json.loads(answer.read())
                return read
        except urllib.error.HTTPError as refused:
            # What it says is kept, and its connection isn't.
            refused.msg = refused.read().decode(errors="replace")
            refused.close()
            raise

    def apply(self, path: str, body: object, manager: str = "lab") -> dict[str, object]:
        """Server-side apply of one object at its path."""
        query = f"?fieldManager={manager}&force=true"
        return self.call("PATCH", path + query, body, "application/apply-patch+yaml")

    def _wait_until_ready(self) -> None:
        limit = time.monotonic() + READY_S
        while time.monotonic() < limit:
            if self.processes["kube-apiserver"].poll() is not None:
                raise RuntimeError(f"the API server ended: {self.log('kube-apiserver')[-2000:]}")
            # Its certificate is written by itself, and its first answers come before its roles.
            with contextlib.suppress(OSError, ssl.SSLError, urllib.error.URLError, ValueError):
                self.call("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/cluster-admin")
                self.call("GET", "/api/v1/namespaces/default")
                return
            time.sleep(0.2)
        raise RuntimeError(f"no API server in {READY_S} s: {self.log('kube-apiserver')[-2000:]}")

    def _write_keys(self) -> None:
        if (self.folder / "service.key").exists():
            return
        key = rsa.generate_private_key(public_exponent=65_537, key_size=2048)
        (self.folder / "service.key").write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.TraditionalOpenSSL,
                serialization.NoEncryption(),
            )
        )
        (self.folder / "service.pub").write_bytes(
            key.public_key().public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            )
        )

    def _run(self, name: str, *arguments: str, program: str = "") -> None:
        command: Sequence[str] = [program or str(KUBERNETES.program(name)), *arguments]
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
            )


@contextlib.contextmanager
def a_control_plane(folder: Path, name: str, *, scheduler: bool = True) -> Iterator[ControlPlane]:
    """One that ends with the block."""
    folder.mkdir(parents=True, exist_ok=True)
    plane = ControlPlane(folder, name)
    try:
        plane.start(scheduler=scheduler)
        yield plane
    finally:
        plane.stop_all()


def free_port() -> int:
    """A port of loopback that nobody listens on now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


os.environ.setdefault("NO_PROXY", "127.0.0.1,localhost")
