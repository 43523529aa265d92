"""What travels when one request changes the course of many workloads."""

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

from stellwerk.client.wire import Changed

Verb = Literal["cancel", "hold", "release", "priority"]
SHOWN = 20


class Which(Struct, frozen=True):
    """Which workloads: `names`, patterns too; or all to which a verb applies, less by filters."""

    names: Sequence[str] = ()
    all: bool = False
    labels: Mapping[str, str] = {}
    phases: Sequence[str] = ()
    owner: str = ""


class RefusedOne(Struct):
    """A name to which it couldn't be done; `exit` is the exit code of a command line."""

    name: str
    code: str = ""
    message: str = ""
    help: str = ""
    exit: int = 1


class ChangedMany(Struct):
    """How many it was done to, the phases they are in now, and the first of them."""

    verb: str
    count: int
    phases: dict[str, int] = {}
    items: list[Changed] = []
    refused: list[RefusedOne] = []
    dry_run: bool = False
    repeated: bool = False
    seq: int = 0
