"""Whatever is stored and set: what is kept can be used, and what lives is kept."""

import asyncio
import hashlib
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stellwerk.config import load
from stellwerk.core.model import events as ev
from stellwerk.core.model.commands import Submit
from stellwerk.core.model.decisions import Decision, Inputs
from stellwerk.core.model.ids import BlobHash, DecisionId, ShapeId, WorkloadId, digest
from stellwerk.core.model.task import Task
from stellwerk.core.model.workload import ENDED, Phase, Run, Workload
from stellwerk.drivers.base import MountOrder
from stellwerk.engine.clock import SystemClock
from stellwerk.engine.loop import Engine
from stellwerk.engine.orders import Launch
from stellwerk.server.services import Identity, Services
from stellwerk.server.tidying.keeper import Keeper
from stellwerk.server.tidying.tally import Swept
from stellwerk.store import Batch, NewCommand, Store, StoreError, WorkloadFilter
from stellwerk.testing.builders import a_cluster, a_shape, an_allocation
from tests.server.tidying.attic import DAY_MS, TidyDriver, age_all

NOW = 2_000_000_000_000
FILES = [f"file {n}".encode() for n in range(4)]
SHAPE = ShapeId(digest(a_shape()))


class Made(NamedTuple):
    """One workload to be: its phase, how long ago it ended, and what it refers to."""

    phase: Phase
    days: int
    files: tuple[int, ...]
    mounted: tuple[int, ...]
    secrets: tuple[int, ...]
    has_run: bool
    in_inbox: bool


made = st.builds(
    Made,
    phase=st.sampled_from(("Pending", "Running", "Succeeded", "Failed", "Cancelled")),
    days=st.integers(0, 90),
    files=st.lists(st.integers(0, 3), max_size=3).map(tuple),
    mounted=st.lists(st.integers(0, 3), max_size=2).map(tuple),
    secrets=st.lists(st.integers(0, 3), max_size=2).map(tuple),
    has_run=st.booleans(),
    in_inbox=st.booleans(),
)


class Fixed(SystemClock):
    """A time that stands still."""

    def now_ms(self) -> int:
        return NOW


class House:
    """A store with workloads, and a cluster with what they left."""

    def __init__(self, home: Path, given: list[Made]) -> None:
        self.store = Store.open(home / "state")
        self.store.reserve_bytes = self.store.blobs.reserve_bytes = 0
        self.driver = TidyDriver()
        self.epoch = self.store.raise_epoch("1")
        rows = [self._workload(number, one) for number, one in enumerate(given)]
        inputs = Inputs(SHAPE, {}, 1, 0, "1")
        names = {name for row in rows for name in _decisions(row)} | {f"d-{'f' * 16}"}
        record = ev.Record(1, 100, self.epoch, "engine", "", ev.LeaderChanged(self.epoch, "1"))
        self.store.append(
            Batch(
                self.epoch,
                records=(record,),
                workloads=[row for row, one in zip(rows, given, strict=True) if not one.in_inbox],
                shapes={SHAPE: a_shape()},
                decisions=[(Decision(DecisionId(name), inputs, ()), 1) for name in sorted(names)],
                clusters=[(a_cluster("lab"), 1)],
            )
        ).result()
        for row, one in zip(rows, given, strict=True):
            if one.in_inbox:
                submit = Submit(row.id, row.name, "default", a_shape(), row.task, row.snapshot)
                self.store.put_commands([NewCommand("ada", "default", "", submit)], 1).result()
        age_all(home / "state" / "blobs")

    def _workload(self, number: int, one: Made) -> Workload:
        """Stores what a workload refers to; gives its row."""
        id = WorkloadId(f"w-{number:013d}")
        names = {f"S{i}": f"sealed/{hashlib.sha256(b'%d' % i).hexdigest()}" for i in one.secrets}
        for name in names.values():
            self.store.secrets.put("default", "ada", name, "value", 1)
        mount = self._manifest(one.mounted) if one.mounted else ""
        launch = Launch(
            task=Task(run=f"echo {number % 3}"),
            secrets=names,
            mounts=(MountOrder("/data", snapshot=mount),) if mount else (),
        )
        task = self.store.blobs.put(msgspec.json.encode(launch))
        ended_ms = NOW - one.days * DAY_MS if one.phase in ENDED else 0
        runs: tuple[Run, ...] = ()
        if one.has_run:
            decision = DecisionId(f"d-{number:016x}")
            run = Run(f"{id}-1", 1, 1, an_allocation(), decision, 1)  # type: ignore[arg-type]
            ended = one.phase != "Running"
            runs = (msgspec.structs.replace(run, phase="Ended" if ended else "Running"),)
            if not one.in_inbox:
                self.driver.runs[run.id] = 10
        return Workload(
            id=id, name=f"job-{number}", project="default", owner="ada", shape=SHAPE,
            task=BlobHash(task), submitted_ms=1, order=number + 1, phase=one.phase,
            snapshot=self._manifest(one.files) if one.files else "", runs=runs,
            decision=runs[0].decision if runs else "", ended_ms=ended_ms,
        )  # fmt: skip

    def _manifest(self, files: tuple[int, ...]) -> str:
        entries = [
            {"path": str(i), "hash": self.store.blobs.put(FILES[i]), "size": 6}
            for i in dict.fromkeys(files)
        ]
        return self.store.blobs.put(msgspec.json.encode({"v": 1, "files": entries}))

    def sweep(self, **keep: int) -> Swept:
        """Sweeps with these settings."""
        env = {f"STELLWERK_KEEP_{name.upper()}": str(value) for name, value in keep.items()}
        chosen = load({"HOME": "/nowhere", **env})
        identity = Identity(1, "1", 1, "", "")

        async def sweep() -> Swept:
            engine = Engine(self.store, [self.driver], Fixed())
            services = Services(identity=identity, store=self.store, engine=engine, clock=Fixed())
            return await Keeper(services, lambda: chosen).sweep(dry_run=False)

        return asyncio.run(sweep())

    def rows(self) -> dict[str, Workload]:
        found = self.store.workloads(WorkloadFilter(live=False))
        return {row.workload.id: row.workload for row in found}

    def check_usable(self, task: str, snapshot: str) -> set[str]:
        """All that a run would need is there and whole; gives the hashes of it."""
        launch = msgspec.json.decode(self.store.blobs.get(task, verify=True), type=Launch)
        for name in launch.secrets.values():
            found = self.store.secrets.get("default", "ada", name)
            assert found is not None
            assert found.reveal() == "value"
        needed = {task}
        for list_of_files in (snapshot, *(mount.snapshot for mount in launch.mounts)):
            if list_of_files:
                manifest = msgspec.json.decode(self.store.blobs.get(list_of_files, verify=True))
                hashes = [entry["hash"] for entry in manifest["files"]]
                for one in hashes:
                    self.store.blobs.get(one, verify=True)
                needed |= {list_of_files, *hashes}
        return needed


