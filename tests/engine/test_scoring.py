"""Scores are asked for within bounds, clamped, and refused in words when they make no sense."""

import asyncio
import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from stellwerk.core.model.scoring import ScoreSource
from stellwerk.engine.scoring import NoScoresError, ask, read_scores, source_of

PLAIN = ScoreSource("gpu", command=("true",))
SCALED = ScoreSource("gpu", command=("true",), scale=(0.0, 1.0))
PROMETHEUS = ScoreSource("gpu", url="http://x", query="free", label="member")
VECTOR = {
    "status": "success",
    "data": {"result": [{"metric": {"member": "a"}, "value": [1, "0.5"]}, {"metric": {}}]},
}


@pytest.mark.parametrize(
    ("source", "answer", "scores"),
    [
        (PLAIN, {"a": 5, "b": -7.6}, {"a": {"value": 5}, "b": {"value": -8}}),
        (PLAIN, {"a": {"free": 1e9, "idle": -1e9}}, {"a": {"free": 100, "idle": -100}}),
        (PLAIN, {"a": "12", "b": "NaN", "c": None, "d": True, "e": "x"}, {"a": {"value": 12}}),
        (PLAIN, [{"cluster": "a", "value": 3, "name": "n"}, 7, {"value": 1}], {"a": {"n": 3}}),
        (SCALED, {"a": 0.25, "b": 7}, {"a": {"value": -50}, "b": {"value": 100}}),
        (PROMETHEUS, VECTOR, {"a": {"value": 0}}),
        (ScoreSource("g", url="u", at="x.y"), {"x": {"y": {"a": 1}}}, {"a": {"value": 1}}),
    ],
)
def test_answers_of_all_kinds(
    source: ScoreSource, answer: object, scores: dict[str, dict[str, int]]
) -> None:
    """Numbers are rounded and clamped; what is none is passed over."""
    assert read_scores(source, json.dumps(answer).encode()) == scores


@pytest.mark.parametrize(
    ("source", "answer", "why"),
    [
        (PLAIN, b"<html>", "no JSON"),
        (PLAIN, b"{}", "no score"),
        (PLAIN, b'{"a": "soon"}', "no score"),
        (PROMETHEUS, b'{"data": []}', "Prometheus"),
        (PROMETHEUS, b'{"data": {"result": [7, null]}}', "no score"),
        (PLAIN, b"[" * 100_000, "no JSON"),
        (PLAIN, b" " * (5 << 20), "more than 4 MiB"),
    ],
)
def test_what_makes_no_sense_is_told(source: ScoreSource, answer: bytes, why: str) -> None:
    """Each in its own words."""
    with pytest.raises(NoScoresError, match=why):
        read_scores(source, answer)


def run(code: str, timeout_ms: int = 10_000) -> dict[str, dict[str, int]]:
    """Asks a command."""
    command = (sys.executable, "-c", code)
    return asyncio.run(ask(ScoreSource("gpu", command=command, timeout_ms=timeout_ms)))


def test_commands_are_bounded() -> None:
    """One that answers, fails, hangs with a child of its own, or isn't there."""
    assert run("print('{\"a\": 1}')") == {"a": {"value": 1}}
    with pytest.raises(NoScoresError, match="exit code 3"):
        run("raise SystemExit(3)")
    hangs = "import subprocess, time; subprocess.Popen(['sleep', '60']); time.sleep(60)"
    with pytest.raises(NoScoresError, match=r"within 0\.3 s"):
        run(hangs, 300)
    with pytest.raises(NoScoresError, match="more than 4 MiB"):
        asyncio.run(ask(ScoreSource("gpu", command=("yes",))))
    with pytest.raises(NoScoresError, match="can't be run"):
        asyncio.run(ask(ScoreSource("gpu", command=("/nowhere/at-all",))))


class Handler(BaseHTTPRequestHandler):
    """Answers by the path."""

    def do_GET(self) -> None:
        if self.path == "/elsewhere":
            self.send_response(302)
            self.send_header("Location", "http://127.0.0.2:9/scores")
            self.end_headers()
            return
        self.send_response(200 if self.path.startswith(("/scores", "/api/v1/query?")) else 404)
        self.end_headers()
        answer = VECTOR if "query" in self.path else {"a": 4}
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is logged."""


@contextmanager
def serving() -> Iterator[str]:
    """An HTTP server on the loopback."""
    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_http_goes_only_where_it_was_sent() -> None:
    """Scores, a query to Prometheus; a redirect to another host and an error are refused."""
    with serving() as address:
        found = asyncio.run(ask(ScoreSource("g", url=f"{address}/scores")))
        assert found == {"a": {"value": 4}}
        query = ScoreSource("g", url=address, query="free > 0", label="member")
        assert asyncio.run(ask(query)) == {"a": {"value": 0}}
        for path, why in (("elsewhere", "another host"), ("gone", "404")):
            with pytest.raises(NoScoresError, match=why):
                asyncio.run(ask(ScoreSource("g", url=f"{address}/{path}")))
    with pytest.raises(NoScoresError, match="can't be asked"):
        asyncio.run(ask(ScoreSource("g", url=f"{address}/scores")))


def test_what_was_told_holds_for_its_validity() -> None:
    """As a score object of each cluster, with its age and its source."""
    source = source_of(ScoreSource("gpu", valid_ms=300), {"a": {"free": 9}}, 1_000)
    [cluster] = source.fleet.clusters
    told = cluster.scores["gpu"]
    assert (told.values, told.valid_until_ms, told.observed_ms) == ({"free": 9}, 1_300, 1_000)
    assert not source.whole
