"""What must not harm the server: bad bodies, wrong addresses, too much of it, our mistakes."""

import http.client
import json
import logging
import socket
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.server.stage import Stage, UnixConnection


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> object:
    """One server for many requests that it refuses."""
    with Stage(tmp_path_factory.mktemp("edges")) as stage:
        yield stage


def is_problem(answer: object) -> bool:
    """Whether an answer says in the agreed form what is wrong."""
    told = answer.json  # type: ignore[attr-defined]
    return (
        answer.headers["content-type"] == "application/problem+json"  # type: ignore[attr-defined]
        and set(told) == {"type", "title", "status", "code", "exit", "detail", "problems"}
        and all(
            set(one) == {"code", "message", "help", "file", "line", "column", "path"}
            for one in told["problems"]
        )
        and b"Traceback" not in answer.body  # type: ignore[attr-defined]
    )


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["text", "env", "key", "argv", "items", "x"]), inner)
    ),
    max_leaves=8,
)


@settings(max_examples=60)
@given(body=st.binary(max_size=200) | JSON.map(lambda value: json.dumps(value).encode()))
@pytest.mark.parametrize("path", ["/v1/workloads", "/v1/workloads/batch", "/v1/blobs/missing"])
def test_no_body_breaks_the_server(running: Stage, path: str, body: bytes) -> None:
    """Whatever comes, the answer is a success or a problem of the caller's, in words."""
    answer = running.ask("POST", path, body)
    if answer.status >= 300:
        assert 400 <= answer.status < 500, answer.body
        assert is_problem(answer), answer.body


@settings(max_examples=60)
@given(ref=st.text(min_size=1, max_size=30))
def test_no_name_breaks_the_server(running: Stage, ref: str) -> None:
    """Names are looked up, never trusted."""
    from urllib.parse import quote

    answer = running.get(f"/v1/workloads/{quote(ref, safe='')}")
    assert answer.status in {200, 404}, answer.body
    assert answer.status == 200 or is_problem(answer)


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/", 404, "request/path"),
        ("GET", "/v1/nothing", 404, "request/path"),
        ("GET", "/v1/../../etc/passwd", 404, "request/path"),
        ("DELETE", "/v1/workloads", 405, "request/method"),
        ("GET", "/v1/workloads?limit=0", 400, "request/invalid"),
        ("GET", "/v1/workloads?limit=x", 400, "request/invalid"),
        ("GET", "/v1/workloads/job/wait?until=later", 400, "request/invalid"),
        ("PUT", "/v1/blobs/xyz", 400, "request/invalid"),
        ("GET", "/v1/blobs/" + "0" * 64, 404, "find/blob"),
    ],
)
def test_wrong_addresses_and_parameters(
    running: Stage, method: str, path: str, status: int, code: str
) -> None:
    """Each is told as what it is."""
    answer = running.ask(method, path)
    assert (answer.status, answer.json["code"]) == (status, code)
    assert is_problem(answer)


def test_an_unknown_field_is_named(running: Stage) -> None:
    """A misspelt option isn't silently left out."""
    answer = running.post("/v1/workloads", {"text": "true", "snapshoot": ""})
    assert (answer.status, answer.json["code"]) == (400, "request/invalid")
    assert "snapshoot" in answer.json["problems"][0]["message"]
    nested = running.post("/v1/workloads", {"text": "true", "env": {"A": 1}})
    assert "env" in nested.json["problems"][0]["message"]


