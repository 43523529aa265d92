"""A node that really runs pods: Debian's containerd and runc, a kubelet, and images made here.

No image is pulled: a layer is packed from files of this machine and given to containerd. All it
writes lies in a folder of its own; the pods' network is a bridge of its own.
"""

import hashlib
import io
import json
import os
import re
import shutil
import signal
import subprocess
import tarfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import yaml

from tests.lab.control_plane import ControlPlane, free_port
from tests.lab.engines.build import KUBERNETES
from tests.processes import end_started

READY_S = 90
NETWORK = re.compile(rb"/netns/(cni-[0-9a-f-]+)")
"""How a pod's network is named where its containers are described."""

CNI = "/usr/lib/cni"
PAUSE = "stellwerk.lab/pause:1"
BUSYBOX = "stellwerk.lab/busybox:1"
PYTHON = "stellwerk.lab/python:1"


def missing() -> str:
    """Why no node can be had here; empty if one can."""
    if os.geteuid() != 0:
        return "a node that runs pods needs root"
    for program, package in (
        ("containerd", "containerd"),
        ("runc", "runc"),
        ("ctr", "containerd"),
    ):
        if shutil.which(program) is None:
            return f"there is no {program} (apt install {package})"
    if not Path(CNI, "bridge").exists():
        return "there are no CNI plugins (apt install containernetworking-plugins)"
    return "" if Path("/bin/busybox").exists() else "no busybox (apt install busybox-static)"


class Node:
    """A containerd and a kubelet that belong to one control plane."""

    def __init__(self, plane: ControlPlane, folder: Path, name: str, number: int = 1) -> None:
        self.plane = plane
        self.folder = folder
        self.name = name
        self.number = number
        self.socket = folder / "containerd.sock"
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def address(self) -> str:
        """Its address, on the bridge of its pods: no other machine reaches it."""
        return f"10.215.{self.number}.1"

    def start(self, images: Mapping[str, Iterable[tuple[str, Path]]] | None = None) -> None:
        """Starts both, imports the images, and waits until the node is ready."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._make_bridge()
        self._write_containerd()
        self._start("containerd", "containerd", "--config", str(self.folder / "containerd.toml"))
        self._wait(lambda: self.ctr("version").returncode == 0, "containerd")
        self.import_image(PAUSE, busybox_files(), ("/bin/sleep", "1000000000"))
        self.import_image(BUSYBOX, busybox_files(), ("/bin/sh",))
        for name, files in (images or {}).items():
            self.import_image(name, files, ())
        self._write_kubelet()
        self._start(
            "kubelet",
            str(KUBERNETES.program("kubelet")),
            f"--config={self.folder / 'kubelet.yaml'}",
            f"--kubeconfig={self.plane.kubeconfig}",
            f"--hostname-override={self.name}",
            f"--root-dir={self.folder / 'kubelet'}",
            f"--node-ip={self.address}",
        )
        self._wait(self._is_ready, "kubelet")

    def ctr(self, *arguments: str) -> "subprocess.CompletedProcess[bytes]":
        """Asks containerd, in the namespace of the kubelet."""
        command = ["ctr", "--address", str(self.socket), "-n", "k8s.io", *arguments]
        return subprocess.run(command, capture_output=True, check=False, timeout=120)

    def import_image(
        self, name: str, files: Iterable[tuple[str, Path]], argv: Sequence[str]
    ) -> None:
        """Packs an image of one layer and gives it to containerd."""
        archive = self.folder / f"{name.replace('/', '_').replace(':', '_')}.tar"
        write_image(archive, name, files, argv)
        done = self.ctr("images", "import", str(archive))
        if done.returncode != 0:
            raise RuntimeError(f"{name} wasn't imported: {done.stderr.decode()}")
        archive.unlink()

    def stop(self, name: str, with_signal: int = signal.SIGTERM) -> None:
        """Ends the kubelet or containerd; containers go on."""
        process = self.processes.pop(name, None)
        if process is not None:
            end_started(process, with_signal, 15)

    def stop_all(self) -> None:
        """Ends every container, both programs, and what they have mounted."""
        self.stop("kubelet")
        for task in self.ctr("tasks", "list", "-q").stdout.decode().split():
            self.ctr("tasks", "kill", "--signal", "SIGKILL", task)
            self.ctr("tasks", "delete", "--force", task)
        networks = set[bytes]()
        for container in self.ctr("containers", "list", "-q").stdout.decode().split():
            networks.update(NETWORK.findall(self.ctr("containers", "info", container).stdout))
            self.ctr("containers", "delete", container)
        self.stop("containerd")
        for network in sorted(networks):
            subprocess.run(["ip", "netns", "delete", network], capture_output=True, check=False)
        subprocess.run(["ip", "link", "delete", self._bridge], capture_output=True, check=False)
        mounted = Path("/proc/self/mounts").read_text().splitlines()
        for line in reversed(mounted):
            where = line.split()[1]
            if where.startswith(f"{self.folder}/"):
                subprocess.run(["umount", "--lazy", where], capture_output=True, check=False)

    def log(self, name: str) -> str:
        """What one of its programs has written."""
        return (self.folder / f"{name}.log").read_text(errors="replace")

    @property
    def _bridge(self) -> str:
        return f"stwk8s{self.number}"

    def _is_ready(self) -> bool:
        try:
            node = self.plane.call("GET", f"/api/v1/nodes/{self.name}")
        except OSError:
            return False
        status = node["status"]
        assert isinstance(status, dict)
        return any(
            one["type"] == "Ready" and one["status"] == "True"
            for one in status.get("conditions", ())
        )

    def _wait(self, holds: Callable[[], bool], what: str) -> None:
        limit = time.monotonic() + READY_S
        while not holds():
            if time.monotonic() > limit or self.processes[what].poll() is not None:
                raise RuntimeError(f"{what} didn't come up: {self.log(what)[-3000:]}")
            time.sleep(0.2)

    def _start(self, name: str, *command: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
            )

    def _make_bridge(self) -> None:
        for command in (
            ["ip", "link", "add", self._bridge, "type", "bridge"],
            ["ip", "address", "add", f"{self.address}/24", "dev", self._bridge],
            ["ip", "link", "set", self._bridge, "up"],
        ):
            subprocess.run(command, capture_output=True, check=True)

    def _write_containerd(self) -> None:
        network = self.folder / "cni"
        network.mkdir(exist_ok=True)
        bridge = {
            "cniVersion": "0.4.0",
            "name": self._bridge,
            "plugins": [
                {
                    "type": "bridge",
                    "bridge": self._bridge,
                    "isGateway": True,
                    "ipam": {
                        "type": "host-local",
                        "dataDir": str(self.folder / "addresses"),
                        "ranges": [[{"subnet": f"10.215.{self.number}.0/24"}]],
                    },
                }
            ],
        }
        (network / "10-bridge.conflist").write_text(json.dumps(bridge))
        cri = '[plugins."io.containerd.grpc.v1.cri"'
        (self.folder / "containerd.toml").write_text(
            f"""version = 2
