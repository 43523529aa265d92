"""The client: each endpoint of API v1 as a method with typed answers.

    client = Client()
    work = client.submit("train.yaml", env={"EPOCHS": "3"})
    row = client.wait(work.name)
    print(row.phase, b"".join(client.logs(work.name)).decode())

Names may be ids or unique beginnings of ids. Every method raises `ApiError` when the server
refuses (with all problems, and the exit code of a command line), and `UnreachableError` when it
can't be asked. Times are `*_ms` integers UTC; limits that a caller gives are seconds.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Literal, TypeVar, Unpack
from urllib.parse import urlencode

import msgspec

from stellwerk.client.ahead import Calibrated, Expected, Forecasts, Planned, WhatIf
from stellwerk.client.arrays import ArrayCalls
from stellwerk.client.bulk import SHOWN, ChangedMany, Verb, Which
from stellwerk.client.connection import UnreachableError
from stellwerk.client.execs import Execs
from stellwerk.client.explains import ExplainCalls
from stellwerk.client.fleet import Clusters, ClusterView, Resumed
from stellwerk.client.machines import MachineCalls
from stellwerk.client.parts import Query, list_query, new_key, part, with_key
from stellwerk.client.people import PeopleCalls
from stellwerk.client.placements import PlacementCalls
from stellwerk.client.queueing import QueueingCalls
from stellwerk.client.refusals import ApiError
from stellwerk.client.streams import EventReader, LogReader, Retry
from stellwerk.client.wire import (
    Changed,
    EventRecord,
    Events,
    Explained,
    Given,
    Row,
    Rows,
    Show,
    Stream,
    Submission,
    Submitted,
    SubmittedMany,
    Swept,
    Until,
)

if TYPE_CHECKING:
    from stellwerk.client.prepare import Prepared

T = TypeVar("T")
PAGE = 2000
ASK_BLOBS = 100_000
LONG_POLL_MS = 25_000


class Client(
    ArrayCalls, Execs, ExplainCalls, PlacementCalls, QueueingCalls, MachineCalls, PeopleCalls
):
    """A connection to one server, which is started when it is first needed (`start=False`: not)."""

    # submitting

    def submit(
        self, file: str | os.PathLike[str] | None = None, **given: Unpack[Given]
    ) -> Submitted:
        """Submits a task file, the text of one (`text=`), or a command to run in place (`argv=`).

        A `workdir` is packed and sent first: what is submitted is what runs. A work directory of
        more files or bytes than the settings name needs `allow_large`. With the id of a `plan` it
        is refused (exit code 5) when that isn't true any more.
        """
        prepared = self._prepared(file, given)
        prepared.upload(self)
        return self.submit_prepared(prepared.submission)

    def plan(self, file: str | os.PathLike[str] | None = None, **given: Unpack[Given]) -> Planned:
        """Says what `submit` would lead to now; sends no code and changes nothing."""
        return self.plan_prepared(self._prepared(file, given).submission)

    def _prepared(self, file: str | os.PathLike[str] | None, given: Given) -> "Prepared":
        known = Given.__annotations__
        if unknown := ", ".join(sorted(set(given) - known.keys())):
            message = f"{unknown}: not known here; known are {', '.join(known)}"
            raise TypeError(f"{message}; what else a task wants stands in its file or `labels`")
        prepare = import_module("stellwerk.client.prepare")
        overrides = {key: given[key] for key in ("name", "workdir") if given.get(key)}
        argv = given.get("argv")
        wish = prepare.Wish(
            file=None if file is None else os.fspath(file),
            text=given.get("text"),
            argv=None if argv is None else tuple(argv),
            overrides=overrides,
            env=dict(given.get("env") or {}),
            secrets=dict(given.get("secrets") or {}),
            labels=dict(given.get("labels") or {}),
            held=given.get("hold", False),
            key=given.get("key", ""),
            plan=given.get("plan", ""),
            allow_large=given.get("allow_large", False),
            after=tuple(given.get("after") or ()),
            array=given.get("array", ""),
            sweep={k: tuple(map(str, v)) for k, v in (given.get("sweep") or {}).items()},
        )
        prepared: Prepared = prepare.prepare(wish, self.settings)
        return prepared

    def plan_prepared(self, submission: Submission) -> Planned:
        """Plans what is complete already."""
        return self._post("/v1/plan", Planned, submission)

    def submit_prepared(self, submission: Submission) -> Submitted:
        """Submits what is complete already. It gets a key, so a retry doubles nothing."""
        self.offer_runtime()
        patience_s = 600.0 if submission.mounts else None  # buckets are filled before the answer
        return self._post("/v1/workloads", Submitted, with_key(submission), timeout_s=patience_s)

    def rerun(
        self, name: str, *, key: str = "", resume: bool = False, time_limit_ms: int | None = None
    ) -> Submitted:
        """Submits a workload's task again: the same text, code, variables and secrets.

        With `resume` it starts with the last whole checkpoints of the old one. `time_limit_ms`
        takes the place of its time limit (0: none).
        """
        self.offer_runtime()
        body: dict[str, object] = {"key": key or new_key()}
        if resume:
            body["resume"] = True
        if time_limit_ms is not None:
            body["time_limit_ms"] = time_limit_ms
        return self._post(f"/v1/workloads/{part(name)}/rerun", Submitted, body)

    def submit_many(
        self, items: Sequence[Submission] | Submission, count: int | None = None
    ) -> SubmittedMany:
        """Submits many in one call: a list, or `count` times the same; all of them or none.

        The call has one key, so repeating it doubles nothing. Items with keys of their own keep
        them.
        """
        self.offer_runtime()
        body: dict[str, object]
        if isinstance(items, Submission):
            item = msgspec.structs.replace(items, key="")
            body = {"item": item, "count": 1 if count is None else count, "key": items.key}
        else:
            body = {"items": list(items)}
        if isinstance(items, Submission) or not any(item.key for item in items):
            body["key"] = body.get("key") or new_key()
        return self._post("/v1/workloads/batch", SubmittedMany, body, timeout_s=600)

    def missing_blobs(self, hashes: Sequence[str]) -> Sequence[str]:
        """Which of these contents the server doesn't have yet."""
        missing: list[str] = []
        for start in range(0, len(hashes), ASK_BLOBS):
            asked = {"hashes": list(hashes[start : start + ASK_BLOBS])}
            missing += self._post("/v1/blobs/missing", dict[str, list[str]], asked)["missing"]
        return missing

    def put_blob(self, digest: str, data: bytes) -> None:
        """Stores content under its sha256; refused where the two don't belong together."""
        self._send("PUT", f"/v1/blobs/{digest}", data, "application/octet-stream", timeout_s=600)

    def put_blobs(self, contents: Sequence[tuple[str, bytes]]) -> None:
        """Stores many small contents in one request: all are durable then, or none is kept.

        A server of an older version gets them one by one.
        """
        body = b"".join(b"%b %d\n%b" % (hash.encode(), len(data), data) for hash, data in contents)
        try:
            self._send("POST", "/v1/blobs/batch", body, "application/octet-stream", timeout_s=600)
        except ApiError as error:
            if error.code not in {"request/path", "request/method"}:
                raise
            for digest, data in contents:
                self.put_blob(digest, data)

    # looking

    def get(self, name: str) -> Show:
        """Everything about one workload."""
        return self._get(f"/v1/workloads/{part(name)}", Show)

    def list(
        self,
        *,
        all: bool = False,
        phase: str | Sequence[str] | None = None,
        labels: Mapping[str, str] | None = None,
        name: str | None = None,
        owner: str | None = None,
        limit: int | None = None,
    ) -> tuple[Row, ...]:
        """Workloads, newest first; those that have ended only with `all`, or by their `phase`."""
        phases = [phase] if isinstance(phase, str) else phase or ()
        ended = any(one.capitalize() in _REACHED["ended"] for one in phases)
        query = list_query(all=all or ended, phase=phases, labels=labels, name=name, owner=owner)
        return tuple(self.listing(query, limit=limit).items)

    def listing(self, query: Query, *, limit: int | None = None, total: bool = False) -> Rows:
        """What a query finds, read page by page; with `total` also how many there are."""
        found = Rows(next="")
        while found.next is not None and (limit is None or len(found.items) < limit):
            size = PAGE if limit is None else min(PAGE, limit - len(found.items))
            paged = [*query, ("limit", str(size)), *([("after", found.next)] if found.next else [])]
            paged += [("total", "1")] if total and not found.next else []
            page = self._get(f"/v1/workloads?{urlencode(paged)}", Rows)
            found.items += page.items
            found.seq, found.total = page.seq, page.total if not found.next else found.total
            found.next = page.next if page.items else None
        return found

    def wait(self, name: str, until: Until = "ended", timeout_s: float | None = None) -> Row:
        """Waits until a workload has ended (or runs); raises TimeoutError after `timeout_s`."""
        import time

        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        retry = Retry(self)
        while True:
            left_ms = LONG_POLL_MS
            if deadline is not None:
                left_ms = max(0, min(left_ms, int((deadline - time.monotonic()) * 1000)))
            query = urlencode({"until": until, "timeout_ms": left_ms})
            try:
                row = self._get(f"/v1/workloads/{part(name)}/wait?{query}", Row)
            except UnreachableError as error:
                retry.wait(error)
                continue
            retry.progressed()
            if row.phase in _REACHED[until]:
                return row
            if deadline is not None and time.monotonic() >= deadline:
                waited = f"{round(timeout_s or 0, 2):g} s"
                raise TimeoutError(f"{row.name} is {row.phase} after {waited}")

    def explain(self, name: str, run: int | None = None) -> Explained:
        """Why a workload is where it is, or why it waits."""
        query = "" if run is None else f"?run={run}"
        return self._get(f"/v1/workloads/{part(name)}/explain{query}", Explained)

    def forecast(self, *names: str) -> tuple[Expected, ...]:
        """When waiting workloads could start: these, or the first in line."""
        query = urlencode([("workload", name) for name in names])
        return tuple(self._get(f"/v1/forecast?{query}", Forecasts).items)

    def what_if(
        self,
        changes: Sequence[str],
        *,
        text: str = "",
        file: str = "",
        task: Submission | None = None,
    ) -> WhatIf:
        """What changes would do to all live work; ``text`` has objects of queueing as they would
        be, ``task`` is what `submit` stands for. Nothing is changed.
        """
        body = {"changes": list(changes), "text": text, "file": file, "task": task}
        return self._post("/v1/whatif", WhatIf, body)

    def calibration(self) -> dict[str, Calibrated]:
        """How right predicted lengths have been, by what they rested on."""
        return self._get("/v1/forecast", Forecasts).calibration

    def clusters(self) -> tuple[ClusterView, ...]:
        """The fleet, with what is free."""
        return tuple(self._get("/v1/clusters", Clusters).items)

    def logs(
        self,
        name: str,
        *,
        run: int | Literal["all"] | None = None,
        rank: int = 0,
        stream: Stream = "all",
        follow: bool = False,
        offset: int = 0,
    ) -> Iterator[bytes]:
        """The output as raw bytes; with `follow` as it comes, until the run has ended."""
        return iter(
            self.log_reader(name, run=run, rank=rank, stream=stream, follow=follow, offset=offset)
        )

    def log_reader(
        self,
        name: str,
        *,
        run: int | Literal["all"] | None = None,
        rank: int = 0,
        stream: Stream = "all",
        follow: bool = False,
        offset: int = 0,
    ) -> LogReader:
        """Like `logs`, and tells by `offset` how far it has come."""
        return LogReader(self, name, run, rank, stream, follow=follow, offset=offset)

    def events(
        self, *, after: int = 0, follow: bool = False, workload: str | None = None
    ) -> Iterator[EventRecord]:
        """The journal from after a sequence number on; with `follow` it goes on as facts come."""
        if follow:
            return iter(self.event_reader(after=after, workload=workload))
        return self._events_so_far(after, workload)

    def event_reader(self, *, after: int = 0, workload: str | None = None) -> EventReader:
        """Like `events` with `follow`, and can be stopped from another thread."""
        return EventReader(self, after, workload)

    def _events_so_far(self, after: int, workload: str | None) -> Iterator[EventRecord]:
        query = {"workload": workload} if workload else {}
        while True:
            target = f"/v1/events?{urlencode({**query, 'after': after, 'limit': PAGE})}"
            page = self._get(target, Events)
            yield from page.items
            if len(page.items) < PAGE or page.next <= after:
                return
            after = page.next

    # changing course

    def cancel(self, name: str, *, now: bool = False) -> Changed:
        """Ends a workload by notice and grace; `now` leaves both out."""
        return self._verb(name, "cancel", {"now": now})

    def hold(self, name: str) -> Changed:
        """Keeps a waiting workload from starting."""
        return self._verb(name, "hold")

    def release(self, name: str) -> Changed:
        """Lets a held workload start."""
        return self._verb(name, "release")

    def set_priority(self, name: str, priority: int) -> Changed:
        """Gives a waiting workload another priority (-1000 to 1000)."""
        return self._verb(name, "priority", {"priority": priority})

    def change_many(
        self,
        verb: Verb,
        which: Which,
        *,
        now: bool = False,
        priority: int | None = None,
        dry_run: bool = False,
        show: int = SHOWN,
        key: str = "",
    ) -> ChangedMany:
        """Does it to many in one request: all of it is durable together; lists the first `show`.

        `now` is for cancel, `priority` for priority. The same `key` does it once.
        """
        body = {"verb": verb, **msgspec.to_builtins(which), "dry_run": dry_run, "show": show}
        body |= {"now": True} if now else {}
        body |= {} if priority is None else {"priority": priority}
        return self._order("/v1/workloads/change", ChangedMany, body, key=key, timeout_s=600)

    def move(self, name: str, cluster: str, node: str = "") -> Changed:
        """Has what runs save and go on at another place."""
        return self._verb(name, "move", {"cluster": cluster, "node": node})

    def declare_lost(self, name: str) -> Changed:
        """Says that a run on an unreachable machine is over, so that it may be replaced."""
        return self._verb(name, "lost")

    def resume_node(self, cluster: str, node: str) -> Resumed:
        """Takes a quarantined node back into use."""
        target = f"/v1/clusters/{part(cluster)}/nodes/{part(node)}/resume"
        return self._order(target, Resumed)

    def gc(
        self, *, dry_run: bool = False, older_than_s: float | None = None, only: Sequence[str] = ()
    ) -> Swept:
        """Removes what is kept too long; `dry_run` says what that would be.

        An age counts for runs, or for the kinds that `only` names.
        """
        body: dict[str, object] = {"dry_run": dry_run, "only": list(only)}
        if older_than_s is not None:
            body["older_than_ms"] = int(older_than_s * 1000)
        return self._post("/v1/gc", Swept, body, timeout_s=600)

    def stop_server(self) -> None:
        """Ends the server; jobs go on and are found again by the next one."""
        self._send("POST", "/v1/server/stop", b"{}")

    def _verb(self, name: str, verb: str, body: object = None) -> Changed:
        return self._order(f"/v1/workloads/{part(name)}/{verb}", Changed, body)


_REACHED: dict[Until, tuple[str, ...]] = {
    "ended": ("Succeeded", "Failed", "Cancelled"),
    "running": ("Running", "Stopping", "Succeeded", "Failed", "Cancelled"),
}
