"""Which machine of a job over several is meant: `--node 1`, or `--node pc02`."""

from collections.abc import Callable
from typing import Any

import click

from stellwerk.cli.completing import complete_own_nodes
from stellwerk.cli.errors import NOT_FOUND, CommandError
from stellwerk.client.wire import Show


def node_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds `--node` to a command."""
    option = click.option(
        "--node",
        metavar="N",
        shell_complete=complete_own_nodes,
        help="On this machine of a job over several: its number (0 has rank 0), or its name.",
    )
    return option(command)


def nodes_of(work: Show) -> list[str]:
    """The machines of the newest run, that of rank 0 first."""
    return list(work.runs[-1].nodes) if work.runs else []


def others_of(work: Show, node: str | None) -> list[str]:
    """Says of a job over several machines, where none is named, whose files these are."""
    names = nodes_of(work)
    if node is not None or len(names) < 2:
        return []
    return [f"these are of {names[0]}; `--node 1` are those of {names[1]}"]


def number_of(work: Show, node: str | None) -> int:
    """The number of a machine by that number or its name; 0 where none is named."""
    if node is None:
        return 0
    names = nodes_of(work)
    if node in names:
        return names.index(node)
    if node.isdecimal() and int(node) < max(1, len(names)):
        return int(node)
    there = ", ".join(f"{number} is {name}" for number, name in enumerate(names))
    raise CommandError(
        "find/node",
        f"{work.name} has no node `{node}`",
        there or f"it hasn't run yet: stw explain {work.name}",
        exit_code=NOT_FOUND,
    )
