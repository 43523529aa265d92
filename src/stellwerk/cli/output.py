"""Writes lists and single answers in the format that was asked for.

`table` and `wide` are for people; `json`, `jsonl` and `yaml` carry the fields of API v1, `name` one
name per line. Data goes to stdout; the next useful command is narration and goes to stderr.
"""

import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import click
import msgspec

from stellwerk.cli.errors import usage
from stellwerk.cli.render.table import Column, table
from stellwerk.cli.terminal import Terminal, terminal_of

FORMATS = ("table", "wide", "json", "jsonl", "yaml", "name")
SCREENFUL = 100
"""So many lines of a list a person is shown at once, if not asked for more."""

T = TypeVar("T")
Command = TypeVar("Command", bound=Callable[..., Any])


class Output(NamedTuple):
    """How an answer is written."""

    format: str = "table"
    columns: tuple[str, ...] = ()
    sort: str = ""
    headers: bool = True
    ascii_only: bool = False

    @property
    def for_people(self) -> bool:
        """Whether a person reads it."""
        return self.format in {"table", "wide"}

    def terminal(self) -> Terminal:
        """What stdout can show."""
        return terminal_of(sys.stdout, ascii_only=self.ascii_only)


def list_options(command: Command) -> Command:
    """Adds `-o`, `--columns`, `--sort`, `--no-headers`, `--ascii`, gathered as `output`."""
    return _gathering(command, lists=True)


def limit_option(command: Command) -> Command:
    """Adds `--limit`; `most_of` says what it comes to."""
    return click.option(
        "--limit",
        type=click.IntRange(0),
        metavar="N",
        help=f"At most so many; 0 for all. On a terminal {SCREENFUL} if not said.",
    )(command)


def most_of(limit: int | None, output: Output) -> int | None:
    """How many to list: what was asked for, all that there are to a program, some to a person."""
    if limit is not None:
        return limit or None
    return SCREENFUL if output.for_people and output.terminal().is_tty else None


def one_options(command: Command) -> Command:
    """Adds `-o` and `--ascii`, gathered as `output`."""
    return _gathering(command, lists=False)


def _gathering(command: Command, *, lists: bool) -> Command:
    from functools import wraps

    @wraps(command)
    def with_output(
        output_format: str | None,
        ascii_only: bool,
        columns: str = "",
        sort: str = "",
        no_headers: bool = False,
        **rest: Any,
    ) -> Any:
        chosen = output_format or default_format()
        wanted = tuple(filter(None, (name.strip().lower() for name in columns.split(","))))
        return command(output=Output(chosen, wanted, sort, not no_headers, ascii_only), **rest)

    decorated: Any = with_output
    decorators = [
        click.option(
            "-o",
            "output_format",
            type=click.Choice(FORMATS),
            default=None,
            help="table (default), wide, json, jsonl, yaml or name.",
            metavar="FORMAT",
        ),
        click.option("--ascii", "ascii_only", is_flag=True, help="Draw with plain characters."),
    ]
    if lists:
        decorators += [
            click.option("--columns", default="", metavar="A,B", help="Only these columns."),
            click.option(
                "--sort", default="", metavar="[-]COLUMN", help="Order; - for descending."
            ),
            click.option("--no-headers", is_flag=True, help="No line of headers."),
        ]
    for decorator in reversed(decorators):
        decorated = decorator(decorated)
    return decorated  # type: ignore[no-any-return]


def default_format() -> str:
    """The user's usual format."""
    from stellwerk.config import load

    chosen = load().text("output")
    if chosen not in FORMATS:
        raise usage("config/value", f"`output` is `{chosen}`", f"it can be: {', '.join(FORMATS)}")
    return chosen


def write_list(
    items: Sequence[T],
    columns: Sequence[Column[T]],
    output: Output,
    *,
    name: Callable[[T], str],
    empty: str = "",
    then: str = "",
    most: int | None = None,
    total: int | None = None,
    rest: str = "",
) -> None:
    """Writes a list; `empty` is said when there is nothing, `then` names the next command.

    At `most` so many are written; of `total` it is said how many are left, and that `rest` lists
    them.
    """
    items = _sorted(items, columns, output.sort)[:most]
    if output.for_people:
        shown = _chosen(columns, output)
        if items or not empty:
            cut = output.format == "table"
            lines = table(shown, items, output.terminal(), headers=output.headers, cut=cut)
            write_lines(lines)
        left = (total or 0) - len(items)
        more = f"{'…' if output.terminal().unicode else '...'} and {left:,} more: {rest}"
        for line in filter(None, (empty if not items else "", more if left > 0 else "", then)):
            narrate(line)
    elif output.format == "name":
        write_lines([name(item) for item in items])
    else:
        write_data([_fields(item, output.columns) for item in items], output.format)


def write_one(item: object, lines: Sequence[str], output: Output, *, name: str = "") -> None:
    """Writes a single answer: the lines for people, else its fields."""
    if output.for_people:
        write_lines(lines)
    elif output.format == "name":
        write_lines([name])
    else:
        write_data(msgspec.to_builtins(item), output.format)


def write_data(value: Any, format: str) -> None:
    """Writes plain values as JSON, JSON lines or YAML."""
    if format == "jsonl":
        for item in value if isinstance(value, list) else [value]:
            write_lines([msgspec.json.encode(item).decode()])
    elif format == "yaml":
        write_lines([msgspec.yaml.encode(value).decode().rstrip("\n")])
    else:
        write_lines([msgspec.json.format(msgspec.json.encode(value), indent=2).decode()])


def write_lines(lines: Sequence[str]) -> None:
    """Writes lines to stdout."""
    if lines:
        sys.stdout.write("\n".join(lines) + "\n")


def narrate(line: str) -> None:
    """Says a line on stderr, after what stdout holds."""
    sys.stdout.flush()
    terminal = terminal_of(sys.stderr)
    print(terminal.style(line, "faint"), file=sys.stderr)


def _chosen(columns: Sequence[Column[T]], output: Output) -> list[Column[T]]:
    if not output.columns:
        return [column for column in columns if output.format == "wide" or not column.wide]
    chosen = [_named(columns, key) for key in output.columns]
    known = ", ".join(column.key for column in columns)
    for key, column in zip(output.columns, chosen, strict=True):
        if column is None:
            raise usage("usage/columns", f"there is no column `{key}`", f"there are: {known}")
    return [column for column in chosen if column is not None]


def _named(columns: Sequence[Column[T]], key: str) -> Column[T] | None:
    """The column of this key, or with this header."""
    by_header = (column for column in columns if column.header.lower() == key)
    return next((column for column in columns if column.key == key), next(by_header, None))


def _sorted(items: Sequence[T], columns: Sequence[Column[T]], sort: str) -> Sequence[T]:
    if not sort:
        return items
    key = sort.removeprefix("-").lower()
    found = _named(columns, key)
    if found is not None:
        cell = found.cell
        by = found.sort or (lambda row: str(cell(row)))
        return sorted(items, key=by, reverse=sort.startswith("-"))
    known = ", ".join(column.key for column in columns)
    raise usage("usage/sort", f"there is no column `{key}` to sort by", f"there are: {known}")


def _fields(item: object, wanted: Sequence[str]) -> Any:
    fields = item._asdict() if hasattr(item, "_asdict") else msgspec.to_builtins(item)
    return {key: fields.get(key) for key in wanted} if wanted else fields
