"""What a run uses, and for how long nothing moved: only time in which somebody looked counts."""

import pytest
from msgspec.structs import replace

from stellwerk.core.model.ids import RunId
from stellwerk.core.model.reports import RunSample
from stellwerk.core.model.telemetry import GpuUse
from stellwerk.telemetry.idling import NEAR_MS
from stellwerk.telemetry.record import LOOKS_NEAR_MS, RunRecord
from stellwerk.telemetry.usage import UsageLog

FIRST = RunSample("lab", RunId("w-1-1"), 1_000, memory_bytes=100, cpu_ms=0, processes=2)
LINE = b'{"step": %d, "name": "loss", "value": 1}\n'


def gpu(busy: int | None, memory: int | None = 7, index: int = 0) -> GpuUse:
    return GpuUse(index, memory, busy)


def test_the_last_sample_and_the_peaks() -> None:
    """Peaks never fall, also not those that the runtime has seen before anybody asked."""
    log = UsageLog(())
    log.take(replace(FIRST, peak_memory_bytes=900), is_running=True)
    log.take(
        replace(FIRST, at_ms=3_000, memory_bytes=50, cpu_ms=3_000, processes=1), is_running=True
    )
    used = log.usage
    assert used is not None
    assert (used.memory_bytes, used.peak_memory_bytes) == (50, 900)
    assert (used.processes, used.peak_processes) == (1, 2)
    assert (used.cpus, used.cpu_ms) == (1.5, 3_000)
    assert (used.gpu_memory_bytes, used.gpu_busy_percent, used.peak_gpu_memory_bytes) == (None,) * 3


def test_an_older_sample_is_left_out() -> None:
    """Samples may come late or twice."""
    log = UsageLog(())
    log.take(replace(FIRST, at_ms=5_000), is_running=True)
    log.take(replace(FIRST, at_ms=4_000, memory_bytes=9), is_running=True)
    log.take(replace(FIRST, at_ms=5_000, memory_bytes=9), is_running=True)
    assert log.usage is not None
    assert log.usage.memory_bytes == 100


def test_memory_on_all_devices_counts_and_the_load_of_those_it_is_on() -> None:
    """Another run's busy card isn't this run's."""
    log = UsageLog((0, 1))
    devices = (gpu(30, 5), gpu(60, 6, 1), gpu(99, 0, 2))
    log.take(replace(FIRST, gpus=devices), is_running=True)
    log.take(replace(FIRST, at_ms=2_000, gpus=(gpu(2, 1),)), is_running=True)
    assert log.usage is not None
    assert (log.usage.gpu_memory_bytes, log.usage.gpu_busy_percent) == (1, 2)
    assert log.usage.peak_gpu_memory_bytes == 11


def idle_after(*samples: tuple[int, tuple[GpuUse, ...]], devices: tuple[int, ...] = (0,)) -> object:
    log = UsageLog(devices)
    for at_ms, gpus in samples:
        log.take(replace(FIRST, at_ms=at_ms, gpus=gpus), is_running=True)
    return log.gpu_idle_ms


def test_gpus_are_idle_while_none_of_the_runs_is_busy() -> None:
    """One busy look starts the count anew; devices that it doesn't hold don't count."""
    idle, busy = (gpu(0),), (gpu(50),)
    assert idle_after((1_000, idle), (6_000, idle), (11_000, idle)) == 10_000
    assert idle_after((1_000, idle), (6_000, busy), (11_000, idle)) == 5_000
    assert idle_after((1_000, (gpu(0), gpu(99, 0, 1))), (6_000, (gpu(1), gpu(99, 0, 1)))) == 5_000
    assert (
        idle_after((1_000, (gpu(0), gpu(0, 0, 1))), (6_000, (gpu(0), gpu(9, 0, 1))), devices=(0, 1))
        == 0
    )


