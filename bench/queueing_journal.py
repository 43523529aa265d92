"""Journals what comes, starts, is stopped and ends, flushed before anything follows from it."""

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.queueing_shapes import Class
from stellwerk.core.model import events as ev
from stellwerk.core.model.commands import Submit
from stellwerk.core.model.holding import Holding
from stellwerk.core.model.ids import BlobHash, DecisionId, RunId, WorkloadId
from stellwerk.core.model.queueing import QueuedWorkload
from stellwerk.core.model.reasons import Reason
from stellwerk.core.model.resources import Allocation, Alternative, NodeAllocation, Request, Shape
from stellwerk.core.model.workload import RunEnd
from stellwerk.core.queue.outcome import Admitted, Evicted
from stellwerk.core.version import CORE_VERSION
from stellwerk.store import Batch, Store

IN_MEMORY = Path("/dev/shm")
STORES = ("none", "disk", "memory")


@contextmanager
def a_store(where: str, folder: str = "") -> Iterator[Store]:
    """A store of its own: on the disk, or on a file system in memory."""
    if where == "memory" and not os.access(IN_MEMORY, os.W_OK):
        raise SystemExit(f"there is no file system in memory at {IN_MEMORY}")
    within = str(IN_MEMORY) if where == "memory" else folder or None
    home = Path(tempfile.mkdtemp(prefix="stw-bench-", dir=within))
    try:
        with Store.open(home) as store:
            yield store
    finally:
        shutil.rmtree(home)


class Journal:
    """The facts of a run of the reference's rules, one transaction for each cycle."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._epoch = store.raise_epoch(CORE_VERSION, 1)
        self._seq = store.seq()
        self._records: list[ev.Record] = []
        self._runs: dict[str, int] = {}

    def came(self, now_ms: int, workload: QueuedWorkload, kind: Class) -> None:
        """A workload is there."""
        shape = Shape((Alternative(Request(kind.cpus * 1000)),), queue=f"{workload.namespace}/q")
        submit = Submit(
            id=_id(workload.key),
            name=workload.name,
            project=workload.namespace,
            shape=shape,
            task=BlobHash("0" * 64),
            priority=kind.priority,
        )
        self._add(now_ms, ev.Submitted("bench", submit))

    def decided(
        self, now_ms: int, admitted: Iterable[tuple[Admitted, Class]], evicted: Iterable[Evicted]
    ) -> None:
        """Who starts, and who gets notice."""
        for one, kind in admitted:
            number = self._runs[one.key] = self._runs.get(one.key, 0) + 1
            given = Allocation("bench", (NodeAllocation("n", kind.cpus * 1000),))
            amounts = {"cpu": kind.cpus * 1000}
            holding = Holding(one.queue, one.pod_sets[0].flavors, amounts)
            decision = DecisionId(f"d-{one.key}-{number}")
            planned = ev.RunPlanned(
                _id(one.key), self._run(one.key), number, given, decision, holding
            )
            self._add(now_ms, planned)
        for gone in evicted:
            reason = Reason("queue_preempted", {"name": gone.by, "queue": gone.queue})
            self._add(now_ms, ev.NoticeGiven(self._run(gone.key), "preempt", 0, reason))

    def ended(self, now_ms: int, key: str, how: str) -> None:
        """A run is over."""
        self._add(now_ms, ev.RunEnded(self._run(key), RunEnd(how), Reason("ended")))

    def flush(self) -> None:
        """Makes all of it durable."""
        if self._records:
            self._store.append(Batch(self._epoch, tuple(self._records))).result()
            self._records = []

    def _run(self, key: str) -> RunId:
        return RunId(f"{_id(key)}-{self._runs[key]}")

    def _add(self, now_ms: int, event: ev.Event) -> None:
        self._seq += 1
        record = ev.Record(self._seq, now_ms, self._epoch, "bench", "bench", event)
        self._records.append(record)


def _id(key: str) -> WorkloadId:
    return WorkloadId(f"w-{key.replace('/', '.')}")
