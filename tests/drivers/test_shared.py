"""One machine for several people: orders find the right runtime, which is believed of its own."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import pytest

from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.ids import RunId
from stellwerk.core.model.reports import ClusterReport, Inventory, Report, RunReport
from stellwerk.drivers.agents.link import AgentLink
from stellwerk.drivers.base import Capabilities, DriverError, LogChunk, StopOrder
from stellwerk.drivers.local.driver import LocalDriver
from stellwerk.drivers.local.shared import SharedDriver
from stellwerk.runtime import PROTOCOL
from stellwerk.testing.builders import a_cluster, a_node

WHOSE = {"w-ada-1": "ada", "w-ben-1": "ben", "w-own-1": ""}


class OwnDriver:
    """The driver of the server's own user, which writes down what it is asked for."""

    cluster = "big"
    capabilities = Capabilities(start_guarantee="claim file", exec=True)
    live = ("w-own-1",)

    def __init__(self, pid: int = 2**22 + 5) -> None:
        self.asked: list[str] = []
        self.pid = pid

    async def reports(self) -> AsyncIterator[Report]:
        yield Inventory("big", (), 1, people=("",))
        await asyncio.Event().wait()

    async def facts(self) -> dict[str, Any]:
        processes = [{"pid": self.pid, "memory_bytes": 2 << 30, "run": None}]
        gpu = {"index": 0, "name": "NVIDIA A100", "memory_bytes": 40 << 30}
        used = {"memory_used_bytes": 2 << 30, "processes": processes}
        claims = [
            {"user": user, "run": run, "cpus_milli": 1000, "memory_bytes": 0, "gpus": {}}
            for user, run in (("ada", "w-ada-1"), ("cyd", "w-ben-1"), ("cyd", "w-far-1"))
        ]
        return {
            "claims": claims,
            "hostname": "big",
            "cpus": 4,
            "memory_bytes": 1 << 30,
            "gpus": [{**gpu, **used}],
        }

    async def read_log(self, run: RunId, *_: object) -> LogChunk:
        self.asked.append(run)
        return LogChunk(b"own", 0, 3)


class Wire:
    """An agent that answers every line of one link."""

    def __init__(self, hand: "FakeHand", link: AgentLink) -> None:
        self._hand, self._link = hand, link

    def write(self, data: bytes) -> None:
        import json

        for line in data.splitlines():
            request = json.loads(line)
            self._hand.asked.append(request["op"])
            answer = self._hand.answers.get(request["op"], {})
            told = json.dumps({"id": request["id"], "ok": True, **answer}).encode()
            asyncio.get_running_loop().call_soon(self._link.line, told)

    def abort(self) -> None:
        asyncio.get_running_loop().call_soon(self._link.broke)


class FakeHand:
    """A hand of somebody's, whose agent says what a test wants."""

    home = "/home/ada/x"

    def __init__(self, runs: list[dict[str, Any]]) -> None:
        self.closed = asyncio.Event()
        self.asked: list[str] = []
        process = {"pid": 2**22 + 5, "memory_bytes": 2 << 30, "run": "w-ada-1"}
        self.answers: Mapping[str, dict[str, Any]] = {
            "hello": {"protocol": [PROTOCOL], "now_ms": 7},
            "watch": {"runs": runs},
            "probe": {"facts": {"gpus": [{"processes": [process]}]}},
        }
        self.link: AgentLink | None = None

    async def ask(self, op: str, *_: object, **fields: Any) -> tuple[dict[str, Any], bytes]:
        self.asked.append(op)
        return {"size": 4}, b"hers"

    def join(self, link: AgentLink) -> None:
        self.link = link
        link.opened(Wire(self, link))

    async def close(self) -> None:
        self.closed.set()
        if self.link is not None and not self.link.closed.is_set():
            self.link.broke()


def a_run(name: str) -> dict[str, Any]:
    return {"run": name, "generation": 1, "state": "running"}


async def until(driver: SharedDriver, reports: AsyncIterator[Report], kind: type) -> Any:
    """The next report of a kind."""
    async with asyncio.timeout(5):
        async for report in reports:
            if isinstance(report, kind):
                return report
    raise AssertionError("no more reports")


def host(driver: SharedDriver, hand: Any) -> asyncio.Task[None]:
    """Ada's runtime calls."""
    dial: Any = None
    return asyncio.create_task(driver.host("ada", hand, dial))


