"""A cluster that isn't always open: who may start, who is told, who counts as over."""

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from stellwerk.core import windows
from stellwerk.core.forecast import forecast
from stellwerk.core.future import Knowledge
from stellwerk.core.invariants import overstays
from stellwerk.core.model import commands as cmd
from stellwerk.core.model import events as ev
from stellwerk.core.model.calendars import FOREVER_MS, Calendar, NodeWindows, next_closure
from stellwerk.core.model.catalogue import render
from stellwerk.core.model.ids import WorkloadId, workload_of
from stellwerk.core.model.limits import LEAST_RUN_MS
from stellwerk.core.model.workload import Policies, RunEnd
from stellwerk.core.state import State, StateImage
from stellwerk.core.what_if import with_room
from stellwerk.testing.builders import a_cluster, a_node, a_request, a_shape
from tests.core.hall import Hall
from tests.core.queued import a_queue, queueing

MINUTE, HOUR = 60_000, 3_600_000
SAVES = Policies(recovers=True)


def a_room(*spans: tuple[int, int], always: bool = False) -> Hall:
    """A room of one node that is open at these times, in hours from now; and one always open."""
    rooms = [a_cluster("lab", a_node("n0", cpus=4), kind="room")]
    if always:
        rooms.append(a_cluster("open", a_node("m0", cpus=1)))
    hall = Hall(*rooms)
    hall.command(cmd.SetCalendar(Calendar("lab", tuple(at(hall, *one) for one in spans))), "prof")
    return hall


def at(hall: Hall, opens: int, closes: int) -> tuple[int, int]:
    """A window, in hours from now."""
    return hall.now_ms + opens * HOUR, hall.now_ms + closes * HOUR


def let(hall: Hall, ms: int = 0) -> list[ev.Event]:
    """Lets time go on, with all that follows for windows."""
    windows.next_closing_ms(hall.state, hall.now_ms)
    hall.now_ms += ms
    afresh = State.from_image(hall.state.image())
    found = hall.fold(windows.closing(hall.state, hall.now_ms))
    assert found == windows.closing(afresh, hall.now_ms), "what is remembered changes nothing"
    assert not windows.closing(hall.state, hall.now_ms)
    return found


def ends_in(hours: int) -> Policies:
    """With a time limit."""
    return Policies(time_limit_ms=hours * HOUR)


def why(hall: Hall, key: WorkloadId) -> str:
    """The sentence of the first reason for which a workload waits."""
    waits = hall.state.shapes[hall.workload(key).shape].waits
    assert waits is not None
    return render(waits.reasons[0]).sentence


def test_what_is_over_before_it_closes_starts_and_what_is_not_waits() -> None:
    """Also what goes on from what it saves; the others are told what they need and what is left."""
    hall = a_room((0, 3), (12, 30))
    long = hall.submit(a_shape(a_request(cpus=1, memory_gib=3)), policies=ends_in(5))
    unknown = hall.submit(a_shape(a_request(cpus=1, memory_gib=4)))
    short = hall.submit(a_shape(a_request(cpus=1)), policies=ends_in(2))
    saves = hall.submit(a_shape(a_request(cpus=1, memory_gib=2)), policies=SAVES)
    assert hall.settle() == [short, saves]
    assert hall.workload(short).runs[-1].allocation.closes_ms == hall.now_ms + 3 * HOUR
    assert "it closes at " in why(hall, long)
    assert "this needs 5 h" in why(hall, long)
    assert "how long it runs isn't known" in why(hall, unknown)
    found = forecast(hall.view(), Knowledge(), [long])[long]
    assert found.likely_ms == hall.now_ms + 12 * HOUR, "it starts when that opens"


def test_a_short_one_starts_behind_a_long_one_of_the_same_shape() -> None:
    """Which waits for a longer window; with one in which it fits it comes first again."""
    hall = a_room((0, 3), (12, 30))
    long, short = (hall.submit(policies=ends_in(hours)) for hours in (5, 2))
    assert hall.settle() == [short]
    hall.end(short)
    other = hall.submit(policies=ends_in(4))
    hall.now_ms += 12 * HOUR
    assert hall.settle() == [long, other]


def test_nothing_starts_while_it_is_closed_and_the_loop_wakes_when_it_opens() -> None:
    """Work goes where it is open instead, and starts at the very moment at which that opens."""
    hall = a_room((2, 9), always=True)
    here, waits = (hall.submit(policies=ends_in(1)) for _ in range(2))
    assert hall.settle() == [here]
    assert hall.workload(here).runs[-1].allocation.cluster == "open"
    assert hall.told(waits)
    hall.now_ms += HOUR
    assert hall.plan().wake_at_ms == hall.now_ms + HOUR
    hall.now_ms += HOUR
    assert hall.settle() == [waits]


