"""What the larger answers look like, to the letter."""

import msgspec
import pytest

from stellwerk.cli.render import (
    clusters,
    ending,
    events,
    explain,
    gpus,
    reasons,
    show,
    workloads,
)
from stellwerk.cli.terminal import Terminal
from stellwerk.client import fleet, wire
from stellwerk.core.model.reasons import RenderedReason
from tests.client.fake_server import reason, row, run
from tests.client.fake_server import show as page

NOW = 1_700_000_060_000
SCREEN = Terminal(is_tty=True, colour=False, unicode=False, width=100)
CAPACITY = reason(
    "no_room", "capacity", "2 CPUs asked, 1 free on laptop", "wait until running work ends", "time"
)
BLOCKED = reason(
    "never_fits", "blocked", "16 GPUs asked, rack can give at most 8", "ask for at most 8"
)


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    import time

    time.tzset()


def candidate(
    cluster: str, verdict: str, scores: dict[str, int], *why: object
) -> dict[str, object]:
    return {
        "cluster": cluster,
        "alternative": 0,
        "wants": "2 CPUs",
        "verdict": verdict,
        "reasons": list(why),
        "shortfalls": [],
        "scores": scores,
        "total": sum(scores.values()),
    }


def decision(**more: object) -> dict[str, object]:
    return {
        "id": "d-7f2c",
        "at_ms": NOW - 20_000,
        "age_ms": 0,
        "chosen": "laptop",
        "runner_up": "rack",
        "change": ["rack wins if laptop has fewer than 2 CPUs free"],
        "inputs": {},
        "candidates": [
            candidate("laptop", "chosen", {"room": 40, "cost": 100}),
            candidate("rack", "fits", {"room": 90, "cost": 10}),
            candidate("k017", "never", {}, BLOCKED),
        ],
        **more,
    }


def test_a_placed_workload_is_explained() -> None:
    """The matrix of candidates, the next best, and what would change it."""
    explained = msgspec.convert(
        {"name": "digits", "phase": "Running", "decision": decision()}, wire.Explained
    )
    assert explain.lines_of(explained, SCREEN, NOW) == [
        "digits is on laptop (decision d-7f2c, made 22:14:00, 20 s ago)",
        "",
        "  CLUSTER  VERDICT  room  cost    =  WHY",
        "  laptop   chosen     40   100  140",
        "  rack     fits       90    10  100",
        "  k017     never                     blocked: 16 GPUs asked, rack can give at most 8",
        "  (room: percent of its CPUs that would stay free; =: the sum, the most wins)",
        "next best: rack",
        "what would change it: rack wins if laptop has fewer than 2 CPUs free",
    ]


def test_a_waiting_workload_is_explained() -> None:
    """All reasons with remedies and who can act, worst first, and the place in line."""
    explained = msgspec.convert(
        {
            "name": "huge",
            "phase": "Pending",
            "reasons": [BLOCKED, CAPACITY],
            "position": {"place": 3, "ahead": 2, "waiting": 7},
            "decision": None,
        },
        wire.Explained,
    )
    assert explain.lines_of(explained, SCREEN, NOW) == [
        "huge waits, #3 of 7 in line (no decision recorded)",
        "  blocked: 16 GPUs asked, rack can give at most 8  [never_fits]",
        "    -> ask for at most 8",
        "  capacity: 2 CPUs asked, 1 free on laptop  [no_room]",
        "    -> time: wait until running work ends",
    ]


@pytest.mark.parametrize(
    ("phase", "chosen", "head"),
    [
        ("Held", None, "x is held"),
        ("Succeeded", "laptop", "x was on laptop"),
        ("Cancelled", None, "x never ran"),
        ("Starting", "laptop", "x is on laptop"),
    ],
)
def test_the_first_line_says_where_it_is(phase: str, chosen: str | None, head: str) -> None:
    """In a sentence that fits the phase."""
    explained = msgspec.convert(
        {"name": "x", "phase": phase, "decision": decision(chosen=chosen)}, wire.Explained
    )
    assert explain.lines_of(explained, SCREEN, NOW)[0].startswith(f"{head} (decision")


def test_alternatives_are_told_apart() -> None:
    """With several sets of resources each line says for which it is."""
    two = [
        {**candidate("laptop", "later", {}), "alternative": n, "wants": f"{n + 1} GPUs"}
        for n in (0, 1)
    ]
    explained = msgspec.convert(
        {"name": "x", "phase": "Pending", "decision": decision(candidates=two)}, wire.Explained
    )
    lines = explain.lines_of(explained, SCREEN, NOW)
    assert lines[2].split() == ["CLUSTER", "VERDICT", "FOR", "WHY"]
    assert "2 GPUs" in lines[4]


END = {
    "how": "exited",
    "code": 3,
    "signal": None,
    "message": "",
    "last_lines": ["loss is nan"],
    "peak_memory_bytes": 2**30,
    "cpu_ms": 4200,
}
METRICS = {
    "loss": {"last": "nan", "step": 3, "at_ms": NOW - 1000, "n": 9, "not_finite": 1},
    "acc": {"last": 0.5, "step": 3, "at_ms": NOW, "n": 9, "min": 0.25, "max": 1.0},
}