async def soon(condition: Callable[[], bool]) -> None:
    """Lets everybody else go on until something holds."""
    for _ in range(1_000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never came to that")


def test_each_runtime_is_asked_and_believed_about_its_own() -> None:
    """Ada's runtime comes, lies about ben's run, is used, and goes."""

    async def scene() -> None:
        own = OwnDriver()
        driver = SharedDriver(own, None, WHOSE.get)  # type: ignore[arg-type]
        reports = driver.reports()
        first = await until(driver, reports, Inventory)
        assert first.people == ("",)
        alone = await driver.probe()
        assert alone.serves == ("",)
        assert alone.nodes[0].foreign_cpus_milli == 2000, "of ada's run it is known what it holds"
        with pytest.raises(DriverError, match="no runtime of ada") as caught:
            await driver.stop(StopOrder(RunId("w-ada-1"), 1, 1, "cancel", 0))
        assert not caught.value.final
        hand = FakeHand([a_run("w-ada-1"), a_run("w-ben-1"), a_run("w-own-1"), a_run("w-who-1")])
        hosting = host(driver, hand)
        told = await until(driver, reports, Inventory)
        assert (told.people, [one.run for one in told.runs]) == (("ada",), ["w-ada-1"])
        there = await until(driver, reports, ClusterReport)
        assert there.cluster.serves == ("", "ada")
        assert hand.link is not None
        hand.link.line(b'{"event": "run", "run": {"run": "w-ben-1", "generation": 1, "ended": {}}}')
        hand.link.line(b'{"event": "run", "run": {"run": "w-ada-1", "generation": 1}}')
        assert (await until(driver, reports, RunReport)).run == "w-ada-1"
        await driver.stop(StopOrder(RunId("w-ada-1"), 1, 1, "cancel", 0))
        assert hand.asked[-1] == "stop"
        assert (await driver.read_log(RunId("w-ada-1"), "run", 0, 0, 9)).data == b"hers"
        assert (await driver.read_log(RunId("w-own-1"), "run", 0, 0, 9)).data == b"own"
        assert own.asked == ["w-own-1"]
        seen: Cluster = await driver.probe()
        assert seen.nodes[0].devices[0].foreign_bytes == 0, "it is her run's memory"
        await hand.close()
        await hosting
        assert (await until(driver, reports, ClusterReport)).cluster.serves == ("",)
        assert driver.people == ("",)
        await reports.aclose()  # type: ignore[attr-defined]

    asyncio.run(scene())


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"facts": 5},
        {"facts": {"gpus": [7]}},
        {"facts": {"gpus": [{"processes": [{"pid": [], "run": "w-ada-1"}]}]}},
        {"facts": {"gpus": [{"processes": [{"pid": os.getpid(), "run": "w-ada-1"}]}]}},
    ],
)
def test_what_a_runtime_says_of_the_machine_hides_nothing(said: dict[str, Any]) -> None:
    """Nonsense costs nobody the look at the machine; a process of another user stays foreign."""

    async def scene() -> None:
        driver = SharedDriver(OwnDriver(os.getpid()), None, WHOSE.get)  # type: ignore[arg-type]
        hand = FakeHand([a_run("w-ada-1")])
        hand.answers = {**hand.answers, "probe": said}
        hosting = host(driver, hand)
        await soon(lambda: driver.people == ("", "ada"))
        seen = await driver.probe()
        assert seen.nodes[0].devices[0].foreign_bytes == 2 << 30
        await hand.close()
        await hosting

    asyncio.run(scene())


def test_a_newer_runtime_of_a_person_replaces_the_older() -> None:
    """As after a connection that hangs; the one that went last takes nothing along."""

    async def scene() -> None:
        driver = SharedDriver(OwnDriver(), None, WHOSE.get)  # type: ignore[arg-type]
        driver._seen = a_cluster("big", a_node("big"))
        old, new = FakeHand([]), FakeHand([])
        first = host(driver, old)
        await soon(lambda: driver.people == ("", "ada"))
        second = host(driver, new)
        await first
        await soon(lambda: driver.guests["ada"].is_there)
        assert old.closed.is_set()
        assert driver.people[1:] == ("ada",)
        await new.close()
        await second
        assert driver.people[1:] == ()

    asyncio.run(asyncio.wait_for(scene(), 10))


def test_it_can_do_all_that_the_driver_of_one_user_can() -> None:
    """What is asked of a driver by protocol is found at either."""

    def public(kind: type) -> set[str]:
        return {name for name in vars(kind) if not name.startswith("_")}

    kept = {"capabilities", "facts", "live", "checkpoint_home"}
    assert public(LocalDriver) - public(SharedDriver) <= kept
