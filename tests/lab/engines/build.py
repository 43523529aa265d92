"""Builds the real engines that the lab's tests run against, from Go modules, outside the tree.

Run as a program it builds those that aren't there yet, one after the other. What can't be built
is noted with the reason, and the tests that need it say that reason.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

CACHE = Path(os.environ.get("LAB_CACHE") or "~/.cache/stellwerk-lab").expanduser() / "engines"
MODULES = Path(__file__).parent
BUILD_S = 1500
TOLD = 800
KUBERNETES_VERSION = "1.34.4"


class Engine(NamedTuple):
    """A folder with go.mod, go.sum and tools.go, its commands, and what the linker is told."""

    name: str
    commands: tuple[str, ...]
    flags: str = ""

    @property
    def folder(self) -> Path:
        """Where its programs lie: other versions or other commands are another folder."""
        module = MODULES / self.name
        wanted = hashlib.sha256()
        for part in ("go.mod", "go.sum"):
            wanted.update((module / part).read_bytes())
        wanted.update("\n".join((*self.commands, self.flags)).encode())
        return CACHE / f"{self.name}-{wanted.hexdigest()[:8]}"

    def program(self, name: str) -> Path:
        """One of its programs."""
        return self.folder / name

    @property
    def missing(self) -> str:
        """Why it can't be used; empty if it can."""
        if (self.folder / ".complete").exists():
            return ""
        note = self.folder / ".missing"
        return note.read_text() if note.exists() else f"{self.name} was not built: run make lab"


_VERSION = "-X k8s.io/component-base/version."
KUBERNETES = Engine(
    "kubernetes",
    tuple(
        f"k8s.io/kubernetes/cmd/{one}"
        for one in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet")
    ),
    f"{_VERSION}gitVersion=v{KUBERNETES_VERSION} {_VERSION}gitMajor=1 {_VERSION}gitMinor=34",
)
ALL = (KUBERNETES,)


def build(one: Engine) -> None:
    """Builds an engine unless it is there; what goes wrong is written down beside it."""
    if (one.folder / ".complete").exists():
        return
    shutil.rmtree(one.folder, ignore_errors=True)
    one.folder.mkdir(parents=True)
    began = time.monotonic()
    trouble = _built(one)
    if trouble:
        (one.folder / ".missing").write_text(trouble)
        print(f"lab: without {one.name}: {trouble}", file=sys.stderr)
        return
    (one.folder / ".complete").touch()
    print(f"lab: built {one.name} in {time.monotonic() - began:.0f} s", file=sys.stderr)


def _built(one: Engine) -> str:
    go = shutil.which("go")
    if go is None:
        return f"{one.name} is built by Go, and there is no go here"
    command = [go, "build", "-mod=readonly", "-trimpath", "-buildvcs=false"]
    command += ["-ldflags", f"-s -w {one.flags}".strip(), "-o", str(one.folder), *one.commands]
    try:
        ended = subprocess.run(
            command,
            cwd=MODULES / one.name,
            env=os.environ | {"CGO_ENABLED": "0", "GOCACHE": str(CACHE / "cache")},
            capture_output=True,
            text=True,
            timeout=BUILD_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"{one.name} wasn't built within {BUILD_S} s"
    return "" if ended.returncode == 0 else f"go build: {ended.stderr.strip()[-TOLD:]}"


if __name__ == "__main__":
    for engine in ALL:
        build(engine)
