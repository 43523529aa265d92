"""What a run tells of itself, seen by a person: metrics, use, and rules that end it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stellwerk.client.api import Client
from tests.flows.person import Person
from tests.runtime.stand_in import NO_COMPILER, compiled

RULES = "resources: {{labels: {{stellwerk/abort-when: '{}', stellwerk/checkpoint-grace: 1s}}}}\n"
WRITES = """write() {{ echo "{{\\"step\\": $1, \\"name\\": \\"loss\\", \\"value\\": $2}}"; }}
{} >> $STELLWERK_METRICS_FILE"""


def eventually(person: Person, name: str, holds: Callable[[Any], bool]) -> Any:
    """A workload's page as soon as something holds of it."""
    page: Any = None

    def looks(client: Client) -> bool:
        nonlocal page
        page = msgspec.to_builtins(client.get(name))
        return holds(page)

    person.wait(looks, lambda: page)
    return person.json("show", name)


def until_there(path: Path) -> str:
    """A command that waits for a file, but not for ever."""
    return f"for _ in $(seq 1200); do [ ! -e {path} ] || break; sleep 0.05; done"


def test_metrics_and_use_are_shown_while_it_runs_and_after(person: Person) -> None:
    """A killed server reads the file again; of an ended run the peaks are left."""
    go = person.desk / "go"
    script = WRITES.format("for i in 1 2 3; do write $i 0.$i; done") + f"\n{until_there(go)}"
    person.stw("run", person.task(script, name="train"), "-d")
    page = eventually(person, "train", lambda page: page["metrics"] and page["usage"])
    loss = page["metrics"]["loss"]
    assert (loss["last"], loss["step"], loss["n"], loss["min"], loss["max"]) == (
        0.3,
        3,
        3,
        0.1,
        0.3,
    )
    assert page["usage"]["memory_bytes"] > 0
    assert page["usage"]["processes"] >= 1
    wide = person.stw("ps", "-o", "wide").stdout.splitlines()
    assert {"CPUS", "MEMORY", "PEAK", "PROCS"} <= set(wide[0].split())
    assert "MiB" in wide[1]
    person.kill_server()
    assert person.json("show", "train")["metrics"]["loss"]["n"] == 3
    go.touch()
    person.until({"train": "Succeeded"})
    person.kill_server()
    page = person.json("show", "train")
    assert page["metrics"]["loss"]["n"] == 3
    assert page["usage"]["peak_memory_bytes"] > 0
    text = person.stw("show", "train").stdout
    assert "METRIC" in text
    assert "memory at most" in text


def test_a_metric_that_is_no_number_ends_the_run(colleague: Person) -> None:
    """Only where a rule says so, of the metric that it names, and it isn't tried again."""
    nan = WRITES.format("{ write 1 2; write 2 NaN; }") + "\nsleep 30"
    more = RULES.format("not-finite loss").replace(
        "{labels", "{job_recovery: {max_restarts_on_errors: 3}, labels"
    )
    done = colleague.stw("run", colleague.task(nan, name="nan", more=more), code=None)
    assert done.returncode != 0
    assert "loss was no longer a number (nan) at step 2  [aborted_not_finite]" in done.stderr
    page = colleague.json("show", "nan")
    assert (page["phase"], len(page["runs"])) == ("Failed", 1)
    assert page["runs"][0]["notice"] == "abort"
    assert page["metrics"]["loss"]["last"] == "nan"
    assert "an abort rule held" in colleague.stw("story", "nan").stdout


def test_without_a_rule_it_goes_on_and_is_marked(colleague: Person) -> None:
    """Whoever looks sees that a value wasn't a number."""
    nan = WRITES.format("{ write 1 2; write 2 NaN; write 3 1; }")
    colleague.stw("run", colleague.task(nan, name="marked"))
    page = eventually(
        colleague, "marked", lambda page: page["metrics"].get("loss", {}).get("n") == 3
    )
    assert page["metrics"]["loss"]["not_finite"] == 1
    assert "1 (1 not finite)" in colleague.stw("show", "marked").stdout


def test_a_run_that_gets_nowhere_is_ended(colleague: Person) -> None:
    """One whose metrics move on is left alone."""
    stuck = colleague.task(
        WRITES.format("write 1 2") + "\nsleep 40", name="stuck", more=RULES.format("no-progress 3s")
    )
    go = colleague.desk / "moved-long-enough"
    moving = WRITES.format(f"until [ -e {go} ]; do write $((++i)) 1; sleep 0.5; done")
    moves = colleague.task(moving, name="moves", more=RULES.format("no-progress 3s"))
    colleague.stw("run", moves, "-d")
    colleague.until({"moves": "Running"})
    colleague.stw("run", stuck, "-d")
    colleague.until({"stuck": "Failed"})
    go.touch()
    colleague.until({"moves": "Succeeded"})
    (reason,) = colleague.json("show", "stuck")["reasons"]
    assert reason["code"] == "aborted_no_progress"
    assert reason["sentence"].endswith("nothing moved for 3 s; the last step was 1")


@pytest.mark.skipif(bool(NO_COMPILER), reason=NO_COMPILER)
def test_a_gpu_that_rests_ends_the_run(person: Person) -> None:
    """With a stand-in for the driver's library: memory is shown, and a rule ends an idle run."""
    library, pid = compiled(person.folder), str(person.folder / "pid")
    person.env |= {
        "STELLWERK_NVML_LIBRARY": library,
        "STAND_IN_PID_FILE": pid,
        "STAND_IN_BUSY": "0",
        "STELLWERK_KEEP_ENV": "STAND_IN_PID_FILE,STAND_IN_BUSY",
    }
    asks = RULES.format("gpu-idle 4s").replace("{labels", "{accelerators: 'RTX:1', labels")
    asks = asks.replace("RTX:1", "24GB+:1")
    task = person.task(f"echo $$ > {pid}; sleep 60", name="idle", more=asks)
    person.stw("run", task, "-d")
    page = eventually(
        person, "idle", lambda page: page["usage"] and page["usage"]["gpu_memory_bytes"]
    )
    assert page["usage"]["gpu_memory_bytes"] == 256 * 2**20
    assert page["usage"]["gpu_busy_percent"] == 0
    assert "GPU memory 256 MiB" in person.stw("show", "idle").stdout
    person.until({"idle": "Failed"})
    page = person.json("show", "idle")
    assert page["reasons"][0]["code"] == "aborted_gpu_idle"
    assert page["usage"]["peak_gpu_memory_bytes"] == 256 * 2**20