def test_a_page_says_everything() -> None:
    """Facts, reasons, runs, last lines, metrics, timeline: in this order."""
    failed = reason("exit_code", "ended", "the command ended with exit code 3", "mend it")
    shown = msgspec.convert(
        page(
            "digits",
            "Failed",
            cluster="laptop",
            nodes=["laptop"],
            exit_code=3,
            reasons=[failed],
            labels={"team": "x"},
            work_dir="/w",
            output_dir="/o",
            decision="d-1",
            snapshot={"hash": "h", "files": 1, "bytes": 2048, "commit": "a" * 40, "dirty": True},
            runs=[run(1, "Ended", ended_ms=NOW - 50_000, end=END, reason=failed)],
            metrics=METRICS,
            usage={"cpu_ms": 4200, "peak_memory_bytes": 2**30},
            timeline=[{"at_ms": NOW - 60_000, "what": "submitted by ada"}],
        ),
        wire.Show,
    )
    assert show.lines_of(shown, SCREEN, NOW) == [
        f"digits  Failed  {shown.id}",
        "  owner       ada in default",
        "  wants       1 CPU, 2 GiB",
        "  queue       default, priority 0",
        "  submitted   22:13:20 (1 min ago)",
        "  cluster     laptop",
        "  task        run: x",
        "  uses        memory at most 1 GiB",
        "  code        1 file, 2 KiB, commit aaaaaaaaaaaa with changes",
        "  labels      team=x",
        "  folder      /w",
        "  outputs     /o",
        "  decision    d-1",
        "",
        "  the command ended with exit code 3  [exit_code]",
        "    -> mend it",
        "",
        "  RUN  PHASE  CLUSTER  STARTED     RAN   PEAK    CPU  EXIT  HOW",
        (
            "    1  Ended  laptop   22:13:20  9.8 s  1 GiB  4.2 s     3  "
            "the command ended with exit code 3"
        ),
        "",
        "  last lines:",
        "  | loss is nan",
        "",
        "  METRIC                LAST  STEP   MIN  MAX  VALUES  AGE",
        "  acc                    0.5     3  0.25    1       9  0 s",
        "  loss    nan (1 not finite)     3     -    -       9  1 s",
        "",
        "  22:13:20  submitted by ada",
    ]


USED = {
    "cpus": 1.94,
    "cpu_ms": 9000,
    "memory_bytes": 300 * 2**20,
    "processes": 3,
    "gpu_memory_bytes": 2**30,
    "gpu_busy_percent": 87,
    "peak_memory_bytes": 2**29,
    "peak_processes": 9,
    "peak_gpu_memory_bytes": 2**31,
}


def test_a_page_says_what_a_run_uses() -> None:
    """Now and at most; processors as many as are kept busy."""
    shown = msgspec.convert(page("digits", "Running", usage=USED), wire.Show)
    line = next(line for line in show.lines_of(shown, SCREEN, NOW) if "uses" in line)
    assert line == (
        "  uses        1.9 CPUs, memory 300 MiB (at most 512 MiB), 3 processes, "
        "GPU memory 1 GiB (at most 2 GiB) 87 % busy"
    )


def test_a_page_says_which_element_of_a_sweep_it_is() -> None:
    """With its values, which the names of elements don't tell."""
    part = {"id": "a-1", "name": "sw", "index": 1, "count": 4, "env": {"lr": "1e-3", "bs": "64"}}
    shown = msgspec.convert(page("sw-1", "Running", element=part), wire.Show)
    assert "  element     index 1, one of 4: lr=1e-3 bs=64" in show.lines_of(shown, SCREEN, NOW)


def test_a_wide_list_says_what_runs_use() -> None:
    """In columns that sort by the numbers; a dash where nobody measured."""
    busy = msgspec.convert(row("busy", "Running", usage=USED), wire.Row)
    waits = msgspec.convert(row("waits", "Pending"), wire.Row)
    over = msgspec.convert(row("over", "Failed", usage={"peak_memory_bytes": 2**20}), wire.Row)
    columns = {one.key: one for one in workloads.columns(NOW)}
    wanted = ("cpus", "memory", "peak", "procs", "gpumem", "gpupeak")
    assert [[columns[key].cell(one) for key in wanted] for one in (busy, waits, over)] == [
        ["1.9", "300 MiB", "512 MiB", "3", "1 GiB", "2 GiB"],
        ["-"] * 6,
        ["-", "-", "1 MiB", "-", "-", "-"],
    ]
    by_memory = columns["memory"].sort
    assert by_memory is not None
    assert [by_memory(one) for one in (busy, waits, over)] == [300 * 2**20, 0, 0]


def test_an_end_after_several_runs_says_so() -> None:
    """What it cost: the time it waited, and how often it ran."""
    runs = [run(1, "Ended"), run(2, "Ended", ended_ms=NOW)]
    shown = msgspec.convert(
        page("digits", "Succeeded", exit_code=0, runs=runs, submitted_ms=1_699_999_990_000),
        wire.Show,
    )
    assert ending.ending(shown)[0] == (
        "digits succeeded on laptop: ran 59.8 s in the last of 2 runs, waited 10.2 s, exit 0"
    )


