"""Whose work may start where, and how much of it: reasons with numbers, and nothing beyond."""

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from stellwerk.core.intake import live_runs, missing_runs, on_report
from stellwerk.core.model import events as ev
from stellwerk.core.model.actions import StartRun, TellWaiting
from stellwerk.core.model.catalogue import render
from stellwerk.core.model.limits import Limit, Limits, tallies
from stellwerk.core.model.reports import ClusterReport, Inventory, Reachability
from stellwerk.core.model.resources import Shape
from stellwerk.core.place.decide import never_fits
from stellwerk.core.plan import plan
from stellwerk.core.view import Viewer
from stellwerk.testing.builders import a_cluster, a_node, a_request, a_shape
from tests.core.hall import Hall

BIG = a_cluster("big", a_node("big", cpus=64, gpus=8))


def of(person: str, project: str = "", gpus: int = 0) -> Shape:
    """What somebody asks for."""
    return replace(a_shape(a_request(cpus=1, gpus=gpus)), person=person, project=project)


def reasons(hall: Hall, limits: Limits) -> list[str]:
    """Why what waits does so, after all that may start has started."""
    planned = plan(Viewer(hall.state, limits).take(hall.state.at_ms))
    told = (one for one in planned.actions if isinstance(one, TellWaiting))
    return [render(reason).sentence for one in told for reason in one.reasons]


def test_runs_and_gpus_are_limited_with_numbers() -> None:
    """Each person has their own; what could never be within them is told as such."""
    limits = Limits(person=Limit(running=1), people={"ben": Limit(running=5, gpus=4)})
    hall = Hall(BIG)
    for shape in (of("ada"), of("ada"), of("ben", gpus=3), of("ben", gpus=2), of("ben", gpus=5)):
        hall.submit(shape)
    planned = plan(Viewer(hall.state, limits).take(hall.state.at_ms))
    starts = [one for one in planned.actions if isinstance(one, StartRun)]
    assert [one.allocation.person for one in starts] == ["ada", "ben"]
    assert sorted(reasons(hall, limits)) == [
        "ada has 1 runs, and may have 1 at a time",
        "ben holds 3 GPUs and asks for 2 more, of 4 at a time",
        "it asks for 5 GPUs, and ben may have 4 at a time",
    ]


PEOPLE = st.sampled_from(("", "ada", "ben"))
WORK = st.lists(
    st.builds(
        of, st.sampled_from(("", "ada", "ben")), st.sampled_from(("", "v")), st.integers(0, 3)
    ),
    min_size=1,
    max_size=12,
)
LIMIT = st.builds(Limit, st.integers(0, 3), st.integers(0, 4))
LIMITS = st.builds(Limits, LIMIT, LIMIT, st.dictionaries(st.just("ada"), LIMIT))


@settings(max_examples=40)
@given(work=WORK, limits=LIMITS)
def test_no_plan_exceeds_a_limit_and_none_holds_back_others(
    work: list[Shape], limits: Limits
) -> None:
    """All that starts stays within; on an empty machine, who waits has a limit to blame."""
    hall = Hall(a_cluster("huge", a_node("huge", cpus=500, gpus=64)))
    for shape in work:
        hall.submit(shape)
    planned = plan(Viewer(hall.state, limits).take(hall.state.at_ms))
    held = [one.allocation for one in planned.actions if isinstance(one, StartRun)]
    for (kind, name), tally in tallies(held).items():
        limit = limits.of_person(name) if kind == "person" else limits.of_project(name)
        assert not limit.running or tally.running <= limit.running
        assert not limit.gpus or tally.gpus <= limit.gpus
    told = [one for one in planned.actions if isinstance(one, TellWaiting)]
    codes = {reason.code for one in told for reason in one.reasons}
    assert codes <= {"limit_running", "limit_gpus", "limit_never"}
    assert len(held) == len(work) or codes


def test_a_machine_starts_work_only_as_those_whose_runtime_is_there() -> None:
    """Others wait for their runtime; what is too large is still refused as too large."""
    big = replace(BIG, serves=("", "ada"))
    hall = Hall(big)
    for person in ("ada", "ben", ""):
        hall.submit(of(person))
    planned = plan(Viewer(hall.state).take(hall.state.at_ms))
    started = [one.allocation.person for one in planned.actions if isinstance(one, StartRun)]
    assert started == ["ada", ""]
    [told] = reasons(hall, Limits())
    assert told.startswith("no runtime of ben is connected for big")
    assert never_fits(of("ben"), [big]) == ()
    assert [one.code for one in never_fits(of("ben", gpus=9), [big])] == ["never_fits"]
    theirs = replace(BIG, owner="ada", serves=("ada",))
    assert [one.code for one in never_fits(of("ben"), [theirs])] == ["not_yours"]
    assert never_fits(of("ada"), [theirs]) == ()


def test_a_runtime_speaks_for_its_own_person_alone() -> None:
    """One that goes takes nobody else's runs out of reach, and its list loses nobody else's."""
    both = replace(BIG, serves=("", "ada", "ben"))
    hall = Hall(both)
    for person in ("ada", "ben"):
        hall.submit(of(person))
    hall.cycle()
    runs = {run.allocation.person: run for run in live_runs(hall.state, "big")}
    assert sorted(runs) == ["ada", "ben"]
    gone = on_report(hall.state, ClusterReport(replace(both, serves=("", "ben"))), 5)
    assert [one for one in gone if isinstance(one, ev.ReachabilityChanged)] == [
        ev.ReachabilityChanged(runs["ada"].id, reachable=False)
    ]
    empty = Inventory("big", (), 10**15, people=("ben",))
    never_started, lost = missing_runs(hall.state, empty)
    assert [run.id for run in (*never_started, *lost)] == [runs["ben"].id]
    back = Reachability("big", "unreachable", people=("ada",))
    assert on_report(hall.state, back, 5) == [
        ev.ReachabilityChanged(runs["ada"].id, reachable=False)
    ]
