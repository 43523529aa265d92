"""The agent of a home: found, started, replaced, and never two of them."""

import asyncio
import json
import os
import signal
import time
from pathlib import Path

import pytest

from stellwerk.core.model.reports import Inventory
from stellwerk.drivers.base import DriverError
from stellwerk.drivers.local.driver import LocalDriver
from stellwerk.runtime.bundle import build
from stellwerk.testing.driver_session import Program, Session
from tests.drivers.machine import Machine, play, until

LONG = Program(lasts_ms=60_000, on_notice="saves", prints="ready\n")


def inventories(session: Session) -> list[Inventory]:
    return [report for report in session.heard if isinstance(report, Inventory)]


def test_the_agent_stays_for_the_next_driver(machine: Machine) -> None:
    """Closing and opening again finds the same agent."""
    pids = []

    async def scene(session: Session) -> None:
        pids.append(machine.agent_pid())

    play(machine, scene)
    play(machine, scene)
    assert pids[0] == pids[1]


def test_drivers_that_open_at_once_share_one_agent(machine: Machine) -> None:
    """Whoever loses the race for starting the agent finds the winner's."""

    async def scene() -> None:
        sessions = await asyncio.gather(*(Session(machine).open() for _ in range(4)))
        await sessions[0].start("w-1-1", LONG)
        for session in sessions:
            await session.reaches("w-1-1", "Running")
        for session in sessions:
            await session.close()

    asyncio.run(scene())
    log = (machine.root / "agent.log").read_text()
    assert log.count("another agent serves") <= 3
    until(lambda: len(agents_of(machine)) == 1)


def test_a_killed_agent_is_replaced_and_runs_go_on(machine: Machine) -> None:
    """The driver starts another one by itself, which finds the run, and an inventory is told."""

    async def scene(session: Session) -> None:
        run = await session.start("w-1-1", LONG)
        await session.until_it_printed(run)
        before = machine.agent_pid()
        os.kill(before, signal.SIGKILL)
        await session.until(lambda: len(inventories(session)) == 2)
        assert machine.agent_pid() != before
        assert [report.phase for report in inventories(session)[1].runs] == ["Running"]
        await session.stop(run)
        assert (await session.ends(run)).code == 85

    play(machine, scene)


def test_a_silent_agent_is_not_held_on_to(machine: Machine) -> None:
    """An order without an answer ends the connection, so that the next one finds out and says why;
    when the agent goes on all is well again.
    """

    async def scene(session: Session) -> None:
        assert isinstance(session.driver, LocalDriver)
        pid = machine.agent_pid()
        os.kill(pid, signal.SIGSTOP)
        try:
            held = session.driver._talk.link
            with pytest.raises(DriverError) as caught:
                await session.driver._talk.ask("list", timeout_ms=50)
            assert not caught.value.final
            assert held is not None
            await held.closed.wait()
            assert session.driver._house._why_silent() == (
                f"; process {pid} is stopped, `kill -CONT {pid}` has it go on"
            )
        finally:
            os.kill(pid, signal.SIGCONT)
        run = await session.start("w-1-1", Program(lasts_ms=0, code=3))
        assert (await session.ends(run)).code == 3
        assert session.driver._house._why_silent() == ""
        assert machine.agent_pid() == pid

    play(machine, scene)


def test_an_end_without_an_agent_is_told_by_the_next(machine: Machine) -> None:
    """A run that ends while no agent lives has written its end down."""

    async def prepare(session: Session) -> None:
        run = await session.start("w-1-1", Program(lasts_ms=300, code=5, prints="ready\n"))
        await session.until_it_printed(run)

    play(machine, prepare)
    os.kill(machine.agent_pid(), signal.SIGKILL)
    ended = machine.root / "runs" / "w-1-1" / "ended.json"
    until(ended.exists)

    async def scene(session: Session) -> None:
        (report,) = session.first_inventory().runs
        assert report.end is not None
        assert (report.end.how, report.end.code) == ("exited", 5)

    play(machine, scene)


def test_an_agent_whose_socket_is_gone_is_replaced(machine: Machine) -> None:
    """Temporary folders are tidied up by others: a living agent without a socket is of no use."""

    async def prepare(session: Session) -> None:
        await session.start("w-1-1", LONG)
        await session.until_it_printed("w-1-1")

    play(machine, prepare)
    before = machine.agent_pid()
    (machine.sockets / "agent.sock").unlink()

    async def scene(session: Session) -> None:
        assert [report.phase for report in session.first_inventory().runs] == ["Running"]
        assert machine.agent_pid() != before

    play(machine, scene)
    until(lambda: len(agents_of(machine)) == 1)


