"""Budgets of queues: what counts, until when, and that nothing starts beyond them."""

import datetime as dt

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from stellwerk.core.budgets import (
    DAY_MS,
    DAYS_KEPT,
    add_run,
    day_of,
    period_of,
    renewed_ms,
    runs_out_ms,
    used,
    used_up,
)
from stellwerk.core.describe.queues import read_queues
from stellwerk.core.model.budgets import PERIODS, Budget, Period, Spent
from stellwerk.core.model.holding import Holding
from stellwerk.core.model.queueing import ClusterQueue
from stellwerk.core.state import State
from stellwerk.testing.builders import a_cluster, a_node, a_shape
from tests.core.hall import Hall
from tests.core.queued import a_queue, queueing

HOUR_MS = 3_600_000
MIDNIGHT = 20_788 * DAY_MS
"""2026-12-01, a Tuesday."""

GPUS = Holding("vision", {"gpu": "any"}, {"gpu": 2000})


def a_month(hours: float) -> Budget:
    """A budget of GPU hours."""
    return Budget("gpu", round(hours * 1000), "month")


@given(st.integers(0, 4_000_000_000_000), st.sampled_from(PERIODS))
def test_periods_are_those_of_the_calendar(at_ms: int, period: Period) -> None:
    """Each moment lies in its period, which begins where the one before it ends."""
    first, following = period_of(at_ms, period)
    assert first <= day_of(at_ms) < following
    assert period_of(following * DAY_MS, period)[0] == following
    start = dt.datetime.fromtimestamp(first * 86_400, dt.UTC)
    assert (period != "month") or start.day == 1
    assert (period != "week") or start.weekday() == 0


@given(st.lists(st.tuples(st.integers(0, 40 * 24), st.integers(0, 20 * 24)), max_size=8))
def test_what_was_used_is_what_was_held(runs: list[tuple[int, int]]) -> None:
    """Over all days the sum of amount and time, as far back as days are kept."""
    spent: Spent = {}
    ends = sorted((began + hours, began) for began, hours in runs)
    for end, began in ends:
        add_run(spent, GPUS, MIDNIGHT + began * HOUR_MS, MIDNIGHT + end * HOUR_MS)
    days = spent.get("vision", {}).get("gpu", {})
    assert sum(days.values()) == sum(2000 * 3600 * hours for _, hours in runs)
    assert len(days) <= DAYS_KEPT + 2


def test_a_run_counts_in_the_period_in_which_it_ran() -> None:
    """One that goes over the end of a month counts in both, each for its part."""
    spent: Spent = {}
    add_run(spent, GPUS, MIDNIGHT - 3 * HOUR_MS, MIDNIGHT + HOUR_MS)
    assert used(spent, "vision", a_month(1), [], MIDNIGHT - 1) == 2000 * 3600 * 3 + 2000 * 3600
    assert used(spent, "vision", a_month(1), [], MIDNIGHT + HOUR_MS) == 2000 * 3600
    live = [(GPUS, MIDNIGHT - DAY_MS)]
    assert used({}, "vision", a_month(1), live, MIDNIGHT + HOUR_MS) == 2000 * 3600


def test_a_queue_that_has_spent_all_starts_nothing_until_the_next_period() -> None:
    """With the numbers, and when that is."""
    queues = [ClusterQueue("vision", budgets=(a_month(4),)), ClusterQueue("speech")]
    live = [(GPUS, MIDNIGHT)]
    assert used_up(queues, {}, live, MIDNIGHT + 2 * HOUR_MS - 1) == {}
    [reason] = used_up(queues, {}, live, MIDNIGHT + 2 * HOUR_MS).values()
    assert reason.params["used"] == reason.params["most"] == 4.0
    assert reason.params["until"] == "2027-01-01"
    assert renewed_ms(queues, ["vision"], MIDNIGHT) == MIDNIGHT + 31 * DAY_MS
    assert renewed_ms(queues, ["speech"], MIDNIGHT) == 0


def test_when_it_runs_out_is_foretold() -> None:
    """If what runs goes on; not at all where the period is over before."""
    live = [(GPUS, MIDNIGHT)]
    now = MIDNIGHT + HOUR_MS
    assert runs_out_ms({}, "vision", a_month(6), live, now) == MIDNIGHT + 3 * HOUR_MS
    assert runs_out_ms({}, "vision", a_month(1), live, now) == now
    assert runs_out_ms({}, "vision", a_month(1_000_000), live, now) is None
    assert runs_out_ms({}, "vision", a_month(6), [], now) is None


def queue_of(budget: str) -> str:
    """A ClusterQueue with this annotation."""
    return (
        "apiVersion: kueue.x-k8s.io/v1beta2\nkind: ClusterQueue\n"
        f"metadata: {{name: q, annotations: {{stellwerk/budget: '{budget}'}}}}\nspec: {{}}\n"
    )


def test_budgets_are_read_from_an_annotation() -> None:
    """Several, in words what is wrong with one."""
    read = read_queues([("q.yaml", queue_of("nvidia.com/gpu=2000h/month, cpu=1.5h/day"))])
    assert read.problems == ()
    assert read.objects.queues[0].budgets == (
        Budget("nvidia.com/gpu", 2_000_000, "month"),
        Budget("cpu", 1500, "day"),
    )
    for wrong in ("gpu=5", "gpu=5h/year", "gpu=-1h/day", "=1h/day", "gpu=1h/day, gpu=2h/day"):
        read = read_queues([("q.yaml", queue_of(wrong))])
        assert [one.code for one in read.problems] == ["queue/budget"], wrong
        assert read.objects.queues == ()


def test_a_slip_in_the_name_of_the_annotation_is_told() -> None:
    """Else a team would believe that it has a budget; others' annotations are their own affair."""
    slip = queue_of("cpu=1h/day").replace("budget", "bugdet")
    read = read_queues([("q.yaml", slip)])
    assert read.problems == ()
    assert read.objects.queues[0].budgets == ()
    told = [one for one in read.notices if one.code == "queue/annotation"]
    known = "`stellwerk/budget`, `stellwerk/aging` and `stellwerk/quota` are known"
    assert [(one.path, one.help) for one in told] == [
        ("metadata.annotations.stellwerk/bugdet", known)
    ]
    others = read_queues([("q.yaml", slip.replace("stellwerk/bugdet", "team/owner"))])
    assert "queue/annotation" not in [one.code for one in others.notices]


def test_a_cycle_starts_nothing_that_a_spent_budget_would_pay_for() -> None:
    """What runs goes on; a plan wakes when the next period begins, and then it starts."""
    queue = replace(a_queue("team", 4), budgets=(Budget("cpu", 2000, "day"),))
    hall = Hall(a_cluster("lab", a_node(cpus=8)))
    hall.apply(queueing(queue, a_queue("rich", 4)))
    runs, rich = (hall.submit(a_shape(), queue=name) for name in ("team", "rich"))
    assert hall.cycle() == [runs, rich]
    hall.now_ms += 2 * HOUR_MS
    waits = hall.submit(a_shape(), queue="team")
    assert hall.cycle() == []
    assert hall.told(waits) == ["queue_budget"]
    assert hall.view().next_due_ms == DAY_MS
    assert hall.workload(runs).live_run is not None
    hall.end(runs)
    assert State.from_image(hall.state.image()).spent == hall.state.spent
    assert hall.cycle() == []
    hall.now_ms = DAY_MS
    assert hall.cycle() == [waits]
