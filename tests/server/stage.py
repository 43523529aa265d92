"""The whole server in a thread: a real store, engine and socket, and a cluster led by hand."""

import asyncio
import contextlib
import http.client
import json
import os
import socket
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any, NamedTuple, Self

from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.errors import Problem, SpecError
from stellwerk.core.model.ids import RunId
from stellwerk.core.model.quantity import Amount
from stellwerk.core.model.reports import Inventory, Report, RunReport
from stellwerk.core.model.task import ResourceRequest, Task
from stellwerk.core.model.workload import RunEnd, RunPhase
from stellwerk.drivers.base import (
    Capabilities,
    DriverError,
    Folders,
    LogChunk,
    LogStream,
    StartOrder,
    StopOrder,
)
from stellwerk.engine.clock import SystemClock
from stellwerk.engine.loop import Engine
from stellwerk.server.accept import Read
from stellwerk.server.app import Parts, make_app
from stellwerk.server.machines import Machines
from stellwerk.server.models import SubmitItem
from stellwerk.server.peer import Access, own_uid
from stellwerk.server.services import Identity, Services
from stellwerk.server.serving import HttpServer
from stellwerk.server.sockets import bind_unix
from stellwerk.server.submit import Submits
from stellwerk.store import Store
from stellwerk.testing.builders import a_cluster, a_node

PATIENCE_S = 10.0


class HandDriver:
    """A cluster on which runs only do what a test says."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster.name
        self.capabilities = Capabilities(start_guarantee="look-up")
        self.facts = cluster
        self.started: list[StartOrder] = []
        self.stopped: list[StopOrder] = []
        self.logs: dict[tuple[str, str, int], bytearray] = {}
        self.reads = 0
        self.reachable = True
        self.out: asyncio.Queue[Report | DriverError] = asyncio.Queue()

    async def open(self) -> None:
        """Nothing to connect to, as long as it can be reached."""
        if not self.reachable:
            raise DriverError("unreachable", f"{self.cluster} does not answer", final=False)

    async def close(self) -> None:
        """Nothing to let go of."""

    async def probe(self) -> Cluster:
        return self.facts

    async def start(self, order: StartOrder) -> None:
        self.started.append(order)

    async def stop(self, order: StopOrder) -> None:
        self.stopped.append(order)

    async def withdraw(self, run: RunId) -> None:
        """Nothing was told to anybody."""

    async def kill(self, run: RunId) -> None:
        """A test says when a run is over."""

    async def forget(self, run: RunId) -> None:
        """A test may still want the logs."""

    async def reports(self) -> AsyncIterator[Report]:
        yield Inventory(self.cluster, ())
        while True:
            told = await self.out.get()
            if isinstance(told, DriverError):
                raise told
            yield told

    async def folders(self, run: RunId) -> Folders:
        return Folders(output=f"/results/{run}")

    async def read_log(
        self, run: RunId, stream: LogStream, rank: int, offset: int, limit: int
    ) -> LogChunk:
        self.reads += 1
        if not self.reachable:
            raise DriverError("unreachable", f"{self.cluster} does not answer", final=False)
        log = self.logs.get((run, stream, rank), bytearray())
        return LogChunk(bytes(log[offset : offset + limit]), offset, len(log))


class Answer(NamedTuple):
    """A whole answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("stellwerk", timeout=PATIENCE_S)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def ask(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    body: object = None,
    headers: dict[str, str] | None = None,
) -> Answer:
    """One request over a connection, which is closed; a body is sent as JSON, bytes as they are."""
    data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    kind = {"Content-Type": "application/json"} if data is not None else {}
    encoded = {name: value.encode() for name, value in (headers or {}).items()}
    try:
        with contextlib.suppress(BrokenPipeError):  # the answer may come before all was sent
            connection.request(method, path, data, {**kind, **encoded})
        answer = connection.getresponse()
        told = {name.lower(): value for name, value in answer.getheaders()}
        return Answer(answer.status, told, answer.read())
    finally:
        connection.close()


def read_item(item: SubmitItem) -> Read:
    """A reader for tests: the text is the script; a first line `cpus N` asks for so many."""
    if item.text.startswith("bad"):
        raise SpecError(
            [
                Problem(
                    "spec/unknown-field",
                    "unknown field `acelerators`",
                    "did you mean …?",
                    file=item.file,
                    line=3,
                    column=3,
                ),
                Problem(
                    "spec/value", "`memory: 64` has no unit", file=item.file, line=8, column=12
                ),
            ]
        )
    resources = ResourceRequest()
    if item.text.startswith("cpus "):
        resources = ResourceRequest(cpus=Amount(int(item.text.split()[1]) * 1000))
    envs = {name: value for name, value in item.env.items() if value is not None}
    task = Task(
        name=item.overrides.get("name"),
        run=item.text,
        resources=(resources,),
        envs=envs,
        secrets=tuple(item.secrets),
    )
    return Read(task, text=item.text, secrets=dict(item.secrets))