def test_an_idle_agent_of_another_build_is_replaced(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an upgrade the new runtime is used as soon as nothing runs under the old one."""
    older = pretend_older(machine, monkeypatch)

    async def scene(session: Session) -> None:
        assert machine.agent_pid() != older
        await session.start("w-1-1", Program())
        assert (await session.ends("w-1-1")).code == 0

    play(machine, scene)
    until(lambda: len(agents_of(machine)) == 1)


def test_a_busy_agent_of_another_build_is_left_alone(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While runs go on under an agent that we understand, it stays, and does what we ask."""
    older = pretend_older(machine, monkeypatch, Program(lasts_ms=60_000, prints="ready\n"))

    async def scene(session: Session) -> None:
        assert machine.agent_pid() == older
        await session.start("w-2-1", Program(prints="under the old one\n"))
        assert (await session.ends("w-2-1")).code == 0

    play(machine, scene)


def test_no_agent_is_no_verdict(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """What can't be started is told with the reason, and may be tried again."""
    machine.root.parent.mkdir()
    machine.root.write_text("in the way")

    async def scene() -> None:
        with pytest.raises(DriverError, match="can't be used") as caught:
            await machine.driver().open()
        assert (caught.value.code, caught.value.final) == ("driver/no-runtime", False)

    asyncio.run(scene())


def test_an_agent_that_cannot_work_says_why(machine: Machine) -> None:
    """Its own words are in the error: here a path that no socket can have."""
    deep = machine.sockets / ("d" * 100)

    async def scene() -> None:
        driver = LocalDriver(home=machine.home, socket_dir=deep, blobs=machine.blobs)
        begun = time.monotonic()
        with pytest.raises(DriverError, match="longer than the 107 bytes") as caught:
            await driver.open()
        assert (caught.value.code, caught.value.final) == ("driver/agent-failed", False)
        assert time.monotonic() - begun < 5

    asyncio.run(scene())


def test_a_folder_that_others_may_write_to_gets_no_socket(machine: Machine) -> None:
    """A server's socket may be put anywhere; the agent's is then in its own folder."""
    machine.sockets.chmod(0o777)

    async def scene(session: Session) -> None:
        assert (machine.root / "agent.sock").is_socket()

    play(machine, scene)


def test_a_closed_driver_takes_no_orders(machine: Machine) -> None:
    """Nothing is started behind the back of whoever closed it, and nothing is called over."""

    async def scene() -> None:
        session = await Session(machine).open()
        await session.close()
        with pytest.raises(DriverError) as caught:
            await session.start("w-1-1", Program())
        assert (caught.value.code, caught.value.final) == ("driver/closed", False)

    asyncio.run(scene())
    assert os.listdir(machine.root / "runs") == []


def test_an_order_is_sent_at_once(machine: Machine) -> None:
    """The agent, which has forked by then, answers in far less than half a second."""

    async def scene(session: Session) -> None:
        await session.start("w-1-1", Program())
        begun = time.monotonic()
        await session.start("w-2-1", Program())
        assert time.monotonic() - begun < 0.5

    play(machine, scene)


def test_the_card_names_the_agent(machine: Machine) -> None:
    """What other tools read to find the agent is there once the driver is open."""

    async def scene(session: Session) -> None:
        card = json.loads((machine.root / "agent.json").read_text())
        assert card["socket"] == str(machine.sockets / "agent.sock")
        await session.until(lambda: agents_of(machine) == [card["pid"]])

    play(machine, scene)


def pretend_older(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, program: Program | None = None
) -> int:
    """Starts an agent from a file of another name, as an older version would; its pid."""

    def build_older(target: Path) -> Path:
        return build(target).rename(target / "runtime-older.pyz")

    with monkeypatch.context() as patch:
        patch.setattr("stellwerk.drivers.local.agents.build", build_older)

        async def scene(session: Session) -> None:
            if program is not None:
                await session.start("w-1-1", program)
                await session.until_it_printed("w-1-1")

        play(machine, scene)
    return machine.agent_pid()


def agents_of(machine: Machine) -> list[int]:
    """The agents that serve the machine's folder; wrappers are in sessions of their own."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            line = Path(f"/proc/{name}/cmdline").read_bytes()
            status = Path(f"/proc/{name}/stat").read_text()
        except OSError:
            continue
        lock = machine.root / "agent.lock"
        if os.fsencode(machine.root) in line and "serve" in line.decode() and lock.exists():
            opened = Path(f"/proc/{name}/fd")
            links = [os.readlink(opened / each) for each in os.listdir(opened)]
            if str(lock) in links and status.rpartition(")")[2].split()[0] != "Z":
                found.append(int(name))
    return found
