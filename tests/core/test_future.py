"""Futures play preemption: who is stopped, for whom, and when those who were stopped come back."""

from hypothesis import given, settings
from hypothesis import strategies as st

from stellwerk.core.forecast import forecast
from stellwerk.core.future import Knowledge
from stellwerk.core.model.ids import WorkloadId
from stellwerk.core.model.lengths import Length
from stellwerk.core.model.workload import Policies, RunEnd
from stellwerk.core.plan import plan
from stellwerk.testing.builders import a_cluster, a_node, a_request, a_shape
from tests.core.hall import OK, Hall
from tests.core.queued import a_queue, queueing

MINUTE = 60_000
SAVED = RunEnd(how="exited", code=85, put_back=True, checkpointed=True)
SAVES = Policies(recovers=True, grace_ms=MINUTE)


def a_hall() -> Hall:
    """A machine of four CPUs, and as much quota."""
    hall = Hall(a_cluster("lab", a_node(cpus=4)))
    hall.apply(queueing(a_queue("team", 4)))
    return hall


def submit(hall: Hall, cpus: int, priority: int, *, saves: bool = True) -> WorkloadId:
    """Work of the queue."""
    policies = SAVES if saves else Policies(grace_ms=MINUTE)
    shape = a_shape(a_request(cpus=cpus))
    return hall.submit(shape, queue="team", priority=priority, policies=policies)


class Running:
    """The hall goes on in virtual time, and each piece of work takes exactly so long."""

    def __init__(self, hall: Hall, lengths: dict[WorkloadId, int]) -> None:
        self.hall = hall
        self.left = dict(lengths)
        self.began: dict[WorkloadId, int] = {}
        self.ends: dict[WorkloadId, int] = {}
        self.started: dict[WorkloadId, int] = {}

    def cycle(self) -> None:
        """All that follows now."""
        for key in self.hall.settle():
            self.started.setdefault(key, self.hall.now_ms)
            self.began[key] = self.hall.now_ms
            self.ends[key] = self.hall.now_ms + self.left[key]
            self.hall.seen(key)
        for key in self.ends:
            run = self.hall.workload(key).runs[-1]
            if run.notice:
                self.ends[key] = min(self.ends[key], run.notice_ms + run.grace_ms)

    def go_on(self) -> bool:
        """To the next end, or when the plan wants to be made again."""
        wake_ms = plan(self.hall.view()).wake_at_ms
        times = [*self.ends.values(), *([wake_ms] if wake_ms else [])]
        if not times:
            return False
        self.hall.now_ms = max(self.hall.now_ms, min(times))
        for key in [key for key, at_ms in self.ends.items() if at_ms <= self.hall.now_ms]:
            ran_ms = self.ends.pop(key) - self.began[key]
            self.left[key] -= ran_ms
            self.hall.end(key, SAVED if self.left[key] > 0 else OK)
        return True


def known_of(hall: Hall, lengths: dict[WorkloadId, int]) -> Knowledge:
    """All lengths, exactly."""
    exact = {key: Length((ms,), ms, "task", 9) for key, ms in lengths.items()}
    live = {
        run: (hall.workload(key).runs[-1].planned_ms, exact[key])
        for key, run in hall.running().items()
    }
    return Knowledge(live, exact)


def test_who_is_stopped_comes_back_with_what_is_left() -> None:
    """The urgent one starts when the other's grace is over, the third after what is left of that;
    what doesn't go on from checkpoints does all of it again.
    """
    for saves, left_ms in ((True, 55 * MINUTE), (False, 60 * MINUTE)):
        hall = a_hall()
        long = submit(hall, 4, 0, saves=saves)
        hall.settle()
        hall.seen(long)
        hall.now_ms += 4 * MINUTE
        urgent, third = submit(hall, 4, 5), submit(hall, 4, 0)
        lengths = {long: 60 * MINUTE, urgent: 10 * MINUTE, third: MINUTE}
        found = forecast(hall.view(), known_of(hall, lengths), (urgent, third))
        starts_ms = hall.now_ms + MINUTE
        assert found[urgent].likely_ms == starts_ms
        assert found[third].likely_ms == starts_ms + 10 * MINUTE + left_ms


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_starts_come_as_forecast_where_lengths_are_exact(data: st.DataObject) -> None:
    """At the same times, whoever is stopped for whom on the way; and it ends."""
    hall = a_hall()
    lengths: dict[WorkloadId, int] = {}
    for _ in range(data.draw(st.integers(1, 3), "before")):
        key = submit(hall, data.draw(st.integers(1, 4)), data.draw(st.integers(0, 2)))
        lengths[key] = data.draw(st.integers(1, 40)) * MINUTE + len(lengths) * 1000
    play = Running(hall, lengths)
    play.cycle()
    hall.now_ms += data.draw(st.integers(0, 200)) * 1000
    assert all(end_ms > hall.now_ms for end_ms in play.ends.values()) or play.go_on()
    waits = []
    for _ in range(data.draw(st.integers(1, 4), "more")):
        key = submit(hall, data.draw(st.integers(1, 4)), data.draw(st.integers(0, 3)))
        play.left[key] = lengths[key] = data.draw(st.integers(1, 40)) * MINUTE + len(lengths) * 1000
        waits.append(key)
    remaining = {key: play.left[key] for key in lengths if key in play.left}
    found = forecast(hall.view(), known_of(hall, remaining), waits)
    for _ in range(300):
        play.cycle()
        if all(key in play.started for key in waits) or not play.go_on():
            break
    assert {key: found[key].likely_ms for key in waits} == {key: play.started[key] for key in waits}
