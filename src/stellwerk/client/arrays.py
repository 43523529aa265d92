"""The client's part for arrays: many workloads of one task under one name."""

import time
from collections.abc import Sequence
from urllib.parse import urlencode

from msgspec import Struct

from stellwerk.client.connection import UnreachableError
from stellwerk.client.parts import list_query, part
from stellwerk.client.refusals import ApiError
from stellwerk.client.requests import Requests
from stellwerk.client.wire import Row, Rows
from stellwerk.core.model.gates import ARRAY_LABEL

LONG_POLL_MS = 25_000
ARRAY = "array"
"""The kind of a line that stands for all elements of an array."""


class ArrayView(Struct):
    """An array with its elements counted by phase; a `limit` of 0 lets all be under way."""

    id: str
    name: str
    project: str = ""
    owner: str = ""
    count: int = 0
    limit: int = 0
    phases: dict[str, int] = {}
    over: bool = False
    queue: str = ""
    priority: int = 0
    submitted_ms: int = 0
    wants: str = ""


class Arrays(Struct):
    """A list of arrays, the newest first."""

    items: list[ArrayView] = []
    seq: int = 0


class ArrayCalls(Requests):
    """What can be asked about arrays."""

    def arrays(self, *, all: bool = False) -> Sequence[ArrayView]:
        """Arrays, newest first; those that are over only with `all`."""
        return self._get(f"/v1/arrays?{urlencode({'all': int(all)})}", Arrays).items

    def array(self, name: str) -> ArrayView | None:
        """The array of a name; None where there is none."""
        try:
            return self._get(f"/v1/arrays/{part(name)}", ArrayView)
        except ApiError as error:
            if error.code in {"find/workload", "request/path"}:
                return None
            raise

    def elements(self, name: str, *, all: bool = True, limit: int | None = None) -> Sequence[Row]:
        """The elements of an array, by their index; with a `limit` only the last so many."""
        query = list_query(all=all, labels={ARRAY_LABEL: name})
        found: list[Row] = []
        after: str | None = ""
        while after is not None and (limit is None or len(found) < limit):
            size = 2000 if limit is None else limit - len(found)
            paged = [*query, ("limit", str(size)), *([("after", after)] if after else [])]
            page = self._get(f"/v1/workloads?{urlencode(paged)}", Rows)
            found += page.items
            after = page.next if page.items else None
        return found[::-1]

    def wait_array(self, name: str, timeout_s: float | None = None) -> ArrayView:
        """Waits until all elements have ended; raises TimeoutError after `timeout_s`."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            left = self.elements(name, all=False, limit=1)
            if not left:
                found = self.array(name)
                assert found is not None
                return found
            wait_ms = LONG_POLL_MS
            if deadline is not None:
                wait_ms = max(0, min(wait_ms, int((deadline - time.monotonic()) * 1000)))
            query = urlencode({"until": "ended", "timeout_ms": wait_ms})
            try:
                row = self._get(f"/v1/workloads/{left[0].id}/wait?{query}", Row)
            except UnreachableError:
                time.sleep(0.1)
                self.ensure_server()
                continue
            if not row.ended and deadline is not None and time.monotonic() >= deadline:
                raise TimeoutError(f"{row.name} is {row.phase} after {timeout_s:g} s")
