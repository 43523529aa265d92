"""Room that is promised for times to come: who gets it, who goes, what is refused, what is over."""

import msgspec
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from stellwerk.core import reservations
from stellwerk.core.forecast import forecast
from stellwerk.core.future import Knowledge
from stellwerk.core.in_line import in_line, quota_in
from stellwerk.core.invariants import violations
from stellwerk.core.lengths import keys_of
from stellwerk.core.model import commands as cmd
from stellwerk.core.model import events as ev
from stellwerk.core.model.catalogue import render
from stellwerk.core.model.ids import WorkloadId, digest
from stellwerk.core.model.reservations import Holder, Span, Wanted
from stellwerk.core.model.resources import Shape
from stellwerk.core.model.workload import Policies
from stellwerk.core.state import State, StateImage
from stellwerk.testing.builders import a_cluster, a_node, a_request, a_shape
from tests.core.hall import Hall
from tests.core.queued import a_queue, queueing

MINUTE, HOUR = 60_000, 3_600_000
EXAM = Holder("queue", "p/exam")
SAVES = Policies(recovers=True)
STEP_MS = 7 * MINUTE
GANG = a_shape(a_request(cpus=2, memory_gib=0, gpus=2), num_nodes=2)


def a_hall(nodes: int = 1, cards: int = 4) -> Hall:
    """A room of nodes with four CPUs and cards, and two queues."""
    machines = [a_node(f"n{number}", cpus=4, gpus=cards) for number in range(nodes)]
    hall = Hall(a_cluster("lab", *machines, kind="room"))
    hall.apply(queueing(a_queue("exam", 99, gpus=99), a_queue("bound", 99, gpus=99)))
    return hall


def cards(count: int) -> Shape:
    """A shape of so many cards."""
    return a_shape(a_request(cpus=count, memory_gib=0, gpus=count))


def reserved(
    hall: Hall,
    name: str = "exam",
    *,
    wanted: Wanted | None = None,
    after: int = 2 * HOUR,
    lasts: int = HOUR,
    times: int = 1,
    release_ms: int = 0,
) -> list[ev.Event]:
    """Asks for a reservation for the queue `exam`."""
    begins = hall.now_ms + after
    days = [begins + number * 24 * HOUR for number in range(times)]
    spans = tuple(Span(from_ms, from_ms + lasts) for from_ms in days)
    wish = cmd.MakeReservation(name, EXAM, wanted or Wanted(gpus=4), spans, release_ms)
    return hall.command(wish, "prof")


def let(hall: Hall, ms: int = 0) -> list[ev.Event]:
    """Lets time go on, with all that follows for reservations."""
    hall.now_ms += ms
    found = hall.fold(reservations.due(hall.state, hall.now_ms))
    assert not reservations.due(hall.state, hall.now_ms)
    return found


def inside(hall: Hall, key: WorkloadId) -> str:
    """The reservation in which a workload runs."""
    return hall.workload(key).runs[-1].allocation.reserved


@pytest.mark.parametrize("queue", ["default", "bound"])
def test_what_would_still_run_then_is_not_started_there(queue: str) -> None:
    """What ends in time, or goes on from what it saves, is; the holder's starts in its time."""
    hall = a_hall()
    reserved(hall)
    long = hall.submit(cards(1), work="long", queue=queue)
    mine = hall.submit(cards(4), work="mine", queue="exam", policies=Policies(time_limit_ms=HOUR))
    assert hall.settle() == [mine], "nothing keeps the holder out before"
    hall.now_ms += 90 * MINUTE
    hall.end(mine)
    assert hall.settle() == []
    told = hall.why(long)
    assert "reserved as exam for queue p/exam from " in told
    assert "how long it runs isn't known" in told
    limit = Policies(time_limit_ms=20 * MINUTE)
    short = hall.submit(cards(1), queue=queue, policies=limit)
    saves = hall.submit(cards(1), queue=queue, policies=SAVES)
    assert hall.settle() == [short, saves]
    assert not inside(hall, short)
    assert not let(hall, 29 * MINUTE - 1), "its grace is 30 s, and half a minute more"
    (told_ms,) = [let(hall, 1)]
    assert [one.run for one in told_ms if isinstance(one, ev.NoticeGiven)] == [
        f"{short}-1",
        f"{saves}-1",
    ]
    hall.end(short)
    hall.end(saves)
    let(hall, MINUTE)
    mine = hall.submit(cards(4), queue="exam")
    assert hall.settle() == [mine]
    assert inside(hall, mine) == "exam"
    let(hall, 2 * HOUR)
    assert not hall.state.reservations.kept
    assert hall.settle() == [], "the holder's run goes on, and holds the room"
    hall.end(mine)
    assert hall.settle() == [long]


