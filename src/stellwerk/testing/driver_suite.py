"""What every driver must do, as tests: subclass `DriverSuite` and give it a fixture `place`.

    class TestMyDriver(DriverSuite):
        @pytest.fixture
        def place(self, tmp_path):
            yield MyPlace(tmp_path)

A `Place` makes drivers that reach one and the same place, turns a `Program` into an order that
this place can carry out, and lets time pass, real or virtual.
"""

import asyncio

import pytest

from stellwerk.core.model.ids import RunId
from stellwerk.core.model.reports import StartRefused
from stellwerk.testing.driver_session import Place, Program, Session, refused
from stellwerk.testing.exec_suite import ExecSuite

FAR_AWAY = RunId("w-never-1")


class DriverSuite(ExecSuite):
    """The tests; each runs its own event loop, so a subclass needs nothing but the fixture."""

    def test_opening_tells_what_is_there(self, place: Place) -> None:
        """The first inventory of a new place is empty, and a probe finds at least one node."""

        async def scene() -> None:
            session = await Session(place).open()
            first = session.first_inventory()
            assert (first.cluster, first.runs) == (session.driver.cluster, ())
            assert first.at_ms > 0
            cluster = await session.driver.probe()
            assert cluster.name == session.driver.cluster
            assert [node.state for node in cluster.nodes] == ["ready"] * len(cluster.nodes)
            assert all(node.cpus_milli > 0 and node.boot_id for node in cluster.nodes)
            await session.close()

        asyncio.run(scene())

    @pytest.mark.parametrize("code", [0, 3])
    def test_a_run_starts_and_ends(self, place: Place, code: int) -> None:
        """Its phases are told in order, its end with its code and times, its output is kept."""

        async def scene() -> None:
            session = await Session(place).open()
            await session.start("w-1-1", Program(lasts_ms=100, code=code, prints="made it\n"))
            end = await session.ends("w-1-1")
            assert (end.how, end.code, end.put_back) == ("exited", code, False)
            assert 0 < end.started_at_ms <= end.ended_at_ms
            assert session.phases("w-1-1")[-2:] == ["Running", "Ended"]
            assert await session.log("w-1-1") == b"made it\n"
            assert {report.generation for report in session.reports_of("w-1-1")} == {1}
            await session.close()

        asyncio.run(scene())

    def test_a_setup_that_fails_ends_the_run(self, place: Place) -> None:
        """The run itself is never begun, and the setup's output can be read."""

        async def scene() -> None:
            session = await Session(place).open()
            program = Program(prints="no\n", setup_prints="trying\n", setup_code=7)
            await session.start("w-1-1", program)
            end = await session.ends("w-1-1")
            assert (end.how, end.code) == ("setup_failed", 7)
            assert "Running" not in session.phases("w-1-1")
            assert await session.log("w-1-1", "setup") == b"trying\n"
            assert await session.log("w-1-1") == b""
            await session.close()

        asyncio.run(scene())

    def test_a_setup_comes_before_the_run(self, place: Place) -> None:
        """Both are told, and each has its own log."""

        async def scene() -> None:
            session = await Session(place).open()
            program = Program(prints="run\n", setup_prints="setup\n", setup_code=0)
            await session.start("w-1-1", program)
            assert (await session.ends("w-1-1")).code == 0
            assert await session.log("w-1-1", "setup") == b"setup\n"
            assert await session.log("w-1-1") == b"run\n"
            await session.close()

        asyncio.run(scene())

    def test_a_log_is_read_by_offset(self, place: Place) -> None:
        """Parts join without a gap; past the end there is nothing; an unknown log is empty."""

        async def scene() -> None:
            session = await Session(place).open()
            run = await session.start("w-1-1", Program(prints="0123456789\n"))
            await session.ends("w-1-1")
            read = session.driver.read_log
            first = await read(run, "run", 0, 0, 4)
            assert (first.data, first.offset, first.size) == (b"0123", 0, 11)
            rest = await read(run, "run", 0, first.next_offset, 100)
            assert (rest.data, rest.next_offset) == (b"456789\n", 11)
            assert (await read(run, "run", 0, 50, 10)).data == b""
            assert (await read(run, "setup", 0, 0, 10)).size == 0
            assert (await read(run, "run", 7, 0, 10)).size == 0
            assert (await read(FAR_AWAY, "run", 0, 0, 10)).size == 0
            await session.close()

        asyncio.run(scene())

    def test_metrics_are_read_by_offset(self, place: Place) -> None:
        """While a run goes on and when it is over; one that reports none has an empty file."""

        async def scene() -> None:
            session = await Session(place).open()
            lines = '{"step": 1, "name": "loss", "value": 0.5}\n'
            program = Program(lasts_ms=400, prints="ready\n", metrics=lines)
            run = await session.start("w-1-1", program)
            await session.until_it_printed("w-1-1")
            read = session.driver.read_log
            first = await read(run, "metrics", 0, 0, 10)
            assert (first.data, first.size) == (lines[:10].encode(), len(lines))
            await session.ends("w-1-1")
            rest = await read(run, "metrics", 0, first.next_offset, 1000)
            assert (rest.data, rest.next_offset) == (lines[10:].encode(), len(lines))
            quiet = await session.start("w-2-1", Program())
            await session.ends("w-2-1")
            assert (await read(quiet, "metrics", 0, 0, 10)).size == 0
            assert (await read(FAR_AWAY, "metrics", 0, 0, 10)).size == 0
            await session.close()

        asyncio.run(scene())

    def test_a_repeated_start_starts_once(self, place: Place) -> None:
        """At the same time, one after the other, and after the end: the output is there once."""

        async def scene() -> None:
            session = await Session(place).open()
            program = Program(lasts_ms=200, prints="once\n")
            await asyncio.gather(*(session.start("w-1-1", program) for _ in range(3)))
            await session.start("w-1-1", program)
            await session.ends("w-1-1")
            await session.start("w-1-1", program)
            for _ in range(20):
                await place.pass_time()
            assert await session.log("w-1-1") == b"once\n"
            assert session.phases("w-1-1")[-1] == "Ended"
            await session.close()

        asyncio.run(scene())

    def test_an_older_generation_is_refused(self, place: Place) -> None:
        """Neither a start nor a notice of an older generation reaches a run."""

        async def scene() -> None:
            session = await Session(place).open()
            program = Program(lasts_ms=700, prints="2\n")
            await session.start("w-1-1", program, generation=2)
            await session.reaches("w-1-1", "Running")
            await refused(session.start("w-1-1", program, generation=1))
            await refused(session.stop("w-1-1", generation=1))
            end = await session.ends("w-1-1")
            assert (end.how, end.code) == ("exited", 0)
            assert await session.log("w-1-1") == b"2\n"
            await session.close()

        asyncio.run(scene())

    def test_an_older_leader_is_refused(self, place: Place) -> None:
        """Once a later epoch was seen, an earlier one can neither start nor stop anything."""

        async def scene() -> None:
            session = await Session(place).open()
            await session.start("w-1-1", Program(lasts_ms=400), epoch=5)
            await session.reaches("w-1-1", "Running")
            await refused(session.start("w-2-1", Program(), epoch=4))
            await refused(session.stop("w-1-1", epoch=4))
            await session.start("w-3-1", Program(), epoch=6)
            assert (await session.ends("w-1-1")).how == "exited"
            assert (await session.ends("w-3-1")).code == 0
            assert session.reports_of("w-2-1") == []
            await session.close()

        asyncio.run(scene())

    def test_a_refused_start_is_told_and_raised(self, place: Place) -> None:
        """Whoever gave the order learns of it, and so does whoever listens."""

        async def scene() -> None:
            session = await Session(place).open()
            order = place.refused_order("w-1-1")
            error = await refused(session.driver.start(order))
            await session.until(lambda: any(isinstance(x, StartRefused) for x in session.heard))
            (told,) = [x for x in session.heard if isinstance(x, StartRefused)]
            assert (told.run, told.generation, told.code) == (order.run, 1, error.code)
            assert error.message
            await session.close()

        asyncio.run(scene())

    def test_a_notice_is_honoured(self, place: Place) -> None:
        """A run that leaves at a notice is put back, one that saves says so with 85."""

        async def scene() -> None:
            session = await Session(place).open()
            await session.start(
                "w-1-1", Program(lasts_ms=60_000, on_notice="leaves", prints="ready\n")
            )
            await session.start(
                "w-2-1", Program(lasts_ms=60_000, on_notice="saves", prints="ready\n")
            )
            await session.reaches("w-1-1", "Running")
            await session.reaches("w-2-1", "Running")
            await session.until_it_printed("w-1-1")
            await session.until_it_printed("w-2-1")
            await session.stop("w-1-1")
            await session.stop("w-2-1")
            left, saved = await session.ends("w-1-1"), await session.ends("w-2-1")
            assert (left.how, left.put_back, left.checkpointed) == ("notice", True, False)
            assert (saved.code, saved.put_back, saved.checkpointed) == (85, True, True)
            assert "Stopping" in session.phases("w-1-1")
            await session.close()

        asyncio.run(scene())

    def test_a_notice_that_is_ignored_ends_in_a_kill(self, place: Place) -> None:
        """At the end of its grace everything of a run is gone, whatever it thinks of that."""

        async def scene() -> None:
            session = await Session(place).open()
            await session.start(
                "w-1-1", Program(lasts_ms=60_000, on_notice="ignores", prints="ready\n")
            )
            await session.reaches("w-1-1", "Running")
            await session.until_it_printed("w-1-1")
            await session.stop("w-1-1", grace_ms=300)
            end = await session.ends("w-1-1")
            assert (end.how, end.signal) == ("notice", 9)
            await session.close()

        asyncio.run(scene())

    def test_a_second_notice_changes_nothing_and_a_late_one_neither(self, place: Place) -> None:
        """Notices are repeated after a crash: to a run that has one, and to one that is over."""

        async def scene() -> None:
            session = await Session(place).open()
            await session.start(
                "w-1-1", Program(lasts_ms=60_000, on_notice="saves", prints="ready\n")
            )
            await session.reaches("w-1-1", "Running")
            await session.until_it_printed("w-1-1")
            await session.stop("w-1-1")
            await session.stop("w-1-1")
            end = await session.ends("w-1-1")
            await session.stop("w-1-1")
            assert (await session.ends("w-1-1")) == end
            await session.close()

        asyncio.run(scene())

    def test_a_notice_can_be_withdrawn(self, place: Place) -> None:
        """The run goes on, and its good end is a good end."""

        async def scene() -> None:
            session = await Session(place).open()
            run = await session.start(
                "w-1-1", Program(lasts_ms=800, on_notice="ignores", prints="ready\n")
            )
            await session.reaches("w-1-1", "Running")
            await session.until_it_printed("w-1-1")
            await session.stop("w-1-1", grace_ms=60_000)
            await session.reaches("w-1-1", "Stopping")
            await session.driver.withdraw(run)
            end = await session.ends("w-1-1")
            assert (end.how, end.code, end.put_back) == ("exited", 0, False)
            await session.close()

        asyncio.run(scene())

    def test_a_kill_ends_at_once(self, place: Place) -> None:
        """No grace, no question; and a second one finds nothing to do."""

        async def scene() -> None:
            session = await Session(place).open()
            run = await session.start(
                "w-1-1", Program(lasts_ms=60_000, on_notice="ignores", prints="ready\n")
            )
            await session.reaches("w-1-1", "Running")
            await session.driver.kill(run)
            end = await session.ends("w-1-1")
            assert (end.how, end.put_back) == ("killed", False)
            await session.driver.kill(run)
            await session.close()

        asyncio.run(scene())

    def test_what_happened_meanwhile_is_in_the_inventory(self, place: Place) -> None:
        """A driver that was away learns of ends and of what still runs when it connects again."""

        async def scene() -> None:
            session = await Session(place).open()
            await session.start("w-1-1", Program(lasts_ms=300, code=4))
            await session.start("w-2-1", Program(lasts_ms=60_000))
            await session.reaches("w-1-1", "Running")
            await session.reaches("w-2-1", "Running")
            await session.close()
            watcher = await Session(place).open()
            await watcher.ends("w-1-1")
            await watcher.close()
            again = await Session(place).open()
            told = {report.run: report for report in again.first_inventory().runs}
            assert told[RunId("w-1-1")].end is not None
            assert told[RunId("w-1-1")].end == await watcher.ends("w-1-1")
            assert told[RunId("w-2-1")].phase == "Running"
            await again.driver.kill(RunId("w-2-1"))
            await again.ends("w-2-1")
            await again.close()

        asyncio.run(scene())

    def test_a_second_driver_adopts_what_the_first_left(self, place: Place) -> None:
        """After the death of the control plane its successor finds the run and can stop it."""

        async def scene() -> None:
            first = await Session(place).open()
            program = Program(lasts_ms=60_000, on_notice="saves", prints="here\n")
            await first.start("w-1-1", program)
            await first.reaches("w-1-1", "Running")
            await first.until_it_printed("w-1-1")
            first.vanish()
            second = await Session(place).open()
            (found,) = second.first_inventory().runs
            assert (found.run, found.phase, found.generation) == ("w-1-1", "Running", 1)
            await second.start("w-1-1", program, epoch=2)
            await second.stop("w-1-1", epoch=2)
            assert (await second.ends("w-1-1")).code == 85
            assert await second.log("w-1-1") == b"here\n"
            await second.close()

        asyncio.run(scene())

    def test_orders_for_unknown_runs_are_refused(self, place: Place) -> None:
        """Nothing can be done to a run that was never here; to forget it is no error."""

        async def scene() -> None:
            session = await Session(place).open()
            await refused(session.stop(FAR_AWAY))
            await refused(session.driver.withdraw(FAR_AWAY))
            await refused(session.driver.kill(FAR_AWAY))
            await session.driver.forget(FAR_AWAY)
            await session.close()

        asyncio.run(scene())

    def test_a_forgotten_run_is_gone_but_never_starts_again(self, place: Place) -> None:
        """Forgetting takes a run's files, not the knowledge that its start has happened."""

        async def scene() -> None:
            session = await Session(place).open()
            program = Program(prints="once\n")
            run = await session.start("w-1-1", program)
            await session.ends("w-1-1")
            await session.driver.forget(run)
            assert await session.log("w-1-1") == b""
            await session.close()
            later = await Session(place).open()
            assert later.first_inventory().runs == ()
            await refused(later.start("w-1-1", program))
            assert await later.log("w-1-1") == b""
            await later.close()

        asyncio.run(scene())

    def test_a_living_run_is_not_forgotten(self, place: Place) -> None:
        """What still runs is neither ended nor removed by `forget`."""

        async def scene() -> None:
            session = await Session(place).open()
            run = await session.start("w-1-1", Program(lasts_ms=300, prints="still\n"))
            await session.reaches("w-1-1", "Running")
            await refused(session.driver.forget(run))
            assert (await session.ends("w-1-1")).code == 0
            assert await session.log("w-1-1") == b"still\n"
            await session.close()

        asyncio.run(scene())