def test_notice_leaves_time_for_its_grace_and_for_copying() -> None:
    """It is given once, with what is left; the work goes back and on when that opens again."""
    hall = a_room((0, 3), (5, 30))
    key = hall.submit(policies=SAVES)
    assert hall.settle() == [key]
    hall.seen(key)
    run = hall.workload(key).runs[-1]
    hall.fold([ev.CopyTimeLearned(run.id, 1, 10 * MINUTE)])
    due_ms = hall.now_ms + 3 * HOUR - run.grace_ms - 10 * MINUTE
    due_ms -= hall.workload(key).policies.grace_ms + windows.MARGIN_MS
    assert windows.next_closing_ms(hall.state, hall.now_ms) == due_ms
    assert not let(hall, due_ms - hall.now_ms - 1)
    (told,) = let(hall, 1)
    assert isinstance(told, ev.NoticeGiven)
    assert (told.why, told.grace_ms, told.copy_ms) == ("window", 30_000, 10 * MINUTE)
    assert told.reason is not None
    assert "lab closes at " in render(told.reason).sentence
    hall.end(key, RunEnd(how="window", put_back=True, new_checkpoint=True))
    assert hall.workload(key).phase == "Pending"
    assert hall.workload(key).retries == 0, "it isn't charged"
    hall.now_ms += MINUTE
    assert hall.settle() == []
    hall.now_ms += 3 * HOUR
    assert hall.settle() == [key]


def test_a_longer_window_lets_a_run_go_on() -> None:
    """Notice comes by the windows as they are now; a shorter one brings it at once."""
    hall = a_room((0, 3))
    key = hall.submit(policies=ends_in(2))
    assert hall.settle() == [key]
    hall.command(cmd.SetCalendar(Calendar("lab", (at(hall, 0, 9),))))
    run = hall.workload(key).runs[-1].id
    assert let(hall) == [ev.WindowMoved(run, hall.now_ms + 9 * HOUR)], "its machine is told"
    assert not let(hall, 5 * HOUR)
    hall.command(cmd.SetCalendar(Calendar("lab", (at(hall, 5, 9),))))
    assert [type(one) for one in let(hall)] == [ev.NoticeGiven]
    hall.command(cmd.RemoveCalendar("lab"))
    assert hall.workload(key).runs[-1].closes_ms == FOREVER_MS


def test_a_run_that_nobody_hears_of_is_over_some_time_after_its_window() -> None:
    """Its runtime stops it by itself; before that time it is never replaced."""
    hall = a_room((0, 3), (4, 30))
    key = hall.submit(policies=ends_in(2))
    assert hall.settle() == [key]
    run = hall.workload(key).runs[-1]
    hall.fold([ev.ReachabilityChanged(run.id, reachable=False)])
    wait_ms = 3 * HOUR + hall.workload(key).policies.grace_ms + windows.OVER_MARGIN_MS
    found = let(hall, wait_ms - 1)
    assert not any(isinstance(one, ev.RunEnded) for one in found)
    assert [type(one) for one in let(hall, 1)] == [ev.RunEnded, ev.Requeued]
    assert hall.workload(key).retries == 0


def test_without_a_calendar_it_is_open_again() -> None:
    """And what an image holds is what was set."""
    hall = a_room((2, 3))
    key = hall.submit()
    assert hall.settle() == []
    assert State.from_image(hall.state.image()).clusters == hall.state.clusters
    assert isinstance(hall.state.image(), StateImage)
    hall.command(cmd.RemoveCalendar("lab"))
    assert not hall.command(cmd.RemoveCalendar("lab"))
    assert hall.settle() == [key]


def test_nodes_have_windows_of_their_own() -> None:
    """Work goes where it is open for long enough, and only who runs on what closes is told."""
    nodes = [replace(a_node(f"n{i}", cpus=1), domains={"row": "ab"[i % 2]}) for i in range(4)]
    hall = Hall(a_cluster("lab", *nodes, kind="room"))
    part = NodeWindows("row=a, n9", (at(hall, 0, 3), at(hall, 5, 40)))
    hall.command(cmd.SetCalendar(Calendar("lab", (at(hall, 0, 30),), parts=(part,))))
    long = [hall.submit(policies=ends_in(9)) for _ in range(3)]
    assert hall.settle() == long[:2]
    short = hall.submit(a_shape(a_request(cpus=1, memory_gib=2)), policies=ends_in(2))
    assert hall.settle() == [short]
    runs = {key: hall.workload(key).runs[-1].allocation for key in (*long[:2], short)}
    assert [one.nodes[0].node for one in runs.values()] == ["n1", "n3", "n0"]
    assert [one.closes_ms - hall.now_ms for one in runs.values()] == [
        30 * HOUR,
        30 * HOUR,
        3 * HOUR,
    ]
    assert "it closes at " in why(hall, long[2])
    assert [one.windows != () for one in hall.state.clusters["lab"].nodes] == [True, False] * 2
    (told,) = let(hall, 3 * HOUR)
    assert isinstance(told, ev.NoticeGiven)
    assert workload_of(told.run) == short
    assert State.from_image(hall.state.image()).clusters == hall.state.clusters
    hall.end(short)
    hall.now_ms += 2 * HOUR
    assert hall.settle() == [long[2]]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=8), st.integers(0, 40))
