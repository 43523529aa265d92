"""What the local driver makes of an order: work directories, environments, logs, secrets."""

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from stellwerk.core.model.ids import RunId
from stellwerk.core.model.reports import RunSample
from stellwerk.drivers.base import DriverError
from stellwerk.drivers.local.driver import LocalDriver, cluster_name
from stellwerk.testing.builders import an_order
from stellwerk.testing.driver_session import Session, refused
from tests.drivers.machine import Machine, play, start


def test_a_run_works_in_its_snapshot(machine: Machine) -> None:
    """The files are there when the run begins, under a folder that the driver can name."""
    machine.blobs.put("h", b"hello\n")
    snapshot = machine.blobs.manifest({"path": "a/b.txt", "mode": 0o644, "size": 6, "hash": "h"})

    async def scene(session: Session) -> None:
        order = an_order(snapshot=snapshot, script="cat a/b.txt; pwd; touch made")
        run = await start(session, order)
        assert (await session.ends(run)).code == 0
        assert isinstance(session.driver, LocalDriver)
        folders = await session.driver.folders(run)
        assert await session.log(run) == f"hello\n{folders.work}\n".encode()
        assert sorted(os.listdir(folders.work)) == ["a", "made"]
        assert os.listdir(folders.output) == os.listdir(folders.checkpoint) == []
        await session.driver.forget(run)
        assert os.listdir(machine.root / "work") == []
        assert (await session.driver.folders(run)).work == ""

    play(machine, scene)


def test_a_repeated_start_leaves_the_work_directory_alone(machine: Machine) -> None:
    """What the run has written is still there after its order came a second time."""
    snapshot = machine.blobs.manifest()

    async def scene(session: Session) -> None:
        order = an_order(snapshot=snapshot, script="touch made; sleep 0.3; ls")
        run = await start(session, order)
        await session.reaches(run, "Running")
        await start(session, order)
        await session.ends(run)
        assert await session.log(run) == b"made\n"

    play(machine, scene)


def test_a_refused_start_leaves_no_work_directory(machine: Machine) -> None:
    """A run that was here and is forgotten isn't started, and nothing is made for it."""
    order = an_order(snapshot=machine.blobs.manifest())

    async def scene(session: Session) -> None:
        run = await start(session, order)
        await session.ends(run)
        await session.driver.forget(run)
        error = await refused(session.driver.start(order))
        assert error.code == "runtime/forgotten"
        assert os.listdir(machine.root / "work") == []

    play(machine, scene)


def test_a_run_in_place_has_the_callers_folder_and_environment(
    machine: Machine, tmp_path: Path
) -> None:
    """With a folder of the caller's nothing is copied, and with his variables none are added."""
    (tmp_path / "mine").mkdir()

    async def scene(session: Session) -> None:
        order = replace(
            an_order(env={"PATH": os.environ["PATH"], "MINE": "yes"}, script=""),
            argv=("/bin/sh", "-c", "pwd; echo $MINE$HOME"),
            cwd=str(tmp_path / "mine"),
            inherit_env=True,
        )
        run = await start(session, order)
        assert (await session.ends(run)).code == 0
        assert await session.log(run) == f"{tmp_path / 'mine'}\nyes\n".encode()

    play(machine, scene)


def test_each_rank_has_its_own_environment_and_log(machine: Machine) -> None:
    """Two replicas on this machine: told apart by what they are given and where they print."""

    async def scene(session: Session) -> None:
        order = an_order(num_ranks=2, script="echo rank $RANK of $SIZE", env={"SIZE": "2"})
        ranks = tuple(replace(rank, env={"RANK": str(rank.rank)}) for rank in order.ranks)
        run = await start(session, replace(order, ranks=ranks))
        assert (await session.ends(run)).ranks == {"0": 0, "1": 0}
        for rank in (0, 1):
            chunk = await session.driver.read_log(run, "run", rank, 0, 100)
            assert chunk.data == f"rank {rank} of 2\n".encode()

    play(machine, scene)


def test_a_secret_reaches_the_run_and_no_file(machine: Machine) -> None:
    """Its value is in the run's environment, and in nothing that lies in the agent's folder."""

    async def scene(session: Session) -> None:
        order = an_order(secrets={"TOKEN": "hush-hush"}, script='echo "${#TOKEN}"; sleep 0.2')
        run = await start(session, order)
        await session.until_it_printed(run)
        files = [path for path in machine.root.rglob("*") if path.is_file()]
        assert not [path for path in files if b"hush-hush" in path.read_bytes()]
        assert len(files) > 5
        await session.ends(run)
        assert await session.log(run) == b"9\n"

    play(machine, scene)


