"""Admission checks: quota and room first, then everybody who must agree, then the start."""

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from stellwerk.core.checks import delay_ms, next_overdue_ms, overdue
from stellwerk.core.forecast import forecast
from stellwerk.core.future import Knowledge
from stellwerk.core.in_line import in_line, quota_in
from stellwerk.core.model import commands as cmd
from stellwerk.core.model import events as ev
from stellwerk.core.model.admission import AdmissionCheck, CheckWord
from stellwerk.core.model.catalogue import render
from stellwerk.core.model.queueing import CheckRule, QueueSettings, Requeuing
from stellwerk.core.model.workload import RunEnd
from stellwerk.core.queueing_preview import WHEN_AGREED, outcomes_of
from stellwerk.core.queueing_quota import queues_stand
from stellwerk.testing.builders import a_cluster, a_node, a_request, a_shape
from tests.core.hall import Hall
from tests.core.queued import a_queue, queueing
from tests.core.test_preemption import STOPPED, TWO, run

BUDGET = AdmissionCheck("budget", "example.com/budget", timeout_ms=60_000)
PAPERS = AdmissionCheck("papers", "example.com/papers")
SLOWLY = QueueSettings(requeuing=Requeuing(base_ms=10_000, most_ms=15_000, limit=3))


def a_checked_hall(
    *rules: CheckRule, checks: tuple[AdmissionCheck, ...] = (BUDGET, PAPERS)
) -> Hall:
    """Four CPUs, and a queue of four whose work must pass these."""
    hall = Hall(a_cluster("lab", a_node(cpus=4, memory_gib=64)))
    queue = replace(a_queue("team", 4), checks=rules or (CheckRule("budget"), CheckRule("papers")))
    hall.apply(queueing(queue, checks=checks, settings=SLOWLY))
    return hall


def say(hall: Hall, key: str, check: str, word: CheckWord, message: str = "") -> list[ev.Event]:
    """Lets somebody answer for a check."""
    id = hall.workload(key).id
    return hall.command(cmd.SetCheck(id, check, word, message), "boss")


def test_work_starts_when_all_have_agreed_and_holds_its_quota_until_then() -> None:
    """Its room isn't given to others meanwhile; what each said, by whom, is kept."""
    hall = a_checked_hall()
    first = hall.submit(TWO, queue="team")
    assert hall.settle() == []
    claim = hall.workload(first).claim
    assert claim is not None
    assert claim.checks == ("budget", "papers")
    assert hall.told(first) == ["check_pending"]
    told = hall.why(first)
    assert "on lab" in told
    assert "budget of example.com/budget, and for 1 more" in told
    others = [hall.submit(TWO, queue="team") for _ in range(2)]
    hall.settle()
    assert [hall.workload(one).claim is not None for one in others] == [True, False]
    say(hall, first, "budget", "Ready", "within 400 h")
    assert hall.settle() == []
    say(hall, first, "papers", "Ready")
    assert hall.settle() == [first]
    states = hall.workload(first).checks
    assert [(one.name, one.state, one.by, one.message) for one in states] == [
        ("budget", "Ready", "boss", "within 400 h"),
        ("papers", "Ready", "boss", ""),
    ]


def test_only_the_checks_of_its_flavors_are_asked() -> None:
    """One that is for another flavor alone has no say."""
    hall = a_checked_hall(CheckRule("budget", ("spot",)))
    key = hall.submit(TWO, queue="team")
    assert hall.settle() == [key]


def test_a_check_that_nobody_can_answer_closes_the_queue() -> None:
    """One that isn't there, and one of a controller that is part of Kueue: each is told."""
    hall = a_checked_hall(checks=(BUDGET,))
    key = hall.submit(TWO, queue="team")
    hall.settle()
    assert hall.told(key) == ["queue_inactive"]
    elsewhere = AdmissionCheck("budget", "kueue.x-k8s.io/multikueue")
    hall = a_checked_hall(checks=(elsewhere, PAPERS))
    key = hall.submit(TWO, queue="team")
    hall.settle()
    assert "nobody here is kueue.x-k8s.io/multikueue" in hall.why(key)


