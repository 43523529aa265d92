"""Who waits, in a queue that there is."""

from typing import Any

from tests.cli.conftest import Stw
from tests.client.fake_server import Asked, FakeServer, row


def test_a_queue_that_never_was_is_no_empty_one(server: FakeServer, stw: Stw) -> None:
    """Its name may be a slip; the default one, and one that had something, may be empty."""

    def rows(asked: Asked) -> dict[str, Any]:
        is_known = asked.query.get("queue") == "night" and asked.query["all"] == "1"
        return {"items": [row("x")] if is_known else [], "seq": 1, "next": None, "total": 0}

    server.on("GET", "/v1/workloads", rows)
    server.on("GET", "/v1/forecast", {"items": [], "seq": 1})
    result = stw("queue", "defalt")
    assert result.code == 3
    assert "there is no queue `defalt`; there is only `default`" in result.err
    assert "did you mean `default`?" in result.err
    for known in ("default", "night"):
        assert stw("queue", known).err.startswith(f"nothing waits in queue {known}")