def test_a_run_starts_with_the_checkpoints_of_another_workload(machine: Machine) -> None:
    """In a folder of its own, once: what it removes or changes there doesn't come back."""

    async def scene(session: Session) -> None:
        save = "cd $STELLWERK_CHECKPOINT_DIR; mkdir step-1; echo 1 > step-1/w; touch half.tmp"
        await session.ends(await start(session, an_order("w-1-1", script=save)))
        driver = session.driver
        assert isinstance(driver, LocalDriver)
        assert [one.name for one in await driver.checkpoints("w-1")] == ["step-1"]
        go_on = "cd $STELLWERK_CHECKPOINT_DIR; ls; cat step-1/w; echo 2 > step-1/w"
        for number, said in ((1, b"step-1\n1\n"), (2, b"step-1\n2\n")):
            order = an_order(f"w-2-{number}", generation=number, script=go_on)
            run = await start(session, replace(order, resumes="w-1"))
            await session.ends(run)
            assert await session.log(run) == said
        nothing = await start(session, replace(an_order("w-3-1"), resumes="w-none"))
        end = await session.ends(nothing)
        assert end.how == "spawn_failed"
        assert "no checkpoints to go on from" in end.message

    play(machine, scene)


def test_checkpoints_that_can_not_be_looked_at_are_not_told_as_none(machine: Machine) -> None:
    """Whoever wants to go on from them hears why, and doesn't take them for lost."""

    async def scene(session: Session) -> None:
        driver = session.driver
        assert isinstance(driver, LocalDriver)
        await session.ends(await start(session, an_order("w-1-1", script="true")))
        folder = Path((await driver.folders(RunId("w-1-1"))).checkpoint)
        assert await driver.checkpoints("w-1") == []
        os.rmdir(folder)
        os.symlink(folder, folder)
        with pytest.raises(DriverError, match=f"{folder}.*symbolic links"):
            await driver.checkpoints("w-1")

    play(machine, scene)


def test_an_agent_of_before_is_not_asked_to_start_with_checkpoints(machine: Machine) -> None:
    """It would refuse each run that is; so it is told before one is submitted."""

    async def scene(session: Session) -> None:
        driver = session.driver
        assert isinstance(driver, LocalDriver)
        await session.ends(await start(session, an_order("w-1-1", script="true")))
        assert await driver.checkpoints("w-1") == []
        driver._talk.hello.pop("can")
        with pytest.raises(DriverError) as caught:
            await driver.checkpoints("w-1")
        assert caught.value.code == "runtime/too_old"

    play(machine, scene)


def test_what_a_run_uses_is_reported(machine: Machine) -> None:
    """While it goes on, soon after it began."""

    async def scene(session: Session) -> None:
        run = await start(session, an_order(script="sleep 20"))
        await session.until(lambda: any(isinstance(one, RunSample) for one in session.heard))
        sample = next(one for one in session.heard if isinstance(one, RunSample))
        assert (sample.run, sample.cluster) == (run, session.driver.cluster)
        assert 0 < sample.memory_bytes <= sample.peak_memory_bytes
        assert sample.processes >= 1
        assert sample.at_ms > 0
        await session.driver.kill(run)
        await session.ends(run)

    play(machine, scene)


def test_a_run_name_that_is_a_path_is_refused(machine: Machine) -> None:
    """No order and no log leads out of the agent's folder."""

    async def scene(session: Session) -> None:
        for run in map(RunId, ("../../elsewhere", "", ".", "a/b", "a\0b")):
            await refused(session.driver.start(replace(an_order(), run=run)))
            await refused(session.driver.read_log(run, "run", 0, 0, 10))
            await refused(session.driver.kill(run))

    play(machine, scene)


@pytest.mark.parametrize(
    ("hostname", "name"),
    [
        ("lab7.example.org", "lab7"),
        ("Ada_s Laptop", "ada-s-laptop"),
        ("-", "local"),
        ("", "local"),
        ("x" * 80, "x" * 63),
    ],
)
def test_a_cluster_is_named_after_its_machine(hostname: str, name: str) -> None:
    """Names need no quoting anywhere."""
    assert cluster_name(hostname) == name


def test_a_pipe_in_the_place_of_a_log_is_not_waited_for(machine: Machine) -> None:
    """A job can put one there; a thread that opened it would never come back."""

    async def scene(session: Session) -> None:
        run = await start(session, an_order(script="true"))
        await session.ends(run)
        log = machine.root / "runs" / run / "run.log"
        log.unlink()
        os.mkfifo(log)
        with pytest.raises(DriverError, match="no regular file") as caught:
            await session.driver.read_log(run, "run", 0, 0, 100)
        assert (caught.value.code, caught.value.final) == ("driver/log-unreadable", False)

    play(machine, scene)
