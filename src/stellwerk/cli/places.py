"""Finds a job's files: its work directory, its outputs, its checkpoints.

`NAME:path` is in the work directory, `NAME:outputs:path` in the outputs, `NAME:checkpoints:path` in
the checkpoints. A path can't leave its area, not even through a link.
"""

import os
from glob import escape as glob_escape
from glob import glob
from typing import NamedTuple

from stellwerk.cli.errors import CommandError, usage
from stellwerk.client.api import Client
from stellwerk.client.wire import RunView, Show

AREAS = ("work", "outputs", "checkpoints")


class Place(NamedTuple):
    """A path inside one of a job's areas; `path` is absolute."""

    area: str
    root: str
    path: str


def split_area(text: str) -> tuple[str, str]:
    """`outputs:a/b` is `a/b` in the outputs; without an area it is the work directory."""
    area, mark, path = text.partition(":")
    if mark and area in AREAS:
        return area, path
    return "work", text


def find(client: Client, show: Show, text: str) -> Place:
    """Where a path of a job lies on this machine; raises when it isn't here or leads outside."""
    area, inner = split_area(text)
    root = root_of(client, show, area)
    path = os.path.realpath(os.path.join(root, inner.lstrip("/")))
    if path != root and not path.startswith(root + os.sep):
        raise usage(
            "files/outside",
            f"`{text}` leads out of the {area} of {show.name}",
            f"paths are relative to {root}",
        )
    if not os.path.lexists(path):
        raise CommandError(
            "files/not-found",
            f"{show.name} has no `{inner}` in its {area}",
            f"stw ls {show.name} {area}:",
            exit_code=3,
        )
    return Place(area, root, path)


def root_of(client: Client, show: Show, area: str) -> str:
    """The folder of an area: told by the server, else the newest run's own."""
    told = {"work": show.work_dir, "outputs": show.output_dir, "checkpoints": show.checkpoint_dir}
    candidates = [told[area]] if told[area] else []
    home = client.server_status().home
    for run in reversed(show.runs):
        candidates += _of_run(home, run, area)
    for candidate in candidates:
        if candidate and os.path.isdir(candidate):
            return os.path.realpath(candidate)
    if not show.runs:
        raise CommandError(
            "files/none",
            f"{show.name} hasn't run yet, so it has no files",
            f"stw explain {show.name}",
            exit_code=3,
        )
    raise CommandError(
        "files/gone",
        f"there is no folder with the {area} of {show.name} on this machine (any more)",
        f"stw show {show.name} says where it ran",
        exit_code=3,
    )


def _of_run(home: str, run: RunView, area: str) -> list[str]:
    """Where a run on the server's own machine has its files, as docs/runtime.md says."""
    runtime = os.path.join(home, "runtime")
    if area == "work":
        packed = sorted(glob(os.path.join(glob_escape(runtime), "work", f"{run.id}.*")))
        return [*reversed(packed), os.path.join(runtime, "runs", run.id, "work")]
    return [os.path.join(runtime, "runs", run.id, area.removesuffix("s"))]