def _decisions(row: Workload) -> list[str]:
    return [run.decision for run in row.runs]


@contextmanager
def house(given: list[Made]) -> Iterator[House]:
    folder = Path(tempfile.mkdtemp(prefix="stw-"))
    one = House(folder, given)
    try:
        yield one
    finally:
        one.store.close()
        shutil.rmtree(folder)


@settings(max_examples=25)
@given(
    works=st.lists(made, max_size=6),
    runs_days=st.integers(0, 60),
    runs_bytes=st.sampled_from((0, 15)),
    workloads_days=st.sampled_from((0, 1, 45)),
)
def test_what_is_kept_can_be_run_again_and_the_rest_is_gone(
    works: list[Made], runs_days: int, runs_bytes: int, workloads_days: int
) -> None:
    """Every row left has its task, code, mounts, secrets and decisions; every live workload and
    every command that waits is left; runs go only after their workload's end; and no blob is left
    that none of them needs.
    """
    with house(works) as one:
        before, runs_before = one.rows(), set(one.driver.runs)
        one.sweep(runs_days=runs_days, runs_bytes=runs_bytes, workloads_days=workloads_days)
        after = one.rows()
        needed: set[str] = set()
        for row in after.values():
            needed |= one.check_usable(row.task, row.snapshot)
            for name in _decisions(row):
                assert one.store.decision(DecisionId(name)) is not None
        for envelope in one.store.take(0):
            assert isinstance(envelope.command, Submit)
            needed |= one.check_usable(envelope.command.task, envelope.command.snapshot)
        assert set(one.store.blobs.old(1 << 62)) == needed
        assert one.store.decision(DecisionId(f"d-{'f' * 16}")) is None
        for id, row in before.items():
            if row.phase not in ENDED:
                assert id in after
            elif id not in after:
                assert workloads_days
                assert row.ended_ms < NOW - workloads_days * DAY_MS
        for run in runs_before - set(one.driver.runs):
            row = before[run.removesuffix("-1")]
            assert row.phase in ENDED
            assert row.ended_ms < NOW - min(runs_days or 7, 7) * DAY_MS
        for run in one.driver.runs:
            assert run.removesuffix("-1") in after


def test_a_blob_that_cannot_be_read_keeps_everything() -> None:
    """If what refers can't be read, nobody knows what may go."""
    work = Made("Pending", 0, (0, 1), (), (), has_run=False, in_inbox=False)
    with house([work]) as one:
        [row] = one.rows().values()
        nobodys = one.store.blobs.put(b"nobody's")
        age_all(one.store.blobs.root)
        path = one.store.blobs.path(row.snapshot)
        path.unlink()
        path.mkdir()
        with pytest.raises(StoreError):
            one.sweep()
        assert one.store.blobs.missing([nobodys]) == []


def test_what_is_submitted_during_a_sweep_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """After what refers was read and before anything is removed: its code, task and secrets."""
    work = Made("Failed", 80, (0, 1), (2,), (0,), has_run=False, in_inbox=False)
    with house([work]) as one:
        [row] = one.rows().values()
        submit = Submit(WorkloadId("w-9"), "again", "default", a_shape(), row.task, row.snapshot)
        begins = one.store.blobs.begins

        def submit_first(name: str, count: int = 8) -> bytes:
            if not list(one.store.retention.commands_after(0)):
                one.store.put_commands([NewCommand("ada", "default", "", submit)], NOW).result()
            return begins(name, count)

        monkeypatch.setattr(one.store.blobs, "begins", submit_first)
        swept = one.sweep(workloads_days=1)
        assert {item.kind: item.count for item in swept.items}["workloads"] == 1
        assert one.rows() == {}
        assert set(one.store.blobs.old(1 << 62)) == one.check_usable(row.task, row.snapshot)


def test_a_workload_whose_output_is_kept_stays_on_the_lists() -> None:
    """Else nobody could ask for it."""
    kept = Made("Failed", 5, (), (), (), has_run=True, in_inbox=False)
    with house([kept, kept._replace(days=40), kept._replace(has_run=False)]) as one:
        one.sweep(workloads_days=1, runs_days=30)
        assert list(one.rows()) == ["w-0000000000000"]
        assert list(one.driver.runs) == ["w-0000000000000-1"]
