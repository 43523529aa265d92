"""`stw apply`, `get`, `diff` and `delete`: objects of fleets and queueing, as kubectl has them."""

from collections.abc import Iterator
from contextlib import contextmanager

import click

from stellwerk.cli.completing import complete_file
from stellwerk.cli.errors import FAILED, USAGE, CommandError, StopError, usage
from stellwerk.cli.kinds import PLACEMENT, Named, kinds_of, named, wanted_of
from stellwerk.cli.output import (
    Output,
    list_options,
    narrate,
    one_options,
    write_data,
    write_lines,
    write_list,
    write_one,
)
from stellwerk.cli.reading import STDIN, text_of
from stellwerk.cli.render import objects as render
from stellwerk.cli.render.placement import applied_lines, in_short, names
from stellwerk.cli.render.units import plural
from stellwerk.cli.session import connect, now_ms, remembered
from stellwerk.client.api import Client
from stellwerk.client.placements import Applied, PlacementRow
from stellwerk.client.queueing import ObjectChange
from stellwerk.client.refusals import ApiError

EMPTIED = "placement/emptied"
NOTES = 10
FILE = click.option(
    "-f",
    "--file",
    "files",
    multiple=True,
    required=True,
    metavar="FILE",
    shell_complete=complete_file,
    help="Objects in YAML or JSON, - for standard input. May be given several times.",
)
NAMESPACE = click.option(
    "-n", "--namespace", default="", metavar="NAMESPACE", help="Of kinds that have one."
)


