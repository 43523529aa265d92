"""`stw whatif` and `stw fair`: what is asked of the server, and what is refused before."""

from pathlib import Path

import pytest

from tests.cli.conftest import Stw
from tests.client.fake_server import Asked, FakeServer

EMPTY = {"items": [], "changes": [], "seq": 1}


def test_changes_are_sent_as_phrases(
    server: FakeServer, stw: Stw, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`and` parts them, a quoted one is one; files go along, a task as `plan` reads it."""
    monkeypatch.chdir(tmp_path)
    Path("q.yaml").write_text("kind: Cohort\n")
    Path("t.yaml").write_text("run: echo hello\n")
    asked: list[Asked] = []

    def answer(one: Asked) -> dict[str, object]:
        asked.append(one)
        return EMPTY

    server.on("POST", "/v1/whatif", answer)
    told = stw("whatif", "drain", "lab", "n1", "and", "priority train -5", "and", "cancel", "x")
    assert told.code == 0, told.err
    assert told.lines == ["nothing changes for anybody who runs or waits"]
    assert "nothing was changed" in told.err
    assert asked[0].json()["changes"] == ["drain lab n1", "priority train -5", "cancel x"]
    assert stw("whatif", "submit", "t.yaml", "-f", "q.yaml").code == 0
    assert asked[1].json()["task"]["text"] == "run: echo hello\n"
    assert asked[1].json()["text"] == "kind: Cohort\n"
    assert len(asked) == 2


def test_what_asks_nothing_is_refused(server: FakeServer, stw: Stw) -> None:
    """Also a file that can't be read, and two tasks; help lists the changes."""
    assert stw("whatif").code == 2
    told = stw("whatif", "-f", "missing.yaml")
    assert (told.code, "missing.yaml can't be read" in told.err) == (2, True)
    assert stw("whatif", "submit", "a.yaml", "and", "submit", "b.yaml").code == 2
    assert any(line.startswith("quota QUEUE FLAVOR") for line in stw("whatif", "help").lines)


def test_fair_since_then(server: FakeServer, stw: Stw) -> None:
    """The time is the server's filter; nobody who held anything is said to be nobody."""
    asked: list[Asked] = []

    def answer(one: Asked) -> dict[str, object]:
        asked.append(one)
        return {"queues": [], "people": []}

    server.on("GET", "/v1/fair", answer)
    assert stw("fair", "--since", "2026-11-01").lines == ["nobody held anything"]
    assert asked[0].query["since_ms"] == "1793491200000"
    assert stw("fair", "--since", "soon").code == 2