def test_what_no_driver_tells_is_not_idle() -> None:
    """Without devices, without a word about one of them, and while nobody looked."""
    idle = (gpu(0),)
    assert idle_after((1_000, ()), (6_000, ())) is None
    assert idle_after((1_000, idle), (6_000, (gpu(None),))) is None
    assert idle_after((1_000, idle), (6_000, idle), devices=(0, 1)) is None
    assert idle_after((1_000, idle), (6_000, idle), devices=()) is None
    assert idle_after((1_000, idle), (90_000_000, idle)) == NEAR_MS


def read(
    record: RunRecord, data: bytes, now_ms: int, *, running: bool = True, more: int = 0
) -> int:
    size = record.offset + len(data) + more
    return record.read(data, size, now_ms, is_running=running)


def test_quiet_is_the_time_without_a_new_step() -> None:
    """It grows from look to look, and a new step ends it."""
    record = RunRecord()
    read(record, LINE % 1, 1_000)
    for now_ms in (6_000, 11_000):
        read(record, b"", now_ms)
    assert record.telemetry().quiet_ms == 10_000
    read(record, LINE % 1, 16_000)
    assert record.telemetry().quiet_ms == 15_000
    read(record, LINE % 2, 17_000)
    assert record.telemetry().quiet_ms == 0


def test_time_in_which_nobody_looked_is_not_quiet() -> None:
    """A suspended machine, a clock that was set, a cluster out of reach."""
    record = RunRecord()
    read(record, LINE % 1, 1_000)
    read(record, b"", 90_000_000)
    assert record.telemetry().quiet_ms == LOOKS_NEAR_MS
    record.look_failed()
    read(record, b"", 99_000_000)
    assert record.telemetry().quiet_ms == LOOKS_NEAR_MS
    read(record, b"", 1_000)
    assert record.telemetry().quiet_ms == LOOKS_NEAR_MS


def test_neither_setup_nor_reading_up_is_quiet() -> None:
    """Before the job runs nothing can move; what is still unread may hold a new step."""
    record = RunRecord()
    read(record, LINE % 1, 1_000, running=False)
    read(record, b"", 6_000, running=False)
    assert record.telemetry().quiet_ms == 0
    assert read(record, LINE % 1, 11_000, more=100)
    assert record.telemetry().quiet_ms == 0


def test_without_metrics_output_is_what_moves() -> None:
    """A job that prints goes on; one that doesn't is quiet from sample to sample."""
    record = RunRecord()
    assert record.telemetry().quiet_ms is None
    for at_ms, log_bytes in ((1_000, 5), (6_000, 5), (11_000, 5)):
        record.take(replace(FIRST, at_ms=at_ms, log_bytes=log_bytes), is_running=True)
    assert record.telemetry().quiet_ms == 10_000
    record.take(replace(FIRST, at_ms=16_000, log_bytes=6), is_running=True)
    assert record.telemetry().quiet_ms == 0
    record.take(replace(FIRST, at_ms=21_000, log_bytes=6), is_running=False)
    assert record.telemetry().quiet_ms is None


def test_a_file_that_was_written_anew_is_read_anew() -> None:
    """What was in the old one is forgotten."""
    record = RunRecord()
    read(record, (LINE % 1) * 3, 1_000)
    assert record.read(b"", 10, 2_000, is_running=True) == 10
    assert (record.offset, record.telemetry().metrics) == (0, {})
    read(record, LINE % 9, 3_000)
    assert record.telemetry().metrics["loss"].n == 1


@pytest.mark.parametrize("size", [0, 40])
def test_a_read_says_how_much_is_left(size: int) -> None:
    """So that it can go on at once."""
    assert RunRecord().read(b"", size, 1_000, is_running=True) == size


def test_what_is_skipped_ends_with_a_line() -> None:
    """The line in which reading goes on is left out, since its beginning is missing."""
    record = RunRecord()
    read(record, LINE % 1 + b'{"step": 2, "na', 1_000)
    record.skip(1_000)
    read(record, b'ss", "value": 9}\n' + LINE % 7, 2_000)
    (loss,) = record.telemetry().metrics.values()
    assert (loss.n, loss.step, loss.max) == (2, 7, 1)
    assert record.offset > 1_000
