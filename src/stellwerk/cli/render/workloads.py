"""The columns of lists of workloads."""

from collections.abc import Callable, Mapping

from stellwerk.cli.render.ahead import start_cell
from stellwerk.cli.render.phases import phase_cell
from stellwerk.cli.render.reasons import in_a_row, in_short
from stellwerk.cli.render.table import Column
from stellwerk.cli.render.units import age, duration, size
from stellwerk.client.ahead import Forecast
from stellwerk.client.arrays import ARRAY
from stellwerk.client.queueing import LineItem
from stellwerk.client.wire import Row, Usage


def columns(now_ms: int, *, owners: bool = False) -> list[Column[Row]]:
    """What `ps` shows; identifiers, owner and queue with `wide`, owners where there are several."""
    return [
        Column("name", "NAME", lambda row: row.name),
        Column("id", "ID", lambda row: row.id, wide=True),
        Column("owner", "OWNER", lambda row: row.owner, wide=not owners),
        Column("phase", "PHASE", lambda row: phase_cell(row.phase)),
        Column("wants", "WANTS", lambda row: row.wants or "-"),
        Column("cluster", "CLUSTER", lambda row: row.cluster or "-"),
        Column("nodes", "NODES", lambda row: ",".join(row.nodes) or "-", wide=True),
        Column("queue", "QUEUE", lambda row: row.queue, wide=True),
        Column(
            "priority",
            "PRIO",
            lambda row: str(row.priority),
            lambda row: row.priority,
            right=True,
            wide=True,
        ),
        Column(
            "age",
            "AGE",
            lambda row: age(row.submitted_ms, now_ms),
            lambda row: -row.submitted_ms,
            right=True,
        ),
        Column("time", "RAN", _ran(now_ms), lambda row: ran_ms(row, now_ms), right=True),
        Column("runs", "RUNS", _runs, lambda row: row.runs, right=True),
        Column(
            "exit",
            "EXIT",
            lambda row: "-" if row.exit_code is None else str(row.exit_code),
            lambda row: -1 if row.exit_code is None else row.exit_code,
            right=True,
        ),
        *_usage_columns(),
        Column("why", "WHY", why, grows=True),
    ]


def _runs(row: Row) -> str:
    """How often it was started; an array was not, but each of its elements for itself."""
    return "-" if row.kind == ARRAY else str(row.runs)


def _usage_columns() -> list[Column[Row]]:
    """What the newest run uses and has used at most; shown with `wide`."""

    def column(key: str, header: str, text: Callable[[Usage], str], field: str) -> Column[Row]:
        return Column(
            key,
            header,
            lambda row: text(row.usage) if row.usage else "-",
            lambda row: (row.usage and getattr(row.usage, field)) or 0,
            right=True,
            wide=True,
        )

    def amount(value: int | None) -> str:
        return "-" if value is None else size(value)

    return [
        column("cpus", "CPUS", lambda u: "-" if u.cpus is None else f"{u.cpus:.1f}", "cpus"),
        column("memory", "MEMORY", lambda u: amount(u.memory_bytes), "memory_bytes"),
        column("peak", "PEAK", lambda u: size(u.peak_memory_bytes), "peak_memory_bytes"),
        column("procs", "PROCS", lambda u: str(u.processes or "-"), "processes"),
        column("gpumem", "GPUMEM", lambda u: amount(u.gpu_memory_bytes), "gpu_memory_bytes"),
        column(
            "gpupeak",
            "GPUPEAK",
            lambda u: amount(u.peak_gpu_memory_bytes),
            "peak_gpu_memory_bytes",
        ),
    ]


def queue_columns(
    now_ms: int,
    starts: Mapping[str, Forecast] | None = None,
    told: Mapping[str, LineItem] | None = None,
) -> list[Column[tuple[int, Row]]]:
    """What `queue` shows: the waiting in their order; 0 is the place of whom somebody holds.

    `starts` are forecasts by id, `told` every reason and who holds what is lacking.
    """
    known, line = starts or {}, told or {}
    return [
        Column("place", "#", lambda line: str(line[0] or "-"), lambda line: line[0], right=True),
        Column("name", "NAME", lambda line: line[1].name),
        Column("id", "ID", lambda line: line[1].id, wide=True),
        Column("owner", "OWNER", lambda line: line[1].owner),
        Column("queue", "QUEUE", lambda line: line[1].queue),
        Column("wants", "WANTS", lambda line: line[1].wants or "-"),
        Column(
            "priority",
            "PRIO",
            lambda line: str(line[1].priority),
            lambda line: line[1].priority,
            right=True,
        ),
        Column(
            "waited",
            "WAITED",
            lambda line: age(line[1].submitted_ms, now_ms),
            lambda line: -line[1].submitted_ms,
            right=True,
        ),
        Column(
            "starts",
            "STARTS",
            lambda line: start_cell(known.get(line[1].id), now_ms),
            lambda line: _likely_ms(known.get(line[1].id)),
        ),
        Column("why", "WHY", lambda one: _whole_why(one[1], line.get(one[1].id)), grows=True),
    ]


def _whole_why(row: Row, told: LineItem | None) -> str:
    """Every reason in its tier, worst first, and who holds what is lacking."""
    if told is None or row.reason is None:
        return why(row)
    reasons = in_a_row(told.reasons) or why(row)
    if not told.held_by:
        return reasons
    more = f" and {told.more_holders} more" if told.more_holders else ""
    return f"{reasons}; held by {', '.join(told.held_by)}{more}"


def _likely_ms(found: Forecast | None) -> int:
    return found.likely_ms if found is not None and found.likely_ms is not None else 1 << 62


def why(row: Row) -> str:
    """The worst reason that holds, for what waits or failed."""
    if row.reason is None or row.phase == "Succeeded":
        return ""
    return row.reason.sentence if row.ended else in_short(row.reason)


def ran_ms(row: Row, now_ms: int) -> int:
    """How long the newest run has run."""
    return max(0, (row.ended_ms or now_ms) - row.started_ms) if row.started_ms else 0


def _ran(now_ms: int) -> Callable[[Row], str]:
    return lambda row: duration(ran_ms(row, now_ms)) if row.started_ms else "-"
