"""Finds a job's files: its work directory, its outputs, its checkpoints.

`NAME:path` is in the work directory, `NAME:outputs:path` in the outputs, `NAME:checkpoints:path` in
the checkpoints. A path can't leave its area, not even through a link.
"""

import os
from typing import NamedTuple

from stellwerk.cli.errors import NOT_FOUND, CommandError, usage
from stellwerk.client.wire import Show

AREAS = ("work", "outputs", "checkpoints")
NAMES = {"work": "work directory", "outputs": "outputs", "checkpoints": "checkpoints"}


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


def find(show: Show, text: str) -> Place:
    """Where a path of a job lies on this machine; raises when it isn't here or leads outside."""
    area, inner = split_area(text)
    root = root_of(show, area)
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
            f"{show.name} has no `{inner}` in its {NAMES[area]}",
            f"stw ls {show.name} {inner if inner in AREAS else area}:",
            exit_code=NOT_FOUND,
        )
    return Place(area, root, path)


def root_of(show: Show, area: str) -> str:
    """The folder of an area of the newest run; raises where there is none on this machine."""
    told = {"work": show.work_dir, "outputs": show.output_dir, "checkpoints": show.checkpoint_dir}
    folder = told[area]
    if folder and os.path.isdir(folder):
        return os.path.realpath(folder)
    if not show.runs:
        raise CommandError(
            "files/none",
            f"{show.name} hasn't run yet, so it has no files",
            f"stw explain {show.name}",
            exit_code=NOT_FOUND,
        )
    raise CommandError(
        "files/gone",
        f"there is no folder with the {area} of {show.name} on this machine (any more)",
        f"stw show {show.name} says where it ran",
        exit_code=NOT_FOUND,
    )
