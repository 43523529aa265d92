"""GPU memory over HTTP: who uses what, what would have been enough, and how full GPUs were."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from stellwerk.core.model.ids import RunId
from stellwerk.core.model.quantity import GIB
from stellwerk.core.model.reports import ClusterReport, Report, RunSample
from stellwerk.core.model.telemetry import GpuUse
from stellwerk.server.reading import read_item
from stellwerk.telemetry.gpu_history import EVERY_MS
from stellwerk.testing.builders import a_device, a_node
from tests.server.stage import Stage


@pytest.fixture
def lab(home_of_its_own: str) -> Iterator[Stage]:
    """A server that reads tasks as the real one does, with one GPU of 40 GiB."""
    with Stage(Path(home_of_its_own), read=read_item) as stage:
        node = replace(a_node(), devices=(replace(a_device(0), reserved_bytes=GIB),))
        stage.driver.facts = replace(stage.driver.facts, nodes=(node,))
        tell(stage, ClusterReport(stage.driver.facts))
        stage.until(lambda: devices(stage), "a GPU")
        yield stage


def tell(stage: Stage, report: Report) -> None:
    """Lets the cluster say something."""
    stage.loop.call_soon_threadsafe(stage.driver.out.put_nowait, report)


def devices(stage: Stage) -> list[dict[str, Any]]:
    """Those of the cluster's one node."""
    found: list[dict[str, Any]] = stage.get("/v1/clusters").json["items"][0]["nodes"][0]["devices"]
    return found


def submit(stage: Stage, name: str) -> dict[str, Any]:
    """A job that asks for 20 GiB of a GPU."""
    return stage.submit("run: x\n", overrides={"name": name, "gpu_memory": "20GiB"})


def uses(stage: Stage, name: str, run: str, gib: float) -> None:
    """The run is seen to hold so much."""
    stage.report(run, "Running")
    stage.until(lambda: stage.phase(name) == "Running", "that it runs")
    use = GpuUse(0, round(gib * GIB), 60, 39 * GIB - round(gib * GIB))
    tell(stage, RunSample("lab", RunId(run), 2 * EVERY_MS, 800, 90, 3, gpus=(use,)))
    stage.until(lambda: devices(stage)[0]["free_bytes"] is not None, "a sample")


def ends_well(stage: Stage, name: str, run: str) -> None:
    """The run is over with status 0."""
    stage.end(run)
    stage.until(lambda: stage.phase(name) == "Succeeded", "its end")


def test_what_is_used_is_shown_learned_and_said(lab: Stage) -> None:
    """From two good ends on; the order that the driver got says how much is the job's."""
    for number, gib in ((1, 5.0), (2, 3.0)):
        told = submit(lab, f"train-{number}")
        assert told["notices"] == []
        run = lab.started(str(told["id"]))
        uses(lab, f"train-{number}", run, gib)
        (device,) = devices(lab)
        (user,) = device["users"]
        assert (user["name"], user["asked_bytes"]) == (f"train-{number}", 20 * GIB)
        assert user["used_bytes"] == gib * GIB
        assert (device["reserved_bytes"], device["busy_percent"]) == (GIB, 60)
        ends_well(lab, f"train-{number}", run)
    assert lab.get("/v1/workloads/train-1").json["runs"][0]["holds"] == "1 CPU, 1 GPU (20 GiB)"
    env = lab.driver.started[0].ranks[0].env
    assert env["STELLWERK_GPU_MEMORY_BYTES"] == str(20 * GIB)
    told = submit(lab, "train-3")
    said = (
        "asked 20 GiB of a GPU, never held more than 5 GiB in 2 runs: `--gpu-memory 6GiB` would do"
    )
    assert [(one["code"], one["message"]) for one in told["notices"]] == [("gpu/asks-much", said)]
    for page in ("/v1/workloads/train-3", "/v1/workloads/train-3/explain"):
        assert lab.get(page).json["gpu_advice"] == said
    history = lab.get("/v1/gpus/history").json
    (device,) = history["items"]
    assert (device["cluster"], device["device"], device["points"]) == (
        "lab",
        "0",
        [[2 * EVERY_MS, 5 * GIB, 60]],
    )
    assert lab.get("/v1/gpus/history?cluster=elsewhere").json["items"] == []