def test_the_next_closure_is_the_first_closed_time(steps: list[int], now: int) -> None:
    """As asking minute by minute finds it."""
    edges = [sum(steps[: i + 1]) for i in range(len(steps))]
    spans = tuple(zip(edges[::2], edges[1::2], strict=False))
    found = next_closure(spans, now)
    closed = [t for t in range(now, 60) if not any(a <= t < b for a, b in spans)]
    if not spans:
        assert found is None
        return
    assert found is not None
    assert found[0] == closed[0]
    later = [t for t in range(found[0], 60) if t not in closed]
    assert found[1] == (later[0] if later else FOREVER_MS)


SPANS = st.lists(st.integers(1, 9), min_size=2, max_size=8)


@settings(max_examples=40, deadline=None)
@given(SPANS, st.lists(st.tuples(st.integers(0, 90), SPANS), max_size=12))
def test_nothing_runs_past_its_window_without_notice(
    first: list[int], steps: list[tuple[int, list[int]]]
) -> None:
    """Whatever windows become while time goes on, and whatever is submitted."""

    def spans(edges: list[int]) -> tuple[tuple[int, int], ...]:
        times = [hall.now_ms + sum(edges[: i + 1]) * 10 * MINUTE for i in range(len(edges))]
        return tuple(zip(times[::2], times[1::2], strict=False))

    hall = a_room((0, 1))
    for minutes, edges in [(0, first), *steps]:
        hall.submit(policies=Policies(time_limit_ms=edges[0] * 10 * MINUTE))
        hall.submit(policies=SAVES)
        hall.settle()
        due_ms = windows.next_closing_ms(hall.state, hall.now_ms)
        let(hall, min(minutes * MINUTE, max(0, due_ms - hall.now_ms) if due_ms else HOUR))
        assert not overstays(hall.state, hall.now_ms)
        if minutes % 3 == 0:
            hall.command(cmd.SetCalendar(Calendar("lab", spans(edges))))
            let(hall)
            assert not overstays(hall.state, hall.now_ms)


def test_what_if_it_were_open_or_closed() -> None:
    """Tried on a view, without touching what is."""
    hall = a_room((2, 30))
    key = hall.submit(policies=ends_in(1))
    before = forecast(hall.view(), Knowledge(), [key])[key]
    after = forecast(with_room(hall.view(), "window", ["lab", "open"]), Knowledge(), [key])[key]
    assert (before.likely_ms, after.likely_ms) == (hall.now_ms + 2 * HOUR, hall.now_ms)
    closed = with_room(hall.view(), "window", ["lab", "closed"])
    assert forecast(closed, Knowledge(), [key])[key].likely_ms is None


def a_queued_room(*spans: tuple[int, int]) -> Hall:
    """A full room whose queue lets work of a higher priority stop that of a lower one."""
    hall = a_room(*spans)
    hall.apply(queueing(a_queue("team", 4)))
    low = hall.submit(a_shape(a_request(cpus=4)), queue="team", policies=SAVES)
    assert hall.settle() == [low]
    hall.seen(low)
    hall.now_ms += LEAST_RUN_MS
    return hall


def test_work_stops_others_where_it_is_over_before_the_window_closes() -> None:
    """Its order says when that closes; what needs longer stops nobody."""
    hall = a_queued_room((0, 3), (9, 30))
    closes_ms = hall.state.clusters["lab"].windows[0][1]
    high = [
        hall.submit(a_shape(a_request(cpus=4)), queue="team", priority=n, policies=ends_in(hours))
        for n, hours in ((9, 5), (5, 1))
    ]
    hall.cycle()
    assert hall.workload(high[0]).claim is None
    assert hall.workload(high[1]).claim is not None
    hall.end(WorkloadId("w-00001"), RunEnd(how="notice", put_back=True, new_checkpoint=True))
    assert high[1] in hall.settle()
    assert hall.workload(high[1]).runs[-1].allocation.closes_ms == closes_ms
    assert not let(hall), "nobody has to be told anew"


