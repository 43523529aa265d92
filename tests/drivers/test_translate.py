"""Orders become specs that the runtime accepts, and its words become reports, without a loss."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from stellwerk.core.model.ids import RunId
from stellwerk.core.model.reports import RunSample
from stellwerk.core.model.telemetry import GpuUse
from stellwerk.core.model.workload import RunEnd
from stellwerk.drivers.agents.translate import inventory_of, report_of, sample_of, spec_of
from stellwerk.drivers.base import RankOrder
from stellwerk.runtime.spec import SpecError, read_spec
from stellwerk.testing.builders import an_order

ENDED: dict[str, Any] = {
    "v": 1,
    "run": "w-1-1",
    "generation": 3,
    "epoch": 2,
    "how": "notice",
    "message": "rank 1 ended with 3",
    "started_at_ms": 1000,
    "ended_at_ms": 5000,
    "code": 85,
    "signal": None,
    "rank": 1,
    "ranks": {"-1": 0, "0": 0, "1": 85},
    "checkpointed": True,
    "put_back": True,
    "peak_memory_bytes": 4096,
    "cpu_ms": 12,
    "oom_kills": 1,
    "of_machine": True,
    "disk_free_bytes": 8192,
    "last_lines": ["a", "b"],
}


def said(state: str, ended: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"run": "w-1-1", "generation": 3, "epoch": 2, "state": state, "ended": ended, **more}


@pytest.mark.parametrize(
    ("notice", "why"),
    [
        (None, ""),
        ({"why": "time_limit", "withdrawn_at_ms": None}, "time_limit"),
        ({"why": "time_limit", "withdrawn_at_ms": 5}, ""),
        ({"why": "a word of later"}, ""),
    ],
)
def test_a_report_says_why_a_run_must_stop(notice: dict[str, Any] | None, why: str) -> None:
    """As long as the notice holds."""
    told = said("stopping", status={"at_ms": 1, "notice": notice})
    assert report_of("lab", told).why == why


def test_a_plain_order_is_a_valid_spec() -> None:
    """What an order leaves out, the spec leaves to the runtime's defaults."""
    spec = read_spec(spec_of(an_order(script="train.sh")))
    assert (spec.run, spec.generation, spec.epoch) == ("w-1-1", 1, 1)
    assert (spec.script, spec.argv, spec.setup, spec.cwd) == ("train.sh", None, None, None)
    assert spec.grace_ms == 5_000
    assert spec.time_limit_ms is None


def test_a_full_order_loses_nothing() -> None:
    """Each field of an order is found again in what the runtime understands."""
    order = replace(
        an_order(setup="pip install .", env={"A": "1"}, num_ranks=2),
        argv=("python", "-c", "pass"),
        script="",
        ranks=(RankOrder(0, "n1", {"R": "0"}), RankOrder(1, "n1", {"R": "1"})),
        setup_env={"S": "x"},
        cwd="/data",
        checkpoint_dir="/ckpt",
        output_dir="/out",
        inherit_env=True,
        term_signals=((10, 2_000), (15, 0)),
        recover_on_exit_codes=(33,),
        time_limit_ms=60_000,
        shell="interactive",
        log_limit_bytes=1 << 20,
    )
    spec = read_spec(spec_of(order))
    assert spec.argv == ["python", "-c", "pass"]
    assert spec.script is None
    assert (spec.setup, spec.setup_env) == ("pip install .", {"S": "x"})
    assert (spec.cwd, spec.checkpoint_dir, spec.output_dir) == ("/data", "/ckpt", "/out")
    assert [(rank.rank, rank.env) for rank in spec.ranks] == [(0, {"R": "0"}), (1, {"R": "1"})]
    assert spec.env == {"A": "1"}
    assert spec.inherit_env
    assert spec.term_signals == [(10, 2_000), (15, 0)]
    assert spec.put_me_back == {85, 33}
    assert (spec.time_limit_ms, spec.shell, spec.log_limit_bytes) == (
        60_000,
        "interactive",
        1 << 20,
    )


def test_secrets_are_not_in_the_spec() -> None:
    """The spec is written to a file; values of secrets travel beside it."""
    assert "hush" not in repr(spec_of(an_order(secrets={"TOKEN": "hush"})))


def test_names_that_are_paths_are_for_the_runtime_to_refuse() -> None:
    """A run name that is a path is no run name."""
    with pytest.raises(SpecError):
        read_spec(spec_of(an_order(run="../../etc")))


