"""`stw story` of what is no workload."""

from tests.cli.conftest import Stw
from tests.client.fake_server import FakeServer, refuses


def test_a_placement_has_no_story_but_a_history(server: FakeServer, stw: Stw) -> None:
    """With and without its namespace; what nobody knows is told as ever."""
    unknown = refuses("find/workload", "there is no workload `gold`", 404, 3)
    server.on("GET", "/v1/workloads/gold", unknown)
    server.on("GET", "/v1/placements/default/gold", {"row": {"key": "default/gold"}})
    for name in ("gold", "default/gold"):
        told = stw("story", name)
        assert told.code == 3
        assert f"`{name}` is a placement" in told.err
        assert "stw placement history default/gold" in told.err
    other = stw("story", "n/other")
    assert (other.code, "is a placement" in other.err) == (3, False)
