"""What if, on a copy of a live view: other quota, priorities, machines; in the same futures."""

import re

import pytest

from stellwerk.core.forecast import compared
from stellwerk.core.future import Knowledge
from stellwerk.core.model.ids import WorkloadId, workload_of
from stellwerk.core.model.lengths import Length
from stellwerk.core.place.change_verbs import BadChange
from stellwerk.core.preview import without
from stellwerk.core.queueing_preview import outcomes_of
from stellwerk.core.what_if import placeless, with_priority, with_quota, with_reservation, with_room
from stellwerk.testing.builders import a_cluster, a_node, a_request, a_shape
from tests.core.hall import Hall
from tests.core.queued import a_queue, queueing

MINUTE = 60_000


def a_full_queue() -> tuple[Hall, WorkloadId, WorkloadId, WorkloadId]:
    """Two CPUs of quota of four there are: one runs with both, two wait."""
    hall = Hall(a_cluster("lab", a_node("n1", cpus=2), a_node("n2", cpus=2)))
    hall.apply(queueing(a_queue("team", 1, cohort="lab")))
    runs, first, second = (hall.submit(queue="team") for _ in range(3))
    hall.settle()
    return hall, runs, first, second


def known_of(hall: Hall, *keys: WorkloadId) -> Knowledge:
    """What runs takes one of two lengths, as does what waits."""
    length = Length((10 * MINUTE, 30 * MINUTE), 0, "task", 5)
    live = dict.fromkeys(hall.state.running.values(), (hall.now_ms, length))
    return Knowledge(live, dict.fromkeys(keys, length))


def test_more_quota_lets_the_next_start_and_nobody_later() -> None:
    """In all futures, by its short name too, at the queue or at its cohort; the view stays."""
    hall, _, first, second = a_full_queue()
    view = hall.view()
    for words in (["team", "std", "cpu=2"], ["team", "std", "cpu=+1"], ["lab", "std", "cpu=1"]):
        after = with_quota(view, words)
        assert outcomes_of(view)[first].what == "waits"
        assert outcomes_of(after)[first].what == "starts now"
        found = compared(view, after, known_of(hall, first, second), (first, second))
        assert found[first].earlier == found[first].futures > 1
        assert found[second].later == 0 < found[second].earlier
    assert hall.view() == view


def test_without_a_change_nothing_differs_in_any_future() -> None:
    """The futures of both sides are the same ones."""
    hall, _, first, second = a_full_queue()
    view = hall.view()
    for one in compared(view, view, known_of(hall, first, second), (first, second)).values():
        assert (one.earlier, one.later) == (0, 0)
        assert one.before == one.after is not None


def test_priority_drains_and_ends_move_others() -> None:
    """Who is raised passes; who goes leaves room; a drained machine takes nothing."""
    hall, runs, first, second = a_full_queue()
    view, known = hall.view(), known_of(hall, first, second)
    found = compared(view, with_priority(view, second, "job-3", ["5"]), known, (first, second))
    assert found[second].earlier > 0 < found[first].later
    gone = without(view, runs, hall.running()[runs])
    assert outcomes_of(gone)[first].what == "starts now"
    more = with_quota(view, ["team", "std", "cpu=3"])
    drained = with_room(with_room(more, "drain", ["lab", "n1"]), "drain", ["lab", "n2"])
    assert outcomes_of(drained)[first].what == "waits"
    assert workload_of(hall.running()[runs]) == runs


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["team", "std", "cpu"], "`cpu` is no RESOURCE=N"),
        (["teem", "std", "cpu=1"], "there is no ClusterQueue or Cohort `teem`; did you mean"),
        (["team", "st", "cpu=1"], "team has no quota of `st cpu`; did you mean `std cpu`?"),
        (["lab", "st", "cpu=1"], "there is no flavor `st`; did you mean `std`?"),
        (["team", "std", "cpu=x"], "x"),
        (["team"], "`quota` takes a queue, a flavor and RESOURCE=N after it"),
    ],
)  # fmt: skip
def test_what_means_nothing_is_told(words: list[str], told: str) -> None:
    """With what may have been meant."""
    with pytest.raises(BadChange) as bad:
        with_quota(a_full_queue()[0].view(), words)
    assert told in str(bad.value)


def test_who_would_be_stopped_is_told() -> None:
    """With a higher priority the one that waits stops the newer of those that run."""
    hall, runs, first, _ = a_full_queue()
    hall.now_ms += 10 * MINUTE
    after = with_priority(hall.view(), first, "job-2", ["1"])
    found = outcomes_of(after)
    assert (found[first].what, found[runs].what) == ("starts when there is room", "is stopped")


def test_a_reservation_holds_up_what_would_still_run_then() -> None:
    """What can't be kept is refused with the numbers of why; the view stays as it is."""
    hall = Hall(a_cluster("lab", a_node("n1", cpus=2)))
    waits = hall.submit(a_shape(a_request(cpus=2)))
    view = hall.view()
    after = with_reservation(view, "lab cpus=1 for=queue:p/exam in=1h lasting=1h".split())
    assert outcomes_of(view)[waits].what == "starts now"
    assert outcomes_of(after)[waits].code == "room_reserved"
    found = compared(view, after, Knowledge(), (waits,))[waits]
    assert (found.later, found.after and found.after.likely_ms) == (
        1,
        hall.now_ms + 2 * 60 * MINUTE,
    )
    for wrong, said in {
        "lab cpus=9 for=queue:x": "lab can give 2 of 9 CPUs",
        "lab gpus=1 for=x": "`for` takes queue:NAME",
        "lap gpus=1 for=queue:x": "reaches a cluster `lap`",
        "lab gpus=some for=queue:x": "write `reserve CLUSTER",
        "lab gpus=1 for=queue:x in=soon": "soon",
    }.items():
        with pytest.raises(BadChange, match=re.escape(said)):
            with_reservation(view, wrong.split())


def test_the_only_machine_drained_leaves_no_place_to_who_waits_for_quota() -> None:
    """Though the reason for which they wait stays the same."""
    hall, _, first, second = a_full_queue()
    view = hall.view()
    after = with_room(view, "drain", ["lab"])
    assert outcomes_of(view)[first].code == outcomes_of(after)[first].code
    assert not placeless(view)
    assert list(placeless(after)) == [first, second]
