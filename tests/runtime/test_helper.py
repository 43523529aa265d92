"""What a job uses to talk with the runtime."""

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from stellwerk.runtime import helper
from tests.runtime.rig import Rig


def test_outside_a_job_nothing_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same program runs by hand."""
    monkeypatch.chdir(tmp_path)
    assert not helper.should_stop()
    helper.done()
    helper.metric(1, "loss", 0.5)
    helper.checkpoint_complete("x")
    assert os.listdir(tmp_path) == []


def test_metrics_are_lines_of_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers stay numbers; what JSON has no number for is text."""
    file = tmp_path / "metrics"
    monkeypatch.setenv("STELLWERK_METRICS_FILE", str(file))
    helper.metric(1, "loss", 0.25)
    helper.metric(2, "loss", float("nan"))
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(line["step"], line["value"]) for line in lines] == [(1, 0.25), (2, "nan")]
    assert all(line["name"] == "loss" and line["at_ms"] > 0 for line in lines)


def test_checkpoints_are_named_inside_their_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A complete checkpoint is recorded where it lies, so that the word travels with it."""
    monkeypatch.setenv("STELLWERK_CHECKPOINT_DIR", str(tmp_path))
    helper.checkpoint_complete(tmp_path / "step-100")
    line = json.loads((tmp_path / ".complete.jsonl").read_text())
    assert line["path"] == "step-100"


def test_what_a_job_forks_is_still_ended_by_the_signal(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Workers that are told to end do; a handler of the program's own stays."""
    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setenv("STELLWERK_STOP_FILE", str(tmp_path / "stop"))
    try:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        helper.stay()
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        assert not helper.should_stop()
        os.kill(os.getpid(), signal.SIGTERM)
        child = os.fork()
        if not child:
            os.kill(os.getpid(), signal.SIGTERM)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGTERM
    finally:
        signal.signal(signal.SIGTERM, before)


def test_job_with_the_helper(rig: Rig) -> None:
    """A job that looks for the notice itself saves and is put back, or says that it is done."""
    program = """
import sys, time
from stellwerk.runtime.helper import checkpoint_complete, done, metric, should_stop
should_stop()
print("ready", flush=True)
while not should_stop():
    time.sleep(0.02)
metric(7, "loss", 0.5)
checkpoint_complete("model")
if sys.argv[1] == "done":
    done()
    sys.exit(0)
sys.exit(85)
"""
    job = Path(rig.folder, "job.py")
    job.write_text(program)
    ends = []
    for word in ("later", "done"):
        # It has no handler for the signal: the helper sees to it that only the file tells it.
        script = f"{sys.executable} -S {job} {word}"
        rig.start(word, script)
        rig.wait_for_line(word, "ready")
        rig.client.ask("stop", run=word, why="preempt")
        ends.append(rig.ended(word))
    assert [(e["how"], e["put_back"], e["wrote_checkpoint"]) for e in ends] == [
        ("notice", True, True),
        ("exited", False, True),
    ]
    metrics = json.loads(Path(rig.path("later", "metrics.jsonl")).read_text())
    assert (metrics["name"], metrics["value"]) == ("loss", 0.5)