def test_retry_gives_all_back_and_waits_longer_each_time() -> None:
    """10 s, then the most of 15 s, then it is held; a release begins anew."""
    hall = a_checked_hall(CheckRule("budget"))
    key = hall.submit(TWO, queue="team")
    for wait_ms in (10_000, 15_000, 15_000):
        hall.settle()
        say(hall, key, "budget", "Retry", "not today")
        assert hall.workload(key).claim is None
        assert hall.workload(key).not_before_ms == hall.now_ms + wait_ms
        assert hall.settle() == []
        hall.now_ms += wait_ms
    hall.settle()
    say(hall, key, "budget", "Retry")
    assert hall.workload(key).phase == "Held"
    assert hall.workload(key).reasons[0].code == "check_given_up"
    hall.command(cmd.Release(hall.workload(key).id))
    hall.settle()
    say(hall, key, "budget", "Ready")
    assert hall.settle() == [key]
    assert hall.workload(key).check_retries == 0


def test_silence_for_too_long_is_asking_for_another_try() -> None:
    """With the words of who was silent; what has no timeout may be silent for ever."""
    hall = a_checked_hall()
    key = hall.submit(TWO, queue="team")
    hall.settle()
    assert next_overdue_ms(hall.state) == hall.now_ms + 60_000
    assert overdue(hall.state, hall.now_ms + 59_999) == []
    hall.now_ms += 60_000
    hall.fold(overdue(hall.state, hall.now_ms), "")
    assert "said nothing for 60 s" in render(hall.workload(key).reasons[0]).sentence
    assert next_overdue_ms(hall.state) == 0
    assert overdue(hall.state, hall.now_ms) == []


def test_who_is_rejected_is_held_also_while_it_runs() -> None:
    """A running one gets notice, and doesn't come back by itself."""
    hall = a_checked_hall(CheckRule("budget"))
    waits, runs = hall.submit(TWO, queue="team"), hall.submit(TWO, queue="team")
    hall.settle()
    say(hall, waits, "budget", "Rejected", "no money")
    assert hall.workload(waits).phase == "Held"
    assert "no money" in render(hall.workload(waits).reasons[0]).sentence
    say(hall, runs, "budget", "Ready")
    assert hall.settle() == [runs]
    run(hall, runs)
    say(hall, runs, "budget", "Rejected")
    assert hall.workload(runs).runs[-1].notice == "preempt"
    hall.end(runs, STOPPED)
    assert hall.workload(runs).phase == "Held"
    assert hall.workload(runs).reasons[0].code == "check_rejected"


def test_what_was_not_asked_is_refused_in_words() -> None:
    """Another check, work that has no claim, and work that isn't there."""
    hall = a_checked_hall(CheckRule("budget"))
    key = hall.submit(TWO, queue="team", held=True)
    for check in ("budget", "other"):
        [refused] = say(hall, key, check, "Ready")
        assert isinstance(refused, ev.CommandRefused)
        assert refused.reason.code == "check_not_asked"


def test_what_does_not_get_ready_gives_its_quota_back_and_comes_later() -> None:
    """Notice after the time, then a wait that doubles; beyond the limit it is held."""
    hall = Hall(a_cluster("lab", a_node(cpus=4, memory_gib=64)))
    rules = Requeuing(base_ms=10_000, limit=3)
    hall.apply(
        queueing(
            a_queue("team", 4), settings=QueueSettings(requeuing=rules, ready_within_ms=60_000)
        )
    )
    ready, slow = hall.submit(TWO, queue="team"), hall.submit(TWO, queue="team")
    hall.settle()
    hall.seen(ready)
    for wait_ms in (10_000, 20_000, 40_000, 0):
        hall.seen(slow, "SettingUp")
        assert next_overdue_ms(hall.state) == hall.now_ms + 60_000
        assert overdue(hall.state, hall.now_ms) == []
        hall.now_ms += 60_000
        hall.fold(overdue(hall.state, hall.now_ms), "")
        assert hall.workload(ready).runs[-1].notice == ""
        hall.end(slow, RunEnd(how="notice", code=143, put_back=True))
        if wait_ms:
            assert hall.workload(slow).not_before_ms == hall.now_ms + wait_ms
            hall.now_ms += wait_ms
            assert hall.settle() == [slow]
    assert hall.workload(slow).phase == "Held"
    assert hall.workload(slow).reasons[0].code == "never_ready"