class Application:
    """An application that works for one stage after another: to make one takes a stage's time."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self.app = make_app(parts, Access(own_uid(), "t" * 30))

    def work_on(self, parts: Parts) -> None:
        """All of these, and nothing of the stage before."""
        for name, part in vars(parts).items():
            setattr(self._parts, name, part)


FREE: list[Application] = []
"""Those that no stage has at the moment; two servers at once have one each."""


class Stage:
    """Starts everything in a thread and talks to it like any client."""

    def __init__(self, home: Path, read: Callable[[SubmitItem], Read] = read_item) -> None:
        self.home = home
        self.socket = str(home / "s.sock")
        self.store = Store.open(home / "state")
        self.driver = HandDriver(a_cluster("lab", a_node("n1", cpus=4)))
        self.clock = SystemClock()
        self._read = read
        self._streams: list[tuple[UnixConnection, http.client.HTTPResponse]] = []
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), daemon=True)
        self.loop: asyncio.AbstractEventLoop
        self.services: Services
        self.machines: Machines
        self.engine: Engine

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(PATIENCE_S)
        self.until(lambda: self.get("/v1/clusters").json["items"], "the cluster is observed")
        return self

    def wait_for(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Has the server do something, and waits for it."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(PATIENCE_S)

    def stop(self) -> None:
        """Ends the server and waits for its end."""
        if self._thread.is_alive():
            self.loop.call_soon_threadsafe(self.services.stop)
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), "the server ends"

    def __exit__(self, *exc: object) -> None:
        self.stop()
        for _, answer in self._streams:
            self.hang_up(answer)
        self.store.close()

    async def _main(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.engine = Engine(self.store, [self.driver], self.clock)
        await self.engine.load()
        identity = Identity(os.getpid(), "1.2.3", self.clock.now_ms(), str(self.home), self.socket)
        self.services = Services(
            identity=identity, store=self.store, engine=self.engine, clock=self.clock
        )
        parts = Parts.of(self.services, Submits(self.services, self._read))
        application = FREE.pop() if FREE else Application(parts)
        application.work_on(parts)
        self.machines = parts.machines
        server = HttpServer(application.app, self.services.stopping)
        feeding = asyncio.create_task(self.services.feed.run())
        running = asyncio.create_task(self.engine.run())
        bound = bind_unix(self.socket)
        serving = asyncio.create_task(server.serve_on([bound]))
        await server.listening.wait()
        self._ready.set()
        await serving
        self.engine.stop()
        await running
        feeding.cancel()
        FREE.append(application)

    # the cluster

    def report(
        self, run: str, phase: RunPhase, end: RunEnd | None = None, generation: int = 0
    ) -> None:
        """Says what a run does now."""
        number = generation or int(run.rsplit("-", 1)[1])
        told = RunReport(self.driver.cluster, RunId(run), number, phase, end)
        self.loop.call_soon_threadsafe(self.driver.out.put_nowait, told)

    def cut_off(self, message: str) -> None:
        """Takes the cluster out of reach, until `driver.reachable` is set again."""
        self.driver.reachable = False
        error = DriverError("unreachable", message, final=False)
        self.loop.call_soon_threadsafe(self.driver.out.put_nowait, error)

    def end(self, run: str, code: int = 0) -> None:
        """Ends a run with an exit code."""
        self.report(run, "Ended", RunEnd(how="exited", code=code))

    def print(self, run: str, data: bytes, stream: str = "run", rank: int = 0) -> None:
        """Appends to a log of a run."""
        self.driver.logs.setdefault((run, stream, rank), bytearray()).extend(data)

    def started(self, workload: str, number: int = 1) -> str:
        """Waits until a run was started; gives its id."""
        run = f"{workload}-{number}"
        self.until(lambda: any(one.run == run for one in self.driver.started), f"{run} started")
        return run

    # a client

    def ask(
        self, method: str, path: str, body: object = None, headers: dict[str, str] | None = None
    ) -> Answer:
        """One request with a JSON body (bytes go as they are)."""
        return ask(UnixConnection(self.socket), method, path, body, headers)

    def get(self, path: str) -> Answer:
        return self.ask("GET", path)

    def post(self, path: str, body: object = None) -> Answer:
        return self.ask("POST", path, {} if body is None else body)

    def stream(self, path: str, headers: dict[str, str] | None = None) -> http.client.HTTPResponse:
        """An answer that is read as it comes; `hang_up` on it, or leave that to the end."""
        connection = UnixConnection(self.socket)
        connection.request("GET", path, headers=headers or {})
        answer = connection.getresponse()
        self._streams.append((connection, answer))
        return answer

    def hang_up(self, answer: http.client.HTTPResponse) -> None:
        """Closes the connection of a stream."""
        for connection, known in self._streams:
            if known is answer:
                known.close()
                connection.close()

    def submit(self, text: str = "true", **more: object) -> dict[str, Any]:
        """Submits a small task."""
        answer = self.post("/v1/workloads", {"text": text, "file": "job.yaml", **more})
        assert answer.status == 201, answer.body
        told: dict[str, Any] = answer.json
        return told

    def phase(self, ref: str) -> str:
        return str(self.get(f"/v1/workloads/{ref}").json["phase"])

    def until(self, condition: Callable[[], object], what: str) -> None:
        """Waits until something holds."""
        pause = threading.Event()
        for _ in range(int(PATIENCE_S / 0.005)):
            if condition():
                return
            pause.wait(0.005)
        raise AssertionError(f"never came: {what}")
