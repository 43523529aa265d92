"""Metrics, use and quarantine over HTTP: with a cluster that is led by hand."""

import msgspec
from msgspec.structs import replace

from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.ids import RunId
from stellwerk.core.model.reports import Report, RunSample, StartRefused
from stellwerk.core.model.telemetry import GpuUse, Metric, Usage
from stellwerk.core.model.workload import RunEnd
from stellwerk.server.telemetry_views import metric_view, usage_view
from stellwerk.testing.builders import a_run
from tests.server.stage import Stage

LINES = b'{"step": 1, "name": "loss", "value": 2}\n{"step": 2, "name": "loss", "value": "inf"}\n'


def tell(stage: Stage, report: Report) -> None:
    """Lets the cluster say something."""
    stage.loop.call_soon_threadsafe(stage.driver.out.put_nowait, report)


def test_a_page_has_the_metrics_and_the_use_of_its_newest_run(stage: Stage) -> None:
    """While it runs, and when it is over; what is not finite is a word that JSON can carry."""
    stage.submit(overrides={"name": "told"})
    id = str(stage.get("/v1/workloads/told").json["id"])
    assert stage.get("/v1/workloads/told").json["metrics"] == {}
    run = stage.started(id)
    stage.print(run, LINES, stream="metrics")
    stage.report(run, "Running")
    stage.until(lambda: stage.get("/v1/workloads/told").json["metrics"], "metrics")
    (metric,) = stage.get("/v1/workloads/told").json["metrics"].values()
    assert (metric["last"], metric["step"], metric["n"]) == ("inf", 2, 2)
    assert (metric["min"], metric["max"], metric["not_finite"]) == (2.0, 2.0, 1)
    sample = RunSample(
        "lab", RunId(run), 5_000, 800, 90, 3, gpus=(GpuUse(0, 77, 50),), peak_memory_bytes=900
    )
    tell(stage, sample)
    stage.until(lambda: stage.get("/v1/workloads/told").json["usage"], "a sample")
    (row,) = stage.get("/v1/workloads?name=told").json["items"]
    assert row["usage"] == stage.get("/v1/workloads/told").json["usage"]
    assert (row["usage"]["memory_bytes"], row["usage"]["peak_memory_bytes"]) == (800, 900)
    assert (row["usage"]["gpu_memory_bytes"], row["usage"]["gpu_busy_percent"]) == (77, 50)
    stage.end(run)
    stage.until(lambda: stage.phase("told") == "Succeeded", "its end")
    page = stage.get("/v1/workloads/told").json
    assert page["metrics"]["loss"]["n"] == 2
    assert (page["usage"]["memory_bytes"], page["usage"]["peak_memory_bytes"]) == (None, 900)
    assert page["usage"]["peak_gpu_memory_bytes"] == 77


def node_state(stage: Stage) -> str:
    """The state of the cluster's one node."""
    return str(stage.get("/v1/clusters").json["items"][0]["nodes"][0]["state"])


def test_a_quarantined_node_is_resumed(stage: Stage) -> None:
    """Whoever names another one, or one that works, is told so."""
    unknown = stage.post("/v1/clusters/nowhere/nodes/n1/resume")
    assert (unknown.status, unknown.json["code"]) == (404, "find/cluster")
    unknown = stage.post("/v1/clusters/lab/nodes/n9/resume")
    assert (unknown.status, unknown.json["code"], unknown.json["exit"]) == (404, "find/node", 3)
    assert "n1" in unknown.json["problems"][0]["help"]
    works = stage.post("/v1/clusters/lab/nodes/n1/resume")
    assert (works.status, works.json["code"]) == (409, "phase/not-quarantined")
    for number in range(3):
        name = f"refused{number}"
        id = stage.submit(overrides={"name": name})["id"]
        run = RunId(stage.started(id))
        tell(stage, StartRefused("lab", run, 1, "snapshot/disk-full", "no room"))
    stage.until(lambda: node_state(stage) == "quarantined", "the quarantine")
    waits = stage.submit(overrides={"name": "waits"})
    stage.until(lambda: stage.get("/v1/workloads/waits").json["decision"], "a decision")
    reason = stage.get("/v1/workloads/waits").json["reason"]
    assert (reason["code"], reason["tier"]) == ("quarantined", "held")
    resumed = stage.post("/v1/clusters/lab/nodes/n1/resume")
    assert (resumed.status, resumed.json) == (
        200,
        {"cluster": "lab", "node": "n1", "state": "ready"},
    )
    stage.started(waits["id"])
    types = [item["event"]["type"] for item in stage.get("/v1/events?limit=1000").json["items"]]
    assert types.count("node-quarantined") == types.count("node-resumed") == 1


def test_views_leave_nothing_out() -> None:
    """Every field of what is known has its place, and numbers that JSON hasn't become words."""
    usage = Usage(1, 2, 3, 4, 0.5, 6, 7, 8, 9, 10)
    told = usage_view(a_run(), usage)
    assert told is not None
    assert msgspec.structs.asdict(told) == msgspec.structs.asdict(usage)
    assert metric_view(Metric(float("nan"), 1, 1)).last == "nan"
    assert metric_view(Metric(float("-inf"), 1, 1)).last == "-inf"
    assert msgspec.json.encode(metric_view(Metric(0.5, 1, 1))).startswith(b'{"last":0.5')


def test_nobody_measured_is_no_use() -> None:
    """No run, no sample yet, or an end without numbers."""
    assert usage_view(None, None) is None
    assert usage_view(a_run(), None) is None
    assert usage_view(a_run(end=RunEnd(how="reboot")), None) is None
    ended = usage_view(a_run(end=RunEnd(how="exited", cpu_ms=5, ended_at_ms=9)), None)
    assert ended is not None
    assert (ended.at_ms, ended.cpu_ms, ended.memory_bytes) == (9, 5, None)


def test_a_cluster_of_many_nodes_says_which_is_out_of_use() -> None:
    """State by state; the cluster itself is degraded."""
    from stellwerk.server.views import cluster_view
    from stellwerk.testing.builders import a_cluster, a_node

    room: Cluster = a_cluster("room", a_node("a"), a_node("b"), kind="room")
    bad = replace(room.nodes[1], state="quarantined", note="3 workloads in a row")
    view = cluster_view(replace(room, nodes=(room.nodes[0], bad)), {}, 0)
    assert view.state == "degraded"
    assert [(node.state, node.note) for node in view.nodes] == [
        ("ready", ""),
        ("quarantined", "3 workloads in a row"),
    ]
