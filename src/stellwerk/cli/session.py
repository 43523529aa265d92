"""What every command starts from: a client, the time, and names to act on."""

import contextlib
import os
import time
from collections.abc import Callable, Sequence

import click
import msgspec

from stellwerk.cli.errors import usage
from stellwerk.cli.output import narrate
from stellwerk.client.ahead import Forecast
from stellwerk.client.api import Client
from stellwerk.client.refusals import ApiError
from stellwerk.client.wire import Row
from stellwerk.core.model.errors import StellwerkError

REMEMBERED_S = 5
NAMES = 500


def connect(*, start: bool = True) -> Client:
    """A client of the user's server, which is started if need be; closed with the command."""
    client = Client(start=start)
    client.tell = narrate
    if context := click.get_current_context(silent=True):
        context.call_on_close(client.close)
    return client


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


def forecasts(client: Client, *names: str) -> dict[str, Forecast]:
    """When waiting workloads could start, by id; nothing from a server that can't tell."""
    try:
        expected = client.forecast(*names)
    except ApiError:
        return {}
    return {one.id: one.forecast for one in expected if one.forecast is not None}


def label_of(row: Row) -> str:
    """The name people use for a workload."""
    return row.name or row.id


def complete_names(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Names for a shell's completion; asks a running server only, and remembers for 5 s."""
    names = remembered("names", lambda client: _names_of(client, all=True))
    return [name for name in names if name.startswith(incomplete)]


def complete_live(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Names of what waits or runs, for the verbs that change its course."""
    names = remembered("live", lambda client: _names_of(client, all=False))
    return [name for name in names if name.startswith(incomplete)]


def remembered(what: str, ask: Callable[[Client], list[str]]) -> list[str]:
    """Words for a completion: those of the last 5 s, or of a server that runs; else none."""
    try:
        with connect(start=False) as client:
            path = os.path.join(client.settings.cache, f"{what}.json")
            with contextlib.suppress(OSError, msgspec.MsgspecError):
                if 0 <= time.time() - os.stat(path).st_mtime < REMEMBERED_S:
                    with open(path, "rb") as file:
                        return msgspec.json.decode(file.read(), type=list[str])
            words = ask(client)
    except StellwerkError:
        return []
    with contextlib.suppress(OSError):
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        written = f"{path}.{os.getpid()}"
        with open(written, "wb") as file:
            file.write(msgspec.json.encode(words))
        os.replace(written, path)
    return words


def _names_of(client: Client, *, all: bool) -> list[str]:
    return [row.name for row in client.list(all=all, limit=NAMES)]