def test_a_promise_is_not_kept_in_a_room_that_has_closed() -> None:
    """Who was stopped for it took its time: it waits as others do, and nothing starts."""
    hall = a_queued_room((0, 3), (9, 30))
    high = hall.submit(a_shape(a_request(cpus=4)), queue="team", priority=5, policies=ends_in(1))
    hall.cycle()
    assert hall.workload(high).claim is not None
    hall.now_ms += 3 * HOUR
    hall.end(WorkloadId("w-00001"), RunEnd(how="notice", put_back=True, new_checkpoint=True))
    assert hall.settle() == []
    assert hall.workload(high).claim is None
    hall.now_ms += 6 * HOUR
    assert high in hall.settle()


def test_what_its_last_run_took_to_copy_counts_from_the_start_on() -> None:
    """So its machine ends it early enough by itself, although this run has copied nothing yet."""
    hall = a_room((0, 3), (4, 30))
    key = hall.submit(policies=SAVES)
    hall.settle()
    hall.seen(key)
    hall.fold([ev.CopyTimeLearned(hall.workload(key).runs[-1].id, 1, 10 * MINUTE)])
    hall.end(key, RunEnd(how="notice", put_back=True, new_checkpoint=True))
    hall.settle()
    workload = hall.workload(key)
    run = workload.runs[-1]
    assert (run.number, run.copy_ms) == (2, 0)
    gone_ms = windows.gone_by_ms(workload, run)
    assert gone_ms == run.allocation.closes_ms - 10 * MINUTE
    told_ms = gone_ms - workload.policies.grace_ms - windows.MARGIN_MS
    assert windows.next_closing_ms(hall.state, hall.now_ms) == told_ms
    (told,) = let(hall, told_ms - hall.now_ms)
    assert isinstance(told, ev.NoticeGiven)
    assert (told.grace_ms, told.copy_ms) == (workload.policies.grace_ms, 10 * MINUTE)


def test_windows_that_a_fleet_file_declares_bind_as_calendars_do() -> None:
    """Until there is a calendar, and again when that is removed."""
    start_ms = 1_000_000
    declared = (start_ms, start_ms + 3 * HOUR)
    hall = Hall(replace(a_cluster("lab", a_node("n0", cpus=4)), windows=(declared,)))
    long, short = (hall.submit(policies=ends_in(hours)) for hours in (5, 2))
    assert hall.settle() == [short]
    assert hall.workload(short).runs[-1].allocation.closes_ms == declared[1]
    hall.command(cmd.SetCalendar(Calendar("lab", (at(hall, 0, 9),))))
    assert hall.settle() == [long]
    let(hall)
    hall.command(cmd.RemoveCalendar("lab"))
    let(hall)
    assert {run.closes_ms for run in (hall.workload(key).runs[-1] for key in (long, short))} == {
        declared[1]
    }
    assert len(let(hall, 3 * HOUR - MINUTE + 25_000)) == 2


def test_who_fits_no_window_at_all_is_told_so_with_what_helps() -> None:
    """Also while it is closed: to wait for the next one would be no use."""
    for spans in (((0, 2), (5, 9)), ((5, 9), (10, 12))):
        hall = a_room(*spans)
        unknown = hall.submit()
        long = hall.submit(a_shape(a_request(cpus=2)), policies=ends_in(8))
        fits = hall.submit(a_shape(a_request(cpus=3)), policies=ends_in(3))
        assert hall.settle() == []
        assert "the longest is open for 4 h; how long it runs isn't known" in why(hall, unknown)
        assert "the longest is open for 4 h; this needs 8 h" in why(hall, long)
        assert "longest" not in why(hall, fits)
        waits = hall.state.shapes[hall.workload(long).shape].waits
        assert waits is not None
        assert "shorter time limit" in render(waits.reasons[0]).remedy


def test_a_calendar_that_goes_while_a_run_leaves_lets_it_leave() -> None:
    """A notice isn't taken back: it may be on its way out, and starts again at once."""
    hall = a_room((0, 3), (5, 30))
    key = hall.submit(policies=SAVES)
    hall.settle()
    hall.seen(key)
    (told,) = let(hall, 3 * HOUR - 30_000)
    assert isinstance(told, ev.NoticeGiven)
    hall.command(cmd.SetCalendar(Calendar("lab", (at(hall, -3, 9),))))
    assert not let(hall)
    hall.command(cmd.RemoveCalendar("lab"))
    assert hall.workload(key).runs[-1].notice == "window"
    hall.end(key, RunEnd(how="exited", code=0, put_back=True, new_checkpoint=True))
    assert hall.settle() == [key]
    assert hall.workload(key).retries == 0
