"""`stw ls` and `stw cp`: a job's files."""

import os
import shutil
import stat
import sys

import click
from msgspec import Struct

from stellwerk.cli import family, far_files
from stellwerk.cli.completing import complete_area, complete_file, complete_source
from stellwerk.cli.errors import CommandError, usage
from stellwerk.cli.nodes import node_option, number_of, others_of
from stellwerk.cli.output import Output, list_options, narrate, write_list
from stellwerk.cli.places import NAMES, Place, find
from stellwerk.cli.render.table import Column
from stellwerk.cli.render.units import age, plural, size
from stellwerk.cli.session import complete_names, connect, now_ms
from stellwerk.client.machines import FarFile
from stellwerk.client.wire import Show
from stellwerk.core.model.errors import Problem, StellwerkError


class FileLine(Struct):
    """One entry of a folder; of a link also where it leads."""

    name: str
    kind: str
    size: int
    modified_ms: int
    target: str = ""


@click.command("ls", epilog="Example: stw ls digits outputs:")
@click.argument("name", shell_complete=complete_names)
@click.argument("path", default="", metavar="[PATH]", shell_complete=complete_area)
@node_option
@list_options
def ls(name: str, path: str, node: str | None, output: Output) -> None:
    """List files of a job: in its work directory, or `outputs:PATH`, `checkpoints:PATH`."""
    client = connect()
    show = client.get(name)
    number = number_of(show, node)
    far = far_files.look(client, show, path, number)
    place = find(show, path) if far is None else far.place
    columns: list[Column[FileLine]] = [
        Column("name", "NAME", _shown, lambda line: line.name),
        Column(
            "size",
            "SIZE",
            lambda line: "-" if line.kind == "folder" else size(line.size),
            lambda line: line.size,
            right=True,
        ),
        Column(
            "age",
            "AGE",
            lambda line: age(line.modified_ms, now_ms()),
            lambda line: -line.modified_ms,
            right=True,
        ),
    ]
    lines = _listing(place.path) if far is None else [_far_line(one) for one in far.files]
    write_list(
        lines,
        columns,
        output,
        name=lambda line: line.name,
        empty=f"nothing is in the {NAMES[place.area]} of {show.name}{_inner(place)}",
        then=f"in {place.path}" + (f"   next: {_next(show.name, place, number)}" if lines else ""),
    )
    if output.for_people:
        for line in [*_of_node(show, node, place), *family.later_ones(client, name, show)]:
            narrate(line)


@click.command("cp", epilog="Example: stw cp digits:outputs:model.pkl .")
@click.argument("source", metavar="NAME:PATH", shell_complete=complete_source)
@click.argument("destination", metavar="[DEST]", default=".", shell_complete=complete_file)
@click.option("-f", "--force", is_flag=True, help="Replace files that are there.")
@node_option
def cp(source: str, destination: str, force: bool, node: str | None) -> None:
    """Copy a file or folder of a job here: NAME:PATH, NAME:outputs:PATH, NAME:checkpoints:PATH.

    With `-` as DEST a file goes to standard output.
    """
    name, mark, path = source.partition(":")
    if not mark or not name:
        raise usage("usage/source", f"`{source}` names no job's file", "write NAME:PATH")
    client = connect()
    show = client.get(name)
    far = far_files.look(client, show, path, number_of(show, node))
    place = find(show, path) if far is None else far.place
    if destination == "-":
        _print(place.path) if far is None else far_files.print_file(client, show, far)
        for line in family.later_ones(client, name, show):
            narrate(line)
        return
    own_name = os.path.basename(place.path) if place.path != place.root else place.area
    target = destination
    if os.path.isdir(destination):
        target = os.path.join(destination, own_name)
    if os.path.lexists(target) and not force:
        raise CommandError("files/exists", f"{target} is there already", "replace it with --force")
    count = _copy(place.path, target) if far is None else far_files.fetch(client, show, far, target)
    narrate(f"copied {plural(count, 'file')} to {target}")
    for line in [*_of_node(show, node, place), *family.later_ones(client, name, show)]:
        narrate(line)


def _of_node(show: Show, node: str | None, place: Place) -> list[str]:
    """Whose files these are; checkpoints may come from their home, which is nobody's."""
    return [] if place.area == "checkpoints" else others_of(show, node)


def _print(path: str) -> None:
    try:
        with open(path, "rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)
        sys.stdout.buffer.flush()
    except IsADirectoryError as error:
        message = f"{path} is a folder, and only a file can go to standard output"
        raise usage(
            "usage/destination", message, "name a file in it, or a folder as DEST"
        ) from error


def _inner(place: Place) -> str:
    """The folder in its area, for a sentence about it."""
    return "" if place.path == place.root else f" at {os.path.relpath(place.path, place.root)}"


def _next(name: str, place: Place, node: int) -> str:
    """How to copy from there; from the work directory also where results are."""
    on_node = f" --node {node}" if node else ""
    area = "" if place.area == "work" else f"{place.area}:"
    inner = "" if place.path == place.root else f"{os.path.relpath(place.path, place.root)}/"
    if inner and not os.path.isdir(place.path):
        return f"stw cp {name}:{area}{inner[:-1]} .{on_node}"
    more = f"   or: stw ls {name} outputs:{on_node}" if not area and not inner else ""
    return f"stw cp {name}:{area}{inner}PATH .{on_node}{more}"


def _copy(source: str, target: str) -> int:
    try:
        if not os.path.isdir(source):
            shutil.copy2(source, target)
            return 1
        shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
    except shutil.Error as error:
        # All else was copied: it goes on after each file that it couldn't take.
        raise StellwerkError(_not_copied(error.args[0])) from error
    except RecursionError as error:
        message = f"the folders in {source} are nested too deeply"
        raise CommandError("files/copy", message, "pack them in the job, as with tar") from error
    except OSError as error:
        said = error.strerror or str(error)
        above = os.path.dirname(target)
        remedy = f"mkdir -p {above}" if above and not os.path.isdir(above) else ""
        message = f"{source} can't be copied to {target}: {said}"
        raise CommandError("files/copy", message, remedy) from error
    return sum(len(files) for _, _, files in os.walk(target))


def _not_copied(failed: list[tuple[str, str, str]]) -> list[Problem]:
    return [Problem("files/copy", f"{source} wasn't copied: {why}") for source, _, why in failed]


def _listing(path: str) -> list[FileLine]:
    if not os.path.isdir(path):
        return [_line(path, os.path.basename(path), os.lstat(path))]
    with os.scandir(path) as entries:
        found = [_line(one.path, one.name, one.stat(follow_symlinks=False)) for one in entries]
    return sorted(found, key=lambda line: line.name)


def _far_line(one: FarFile) -> FileLine:
    shown = f"{one.name}/" if one.kind == "folder" else one.name
    return FileLine(shown, one.kind, one.size, one.modified_ms)


def _shown(line: FileLine) -> str:
    return f"{line.name} -> {line.target}" if line.target else line.name


def _line(path: str, name: str, status: os.stat_result) -> FileLine:
    kinds = {stat.S_IFDIR: "folder", stat.S_IFLNK: "link", stat.S_IFREG: "file"}
    kind = kinds.get(stat.S_IFMT(status.st_mode), "special")
    shown = f"{name}/" if kind == "folder" else name
    target = os.readlink(path) if kind == "link" else ""
    return FileLine(shown, kind, status.st_size, status.st_mtime_ns // 1_000_000, target)
