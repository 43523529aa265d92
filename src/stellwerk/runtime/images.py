"""Gets the files of a container image onto this machine, once, and says what it sets.

Podman, Docker or Apptainer is asked for the image and what is in it; they run nothing. The job runs
in these files by itself, as any other one does, so that its processes stay the run's own.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from typing import NamedTuple, Optional

from .errands import ErrandError
from .files import read_json, write_json
from .image_env import read_env
from .removing import remove_tree

STORES = ("podman", "docker")
"""They keep images of their own, and tell the digest of each."""
BUILDERS = ("apptainer", "singularity")
"""They write an image's files out where they are told; the second is the older name."""
_UNFINISHED = ".unfinished"
_MOST_SAID = 300


class Image(NamedTuple):
    """An image on this machine: the folder of its files, and the variables it sets."""

    files: str
    env: dict[str, str]

    @property
    def home(self) -> str:
        """The home of its root, who runs the job."""
        try:
            with open(os.path.join(self.files, "etc/passwd"), encoding="utf-8") as file:
                users = [line.strip().split(":") for line in file]
        except (OSError, UnicodeDecodeError):
            users = []
        homes = [user[5] for user in users if len(user) > 5 and user[2] == "0" and user[5]]
        return homes[0] if homes else os.path.join(os.sep, "root")


def find_tool() -> Optional[str]:
    """The program that fetches images here, or None."""
    return next((tool for tool in STORES + BUILDERS if shutil.which(tool) is not None), None)


def fetch(name: str, folder: str, log: str, answer: str) -> None:
    """Have the files of an image below `folder`; writes where they are to `answer`.

    What the tool says on its way goes to the log. Raises ErrandError.
    """
    tool = find_tool()
    if tool is None:
        raise ErrandError("none of podman, docker and apptainer is installed here")
    with _turn(folder, name) as turn:
        if tool in BUILDERS:
            image = _built(tool, name, folder, log, turn)
        else:
            image = _exported(tool, name, folder, log)
    write_json(answer, {"files": image.files, "env": image.env})


def read_answer(path: str) -> Optional[Image]:
    """What `fetch` has found, or None."""
    found = read_json(path)
    return None if found is None else Image(str(found["files"]), dict(found["env"]))


@contextlib.contextmanager
def _turn(folder: str, name: str) -> Iterator[int]:
    """One run at a time fetches an image; the others find it. Gives the descriptor of the lock."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    lock = os.open(os.path.join(folder, f"{_key(name)}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock
    finally:
        os.close(lock)


def _key(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:24]


def _built(tool: str, name: str, folder: str, log: str, turn: int) -> Image:
    """By a tool that tells no digest: what was written out under a name stays the image."""
    target = os.path.join(folder, f"name-{_key(name)}")
    if not os.path.isdir(target):
        unfinished = target + _UNFINISHED
        remove_tree(unfinished)
        try:
            # It holds the turn as well: should it outlive this process, nobody writes there too.
            source = f"docker://{name}"
            building = [tool, "build", "--sandbox", unfinished, source]
            _run(building, log, f"{tool} build {source}", kept=(turn,))
            os.rename(unfinished, target)
        finally:
            remove_tree(unfinished)
    return Image(target, read_env(target))


def _exported(tool: str, name: str, folder: str, log: str) -> Image:
    """By a tool with a store of images: the digest says which one a name stands for there."""
    if _ask(tool, "image", "inspect", name) is None:
        _run([tool, "pull", name], log, f"{tool} pull {name}")
    said = _ask(tool, "image", "inspect", name)
    try:
        [found] = json.loads(said or "")
        digest = str(found["Id"]).rpartition(":")[2]
        env = dict(line.split("=", 1) for line in found["Config"].get("Env") or ())
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ErrandError(f"{tool} doesn't say what `{name}` is: {error!r}") from error
    target = os.path.join(folder, digest)
    if not os.path.isdir(target):
        _unpack(tool, name, target)
    return Image(target, env)


def _ask(tool: str, *arguments: str) -> Optional[str]:
    import subprocess

    done = subprocess.run(
        [tool, *arguments], stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None


def _run(command: list[str], log: str, said: str, kept: tuple[int, ...] = ()) -> None:
    """Have a tool do what may take long; all that it says goes to the log. Raises ErrandError."""
    import subprocess

    with open(log, "ab") as output:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.PIPE,
            pass_fds=kept,
            check=False,
        )
        output.write(done.stderr)
    if done.returncode:
        raise ErrandError(f"`{said}` failed: {_last_line(done.stderr)}")


def _unpack(tool: str, name: str, target: str) -> None:
    """Write out the files, whole or not at all."""
    unfinished = target + _UNFINISHED
    shutil.rmtree(unfinished, ignore_errors=True)
    os.mkdir(unfinished, 0o755)
    container = (_ask(tool, "create", name, "true") or "").strip()
    if not container:
        raise ErrandError(f"{tool} can't open `{name}`")
    try:
        _export(tool, container, unfinished)
    finally:
        _ask(tool, "rm", container)
    os.rename(unfinished, target)


def _export(tool: str, container: str, target: str) -> None:
    import subprocess

    unpacking = ["tar", "-x", "-p", "-f", "-", "-C", target, "--exclude=dev/*"]
    with subprocess.Popen([tool, "export", container], stdout=subprocess.PIPE) as export:
        done = subprocess.run(unpacking, stdin=export.stdout, stderr=subprocess.PIPE, check=False)
    if export.returncode or done.returncode:
        raise ErrandError(f"the image can't be unpacked: {_last_line(done.stderr)}")


def _last_line(said: bytes) -> str:
    lines = said.decode("utf-8", "replace").strip().splitlines()
    return lines[-1][:_MOST_SAID] if lines else "it said nothing"
