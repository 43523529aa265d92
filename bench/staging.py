"""How fast data of the hub is copied between two machines of a room, beside `rsync` or `scp` alone.

Two network namespaces with an sshd each, on this machine: all of it shares its CPUs and its disk,
so only the ratio says something. Needs root; run it as `python -m bench.staging [MiB]`.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from tests.lab.gangs import Lab, a_lab
from tests.lab.room import Computer, Room, a_room, missing

COMMIT = "1a" * 20
FILES = 2
BLOCK = 1 << 20


def make(owner: Computer, mebibytes: int) -> Path:
    """A data set of some large files in a machine's cache."""
    top = owner.home / ".cache" / "huggingface" / "hub" / "datasets--bench--large"
    snapshot = top / "snapshots" / COMMIT
    for folder in (top / "blobs", snapshot, top / "trees"):
        folder.mkdir(parents=True)
    listed = {}
    for number in range(FILES):
        content = os.urandom(BLOCK) * (mebibytes // FILES)
        blob = hashlib.sha256(content).hexdigest()
        (top / "blobs" / blob).write_bytes(content)
        (snapshot / f"{number}.bin").symlink_to(f"../../blobs/{blob}")
        listed[f"{number}.bin"] = {
            "size": len(content), "blob_id": blob[:40], "lfs_sha256": blob, "lfs_size": len(content)
        }  # fmt: skip
    text = json.dumps({"format_version": 1, "files": listed})
    (top / "trees" / f"{COMMIT}.json").write_text(text)
    for path in (*top.parents[:3], top, *top.rglob("*")):
        os.chown(path, owner.uid, owner.uid, follow_symlinks=False)
    return top


def alone(room: Room, top: Path, other: Computer) -> tuple[str, float]:
    """The same files by a program that does nothing else; its name, and seconds."""
    ssh = ["-i", room.key, "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"]
    name = "rsync" if shutil.which("rsync") else "scp"
    words = (
        ["rsync", "-a", "-e", f"ssh {' '.join(ssh)}"] if name == "rsync" else ["scp", "-qr", *ssh]
    )
    began = time.monotonic()
    subprocess.run([*words, f"{top}/blobs", f"ada@{other.address}:copy"], check=True)
    return name, time.monotonic() - began


def staged(lab: Lab, other: Computer) -> tuple[str, float]:
    """How `stw data stage` went there: straight or through the server, and seconds."""
    lab.stw("cluster", "probe", "lab")
    began = time.monotonic()
    (copy,) = lab.told(
        "data", "stage", f"hf://datasets/bench/large@{COMMIT}", f"lab/{other.address}"
    )
    assert copy["state"] == "done", copy
    return copy["note"] or "straight", time.monotonic() - began


def main() -> int:
    if why := missing():
        print(why)
        return 1
    mebibytes = int(sys.argv[1]) if len(sys.argv) > 1 else 800
    for switch in (True, False):
        with a_room(switch=switch) as room:
            for _ in range(2):
                room.add(own_tmp=True)
            room.trust(*room.computers)
            one, other = room.computers
            with a_lab(room) as lab:
                top = make(one, mebibytes)
                os.sync()
                how, seconds = staged(lab, other)
                os.sync()
                name, least = alone(room, top, other)
        print(
            f"{mebibytes} MiB, load {os.getloadavg()[0]:.1f}: stage ({how}) "
            f"{mebibytes / seconds:.0f} MiB/s, {name} {mebibytes / least:.0f} MiB/s, "
            f"ratio {least / seconds:.2f}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
