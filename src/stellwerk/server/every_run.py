"""Gives all runs of a workload that has had more than are kept with it: from the journal."""

from collections.abc import Iterable

from msgspec.structs import replace

from stellwerk.core.model import events as ev
from stellwerk.core.model.ids import RunId
from stellwerk.core.model.workload import Run, Workload
from stellwerk.store import Store


def with_every_run(workload: Workload, store: Store) -> Workload:
    """The workload with all of its runs; the journal is read only where some aren't kept."""
    if not workload.runs or workload.runs[0].number == 1:
        return workload
    kept = {run.id for run in workload.runs}
    earlier = [run for run in runs_in(store.story(workload.id)) if run.id not in kept]
    return replace(workload, runs=(*earlier, *workload.runs))


def runs_in(records: Iterable[ev.Record]) -> list[Run]:
    """What records say of runs: what each held, when it began and when it was over."""
    runs: dict[RunId, Run] = {}
    for record in records:
        match record.event:
            case ev.RunPlanned() as event:
                runs[event.run] = Run(
                    id=event.run,
                    number=int(event.run.rsplit("-", 1)[1]),
                    generation=event.generation,
                    allocation=event.allocation,
                    decision=event.decision,
                    planned_ms=record.at_ms,
                    holding=event.holding,
                )
            case ev.RunProgressed(run=id) if id in runs and not runs[id].started_ms:
                runs[id] = replace(runs[id], started_ms=record.at_ms)
            case ev.RunEnded(run=id) as event if id in runs:
                over = {"phase": "Ended", "end": event.end, "ended_ms": record.at_ms}
                runs[id] = replace(runs[id], **over)
            case _:
                continue
    return list(runs.values())
