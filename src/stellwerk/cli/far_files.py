"""A job's files on a machine elsewhere: they come through the server's connection to it."""

import os
import sys
from typing import NamedTuple

from stellwerk.cli.errors import CommandError, usage
from stellwerk.cli.places import Place, split_area
from stellwerk.client.api import Client
from stellwerk.client.machines import Area, FarFile
from stellwerk.client.refusals import ApiError
from stellwerk.client.wire import Show

PIECE = 4 * 2**20
_AREAS: dict[str, Area] = {"work": "work", "outputs": "outputs", "checkpoints": "checkpoints"}


class Far(NamedTuple):
    """What lies at a path there; `place` is told as its own machine knows it."""

    place: Place
    area: Area
    inner: str
    is_folder: bool
    files: list[FarFile]
    node: int = 0


def look(client: Client, show: Show, text: str, node: int = 0) -> Far | None:
    """What lies at a path of a job elsewhere; None for one whose files are on this machine."""
    area_name, inner = split_area(text)
    area = _AREAS[area_name]
    try:
        found = client.files(show.name or show.id, area, inner, node)
    except ApiError as error:
        if error.problems[0].code == "request/path":
            return None  # an older server knows of no machines elsewhere
        raise
    if found.is_here:
        return None
    inner = os.path.normpath(inner.strip("/")) if inner.strip("/") else ""
    path = os.path.join(found.root, inner) if inner else found.root
    return Far(Place(area, found.root, path), area, inner, found.is_folder, found.files, node)


def print_file(client: Client, show: Show, far: Far) -> None:
    """Writes a file to standard output."""
    if far.is_folder:
        raise usage("usage/folder", f"{far.place.path} is a folder", "name a file to print")
    offset = 0
    name = show.name or show.id
    while data := client.file_bytes(name, far.area, far.inner, offset, PIECE, far.node):
        sys.stdout.buffer.write(data)
        offset += len(data)
    sys.stdout.buffer.flush()


def fetch(client: Client, show: Show, far: Far, target: str) -> int:
    """Copies a file or folder here; gives how many files that were."""
    try:
        if far.is_folder:
            return _fetch_folder(client, show, far, target)
        return _fetch_file(client, show, far, far.inner, target)
    except OSError as error:
        message = f"{far.place.path} can't be copied to {target}: {error.strerror}"
        raise CommandError("files/copy", message, "") from error


def _fetch_folder(client: Client, show: Show, far: Far, target: str) -> int:
    count = 0
    todo = [(far.inner, target, far.files)]
    while todo:
        inner, folder, files = todo.pop()
        os.makedirs(folder, exist_ok=True)
        for one in files:
            path, to = f"{inner}/{one.name}".lstrip("/"), os.path.join(folder, one.name)
            if one.kind == "folder":
                below = client.files(show.name or show.id, far.area, path, far.node)
                todo.append((path, to, below.files))
            elif one.kind == "file":
                count += _fetch_file(client, show, far, path, to)
    return count


def _fetch_file(client: Client, show: Show, far: Far, path: str, target: str) -> int:
    draft, name = f"{target}.part", show.name or show.id
    with open(draft, "wb") as file:
        while data := client.file_bytes(name, far.area, path, file.tell(), PIECE, far.node):
            file.write(data)
    os.replace(draft, target)
    return 1
