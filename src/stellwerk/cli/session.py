"""What every command starts from: a client, the time, and names to act on."""

import time
from collections.abc import Sequence

from stellwerk.cli.errors import usage
from stellwerk.client.api import Client
from stellwerk.client.wire import Row


def connect(*, start: bool = True) -> Client:
    """A client of the user's server, which is started if need be."""
    return Client(start=start)


def now_ms() -> int:
    """The time at this terminal."""
    return time.time_ns() // 1_000_000


def parse_labels(given: Sequence[str]) -> dict[str, str]:
    """`-l team=vision -l stage=dev`."""
    labels = {}
    for text in given:
        key, mark, value = text.partition("=")
        if not mark or not key:
            raise usage("usage/label", f"`{text}` is no label", "write -l KEY=VALUE")
        labels[key] = value
    return labels


def chosen_names(
    client: Client, names: Sequence[str], labels: Sequence[str], *, everything: bool, phases: str
) -> list[str]:
    """The workloads that a bulk verb is for: named, by label, or all; never none by accident."""
    if sum((bool(names), bool(labels), everything)) != 1:
        raise usage(
            "usage/which",
            "say which workloads: names, or -l KEY=VALUE, or --all",
            "stw ps lists them",
        )
    if names:
        return list(dict.fromkeys(names))
    rows = client.list(labels=parse_labels(labels))
    wanted = phases.split()
    return [row.id for row in rows if not wanted or row.phase in wanted]


def label_of(row: Row) -> str:
    """The name people use for a workload."""
    return row.name or row.id