def test_its_holder_uses_it_before_other_room() -> None:
    """And behind a blocked one of the same shape; what is used isn't kept beside."""
    hall = a_hall(nodes=2)
    reserved(hall, wanted=Wanted(nodes=1), after=MINUTE)
    let(hall, MINUTE)
    (part,) = hall.state.reservations.kept["exam"].parts
    mine = hall.submit(cards(1), queue="exam")
    assert hall.settle() == [mine]
    run = hall.workload(mine).runs[-1]
    assert [one.node for one in run.allocation.nodes] == [part.node]
    others = [hall.submit(cards(1)) for _ in range(5)]
    assert hall.settle() == others[:4]
    more = [hall.submit(cards(1), queue="exam") for _ in range(3)]
    assert hall.settle() == more
    assert all(inside(hall, one) == "exam" for one in more)


def test_what_cannot_be_kept_is_refused_with_numbers() -> None:
    """Promised twice, on machines that are drained, held by protected runs, or not to be had."""
    hall = a_hall(nodes=2, cards=2)
    reserved(hall, wanted=Wanted(gpus=2))
    [said] = reserved(hall, "more", wanted=Wanted(gpus=3), after=2 * HOUR + 10 * MINUTE)
    assert isinstance(said, ev.CommandRefused)
    assert render(said.reason).sentence == (
        "more can't be reserved: lab can give 2 of 3 GPUs (2 promised to exam then)"
    )
    reserved(hall, "later", wanted=Wanted(gpus=3), after=3 * HOUR)
    assert "later" in hall.state.reservations.kept
    hall.command(cmd.DrainCluster("lab", ("n1",)))
    [said] = reserved(hall, "next", wanted=Wanted(nodes=2), after=9 * HOUR)
    assert isinstance(said, ev.CommandRefused)
    assert "lab can give 1 of 2 nodes (1 on nodes that can't be used)" in str(said.reason.params)
    hall.command(cmd.ResumeCluster("lab"))
    safe = hall.submit(cards(1), policies=Policies(protected_ms=20 * HOUR, recovers=True))
    assert hall.settle() == [safe]
    [said] = reserved(hall, "all", after=9 * HOUR)
    assert isinstance(said, ev.CommandRefused)
    assert "3 of 4 GPUs (1 held by runs that are protected for longer)" in str(said.reason.params)
    [said] = reserved(hall, "exam", after=9 * HOUR, wanted=Wanted(cpus_milli=0), lasts=-1)
    assert isinstance(said, ev.CommandRefused)
    assert str(said.reason.params["note"]).count(";") == 2, "all at once"


def test_lost_nodes_are_replaced_or_it_is_told() -> None:
    """Long before nothing is done; a day before others are looked for; without any it is said."""
    hall = a_hall(nodes=2)
    reserved(hall, after=30 * HOUR)
    [part] = hall.state.reservations.kept["exam"].parts
    hall.command(cmd.DrainCluster("lab", (part.node,)))
    [told] = let(hall)
    assert isinstance(told, ev.ReservationMoved)
    assert f"lab/{part.node} is drained" == hall.state.reservations.kept["exam"].broken
    [moved] = let(hall, 7 * HOUR)
    assert isinstance(moved, ev.ReservationMoved)
    assert moved.parts[0].node != part.node
    assert not hall.state.reservations.kept["exam"].broken
    hall.command(cmd.DrainCluster("lab"))
    let(hall)
    assert "lab can give 0 of 4 GPUs" in hall.state.reservations.kept["exam"].broken
    hall.command(cmd.ResumeCluster("lab"))
    let(hall)
    assert not hall.state.reservations.kept["exam"].broken


