"""Use counts all runs of a workload, also those that are no more kept with it."""

from typing import cast

from msgspec.structs import replace

from stellwerk.core.model import events as ev
from stellwerk.core.model.ids import DecisionId, RunId, WorkloadId
from stellwerk.core.model.reasons import Reason
from stellwerk.core.model.workload import Run, RunEnd, Workload
from stellwerk.server.every_run import runs_in, with_every_run
from stellwerk.server.usage import add_up
from stellwerk.store import Store
from stellwerk.testing.builders import a_workload, an_allocation

HOUR = 3_600_000
ID = WorkloadId("w-1")
TRIES = 25


class Journal:
    """The records of one workload that was tried again and again, an hour each time."""

    def __init__(self) -> None:
        self.records: list[ev.Record] = []
        self.asked = 0
        held = an_allocation("lab", "n1")
        for number in range(1, TRIES + 1):
            run = RunId(f"{ID}-{number}")
            begun_ms = number * 2 * HOUR
            self._add(begun_ms - 5, ev.RunPlanned(ID, run, 1, held, DecisionId("d-1")))
            self._add(begun_ms, ev.RunProgressed(run, "SettingUp"))
            self._add(begun_ms + 7, ev.RunProgressed(run, "Running"))
            end = RunEnd("exited", code=1)
            self._add(begun_ms + HOUR, ev.RunEnded(run, end, Reason("job_failed")))

    def _add(self, at_ms: int, event: ev.Event) -> None:
        seq = len(self.records) + 1
        self.records.append(ev.Record(seq, at_ms, 1, "engine", "default", event))

    def story(self, workload: WorkloadId) -> list[ev.Record]:
        """As the store gives it."""
        assert workload == ID
        self.asked += 1
        return self.records


def workload_of(runs: list[Run]) -> Workload:
    return replace(a_workload(), id=ID, owner="ada", submitted_ms=HOUR, runs=tuple(runs))


def test_runs_that_fell_out_of_memory_are_counted() -> None:
    """Each once, with what it held and for how long; the first one's wait is known again."""
    journal = Journal()
    runs = runs_in(journal.records)
    assert [run.number for run in runs] == list(range(1, TRIES + 1))
    kept = workload_of(runs[-20:])
    [short] = add_up([kept], "person", 0, 99 * HOUR, months=False)
    whole = with_every_run(kept, cast(Store, journal))
    [line] = add_up([whole], "person", 0, 99 * HOUR, months=False)
    assert (short.runs, line.runs, line.live) == (20, TRIES, 0)
    assert (line.cpu_ms * 20, line.started, line.wait_ms) == (short.cpu_ms * TRIES, 1, HOUR)


def test_the_journal_is_left_alone_where_all_runs_are_there() -> None:
    """Most workloads have one run."""
    journal = Journal()
    runs = runs_in(journal.records)
    for few in (workload_of([]), workload_of(runs[:3])):
        assert with_every_run(few, cast(Store, journal)) is few
    assert journal.asked == 0
