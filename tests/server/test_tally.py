"""What is counted while the server runs: waits, preemptions, how right forecasts were."""

from stellwerk.core.forecast import Forecast
from stellwerk.core.model import events as ev
from stellwerk.core.model.holding import Claim, Holding
from stellwerk.core.model.ids import DecisionId, RunId, WorkloadId
from stellwerk.core.model.reasons import Reason
from stellwerk.core.model.resources import Allocation
from stellwerk.server.metrics import of_tally, text_of
from stellwerk.server.tally import BUCKETS_S, Tally
from tests.core.hall import Hall

ONE = WorkloadId("w-00001")


def a_tally() -> Tally:
    """Over one workload that was queued at 1,000,000 ms."""
    hall = Hall()
    hall.submit()
    return Tally(hall.state.workloads.get)


def record(event: ev.Event, at_ms: int) -> ev.Record:
    """A fact of that moment."""
    return ev.Record(1, at_ms, 1, "engine", "p", event)


def planned(at_ms: int, id: WorkloadId = ONE) -> ev.Record:
    """Its start, with quota of `team`."""
    run = RunId(f"{id}-1")
    place = Allocation("lab", (), 0)
    return record(ev.RunPlanned(id, run, 1, place, DecisionId("d"), Holding("team")), at_ms)


def test_a_start_is_compared_with_what_was_told_first() -> None:
    """By the median, by the 90 % quantile, or that nobody knew; what wasn't asked for isn't."""
    tally = a_tally()
    tally.take([planned(1_000_000)])
    assert tally.forecasts.starts == 0
    tally.forecast(ONE, Forecast(0, 1, 0, 60_000, None, "low", p90_ms=90_000))
    tally.forecast(ONE, Forecast(0, 1, 0, 999_000, None, "low", p90_ms=999_000))
    tally.take([planned(80_000)])
    told = tally.forecasts
    assert (told.starts, told.within_p50, told.within_p90) == (1, 0, 1)
    assert (told.late_ms, told.early_ms, told.ahead_ms) == (20_000, 0, 80_000)
    tally.forecast(ONE, Forecast(0, 1, None, None, None, "none"))
    tally.take([planned(80_000), planned(80_000)])
    assert (told.starts, told.unknown) == (1, 1)


def test_waits_and_preemptions_are_told_in_the_words_of_kueue() -> None:
    """Buckets add up to what waited at most so long; reasons are those of the rules."""
    tally = a_tally()
    tally.take([planned(1_007_000), planned(1_400_000)])
    why = Reason("queue_preempted", {"name": "x", "queue": "other", "why": "InCohortReclamation"})
    tally.take([record(ev.NoticeGiven(RunId("w-00001-1"), "preempt", 0, why), 1)])
    waits = tally.waits["team"]
    assert (waits.count, waits.sum_s, sum(waits.buckets)) == (2, 407.0, 2)
    page = text_of(of_tally(tally))
    assert f'le="{BUCKETS_S[2]}"}} 1' in page
    assert 'kueue_quota_reserved_wait_time_seconds_bucket{cluster_queue="team",le="+Inf"} 2' in page
    assert "kueue_admission_wait_time_seconds_sum" in page
    assert (
        'kueue_preempted_workloads_total{preempting_cluster_queue="other",'
        'reason="InCohortReclamation"} 1\n' in page
    )


def test_quota_is_reserved_before_checks_agree_and_work_is_admitted_after() -> None:
    """The two waits differ then, and what checks took is told by itself; what is lost is gone."""
    tally = a_tally()
    claim = Claim(Allocation("lab", (), 0), Holding("team"), checks=("budget",))
    tally.take([record(ev.RoomClaimed(ONE, claim), 1_003_000)])
    assert (tally.reserved["team"].sum_s, tally.waits) == (3.0, {})
    tally.take([record(ev.RoomClaimed(ONE), 1_004_000)])
    tally.take([record(ev.RoomClaimed(ONE, claim), 1_005_000), planned(1_009_000)])
    assert tally.reserved["team"].count == 2
    assert (tally.waits["team"].sum_s, tally.checked["team"].sum_s) == (9.0, 4.0)
    text = text_of(of_tally(tally))
    assert 'kueue_admission_checks_wait_time_seconds_sum{cluster_queue="team"} 4' in text
    assert 'kueue_quota_reserved_workloads_total{cluster_queue="team"} 2' in text
