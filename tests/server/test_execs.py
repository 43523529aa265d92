"""Commands inside a run over HTTP: who may, when, and both directions of one conversation."""

import asyncio
import http.client
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from stellwerk.client.api import Client
from stellwerk.client.execs import ExecError
from stellwerk.client.refusals import ApiError
from stellwerk.core.model.errors import StellwerkError
from stellwerk.drivers.base import DriverError, ExecOrder, ExecSession
from stellwerk.runtime import frames
from stellwerk.server import patience
from tests.server.stage import HandDriver, Stage
from tests.server.test_logs import running


class Echo:
    """A session that answers each piece of input twice, once on each stream, and ends when told."""

    def __init__(self) -> None:
        self.heard: list[frames.Frame] = []
        self.closed = False
        self._reader = frames.FrameReader()
        self._out: asyncio.Queue[bytes] = asyncio.Queue()

    async def send(self, data: bytes) -> None:
        for kind, content in self._reader.frames(data):
            self.heard.append((kind, content))
            if kind == frames.INPUT:
                self._say(frames.taken(len(content)))
                self._say(frames.frame(frames.OUTPUT, content))
                self._say(frames.frame(frames.ERRORS, content.upper()))
            elif kind == frames.END_OF_INPUT:
                self._say(frames.frame(frames.ENDED, b'{"code":9}'))
                self._say(b"")

    def _say(self, data: bytes) -> None:
        self._out.put_nowait(data)

    def break_off(self) -> None:
        """The other side dies."""
        self._say(b"")

    async def receive(self) -> bytes:
        return await self._out.get()

    async def close(self) -> None:
        self.closed = True


class ReachingDriver(HandDriver):
    """A cluster led by hand, in whose runs commands echo."""

    refusal: DriverError | None = None

    def __init__(self, like: HandDriver) -> None:
        super().__init__(like.facts)
        self.orders: list[ExecOrder] = []
        self.sessions: list[Echo] = []

    async def exec(self, order: ExecOrder) -> ExecSession:
        self.orders.append(order)
        if self.refusal is not None:
            raise self.refusal
        self.sessions.append(Echo())
        return self.sessions[-1]


@pytest.fixture
def reached(home_of_its_own: str) -> Iterator[Stage]:
    """A server whose cluster runs commands."""
    stage = Stage(Path(home_of_its_own))
    stage.driver = ReachingDriver(stage.driver)
    with stage:
        yield stage


def driver_of(stage: Stage) -> ReachingDriver:
    assert isinstance(stage.driver, ReachingDriver)
    return stage.driver


def a_job(stage: Stage) -> str:
    run = running(stage)
    stage.until(lambda: stage.phase("job") == "Running", "running")
    return run


def refusal_of(
    stage: Stage, name: str = "job", run: int | None = None, rank: int = 0
) -> StellwerkError:
    with Client(stage.socket) as client, pytest.raises(ApiError) as refused:
        client.exec(name, ["true"], run=run, rank=rank)
    return refused.value


def said(error: StellwerkError) -> tuple[str, str, str]:
    problem = error.problems[0]
    return problem.code, problem.message, problem.help


def test_both_directions_go_on_at_the_same_time(reached: Stage) -> None:
    """What is written comes back before the next is written, each stream apart; then the code."""
    run = a_job(reached)
    with Client(reached.socket) as client:
        with client.exec_session("job", ["anything", "-x"], stdin=True, rank=0) as session:
            heard = iter(session)
            for word in (b"one", b"two"):
                session.write(word)
                assert [next(heard), next(heard)] == [("stdout", word), ("stderr", word.upper())]
            session.close_input()
            assert list(heard) == []
            assert session.code == 9
        assert client.exec("job", ["x"], input=b"whole") == (9, b"whole", b"WHOLE")
    driver = driver_of(reached)
    assert driver.orders == [ExecOrder(run), ExecOrder(run)]  # type: ignore[arg-type]
    kind, content = driver.sessions[0].heard[0]
    assert kind == frames.COMMAND
    assert json.loads(content)["argv"] == ["anything", "-x"]
    reached.until(lambda: all(session.closed for session in driver.sessions), "both let go")


def test_a_caller_who_goes_is_noticed(reached: Stage) -> None:
    """The session is closed, so that the command ends."""
    a_job(reached)
    with Client(reached.socket) as client:
        client.exec_session("job", ["x"], stdin=True).close()
        [session] = driver_of(reached).sessions
        reached.until(lambda: session.closed, "hung up")


