"""Output as raw bytes: by offset, followed while it grows, over setup and several runs."""

import http.client
import threading
import time

import pytest

from stellwerk.core.model.workload import RunEnd
from tests.server.stage import Stage


class Reading:
    """Reads a stream in a thread, as it comes."""

    def __init__(self, stage: Stage, path: str) -> None:
        self.data = bytearray()
        self.over = False
        self.status = 0
        self._answer = stage.stream(path)
        self.status = self._answer.status
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self) -> None:
        while chunk := self._answer.read1(65536):
            self.data += chunk
        self.over = True


def running(stage: Stage, text: str = "true", **more: object) -> str:
    """Submits a job and lets it run; gives its run."""
    run = stage.started(stage.submit(text, **more)["id"])
    stage.report(run, "Running")
    return run


def test_a_log_is_read_by_offset_and_limit(stage: Stage) -> None:
    """The answer says where it begins and how far the workload is."""
    run = running(stage)
    stage.print(run, b"0123456789")
    stage.until(lambda: stage.phase("job") == "Running", "running")
    whole = stage.get("/v1/workloads/job/logs")
    assert (whole.body, whole.headers["stellwerk-offset"]) == (b"0123456789", "0")
    assert whole.headers["stellwerk-phase"] == "Running"
    assert stage.get("/v1/workloads/job/logs?offset=4&limit=3").body == b"456"
    assert stage.get("/v1/workloads/job/logs?offset=99").body == b""
    assert stage.get("/v1/workloads/job/logs?stream=setup").body == b""


def test_a_log_of_many_pieces_is_whole(stage: Stage) -> None:
    """Longer than one read, with bytes that are no text."""
    run = running(stage)
    data = bytes(range(256)) * 5000
    stage.print(run, data)
    assert stage.get("/v1/workloads/job/logs").body == data
    follower = Reading(stage, "/v1/workloads/job/logs?follow=1")
    stage.until(lambda: len(follower.data) == len(data), "all of it")
    stage.end(run)
    stage.until(lambda: follower.over, "the end")
    assert follower.data == data


def test_following_ends_when_the_run_has_ended_and_all_is_sent(stage: Stage) -> None:
    """What is printed appears at once; the last bytes come before the end."""
    run = running(stage)
    follower = Reading(stage, "/v1/workloads/job/logs?follow=1")
    stage.print(run, b"first\n")
    stage.until(lambda: follower.data == b"first\n", "the first line")
    began = time.perf_counter()
    stage.print(run, b"second\n")
    stage.until(lambda: follower.data.endswith(b"second\n"), "the second line")
    assert time.perf_counter() - began < 2
    assert not follower.over
    stage.print(run, b"last\n")
    stage.end(run)
    stage.until(lambda: follower.over, "the end")
    assert follower.data == b"first\nsecond\nlast\n"


def test_following_waits_for_a_job_that_has_not_started(stage: Stage) -> None:
    """One can follow right after submit; a job that never starts ends the stream."""
    waiting = stage.submit(held=True)
    follower = Reading(stage, f"/v1/workloads/{waiting['id']}/logs?follow=1")
    stage.post(f"/v1/workloads/{waiting['id']}/release")
    run = stage.started(waiting["id"])
    stage.print(run, b"here\n")
    stage.report(run, "Running")
    stage.until(lambda: follower.data == b"here\n", "its output")
    stage.end(run)
    stage.until(lambda: follower.over, "the end")
    never = stage.submit(held=True)
    other = Reading(stage, f"/v1/workloads/{never['id']}/logs?follow=1")
    stage.post(f"/v1/workloads/{never['id']}/cancel")
    stage.until(lambda: other.over, "the end of what never ran")


def test_setup_then_run_are_one_stream(stage: Stage) -> None:
    """`stream=all` goes on from setup to run; an offset counts over both."""
    run = stage.started(stage.submit()["id"])
    stage.report(run, "SettingUp")
    stage.print(run, b"installing\n", "setup")
    follower = Reading(stage, "/v1/workloads/job/logs?follow=1&stream=all")
    stage.until(lambda: follower.data == b"installing\n", "the output of setup")
    stage.report(run, "Running")
    stage.print(run, b"training\n")
    stage.until(lambda: follower.data == b"installing\ntraining\n", "the output of run")
    stage.end(run)
    stage.until(lambda: follower.over, "the end")
    assert stage.get("/v1/workloads/job/logs?stream=all&offset=6").body == b"ling\ntraining\n"
    assert stage.get("/v1/workloads/job/logs?stream=all&offset=13&limit=4").body == b"aini"
    assert stage.get("/v1/workloads/job/logs?stream=setup").body == b"installing\n"