def test_delays_double_up_to_the_most() -> None:
    """Never beyond, however often."""
    rules = Requeuing(base_ms=1_000, most_ms=60_000)
    assert [delay_ms(rules, n) for n in (1, 2, 3, 9, 900)] == [1_000, 2_000, 4_000, 60_000, 60_000]


@settings(max_examples=12, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 5),
            st.sampled_from(["budget", "papers", "end", "plan", "late"]),
            st.sampled_from(["Ready", "Ready", "Retry", "Rejected", "Pending"]),
        ),
        max_size=25,
    )
)
def test_whatever_checks_say_quota_holds_and_nobody_starts_without_all(
    steps: list[tuple[int, str, CheckWord]],
) -> None:
    """In any order of answers, ends and silences; every fold leaves a sound state."""
    hall = a_checked_hall()
    keys = [hall.submit(TWO, queue="team") for _ in range(6)]
    for number, what, word in steps:
        key = keys[number]
        alive = key in hall.state.workloads
        if what == "plan":
            for started in hall.settle():
                assert all(one.state == "Ready" for one in hall.workload(started).checks)
        elif what == "late":
            hall.now_ms += 20_000
            hall.fold(overdue(hall.state, hall.now_ms), "")
        elif what == "end" and alive and hall.workload(key).live_run is not None:
            hall.end(key, RunEnd(how="exited", code=0))
        elif alive and what in {"budget", "papers"}:
            say(hall, key, what, word)
        held = [w.claim or w.live_run for w in hall.state.workloads.values()]
        assert sum(one is not None for one in held) <= 2


def test_what_is_foreseen_looks_beyond_checks_that_can_agree() -> None:
    """A forecast as if they agreed at once; a dry run says that it is they who decide."""
    hall = a_checked_hall()
    key = hall.submit(TWO, queue="team")
    view = hall.view()
    told = forecast(view, Knowledge({}, {}), [key])[key]
    assert told.likely_ms == hall.now_ms
    assert outcomes_of(view)[key].what == WHEN_AGREED
    closed = a_checked_hall(checks=(BUDGET,))
    key = closed.submit(TWO, queue="team")
    assert forecast(closed.view(), Knowledge({}, {}), [key])[key].likely_ms is None
    [queue] = queues_stand(closed.state.queueing.objects, (), {})
    assert (queue.status, queue.about) == ("AdmissionCheckNotFound", "papers")


def test_a_wait_begins_when_it_is_said_and_not_with_the_last_fact() -> None:
    """On a server where nothing happened for an hour it is no shorter."""
    hall = a_checked_hall(CheckRule("budget"))
    key = hall.submit(TWO, queue="team")
    hall.settle()
    hall.now_ms += 3_600_000
    say(hall, key, "budget", "Retry")
    assert hall.workload(key).not_before_ms == hall.now_ms + 10_000
    hall.now_ms += 10_000
    hall.settle()
    hall.now_ms += 3_600_000
    hall.fold(overdue(hall.state, hall.now_ms), "")
    assert hall.workload(key).not_before_ms == hall.now_ms + 15_000


def test_what_waits_for_checks_alone_lacks_nothing() -> None:
    """Nobody holds what it has already, and no change is tried for it."""
    hall = a_checked_hall()
    hall.submit(TWO, queue="team")
    hall.settle()
    say(hall, "w-00001", "budget", "Ready")
    say(hall, "w-00001", "papers", "Ready")
    hall.settle()
    key = hall.submit(TWO, queue="team")
    hall.settle()
    view = hall.view()
    found = in_line(view, key, quota_in(view))
    assert found is not None
    assert (found.place, found.narrow, found.contenders, found.ways) == (1, (), (), ())


def test_room_that_a_check_gave_back_is_there_for_work_that_no_quota_binds() -> None:
    """It was found to wait while that was kept, and no run began or ended since."""
    hall = a_checked_hall(CheckRule("budget"))
    first = hall.submit(a_shape(a_request(cpus=4)), queue="team")
    hall.settle()
    other = hall.submit(a_shape(a_request(cpus=3)))
    assert hall.settle() == []
    assert hall.told(other) == ["room_kept"]
    say(hall, first, "budget", "Rejected")
    assert hall.settle() == [other]
