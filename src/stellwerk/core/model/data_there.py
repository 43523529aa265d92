"""What travels about models and data sets on machines: where they are, and copies under way."""

from typing import Literal

from msgspec import Struct

CopyState = Literal["waiting", "copying", "done", "failed"]


class DataThere(Struct, frozen=True):
    """A commit in the cache of a machine; ``used_by`` are live workloads there that named it.

    ``whole``: by the list of its files ("proved"), or only because every link leads to a file
    ("links"); "half" lacks something, of which ``lacks`` names the first.
    """

    cluster: str
    node: str
    data: str
    revision: str
    bytes: int | None = None
    missing_bytes: int | None = None
    whole: str = ""
    lacks: str = ""
    place: str = ""
    refs: tuple[str, ...] = ()
    used_by: tuple[str, ...] = ()


class DataCopy(Struct, frozen=True):
    """A copy from one machine to another, as far as it is; ``code`` and what follows say what went
    wrong. Copies are known until the server ends.
    """

    id: int
    data: str
    revision: str
    source: str
    cluster: str
    node: str
    state: CopyState = "waiting"
    done_bytes: int = 0
    total_bytes: int = 0
    began_ms: int = 0
    ended_ms: int = 0
    code: str = ""
    message: str = ""
    help: str = ""
    note: str = ""


class DataList(Struct, frozen=True):
    """All that caches of machines have, and copies of late."""

    items: list[DataThere]
    copies: list[DataCopy] = []


class DataCopies(Struct, frozen=True):
    """Copies that were asked for; none where all of it was there already."""

    items: list[DataCopy]


class StageWish(Struct, frozen=True, forbid_unknown_fields=True):
    """What is to be copied to which machine of a cluster ("" = to all of them).

    ``source`` is a machine (`CLUSTER` or `CLUSTER/NODE`; "" = the best), ``keep_free_bytes`` what
    must stay free on the disk that it comes to (None = a twentieth of it, 50 GB at most).
    """

    data: str
    node: str = ""
    source: str = ""
    keep_free_bytes: int | None = None


class RemoveWish(Struct, frozen=True, forbid_unknown_fields=True):
    """What is to be removed from which machine of a cluster."""

    data: str
    node: str = ""


class DataRemoved(Struct, frozen=True):
    """What was removed, and how much room that made."""

    data: str
    node: str
    freed_bytes: int