def test_times_nobody_uses_are_given_up_and_the_next_one_stays() -> None:
    """It lasts through a restart; cancelled, it keeps nothing more."""
    hall = a_hall()
    reserved(hall, after=HOUR, times=2, release_ms=10 * MINUTE)
    other = hall.submit(cards(4))
    let(hall, HOUR)
    assert hall.settle() == []
    image = msgspec.json.decode(msgspec.json.encode(hall.state.image()), type=StateImage)
    assert State.from_image(image).reservations.kept == hall.state.reservations.kept
    assert reservations.next_due_ms(hall.state, hall.now_ms) == hall.now_ms + 10 * MINUTE
    assert let(hall, 10 * MINUTE) == [
        ev.ReservationOver("exam", "unused", hall.now_ms - 10 * MINUTE)
    ]
    assert len(hall.state.reservations.kept["exam"].spans) == 1
    assert hall.settle() == []
    hall.command(cmd.CancelReservation("exam"))
    assert hall.settle() == [other]
    assert not hall.command(cmd.CancelReservation("exam"))
    assert violations(hall.state) == []


def test_a_forecast_knows_when_reserved_room_is_free_again() -> None:
    """The start comes when the reservation is over."""
    hall = a_hall()
    reserved(hall, after=0)
    waits = hall.submit(cards(1))
    hall.settle()
    found = forecast(hall.view(), Knowledge(), [waits])[waits]
    assert found.likely_ms == hall.now_ms + HOUR


@settings(max_examples=25, deadline=None, phases=[Phase.explicit, Phase.generate])
@given(st.data())
def test_reserved_room_is_there_when_its_time_comes(data: st.DataObject) -> None:
    """Whatever came before: who goes on from what it saved has gone, all others are over; and
    nobody is told to go who isn't in the way.
    """
    hall = a_hall(nodes=2, cards=2)
    for work, minutes in {"short": 20, "long": 200}.items():
        for _ in range(3):
            hall.state.lengths.learn(
                keys_of("p", "ada", work, digest(work), "any"), minutes * MINUTE
            )
    wanted = data.draw(st.integers(1, 4), "wanted")
    reserved(hall, wanted=Wanted(gpus=wanted))
    begins = hall.now_ms + 2 * HOUR
    ends: dict[WorkloadId, int] = {}
    told: list[ev.Event] = []
    while hall.now_ms < begins:
        for _ in range(data.draw(st.integers(0, 2), "more")):
            work = data.draw(st.sampled_from(["short", "long", "unknown"]))
            policies = data.draw(st.sampled_from([Policies(), SAVES]))
            hall.submit(cards(data.draw(st.integers(1, 2))), work=work, policies=policies)
        for key in hall.settle():
            name = hall.workload(key).name
            ends[key] = hall.now_ms + (20 if name.startswith("short") else 500) * MINUTE
        told = let(hall, min(10 * MINUTE, begins - hall.now_ms))
        for one in told:
            if isinstance(one, ev.NoticeGiven):
                ends[WorkloadId(one.run.rpartition("-")[0])] = hall.now_ms + MINUTE
        for key in [key for key, at_ms in ends.items() if at_ms <= hall.now_ms]:
            hall.end(key)
            del ends[key]
    for key, at_ms in list(ends.items()):
        if at_ms <= begins + MINUTE:
            hall.end(key)
    mine = [hall.submit(cards(1), queue="exam") for _ in range(wanted)]
    started = hall.settle()
    assert [one for one in mine if one in started] == mine


@settings(max_examples=20, deadline=None, phases=[Phase.explicit, Phase.generate])
@given(st.data())
def test_reservations_and_small_work_starve_nobody(data: st.DataObject) -> None:
    """Once the last reservation is over, and what began before that has ended, the large one that
    others passed has started; whatever was reserved, and however much small work comes.
    """
    hall = a_hall(nodes=2, cards=2)
    last = hall.now_ms + HOUR
    for number in range(data.draw(st.integers(0, 3), "reservations")):
        after = data.draw(st.integers(0, 24), "from") * 10 * MINUTE
        lasts = data.draw(st.integers(1, 12), "lasts") * 10 * MINUTE
        gpus = data.draw(st.integers(1, 4), "gpus")
        made = reserved(hall, f"r{number}", wanted=Wanted(gpus=gpus), after=after, lasts=lasts)
        if isinstance(made[0], ev.ReservationMade):
            last = max(last, hall.now_ms + after + lasts)
    ends: dict[WorkloadId, int] = {}
    large = None
    while hall.now_ms <= last + HOUR and (large is None or large not in ends):
        if large is None and len(ends) == 4:
            last = max(last, hall.now_ms)
            large = hall.submit(data.draw(st.sampled_from([cards(2), GANG]), "large"))
        limit = Policies(time_limit_ms=data.draw(st.integers(3, 5), "limit") * STEP_MS)
        more = len(hall.state.workloads) < 4 if large is None else data.draw(st.integers(1, 3))
        for _ in range(more):
            hall.submit(cards(1), policies=limit)
        for key in hall.settle():
            ends[key] = hall.now_ms + hall.workload(key).policies.time_limit_ms
        let(hall, STEP_MS)
        for key in [key for key, at_ms in ends.items() if at_ms <= hall.now_ms and key != large]:
            hall.end(key)
            del ends[key]
    assert large is None or large in ends