def test_reasons_in_a_row_keep_their_order() -> None:
    """Worst first, as they came."""
    both = msgspec.convert([BLOCKED, CAPACITY], list[RenderedReason])
    assert reasons.in_a_row(both) == (
        "blocked: 16 GPUs asked, rack can give at most 8 | capacity: 2 CPUs asked, 1 free on laptop"
    )


GIB = 2**30
FLEET = msgspec.convert(
    [
        {
            "name": "atlas",
            "driver": "ssh",
            "kind": "machine",
            "state": "ready",
            "runs": ["w-1-1"],
            "facts_age_ms": 3400,
            "nodes": [
                {
                    "name": "atlas",
                    "cpus": 64,
                    "cpus_free": 61.5,
                    "memory_bytes": 256 * GIB,
                    "memory_free_bytes": 200 * GIB,
                    "devices": [
                        {
                            "index": 0,
                            "kind": "A100-80GB",
                            "memory_bytes": 80 * GIB,
                            "held_bytes": 60 * GIB,
                            "runs": ["w-1-1"],
                        },
                        {
                            "index": 1,
                            "kind": "A100-80GB",
                            "memory_bytes": 80 * GIB,
                            "foreign_bytes": 20 * GIB,
                        },
                        {"index": 2, "kind": "A100-80GB", "memory_bytes": 80 * GIB},
                    ],
                }
            ],
        }
    ],
    tuple[fleet.ClusterView, ...],
)


def test_a_cluster_says_what_is_free() -> None:
    """A device that somebody holds isn't free."""
    assert clusters.free(FLEET[0]) == "61.5 CPUs, 200 GiB, 1xA100-80GB"
    assert clusters.total(FLEET[0]) == "64 CPUs, 256 GiB, 3xA100-80GB"


def test_a_node_that_is_not_ready_gives_nothing() -> None:
    """What it has isn't free while it can't be used."""
    node = msgspec.structs.replace(FLEET[0].nodes[0], state="unreachable")
    assert clusters.free(msgspec.structs.replace(FLEET[0], nodes=[node])) == "0 CPUs, 0 B"
    drained = [msgspec.structs.replace(node, name=name, note="drained") for name in ("a", "b")]
    assert clusters.note(msgspec.structs.replace(FLEET[0], nodes=drained)) == "drained"
    drained[1] = msgspec.structs.replace(drained[1], state="drained")
    other = msgspec.structs.replace(node, name="c", note="off", state="unreachable")
    kept = [msgspec.structs.replace(drained[0], state="drained"), drained[1], other]
    assert clusters.note(msgspec.structs.replace(FLEET[0], nodes=kept)) == "a, b: drained; off"
    unknown = msgspec.structs.replace(FLEET[0], nodes=[])
    assert (clusters.free(unknown), clusters.total(unknown)) == ("?", "?")


def test_gpus_have_bars() -> None:
    """Held by runs (#), by others (x), free (.)."""
    lines = gpus.gpu_lines(FLEET, None)
    assert [gpus.bar(line.device, SCREEN) for line in lines] == [
        "[################......]   60/80",
        "[xxxxxx................]   20/80",
        "[......................]    0/80",
    ]
    assert gpus.bar(lines[0].device, SCREEN._replace(is_tty=False)) == "60/80"
    assert gpus.summary(lines) == "3 GPUs, 1 of them free"
    assert gpus.gpu_lines(FLEET, "elsewhere") == []


@pytest.mark.parametrize(
    ("event", "about", "what"),
    [
        (
            {"type": "leader-changed", "epoch": 3, "version": "0.1.0"},
            "-",
            "a server leads, epoch 3, version 0.1.0",
        ),
        ({"type": "released", "id": "w-1"}, "digits", "released by ada"),
        (
            {"type": "run-progressed", "run": "w-1-2", "phase": "Running"},
            "digits",
            "run 2 is running",
        ),
        (
            {"type": "from-the-future", "id": "w-2"},
            "w-2",
            "from-the-future (a fact this version does not know)",
        ),
    ],
)
def test_facts_are_sentences(event: dict[str, object], about: str, what: str) -> None:
    """Also those that are about no workload, and those of a newer version."""
    record = wire.EventRecord(1, NOW, event, actor="ada")
    assert events.named(events.subject(record), {"w-1": "digits"}) == about
    assert events.what(record) == what


def test_a_list_says_why_only_where_something_is_wrong() -> None:
    """A finished workload needs no explanation."""
    from stellwerk.cli.render.workloads import why

    rows = msgspec.convert(
        [row("a", phase, reason=CAPACITY) for phase in ("Pending", "Failed", "Succeeded")],
        list[wire.Row],
    )
    assert [why(one) for one in rows] == [
        "capacity: 2 CPUs asked, 1 free on laptop",
        "2 CPUs asked, 1 free on laptop",
        "",
    ]