@pytest.mark.parametrize(
    ("state", "phase"),
    [
        ("starting", "Starting"),
        ("setting_up", "SettingUp"),
        ("running", "Running"),
        ("stopping", "Stopping"),
        ("a state of a later version", "Starting"),
    ],
)
def test_states_are_phases(state: str, phase: str) -> None:
    """Each state has its phase; an unknown one is nothing that a run was seen to have reached."""
    report = report_of("lab", said(state, status={"at_ms": 77}))
    assert (report.cluster, report.run, report.generation) == ("lab", "w-1-1", 3)
    assert (report.phase, report.end) == (phase, None)


def test_an_end_is_told_in_full() -> None:
    """Everything that the core can use of a record is in the end."""
    report = report_of("lab", said("ended", ENDED))
    assert (report.phase, report.at_ms) == ("Ended", 5000)
    assert report.end == RunEnd(
        how="notice",
        code=85,
        signal=None,
        rank=1,
        ranks={"0": 0, "1": 85},
        put_back=True,
        checkpointed=True,
        started_at_ms=1000,
        ended_at_ms=5000,
        peak_memory_bytes=4096,
        cpu_ms=12,
        message="rank 1 ended with 3",
        last_lines=("a", "b"),
        oom_kills=1,
        of_machine=True,
        disk_free_bytes=8192,
    )


SAMPLE: dict[str, Any] = {
    "at_ms": 9000,
    "memory_bytes": 800,
    "peak_memory_bytes": 900,
    "cpu_ms": 70,
    "processes": 3,
    "log_bytes": 5,
    "gpus": [
        {"index": 0, "memory_bytes": 77, "busy_percent": 50},
        {"index": 1, "memory_bytes": None, "busy_percent": None},
    ],
}


def test_a_sample_is_told_in_full() -> None:
    """What the driver of a GPU keeps to itself stays unknown."""
    assert sample_of("lab", {"event": "sample", "run": "w-1-1", "sample": SAMPLE}) == RunSample(
        cluster="lab",
        run=RunId("w-1-1"),
        at_ms=9000,
        memory_bytes=800,
        cpu_ms=70,
        processes=3,
        log_bytes=5,
        peak_memory_bytes=900,
        gpus=(GpuUse(0, 77, 50), GpuUse(1, None, None)),
    )


def test_an_inventory_is_in_order() -> None:
    """The same runs give the same inventory, however they were listed."""
    runs = [{**said("running"), "run": name} for name in ("w-2-1", "w-1-2", "w-1-1")]
    inventory = inventory_of("lab", runs, 9)
    assert [report.run for report in inventory.runs] == ["w-1-1", "w-1-2", "w-2-1"]
    assert inventory.at_ms == 9
    assert inventory == inventory_of("lab", runs[::-1], 9)


def test_numbers_that_no_journal_or_calendar_can_take_are_none() -> None:
    """A runtime that was tampered with keeps nobody from writing down or showing what it says."""
    record = {"code": 2**70, "peak_memory_bytes": 2**64, "ended_at_ms": 2**52, "started_at_ms": -9}
    report = report_of("lab", said("ended", record))
    assert report.end is not None
    end = report.end
    assert (end.code, end.peak_memory_bytes, end.ended_at_ms, end.started_at_ms) == (None, 0, 0, 0)
    assert sample_of("lab", {"run": "w-1-1", "sample": {"cpu_ms": 2**63}}).cpu_ms == 0


ANYTHING = st.none() | st.integers() | st.text(max_size=5) | st.booleans() | st.just([1])


@given(
    sample=st.fixed_dictionaries({}, optional={key: ANYTHING for key in SAMPLE if key != "gpus"})
)
def test_a_sample_of_another_version_is_still_a_sample(sample: dict[str, Any]) -> None:
    """Missing fields and unexpected values cost that field."""
    told = sample_of("lab", {"run": "w-1-1", "sample": sample})
    assert (told.run, told.gpus) == ("w-1-1", ())
    assert type(told.memory_bytes) is int


@given(
    record=st.fixed_dictionaries({}, optional={key: ANYTHING for key in ENDED if key != "ranks"})
)
def test_a_record_of_another_version_is_still_an_end(record: dict[str, Any]) -> None:
    """Missing fields and unexpected values cost that field, not the report."""
    record = {**record, "last_lines": ["x"]}
    report = report_of("lab", said("ended", record))
    assert report.run == RunId("w-1-1")
    assert report.end is not None
    assert isinstance(report.end.how, str)
    assert report.end.code is None or type(report.end.code) is int