def test_a_protected_run_is_stopped_neither_for_others_nor_for_a_reservation() -> None:
    """Before its time is up; a drain that is to be now breaks the promise, and says so."""
    hall = a_hall()
    hall.apply(queueing(a_queue("exam", 4, gpus=4), a_queue("bound", 4, gpus=4)))
    safe = hall.submit(cards(4), queue="bound", policies=Policies(protected_ms=4 * HOUR))
    assert hall.settle() == [safe]
    hall.seen(safe)
    hall.now_ms += HOUR
    [said] = reserved(hall)
    assert isinstance(said, ev.CommandRefused)
    urgent = hall.submit(cards(4), queue="bound", priority=9)
    assert hall.settle() == []
    found = in_line(hall.view(), urgent, quota_in(hall.view()), ways=False)
    assert found is not None
    [one] = found.contenders
    assert (one.standing, one.until_ms) == ("not yet", hall.now_ms + 3 * HOUR)
    assert "protected" in one.why
    reserved(hall, after=4 * HOUR)
    hall.command(cmd.CancelReservation("exam"))
    hall.now_ms += 3 * HOUR
    hall.settle()
    assert hall.workload(safe).runs[-1].notice == "preempt"
    hall.end(safe)
    assert hall.settle() == [urgent]
    hall.end(urgent)
    safe = hall.submit(cards(1), queue="exam", policies=Policies(protected_ms=4 * HOUR))
    hall.settle()
    [_, notice] = hall.command(cmd.DrainCluster("lab", now=True))
    assert isinstance(notice, ev.NoticeGiven)
    assert notice.reason is not None
    assert "breaks the promise" in render(notice.reason).sentence


def test_cpus_beside_protected_runs_and_other_promises_can_be_promised() -> None:
    """What a protected run holds isn't, and neither are CPUs that belong to promised cards."""
    hall = a_hall()
    safe = hall.submit(cards(1), policies=Policies(protected_ms=20 * HOUR))
    assert hall.settle() == [safe]
    [said] = reserved(hall, "all", wanted=Wanted(cpus_milli=4000))
    assert isinstance(said, ev.CommandRefused)
    assert "3 of 4 CPUs (1 held by runs that are protected for longer)" in str(said.reason.params)
    reserved(hall, wanted=Wanted(cpus_milli=3000))
    [said] = reserved(hall, "cards", wanted=Wanted(gpus=2))
    assert isinstance(said, ev.CommandRefused)
    assert "1 of 2 GPUs (2 promised to exam then, 1 held by" in str(said.reason.params)
    [said] = reserved(hall, "more", wanted=Wanted(cpus_milli=1000))
    assert isinstance(said, ev.CommandRefused)
    assert "0 of 1 CPU (3 promised to exam then, 1 held by" in str(said.reason.params)


@pytest.mark.parametrize("name", ["", "a/b", "two words", "x" * 64, "-o", "a\nb"])
def test_names_that_no_address_could_hold_are_refused(name: str) -> None:
    """Else it could be made, and never be shown or cancelled."""
    [said] = reserved(a_hall(), name)
    assert isinstance(said, ev.CommandRefused)
    assert "its name must be" in str(said.reason.params["note"])


def test_a_future_of_runs_that_outlive_all_that_is_known_has_an_end() -> None:
    """Work like them was known to be short; each of them is expected to go on as long again."""
    hall = a_hall()
    for _ in range(3):
        hall.state.lengths.learn(keys_of("p", "ada", "short", digest("short"), "any"), 20 * MINUTE)
    runs = hall.submit(cards(2), work="short")
    assert hall.settle() == [runs]
    hall.now_ms += HOUR
    waits = hall.submit(cards(4))
    hall.settle()
    hall.now_ms += HOUR
    hall.settle()
    assert forecast(hall.view(), Knowledge(), [waits])[waits].likely_ms is None
