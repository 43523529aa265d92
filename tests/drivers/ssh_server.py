"""An SSH server on loopback, as a program: every user has a home of its name and runs bash there.

It is another one than OpenSSH's, with which the lab tests. Arguments: the folder of homes, the port
(0 for any), the host key, the public key that opens it. Says its port on standard output.
"""

import asyncio
import contextlib
import os
import sys
from pathlib import Path
from typing import Any

import asyncssh


async def run(process: asyncssh.SSHServerProcess[bytes]) -> None:
    """Runs a command as sshd does, with start-up files if there are some."""
    home = Path(sys.argv[1]) / str(process.get_extra_info("username"))
    command = process.command or ""
    child = await asyncio.create_subprocess_exec(
        "bash",
        "-c",
        f". ~/.bashrc; {command}" if (home / ".bashrc").exists() else command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={
            "HOME": str(home),
            "PATH": os.environ["PATH"],
            "STELLWERK_CLAIMS": str(home / "claims"),
        },
        cwd=home,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    assert child.stderr is not None
    hearing = asyncio.create_task(pass_on(process.stdin, child.stdin))
    with contextlib.suppress(Exception):  # who has hung up needs no answer
        await asyncio.gather(
            pass_on(child.stdout, process.stdout), pass_on(child.stderr, process.stderr)
        )
        process.exit(await child.wait())
    hearing.cancel()


async def pass_on(source: Any, target: Any) -> None:
    """Copies one stream to its end."""
    while data := await source.read(65_536):
        target.write(data)
        await target.drain()
    if isinstance(target, asyncio.StreamWriter):
        target.close()


async def serve() -> None:
    """Listens until it is killed."""
    listener = await asyncssh.listen(
        "127.0.0.1",
        int(sys.argv[2]),
        server_host_keys=[sys.argv[3]],
        authorized_client_keys=sys.argv[4],
        process_factory=run,
        encoding=None,
    )
    print(listener.get_port(), flush=True)
    await asyncio.Event().wait()


asyncio.run(serve())