root = "{self.folder}/containerd"
state = "{self.folder}/state"
[grpc]
address = "{self.socket}"
{cri}]
restrict_oom_score_adj = true
disable_apparmor = true
sandbox_image = "{PAUSE}"
{cri}.containerd]
snapshotter = "native"
{cri}.cni]
bin_dir = "{CNI}"
conf_dir = "{network}"
"""
        )

    def _write_kubelet(self) -> None:
        (self.folder / "kubelet.yaml").write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "kubelet.config.k8s.io/v1beta1",
                    "kind": "KubeletConfiguration",
                    "authentication": {
                        "anonymous": {"enabled": True},
                        "webhook": {"enabled": False},
                    },
                    "authorization": {"mode": "AlwaysAllow"},
                    "address": self.address,
                    "port": free_port(),
                    "healthzPort": 0,
                    "cgroupDriver": "cgroupfs",
                    "failSwapOn": False,
                    "failCgroupV1": False,
                    "enforceNodeAllocatable": [],
                    "featureGates": {"KubeletInUserNamespace": True},
                    "localStorageCapacityIsolation": False,
                    "containerRuntimeEndpoint": f"unix://{self.socket}",
                    "imageMinimumGCAge": "24h",
                    "nodeStatusUpdateFrequency": "2s",
                    "syncFrequency": "1s",
                }
            )
        )


def busybox_files() -> list[tuple[str, Path]]:
    """Debian's static busybox under the names of its commands."""
    busybox = Path("/bin/busybox")
    names = ("busybox", "sh", "sleep", "echo", "cat", "true", "false", "env", "kill", "ls", "tar")
    return [(f"bin/{name}", busybox) for name in names]


def python_files() -> list[tuple[str, Path]]:
    """Debian's Python with its library, bash and what a script needs, and what these load."""
    programs = ["/usr/bin/python3", "/bin/bash", "/bin/sleep", "/bin/cat", "/bin/ls", "/bin/mkdir"]
    programs += ["/bin/rm", "/usr/bin/env", "/usr/bin/tty", "/usr/bin/stty", "/bin/dash"]
    library = Path("/usr/lib") / Path("/usr/bin/python3").resolve().name
    modules = [
        path
        for path in library.rglob("*")
        if path.is_file() and not {"test", "tests", "dist-packages", "__pycache__"} & {*path.parts}
    ]
    found = {str(path): path for path in modules}
    found |= {name: Path(name) for name in programs}
    found["/bin/sh"] = Path("/bin/dash")
    loads = [*programs, *(str(path) for path in modules if path.suffix == ".so")]
    said = subprocess.run(["ldd", *loads], capture_output=True, check=False, text=True).stdout
    for line in said.splitlines():
        words = [word for word in line.split() if word.startswith("/") and not word.endswith(":")]
        found |= {word: Path(word) for word in words}
    return [(name.lstrip("/"), path) for name, path in sorted(found.items())]


def write_image(
    archive: Path, name: str, files: Iterable[tuple[str, Path]], argv: Sequence[str]
) -> None:
    """Writes a docker-archive of one layer: ``files`` are (path in the image, file here)."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        for folder in ("tmp", "root", "etc", "proc", "dev"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755
            tar.addfile(entry)
        for path, source in files:
            tar.add(source.resolve() if source.is_symlink() else source, arcname=path)
    data = layer.getvalue()
    digest = hashlib.sha256(data).hexdigest()
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Env": ["PATH=/usr/local/bin:/usr/bin:/bin"], "Cmd": list(argv)},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        }
    ).encode()
    about = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    with tarfile.open(archive, "w") as tar:
        for inside, content in (
            ("config.json", config),
            ("layer.tar", data),
            ("manifest.json", json.dumps(about).encode()),
        ):
            entry = tarfile.TarInfo(inside)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
