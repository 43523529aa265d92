"""Many machines that aren't there: an SSH server at whose end each login meets a made-up runtime.

What the caller does (connecting, exchanging keys, asking, reading facts) is as with real ones. As a
program: the host key, the public key that opens it. Says its port on standard output.
"""

import asyncio
import json
import re
import sys
import time
from typing import Any

import asyncssh

from stellwerk.runtime import frames, messages

MARK = re.compile(r"\b[0-9a-f]{32}\b")
GIB = 2**30


def facts(name: str) -> dict[str, Any]:
    """A PC with one card, as a probe tells of it."""
    card = {"index": 0, "uuid": f"GPU-{name}", "name": "NVIDIA GeForce RTX 4090", "trouble": None}
    card |= {"memory_bytes": 24 * GIB, "memory_used_bytes": 0, "mig": False, "processes": []}
    return {
        "v": 1, "at_ms": 0, "boot_id": name, "machine_id": name, "hostname": name, "cpus": 16.0,
        "memory_bytes": 64 * GIB, "disk_bytes": 900 * GIB, "disk_free_bytes": 500 * GIB,
        "os": "Debian GNU/Linux 12", "kernel": "6.1.0", "arch": "x86_64", "python": "3.11.2",
        "user": name, "file_system": "ext4", "tools": ["git"], "namespaces": True, "claims": [],
        "image_tool": None, "gpus": [card], "gpu_driver": "570.1", "gpu_trouble": None,
    }  # fmt: skip


async def serve_login(process: asyncssh.SSHServerProcess[bytes]) -> None:
    """Is the hand of a machine and its agent, named for whoever has logged in."""
    name = str(process.get_extra_info("username"))
    found = MARK.search(process.command or "")
    if found is None:
        process.exit(0)
        return
    about = {"need": False, "home": f"/home/{name}/s", "python": "3.11.2", "no_exec": False}
    about |= {"machine_id": name, "boot_id": name, "now_ms": _now_ms()}
    process.stdout.write(f"\n{found[0]}{json.dumps(about)}\n".encode())
    reader = frames.FrameReader()
    while block := await process.stdin.read(65_536):
        for kind, content in reader.frames(block):
            if kind == messages.ASK:
                head, _ = messages.read_message(content)
                answer = messages.message(messages.ANSWER, {"id": head["id"]}, b"")
                process.stdout.write(answer)
            elif kind == messages.AGENT:
                process.stdout.write(frames.frame(messages.AGENT, _answer(name, content)))


def _answer(name: str, line: bytes) -> bytes:
    asked = json.loads(line)
    about = {"now_ms": _now_ms(), "runs": [], "facts": facts(name), "boot_id": name}
    about |= {"protocol": [1], "can": ["exec"], "machine_id": name}
    return json.dumps({"id": asked["id"], "ok": True, **about}).encode() + b"\n"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


async def serve() -> None:
    """Listens until it is killed."""
    listener = await asyncssh.listen(
        "127.0.0.1",
        0,
        server_host_keys=[sys.argv[1]],
        authorized_client_keys=sys.argv[2],
        process_factory=serve_login,
        encoding=None,
        backlog=512,
    )
    print(listener.get_port(), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve())
