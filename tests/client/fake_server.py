"""A small HTTP server on a Unix socket whose answers a test chooses; it notes what it was asked."""

import json
import os
import re
import socketserver
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from http.server import BaseHTTPRequestHandler
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qs, urlsplit
from zlib import crc32


class Asked(NamedTuple):
    """One request as it came."""

    method: str
    path: str
    query: dict[str, str]
    body: bytes
    headers: dict[str, str]

    def json(self) -> Any:
        return json.loads(self.body)


class Says(NamedTuple):
    """An answer; an iterable body is sent in chunks, and cut off without an end if `cut`."""

    body: bytes | Iterable[bytes]
    status: int = 200
    headers: Mapping[str, str] = {}
    cut: bool = False


Route = Callable[[Asked], Says | Any]


class FakeServer:
    """Answers at a socket by a table of (method, path pattern); the newest entry counts first."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.asked: list[Asked] = []
        self.routes: list[tuple[str, re.Pattern[str], Route]] = []
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        self._server = _Server(path, _handler_for(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def on(self, method: str, pattern: str, answer: Route | Any) -> None:
        """Says what to answer: a function of the request, or a value sent as JSON."""
        route = answer if callable(answer) else lambda _asked: answer
        self.routes.insert(0, (method, re.compile(pattern), route))

    def bodies(self, method: str, path: str) -> list[Any]:
        """The JSON bodies of all requests to an address."""
        return [one.json() for one in self.asked if (one.method, one.path) == (method, path)]

    def answer(self, asked: Asked) -> Says:
        self.asked.append(asked)
        for method, pattern, route in self.routes:
            if method == asked.method and pattern.fullmatch(asked.path):
                said = route(asked)
                return said if isinstance(said, Says) else Says(json.dumps(said).encode())
        return refuses("request/path", f"nothing at {asked.method} {asked.path}", 404, 2)


def refuses(code: str, message: str, status: int = 422, exit_code: int = 2, **place: Any) -> Says:
    """A problem report."""
    report = {
        "title": "refused",
        "status": status,
        "code": code,
        "exit": exit_code,
        "detail": message,
        "problems": [{"code": code, "message": message, **place}],
    }
    return Says(json.dumps(report).encode(), status, {"Content-Type": "application/problem+json"})


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 50

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has hung up is no error: told, it would stand in a later test's output."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


def _handler_for(fake: FakeServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self) -> None:
            parts = urlsplit(self.path)
            query = {key: values[-1] for key, values in parse_qs(parts.query).items()}
            length = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(length)
            headers = dict(self.headers.items())
            self._send(fake.answer(Asked(self.command, parts.path, query, body, headers)))

        do_GET = do_POST = do_PUT = do_DELETE = handle_any  # noqa: N815 (the base class wants it)

        def _send(self, said: Says) -> None:
            self.send_response(said.status)
            for name, value in said.headers.items():
                self.send_header(name, value)
            if isinstance(said.body, bytes):
                self.send_header("Content-Length", str(len(said.body)))
                self.end_headers()
                self.wfile.write(said.body)
                return
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for chunk in said.body:
                self.wfile.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
                self.wfile.flush()
            if said.cut:
                self.close_connection = True
            else:
                self.wfile.write(b"0\r\n\r\n")

        def address_string(self) -> str:
            return "unix"

        def log_message(self, format: str, *args: Any) -> None:
            """Tests look at `asked` instead."""

    return Handler


def row(name: str, phase: str = "Running", **more: Any) -> dict[str, Any]:
    """A workload as the API tells it."""
    number = crc32(name.encode())
    return {
        "id": f"w-{number:013d}",
        "name": name,
        "project": "default",
        "owner": "ada",
        "kind": "job",
        "phase": phase,
        "priority": 0,
        "queue": "default",
        "submitted_ms": 1_700_000_000_000,
        "started_ms": None,
        "ended_ms": None,
        "cluster": None,
        "nodes": [],
        "wants": "1 CPU, 2 GiB",
        "runs": 0,
        "exit_code": None,
        "reason": None,
        "labels": {},
        **more,
    }


def run(number: int = 1, phase: str = "Running", **more: Any) -> dict[str, Any]:
    """A run as the API tells it."""
    return {
        "id": f"w-1-{number}",
        "number": number,
        "phase": phase,
        "cluster": "laptop",
        "node": "laptop",
        "nodes": ["laptop"],
        "holds": "1 CPU",
        "planned_ms": 1_700_000_000_100,
        "started_ms": 1_700_000_000_200,
        "running_ms": 1_700_000_000_300,
        "ended_ms": None,
        "notice": "",
        "notice_ms": None,
        "reachable": True,
        "end": None,
        "reason": None,
        "decision": "d-1",
        **more,
    }


def reason(
    code: str, tier: str, sentence: str, remedy: str = "", who: str = "you"
) -> dict[str, Any]:
    """A reason as the API tells it."""
    return {
        "code": code,
        "tier": tier,
        "who": who,
        "sentence": sentence,
        "remedy": remedy,
        "params": {},
    }


def show(name: str, phase: str = "Running", **more: Any) -> dict[str, Any]:
    """The page of a workload as the API tells it."""
    page = row(name, phase)
    del page["runs"]
    return {
        **page,
        "task": "run: x",
        "runs": [],
        "reasons": [],
        "decision": None,
        "shape": None,
        "policies": {},
        "snapshot": None,
        "position": None,
        "timeline": [],
        "seq": 9,
        **more,
    }


STATUS = {
    "pid": 4242,
    "version": "0.1.0",
    "started_ms": 1,
    "uptime_ms": 65_000,
    "epoch": 3,
    "seq": 17,
    "home": "/state",
    "socket": "/run/s.sock",
    "live": 2,
    "pending": 1,
    "running": 1,
    "clusters": ["laptop"],
}