def test_a_session_that_breaks_off_is_told(reached: Stage) -> None:
    """Nobody takes silence for success."""
    a_job(reached)
    with Client(reached.socket) as client, client.exec_session("job", ["x"]) as session:
        reached.loop.call_soon_threadsafe(driver_of(reached).sessions[0].break_off)
        with pytest.raises(ExecError, match="broke") as broken:
            list(session)
    assert (broken.value.exit_code, broken.value.problems[0].code) == (125, "exec/cut-off")


def test_a_server_that_stops_ends_sessions(reached: Stage) -> None:
    """It doesn't wait for their ends."""
    a_job(reached)
    with Client(reached.socket) as client, client.exec_session("job", ["x"]) as session:
        began = time.monotonic()
        reached.stop()
        with pytest.raises(ExecError, match="broke"):
            list(session)
        assert time.monotonic() - began < 5
    assert driver_of(reached).sessions[0].closed


def test_input_may_pause_longer_than_another_body(
    reached: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person thinks before they type; only what is a conversation may wait so."""
    monkeypatch.setattr(patience, "BODY_S", 0.05)
    a_job(reached)
    with Client(reached.socket) as client, client.exec_session("job", ["x"], stdin=True) as one:
        time.sleep(0.2)
        one.write(b"late")
        assert next(iter(one)) == ("stdout", b"late")
    with socket.socket(socket.AF_UNIX) as slow:
        slow.connect(reached.socket)
        head = b"POST /v1/workloads HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        slow.sendall(head + b"Content-Length: 9\r\n\r\n{")
        answer = http.client.HTTPResponse(slow)
        answer.begin()
        assert answer.status == 408


def test_what_doesnt_run_says_what_to_do(reached: Stage) -> None:
    """Waiting, held, being set up, over, never there: each in its own words."""
    assert said(refusal_of(reached))[0] == "find/workload"
    first = reached.started(reached.submit("cpus 4", overrides={"name": "first"})["id"])
    reached.submit("cpus 4", overrides={"name": "big"})
    assert said(refusal_of(reached, "big")) == (
        "exec/waiting", "big waits and doesn't run yet",
        "`stw explain big` says why; `stw wait --for running big` waits for it",
    )  # fmt: skip
    reached.submit("cpus 4", overrides={"name": "kept"}, held=True)
    assert said(refusal_of(reached, "kept")) == (
        "exec/waiting", "kept is held and doesn't run",
        "`stw release kept` lets it start; then: stw wait --for running kept",
    )  # fmt: skip
    assert reached.post("/v1/workloads/big/cancel").status == 200
    reached.end(first)
    run = reached.started(reached.submit()["id"])
    reached.report(run, "SettingUp")
    assert said(refusal_of(reached))[0] == "exec/setting-up"
    reached.report(run, "Running")
    reached.until(lambda: reached.phase("job") == "Running", "running")
    assert said(refusal_of(reached, run=7)) == (
        "find/run", "job has no run 7", "its newest is run 1",
    )  # fmt: skip
    reached.end(run)
    reached.until(lambda: reached.phase("job") == "Succeeded", "the end")
    error = refusal_of(reached)
    assert said(error) == (
        "exec/ended", "job is over (Succeeded); commands run only inside of what runs",
        "`stw logs job` shows what it printed; `stw rerun job` runs it again",
    )  # fmt: skip
    assert isinstance(error, ApiError)
    assert (error.status, error.exit_code) == (409, 1)


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("runtime/not_running", "exec/setting-up"),
        ("runtime/ended", "exec/ended"),
        ("runtime/unknown_run", "exec/ended"),
        ("runtime/no_rank", "find/rank"),
        ("runtime/too_old", "exec/too-old"),
        ("driver/agent-silent", "driver/agent-silent"),
    ],
)
def test_what_the_runtime_refuses_is_put_in_words(reached: Stage, code: str, told: str) -> None:
    """Of the workload, as its owner knows it; each with what to do."""
    a_job(reached)
    driver_of(reached).refusal = DriverError(code, "no", final=True)
    error = refusal_of(reached, rank=3)
    assert said(error)[0] == told
    assert all(said(error))


def test_a_cluster_that_cant_says_so(stage: Stage) -> None:
    """With what can be done instead."""
    a_job(stage)
    assert said(refusal_of(stage)) == (
        "exec/not-here", "no commands can be run inside of what runs on lab",
        "`stw logs job` shows what it prints",
    )  # fmt: skip