def test_all_runs_are_followed_one_after_the_other(stage: Stage) -> None:
    """A job that is put back goes on in the same stream."""
    first = running(stage)
    follower = Reading(stage, "/v1/workloads/job/logs?follow=1&run=all")
    only = Reading(stage, "/v1/workloads/job/logs?follow=1&run=1")
    stage.print(first, b"one\n")
    stage.report(first, "Ended", RunEnd(how="exited", code=85, put_back=True, checkpointed=True))
    second = stage.started(first.rsplit("-", 1)[0], 2)
    stage.until(lambda: only.over, "the end of the first run")
    stage.report(second, "Running")
    stage.print(second, b"two\n")
    stage.until(lambda: follower.data == b"one\ntwo\n", "both")
    assert not follower.over
    stage.end(second)
    stage.until(lambda: follower.over, "the end")
    assert stage.get("/v1/workloads/job/logs").body == b"two\n"
    assert stage.get("/v1/workloads/job/logs?run=1").body == b"one\n"
    assert stage.get("/v1/workloads/job/logs?run=all&offset=2").body == b"e\ntwo\n"


def test_many_followers_read_the_log_once(stage: Stage) -> None:
    """The cluster is asked about as often for thirty followers as for one."""
    run = running(stage)
    stage.print(run, b"begin\n")
    followers = [Reading(stage, "/v1/workloads/job/logs?follow=1") for _ in range(30)]
    stage.until(lambda: all(one.data == b"begin\n" for one in followers), "all have begun")
    before = stage.driver.reads
    began = time.perf_counter()
    for n in range(20):
        stage.print(run, b"line %d\n" % n)
        time.sleep(0.01)
    stage.until(lambda: all(one.data.endswith(b"line 19\n") for one in followers), "all are there")
    asked = stage.driver.reads - before
    assert asked <= 10 + (time.perf_counter() - began) / 0.015
    assert len(stage.services.tails) == 1
    stage.end(run)
    stage.until(lambda: all(one.over for one in followers), "the end")
    stage.until(lambda: len(stage.services.tails) == 0, "nobody looks any more")


def test_a_follower_that_goes_away_costs_nothing_more(stage: Stage) -> None:
    """Its tail is let go although the job runs on."""
    running(stage)
    answer = stage.stream("/v1/workloads/job/logs?follow=1")
    stage.until(lambda: len(stage.services.tails) == 1, "it is followed")
    stage.hang_up(answer)
    stage.until(lambda: len(stage.services.tails) == 0, "it is let go")


def test_a_cluster_that_does_not_answer(stage: Stage) -> None:
    """Reading is refused in words; a follower waits and goes on."""
    run = running(stage)
    stage.print(run, b"before\n")
    stage.until(lambda: stage.get("/v1/workloads/job/logs").body == b"before\n", "readable")
    stage.driver.reachable = False
    refused = stage.get("/v1/workloads/job/logs")
    assert (refused.status, refused.json["exit"]) == (503, 6)
    assert refused.json["problems"][0]["message"] == "lab does not answer"
    follower = Reading(stage, "/v1/workloads/job/logs?follow=1")
    time.sleep(0.05)
    assert not follower.over
    stage.driver.reachable = True
    stage.until(lambda: follower.data == b"before\n", "what was there")
    stage.end(run)
    stage.until(lambda: follower.over, "the end")


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ("run=7", 404, "find/run"),
        ("run=1&rank=3", 404, "find/rank"),
        ("rank=3", 404, "find/rank"),
        ("run=all&rank=3", 404, "find/rank"),
        ("run=0", 400, "request/invalid"),
        ("run=x", 400, "request/invalid"),
        ("rank=-1", 400, "request/invalid"),
        ("offset=-1", 400, "request/invalid"),
        ("stream=stderr", 400, "request/invalid"),
        ("follow=perhaps", 400, "request/invalid"),
    ],
)
def test_what_is_not_there_is_refused(stage: Stage, query: str, status: int, code: str) -> None:
    """A run, a rank or a stream that doesn't exist is named."""
    running(stage)
    answer = stage.get(f"/v1/workloads/job/logs?{query}")
    assert (answer.status, answer.json["code"]) == (status, code), answer.body


def test_followers_are_let_go_when_the_server_is_stopped(stage: Stage) -> None:
    """Streams end soon, so that the server can."""
    running(stage)
    follower = Reading(stage, "/v1/workloads/job/logs?follow=1")
    stage.until(lambda: len(stage.services.tails) == 1, "it is followed")
    began = time.perf_counter()
    assert stage.post("/v1/server/stop").status == 202
    stage.until(lambda: follower.over, "the end of the stream")
    assert time.perf_counter() - began < 2


def test_a_follower_that_takes_nothing_does_not_keep_the_server_from_ending(stage: Stage) -> None:
    """It is cut off after a bounded time, so that it sees that this wasn't the end."""
    run = running(stage)
    stage.print(run, b"x" * (8 * 2**20))
    answer = stage.stream("/v1/workloads/job/logs?follow=1")
    began = time.perf_counter()
    stage.stop()
    assert time.perf_counter() - began < 6
    with pytest.raises(http.client.IncompleteRead):
        answer.read()
