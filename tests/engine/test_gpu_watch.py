"""Runs on shared cards are watched by their samples: warned once, stopped where they harm."""

from msgspec.structs import replace

from stellwerk.core.model.ids import RunId
from stellwerk.core.model.quantity import GIB
from stellwerk.core.model.reports import Report, RuleHeld, RunSample, RunWarned
from stellwerk.core.model.resources import DeviceShare
from stellwerk.core.model.telemetry import GpuUse
from stellwerk.core.model.workload import Run
from stellwerk.engine.gpu_watch import HARM_FOR_MS, GpuWatch
from stellwerk.testing.builders import a_cluster, a_node, a_run, an_allocation

CLUSTER = a_cluster("lab", a_node("n1", gpus=2))


def a_share(number: int, gib: float, *nodes: str) -> Run:
    """A run that asked for so much of card 0, on each of some nodes."""
    (part,) = an_allocation("lab", "n1").nodes
    share = (DeviceShare(0, round(gib * GIB)),)
    parts = tuple(replace(part, node=name, devices=share) for name in nodes or ("n1",))
    run = a_run(allocation=replace(an_allocation("lab"), nodes=parts))
    return replace(run, id=RunId(f"w-{number}-1"))


class Watch:
    """The watch over two runs that asked for 20 and 15 of 40 GiB."""

    def __init__(self) -> None:
        self.told: list[Report] = []
        self.watch = GpuWatch(self.told.append)
        self.runs = {n: a_share(n, gib) for n, gib in ((1, 20), (2, 15))}
        for number, run in self.runs.items():
            self.watch.begin(run, f"job{number}", CLUSTER)

    def sample(self, number: int, gib: float, free_gib: float, at_ms: int) -> None:
        use = GpuUse(0, round(gib * GIB), 50, round(free_gib * GIB))
        run = self.runs[number].id
        self.watch.take(RunSample("lab", run, at_ms, 1, 1, 1, gpus=(use,)))


def test_one_warning_and_no_more_while_nobody_is_harmed() -> None:
    """However often it is seen."""
    seen = Watch()
    for at_ms in (1_000, 6_000, 60_000):
        seen.sample(2, 10, 8, at_ms)
        seen.sample(1, 22, 8, at_ms + 1)
    (told,) = seen.told
    assert isinstance(told, RunWarned)
    assert (told.run, told.reason.params["used_bytes"]) == ("w-1-1", 22 * GIB)


def test_who_harms_is_stopped_after_a_while() -> None:
    """By two looks apart in time; a moment of want in between begins anew."""
    seen = Watch()
    seen.sample(2, 10, 1, 1_000)
    seen.sample(1, 29, 1, 1_001)
    seen.sample(1, 20, 10, 5_000)
    seen.sample(1, 29, 1, 6_000)
    seen.sample(1, 29, 1, 6_000 + HARM_FOR_MS - 1)
    assert seen.told == []
    seen.sample(2, 10, 1, 6_000 + HARM_FOR_MS)
    (told,) = seen.told
    assert isinstance(told, RuleHeld)
    assert (told.run, told.reason.params["other"]) == ("w-1-1", "job2")
    seen.sample(1, 29, 1, 90_000)
    assert len(seen.told) == 1


def test_old_looks_and_runs_that_are_over_say_nothing() -> None:
    """What another held a minute ago isn't what it holds now."""
    seen = Watch()
    seen.sample(2, 10, 1, 1_000)
    seen.sample(1, 29, 1, 100_000)
    seen.sample(1, 29, 1, 100_000 + 2 * HARM_FOR_MS)
    assert [type(one) for one in seen.told] == [RunWarned]
    seen.watch.end(seen.runs[1].id)
    seen.watch.end(seen.runs[2].id)
    seen.sample(1, 40, 0, 200_000)
    assert len(seen.told) == 1


def test_all_parts_on_one_machine_are_watched_as_one() -> None:
    """Two replicas that asked for 5 GiB of a card each may hold 10 together."""
    told: list[Report] = []
    watch = GpuWatch(told.append)
    run = a_share(1, 5, "n1", "n1")
    watch.begin(run, "job", CLUSTER)
    for at_ms, gib in ((1_000, 10), (2_000, 17)):
        use = (GpuUse(0, gib * GIB, 50, 20 * GIB),)
        watch.take(RunSample("lab", run.id, at_ms, 1, 1, 1, gpus=use))
    (one,) = told
    assert isinstance(one, RunWarned)
    assert one.reason.params["asked_bytes"] == 10 * GIB


def test_whole_cards_and_several_machines_are_not_watched() -> None:
    """Who has all of a card can't take more of it."""
    told: list[Report] = []
    watch = GpuWatch(told.append)
    for run in (a_share(1, 40), a_share(2, 1, "n1", "n2")):
        watch.begin(run, "job", CLUSTER)
        use = (GpuUse(0, 50 * GIB, 50, 0),)
        watch.take(RunSample("lab", run.id, 1_000, 1, 1, 1, gpus=use))
    assert told == []