@pytest.mark.parametrize(
    ("item", "code"),
    [
        ({"text": "x" * (2 * 2**20 + 1)}, "request/invalid"),
        ({"text": "é" * (2**20 + 1)}, "spec/too-large"),
        ({"text": "true", "env": {"BIG": "x" * 200_000}}, "spec/env-too-large"),
        ({"text": "true", "secrets": {"BIG": "x" * 200_000}}, "spec/env-too-large"),
        ({"kind": "argv"}, "spec/no-command"),
        ({"kind": "argv", "argv": ["a\0b"]}, "spec/nul"),
        ({"kind": "argv", "argv": ["a"], "in_place": True, "cwd": "here"}, "request/invalid"),
        ({"text": "true", "in_place": True, "cwd": "/"}, "request/invalid"),
        ({"text": "true", "snapshot": "0" * 64}, "blob/missing"),
        ({"text": "true", "snapshot": "../x"}, "store/bad-hash"),
        ({"text": "true", "overrides": {"name": "w-" + "0" * 13}}, "spec/name"),
    ],
)
def test_items_that_cannot_be_taken(running: Stage, item: dict[str, object], code: str) -> None:
    """Too large, impossible or incomplete: refused with what to do, and nothing is kept."""
    answer = running.post("/v1/workloads", item)
    assert (answer.status // 100, answer.json["code"]) == (4, code), answer.body[:300]
    assert is_problem(answer)


def test_a_body_that_is_too_large_is_refused_before_it_is_read(running: Stage) -> None:
    """By its announced length, and by what really comes."""
    answer = running.ask("POST", "/v1/blobs/missing", b"x", {"Content-Length": str(2**40)})
    assert (answer.status, answer.json["code"]) == (413, "request/too-large")
    connection = UnixConnection(running.socket)
    connection.request(
        "POST",
        "/v1/workloads/x/cancel",
        (b"y" * 2**20 for _ in range(5)),
        encode_chunked=True,
        headers={"Transfer-Encoding": "chunked"},
    )
    assert connection.getresponse().status == 413
    connection.close()


@pytest.mark.parametrize(
    "raw",
    [
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /v1/server HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
        b"\0" * 100,
        b"GET /v1/server HTTP/1.1\r\nX: " + b"y" * 200_000 + b"\r\n\r\n",
    ],
)
def test_what_is_no_http_is_refused(running: Stage, raw: bytes) -> None:
    """And the next caller is answered."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(5)
        connection.connect(running.socket)
        connection.sendall(raw)
        connection.shutdown(socket.SHUT_WR)
        answer = connection.recv(65536)
    assert answer == b"" or answer.startswith(b"HTTP/1.1 4")
    assert running.get("/v1/server").status == 200


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"text":' * 5_000 + b"1" + b"}" * 5_000])
def test_a_body_that_is_nested_too_deeply(running: Stage, body: bytes) -> None:
    """It is the caller's mistake, not ours."""
    answer = running.ask("POST", "/v1/workloads", body)
    assert (answer.status, answer.json["code"]) == (400, "request/invalid")
    assert is_problem(answer)


@pytest.mark.parametrize("address", ["POST /v1/workloads", f"PUT /v1/blobs/{'0' * 64}"])
def test_a_caller_that_hangs_up_is_no_incident(
    running: Stage, caplog: pytest.LogCaptureFixture, address: str
) -> None:
    """A body that breaks off leaves one line in the log, and the next caller is answered."""
    with caplog.at_level(logging.INFO, "stellwerk.server"):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(running.socket)
            connection.sendall(
                f"{address} HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{{".encode()
            )
            time.sleep(0.05)
        deadline = time.monotonic() + 5
        while "hung up" not in caplog.text and time.monotonic() < deadline:
            assert running.get("/v1/server").status == 200
    assert "the caller hung up" in caplog.text
    assert "incident" not in caplog.text


def test_our_own_mistake_has_an_id_that_is_in_the_log(
    running: Stage, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller sees no traceback, the log does."""

    def broken(*_: object, **_more: object) -> None:
        raise RuntimeError("the moon is in the way")

    monkeypatch.setattr(running.services.pages, "rows", broken)
    with caplog.at_level(logging.ERROR, "stellwerk.server"):
        answer = running.get("/v1/workloads")
    assert (answer.status, answer.json["code"], answer.json["exit"]) == (500, "internal", 1)
    assert b"moon" not in answer.body
    incident = answer.json["detail"].rpartition("incident ")[2].rstrip(")")
    assert f"incident={incident}" in caplog.text
    assert "the moon is in the way" in caplog.text


def test_a_full_disk_is_told_and_nothing_is_lost(
    running: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A submit is refused with a retryable exit code; reading goes on."""
    monkeypatch.setattr(running.store, "reserve_bytes", 1 << 62)
    answer = running.post("/v1/workloads", {"text": "true"})
    assert (answer.status, answer.json["code"], answer.json["exit"]) == (503, "store/full", 6)
    assert running.get("/v1/workloads").status == 200


def test_every_answer_says_what_it_reflects(running: Stage) -> None:
    """Successes and refusals carry the journal's sequence number."""
    for path in ("/v1/server", "/v1/nothing", "/v1/workloads?limit=x"):
        assert running.get(path).headers["stellwerk-seq"].isdecimal()


ADDRESSES = {
    "/v1/server",
    "/v1/server/stop",
    "/v1/arrays",
    "/v1/arrays/{name}",
    "/v1/plan",
    "/v1/gc",
    "/v1/forecast",
    "/v1/blobs/missing",
    "/v1/blobs/batch",
    "/v1/blobs/{hash}",
    "/v1/workloads",
    "/v1/workloads/batch",
    "/v1/workloads/change",
    "/v1/workloads/{ref}",
    "/v1/workloads/{ref}/explain",
    "/v1/workloads/{ref}/logs",
    "/v1/workloads/{ref}/wait",
    "/v1/workloads/{ref}/cancel",
    "/v1/workloads/{ref}/hold",
    "/v1/workloads/{ref}/release",
    "/v1/workloads/{ref}/priority",
    "/v1/workloads/{ref}/lost",
    "/v1/workloads/{ref}/move",
    "/v1/workloads/{ref}/check",
    "/v1/workloads/{ref}/rerun",
    "/v1/workloads/{ref}/exec",
    "/v1/clusters",
    "/v1/clusters/{name}/nodes/{node}/resume",
    "/v1/events",
    "/v1/clusters/{name}",
    "/v1/reservations",
    "/v1/reservations/{name}",
    "/v1/data",
    "/v1/clusters/{name}/data/stage",
    "/v1/clusters/{name}/data/remove",
    "/v1/calendars",
    "/v1/calendars/{name}",
    "/v1/calendars/{name}/override",
    "/v1/gpus/history",
    "/v1/fleet/apply",
    "/v1/apply",
    "/v1/clusters/{name}/drain",
    "/v1/clusters/{name}/resume",
    "/v1/clusters/{name}/share",
    "/v1/clusters/{name}/tokens",
    "/v1/clusters/{name}/tokens/{which}",
    "/v1/queueing/objects",
    "/v1/queueing/objects/delete",
    "/v1/queueing/queues",
    "/v1/fair",
    "/v1/whatif",
    "/v1/queueing/line",
    "/v1/queueing/quota",
    "/v1/runtimes",
    "/v1/runtimes/sessions/{session}",
    "/v1/usage",
    "/v1/workloads/{ref}/difference",
    "/v1/workloads/{ref}/explain/{cluster}",
    "/v1/workloads/{ref}/if",
    "/v1/workloads/{ref}/replay",
    "/v1/placed/difference",
    "/v1/placed/{decision}/replay",
    "/v1/placements",
    "/v1/placements/{namespace}/{name}",
    "/v1/placements/{namespace}/{name}/delete",
    "/v1/placements/{namespace}/{name}/explain",
    "/v1/placements/{namespace}/{name}/history",
    "/v1/ssh-clusters",
    "/v1/ssh-clusters/{name}",
    "/v1/ssh-clusters/{name}/probe",
    "/v1/workloads/{ref}/content",
    "/v1/workloads/{ref}/files",
}
"""Every address that there is."""


def test_the_schema_describes_every_address(running: Stage) -> None:
    """OpenAPI 3.1, each operation with a summary, a description and how it refuses."""
    document = running.get("/v1/openapi.json").json
    assert document["openapi"].startswith("3.1")
    assert set(document["paths"]) == ADDRESSES
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert operation["summary"], (method, path)
            assert operation["description"], (method, path)
            assert "default" in operation["responses"]
            assert not any(
                one["name"] in {"services", "submits"} for one in operation.get("parameters", [])
            )
    text = json.dumps(document)
    for reference in {part.split('"')[0] for part in text.split('"$ref": "')[1:]}:
        assert reference.rpartition("/")[2] in document["components"]["schemas"], reference


def test_the_root_logger_is_left_alone(running: Stage) -> None:
    """Neither the application nor the schema's maker brings handlers of its own."""
    assert running.get("/v1/openapi.json").status == 200
    root = logging.getLogger()
    assert not [one for one in root.handlers if type(one).__module__.startswith("litestar")]
    assert root.level == logging.WARNING


def test_connections_are_kept_and_requests_pipelined(running: Stage) -> None:
    """A client asks many times over one connection."""
    connection = UnixConnection(running.socket)
    for _ in range(5):
        connection.request("GET", "/v1/server")
        assert json.loads(connection.getresponse().read())["version"] == "1.2.3"
    assert isinstance(connection, http.client.HTTPConnection)
    connection.close()
    assert Path(running.socket).is_socket()