def complete_kinds(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Kinds, and then the names of that kind."""
    from stellwerk.cli.kinds import ALIASES

    given = ctx.params.get("words") or ()
    if not given:
        return [one[0] for one in ALIASES.values() if one[0].startswith(incomplete)]
    kinds = kinds_of(given[0])
    found = remembered("objects", lambda client: [
        f"{one.kind} {one.name}" for one in client.queue_objects().items
    ])  # fmt: skip
    pairs = (one.split(" ", 1) for one in found)
    return [name for kind, name in pairs if kind in kinds and name.startswith(incomplete)]


@click.command("apply", epilog="Example: stw apply -f queues.yaml --dry-run")
@FILE
@click.option("--as", "name", default="", metavar="NAME", help="What a fleet file is known by.")
@click.option("--dry-run", is_flag=True, help="Say what would change and follow; change nothing.")
@one_options
def apply(files: tuple[str, ...], name: str, dry_run: bool, output: Output) -> None:
    """Take over the objects of files: queues, cohorts, flavors, placements, clusters.

    An object of queueing takes the place of the one of its kind and name. What a file says of
    clusters takes the place of what the file of that name said before. With one fault nothing of
    any file is taken over.
    """
    apply_files(files, name, output, dry_run=dry_run, then="stw apply")


def apply_files(
    files: tuple[str, ...], name: str, output: Output, *, dry_run: bool, then: str
) -> None:
    """Applies files; of several, none if the server refuses one of them."""
    if name and len(files) > 1:
        raise usage("usage/as", "--as names one file", "apply them one by one")
    texts = [(file, text_of(file)) for file in files]
    client = connect()
    with _nothing_changed():
        if len(texts) > 1 and not dry_run:
            for file, text in texts:
                _send(client, file, text, name, dry_run=True)
        found = [_send(client, file, text, name, dry_run=dry_run) for file, text in texts]
    if output.for_people:
        for applied in found:
            _tell_notices(applied)
    if len(found) == 1 or output.for_people:
        for applied in found:
            lines = lines_of(applied)
            write_one(applied, lines, output, name=applied.name)
    else:
        from msgspec import to_builtins

        write_data([to_builtins(applied) for applied in found], output.format)
    if output.for_people:
        narrate(_next(found, files, dry_run=dry_run, then=then))


def lines_of(applied: Applied) -> list[str]:
    """Everything that a file changed, or would change."""
    lines = render.change_lines(applied.objects, dry_run=applied.dry_run)
    of_fleet = applied.clusters or applied.added or applied.removed or applied.changed
    if of_fleet or applied.placements or applied.moved or not applied.objects:
        lines += applied_lines(applied)
    if applied.consequences is not None:
        lines += ["", *render.consequence_lines(applied.consequences)]
    return lines


def _next(found: list[Applied], files: tuple[str, ...], *, dry_run: bool, then: str) -> str:
    if dry_run:
        return f"next: {then} {' '.join(f'-f {file}' for file in files)}"
    if any(one.objects for one in found):
        return "next: stw quota, or: stw queues"
    return "next: stw placement, or: stw clusters"


@contextmanager
def _nothing_changed() -> Iterator[None]:
    try:
        yield
    except ApiError as error:
        if error.exit_code == USAGE:
            narrate("nothing was changed")
        raise


def _send(client: Client, file: str, text: str, name: str, *, dry_run: bool) -> Applied:
    shown = "" if file == STDIN else file
    return client.apply_fleet(text, file=shown, name=name, dry_run=dry_run)


def _tell_notices(applied: Applied) -> None:
    for notice in applied.notices[:NOTES]:
        word = "warning" if notice.code == EMPTIED else "note"
        place = f"line {notice.line}: " if notice.line else ""
        help = f"; {notice.help}" if notice.help else ""
        narrate(f"{word}: {place}{notice.message}{help}")
    left = len(applied.notices) - NOTES
    if left > 0:
        narrate(f"note: and {plural(left, 'note')} more: -o json has all")


@click.command("diff", epilog="Example: stw diff -f queues.yaml")
@FILE
@one_options
def diff(files: tuple[str, ...], output: Output) -> None:
    """Say how what files say differs from what there is. Exit code 1 if it differs, else 0.

    Objects of queueing as a diff of their YAML, clusters and placements in words.
    """
    client = connect()
    found = [_send(client, file, text_of(file), "", dry_run=True) for file in files]
    if output.for_people:
        for applied in found:
            _tell_notices(applied)
            write_lines([*render.diff_lines(applied.objects), *_fleet_differs(applied)])
    else:
        from msgspec import to_builtins

        write_data([to_builtins(applied) for applied in found], output.format)
    if any(_differs(applied) for applied in found):
        raise StopError(FAILED)


def _fleet_differs(applied: Applied) -> list[str]:
    changed = [one for one in applied.placements if one.change != "same"]
    if not (changed or applied.added or applied.changed or applied.removed):
        return []
    applied.placements = changed
    return applied_lines(applied)


def _differs(applied: Applied) -> bool:
    objects = any(one.change != "unchanged" for one in applied.objects)
    return objects or bool(_fleet_differs(applied))


@click.command("get", epilog="Example: stw get cq   or: stw get all -o yaml")
@click.argument("words", nargs=-1, metavar="[KIND [NAME]...]", shell_complete=complete_kinds)
@NAMESPACE
@list_options
def get(words: tuple[str, ...], namespace: str, output: Output) -> None:
    """List objects of a kind, or show some; -o yaml gives them to be applied again.

    Kinds are resourceflavor (rf), clusterqueue (cq), cohort, localqueue (lq), priorityclass,
    topology, namespace, configuration, placement, and all. Without one it is said what there is.
    """
    client = connect()
    if not words:
        _counts(client, output)
        return
    kinds, wanted = wanted_of(words)
    lines = _chosen(client, kinds, wanted, namespace)
    if output.format in {"yaml", "json", "jsonl"}:
        write_data(_as_kubectl([_whole(client, one) for one in lines], wanted), output.format)
        return
    write_list(
        lines,
        render.columns(now_ms(), kinds=len({one.kind for one in lines}) > 1),
        output,
        name=lambda one: f"{one.kind.lower()}/{one.path}",
        empty=f"there is no {' and no '.join(kinds[:3])}" if len(kinds) < 4 else "there is nothing",
        then="next: stw get KIND NAME -o yaml, or: stw apply -f FILE",
    )


def _counts(client: Client, output: Output) -> None:
    counts = dict(client.queue_objects().counts)
    if placements := len(client.placements()):
        counts[PLACEMENT] = placements
    lines = [f"{kind}\t{count}" for kind, count in sorted(counts.items())]
    write_one(counts, lines or ["no object has been applied"], output)
    if output.for_people:
        narrate("next: stw get KIND, or: stw apply -f FILE")


def _chosen(
    client: Client, kinds: list[str], wanted: list[str], namespace: str
) -> list[render.Line]:
    """The lines of all that is asked for; raises for a name that isn't there."""
    everything = [one for kind in kinds for one in _lines(client, kind, namespace)]
    if not wanted:
        return everything
    found: list[render.Line] = []
    for name in wanted:
        of_name = [one for one in everything if one.path == named(one.kind, name, namespace).path]
        if not of_name:
            _refuse(client, kinds, name, namespace)
        found += of_name
    return found


def _refuse(client: Client, kinds: list[str], name: str, namespace: str) -> None:
    """Says that an object isn't there, as the server does."""
    one = named(kinds[0], name, namespace)
    if one.kind == PLACEMENT:
        client.placement(one.path)
    else:
        client.queue_objects(one.kind, one.name, one.namespace)


def _lines(client: Client, kind: str, namespace: str) -> list[render.Line]:
    if kind != PLACEMENT:
        return [render.line_of(one) for one in client.queue_objects(kind, "", namespace).items]
    return [
        _placement_line(one)
        for one in client.placements()
        if not namespace or one.namespace == namespace
    ]


def _placement_line(one: PlacementRow) -> render.Line:
    about = f"{in_short(one.conditions)}: {names(one.clusters)}"
    applied = one.applied_ms
    return render.Line(PLACEMENT, one.key, about, one.by, applied, applied, 0, {})


def _whole(client: Client, one: render.Line) -> dict[str, object]:
    return client.placement(one.path).object if one.kind == PLACEMENT else one.whole


def _as_kubectl(found: list[dict[str, object]], wanted: list[str]) -> object:
    """One object that was named is itself, else there is a list of them."""
    if len(wanted) == 1 and len(found) == 1:
        return found[0]
    return {"apiVersion": "v1", "kind": "List", "items": found}


@click.command("delete", epilog="Example: stw delete clusterqueue vision   or: -f queues.yaml")
@click.argument("words", nargs=-1, metavar="[KIND NAME...]", shell_complete=complete_kinds)
@click.option("-f", "--file", "files", multiple=True, metavar="FILE", shell_complete=complete_file,
              help="The objects of this file, - for standard input.")  # fmt: skip
@click.option("--force", is_flag=True, help="Also what other objects or live work need.")
@click.option("--dry-run", is_flag=True, help="Say what would go, and who needs it.")
@NAMESPACE
@one_options
def delete(
    words: tuple[str, ...],
    files: tuple[str, ...],
    force: bool,
    dry_run: bool,
    namespace: str,
    output: Output,
) -> None:
    """Delete objects, all or none. What is in use is refused, with who needs it.

    With --force, what runs goes on to its end, and what waits is blocked until its queue is there
    again.
    """
    client = connect()
    chosen = _named_in(client, words, files, namespace)
    placements = [one for one in chosen if one.kind == PLACEMENT]
    keys = [(one.kind, one.namespace, one.name) for one in chosen if one.kind != PLACEMENT]
    for one in placements:
        client.placement(one.path)
    told = client.delete_queue_objects(keys, force=force, dry_run=dry_run)
    for one in placements:
        if not dry_run:
            client.delete_placement(one.path)
    told.objects += [ObjectChange(o.kind, o.name, o.namespace, "deleted") for o in placements]
    if output.for_people:
        for line in render.use_lines(told.uses):
            narrate(f"note: {line}")
    lines = render.change_lines(told.objects, dry_run=dry_run)
    if told.consequences is not None:
        lines += ["", *render.consequence_lines(told.consequences)]
    write_one(told, lines, output, name="\n".join(map(render.path_of, told.objects)))


def _named_in(
    client: Client, words: tuple[str, ...], files: tuple[str, ...], namespace: str
) -> list[Named]:
    """The objects that are named by words or by files."""
    if bool(words) == bool(files):
        raise usage("usage/delete", "name what to delete: KIND NAME, or -f FILE")
    if files:
        return [one for file in files for one in _in_file(client, file)]
    kinds, wanted = wanted_of(words)
    if not wanted:
        raise usage("usage/delete", "the name of an object is missing", "write KIND NAME")
    if len(kinds) == 1:
        return list(dict.fromkeys(named(kinds[0], name, namespace) for name in wanted))
    lines = _chosen(client, kinds, wanted, namespace)
    return [named(one.kind, one.path, namespace) for one in lines]


def _in_file(client: Client, file: str) -> list[Named]:
    """What of a file is there; clusters are declared by files, and aren't objects by themselves."""
    applied = _send(client, file, text_of(file), "", dry_run=True)
    found = [
        Named(one.kind, one.namespace, one.name)
        for one in applied.objects
        if one.change != "created"
    ]
    found += [named(PLACEMENT, one.key, "") for one in applied.placements if one.change != "new"]
    if not found:
        raise CommandError("find/object", f"nothing of {file} is there", "`stw get all` lists all")
    return found
