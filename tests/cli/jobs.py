"""A workload that the fake server plays."""

from typing import Any

from tests.client.fake_server import FakeServer, Says, run, show

SUBMITTED = {"id": "w-1", "name": "digits", "phase": "Pending", "notices": []}


def ended(phase: str = "Succeeded", code: int | None = 0, **more: Any) -> dict[str, Any]:
    end = {
        "how": "exited",
        "code": code,
        "signal": None,
        "message": "",
        "last_lines": ["bye"],
        "peak_memory_bytes": 128 * 2**20,
        "cpu_ms": 900,
        "checkpointed": False,
        "put_back": False,
    }
    one = run(1, "Ended", ended_ms=1_700_000_004_400, end=end)
    return {
        **show("digits", phase, exit_code=code, runs=[one], ended_ms=1_700_000_004_500, **more),
        "id": "w-1",
    }


class Job:
    """A workload that the fake server plays: it prints, and then it has ended."""

    def __init__(self, server: FakeServer) -> None:
        self.server = server
        self.page = ended()
        server.on("POST", "/v1/workloads", SUBMITTED)
        server.on("GET", "/v1/workloads/w-1", lambda _: self.page)
        server.on("GET", "/v1/workloads/digits", lambda _: self.page)
        server.on("GET", "/v1/events", Says([]))
        self.prints(b"hello\n")

    def prints(self, *chunks: bytes) -> None:
        self.server.on("GET", "/v1/workloads/w-1/logs", Says(list(chunks)))

    @property
    def submitted(self) -> Any:
        return self.server.bodies("POST", "/v1/workloads")[-1]
