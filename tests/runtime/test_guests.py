"""Commands inside a run: they are where the job is, they aren't the job, and end with it."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stellwerk.runtime import frames, namespaces
from stellwerk.runtime.sampling import Sampler
from tests.processes import is_alive
from tests.runtime.guest import Caller, ran
from tests.runtime.little_image import stand_in
from tests.runtime.rig import ENDS, INTERPRETERS, Refusal, Rig, a_rig


def running(rig: Rig, run: str, script: str = "sleep 600", **fields: object) -> str:
    """Starts a run and waits until its ranks go on."""
    rig.start(run, script, **fields)
    rig.wait("a running rank", lambda: rig.report(run)["state"] == "running")
    return run


@pytest.fixture(scope="module")
def house() -> Iterator[Rig]:
    """A run called `host` that stays, and the agent that looks after it."""
    with a_rig() as rig:
        rig.start_agent()
        running(rig, "host", env={"COLOUR": "green"}, secrets={"TOKEN": "hush"})
        yield rig


def pid_of(caller: Caller) -> int:
    """The number that a command has printed as its first line."""
    caller.until(b"\n")
    return int(caller.output.split()[0])


def test_a_command_is_where_the_job_is(house: Rig) -> None:
    """The same folder, variables and secrets, in a session of its own; both streams apart."""
    script = 'pwd; echo "$COLOUR $TOKEN $STELLWERK_RUN_ID"; echo no >&2; exit 7'
    output, errors, end = ran(house, "host", "sh", "-c", script)
    assert output.decode().split() == [house.path("host", "work"), "green", "hush", "host"]
    assert (errors, end) == (b"no\n", {"code": 7})
    assert ran(house, "host", "sh", "-c", "echo $EXTRA", env={"EXTRA": "more"})[0] == b"more\n"


def test_nothing_of_ours_is_open_in_it(house: Rig) -> None:
    """Only its three streams: a descriptor of the connection would keep the caller waiting."""
    output, _, _ = ran(house, "host", "sh", "-c", "ls /proc/$$/fd")
    assert output.split() == [b"0", b"1", b"2"]


def test_input_arrives_and_ends(house: Rig) -> None:
    """Byte for byte, and told as taken; without any wanted there is none."""
    data = bytes(range(256)) * 500
    with Caller(house, "host", ["cat"], stdin=True) as caller:
        caller.say(frames.INPUT, data)
        caller.say(frames.END_OF_INPUT)
        assert caller.finish() == {"code": 0}
        assert (bytes(caller.output), caller.taken) == (data, len(data))
    assert ran(house, "host", "cat") == (b"", b"", {"code": 0})


def test_input_that_nobody_reads_holds_nothing_up(house: Rig) -> None:
    """What is left of it counts as taken once the command lets go, and a signal passes it by."""
    with Caller(
        house, "host", ["sh", "-c", "exec 0<&-; echo closed; sleep 600"], stdin=True
    ) as one:
        one.until(b"closed")
        one.say(frames.INPUT, b"x" * frames.WINDOW)
        while one.taken < frames.WINDOW:
            assert one.hear()
        one.say(frames.INPUT, b"more")
        while one.taken < frames.WINDOW + 4:
            assert one.hear()
        one.say(frames.SIGNAL, bytes([signal.SIGTERM]))
        assert one.finish() == {"code": 143}
    with Caller(house, "host", ["sleep", "600"], stdin=True) as two:
        two.say(frames.INPUT, b"x" * frames.WINDOW)
        two.say(frames.SIGNAL, bytes([signal.SIGINT]))
        assert two.finish() == {"code": 130}


def test_output_of_any_length_comes_whole(house: Rig) -> None:
    """More than all buffers hold, to its last byte."""
    output, _, end = ran(house, "host", "sh", "-c", "head -c 20000000 /dev/zero; printf end")
    assert (len(output), output[-3:], end) == (20_000_003, b"end", {"code": 0})


@pytest.mark.parametrize(
    ("argv", "code", "exit_code"),
    [
        (["no-such-program"], "not_found", 127),
        (["/etc/passwd"], "not_executable", 126),
        ([], "bad_command", 125),
        (["a\0b"], "bad_command", 125),
        (["echo", "\ud800"], "bad_command", 125),
        (["echo", "x" * 200_000], "start_failed", 125),
    ],
)
def test_what_cant_be_started_is_told(
    house: Rig, argv: list[str], code: str, exit_code: int
) -> None:
    """With the exit code that a shell would give, and a sentence."""
    with Caller(house, "host", argv) as caller:
        end = caller.finish()
    assert (end["code"], end["error"]["code"]) == (exit_code, code)
    assert end["error"]["message"]


def test_a_terminal_is_one(house: Rig) -> None:
    """With the size of the window, also when that changes, and Ctrl-C for what is in front."""
    script = "trap 'stty size; exit 3' WINCH; stty size; while :; do sleep 0.05; done"
    with Caller(
        house, "host", ["sh", "-c", script], terminal=True, stdin=True, rows=33, columns=101
    ) as caller:
        caller.until(b"33 101")
        caller.say(frames.SIZE, frames.size(50, 90)[5:])
        assert caller.finish() == {"code": 3}
        assert b"50 90" in caller.output
    script = "trap 'exit 130' INT; tty; while :; do sleep 0.05; done"
    with Caller(house, "host", ["sh", "-c", script], terminal=True, stdin=True) as caller:
        caller.until(b"/dev/pts/")
        caller.say(frames.INPUT, b"\x03")
        assert caller.finish() == {"code": 130}


def test_a_terminal_without_input_is_silent(house: Rig) -> None:
    """Nothing is typed there, not even the end of input; where there was some, its end is told."""
    output, _, _ = ran(house, "host", "bash", "-c", "read -t 0.3 x; echo $?", terminal=True)
    assert output == b"142\r\n", "it was told of an end instead of the time being over"
    with Caller(house, "host", ["cat"], terminal=True, stdin=True) as caller:
        caller.say(frames.INPUT, b"line\n")
        caller.say(frames.END_OF_INPUT)
        assert caller.finish() == {"code": 0}
        assert caller.output.count(b"line\r\n") == 2


def test_a_program_may_let_go_of_its_terminal_before_it_ends(house: Rig) -> None:
    """As most do on their way out: it isn't hung up on, and what it opens again is heard."""
    closing = "exec <&- >&- 2>&-; sleep 0.5"
    _, _, end = ran(house, "host", "bash", "-c", f"{closing}; exit 7", terminal=True)
    assert end == {"code": 7}
    again = f"{closing}; echo again >/dev/tty; exit 8"
    output, _, end = ran(house, "host", "bash", "-c", again, terminal=True)
    assert (output, end) == (b"again\r\n", {"code": 8})


def test_a_hang_up_ends_all_of_it(house: Rig) -> None:
    """Also what ignores the signal, and what it has started; the run isn't touched."""
    script = "trap '' HUP; sleep 600 & echo $$; echo $!; while :; do sleep 1; done"
    caller = Caller(house, "host", ["sh", "-c", script])
    caller.until(b"\n")
    house.wait("both numbers", lambda: len(caller.output.split()) == 2 or not caller.hear())
    shell, child = (int(number) for number in caller.output.split())
    assert is_alive(shell)
    assert is_alive(child)
    caller.hang_up()
    house.wait("their end", lambda: not is_alive(shell) and not is_alive(child))
    assert house.report("host")["state"] == "running"


def test_what_a_command_leaves_behind_goes_on(house: Rig) -> None:
    """The caller doesn't wait for it, though it holds the same streams."""
    output, _, end = ran(house, "host", "sh", "-c", "sleep 600 & echo $!")
    assert end == {"code": 0}
    assert is_alive(int(output))
    os.kill(int(output), signal.SIGKILL)


def test_many_at_once_dont_mix(house: Rig) -> None:
    """Each hears its own output."""
    callers = [
        Caller(house, "host", ["sh", "-c", f"sleep 0.1; echo {number}"]) for number in range(12)
    ]
    for number, caller in enumerate(callers):
        assert caller.finish() == {"code": 0}
        assert caller.output == b"%d\n" % number
        caller.hang_up()


@pytest.mark.parametrize("version", ENDS)
def test_a_run_ends_as_if_nobody_were_inside(version: str) -> None:
    """It waits for no guest, nor do guests count as what the job has left over; the caller hears
    that the run has ended. So with the oldest Python and the newest.
    """
    with a_rig(python=INTERPRETERS[version]) as rig:
        rig.start_agent()
        go = Path(rig.folder, "go")
        running(rig, "short", f"until [ -e {go} ]; do sleep 0.05; done; exit 3")
        with Caller(
            rig, "short", ["sh", "-c", "echo $$; trap '' TERM HUP; sleep 600 & wait"]
        ) as one:
            shell = pid_of(one)
            go.touch()
            end = one.finish()
        assert end["error"]["code"] == "run_ended"
        record = rig.ended("short")
        assert (record["how"], record["code"], record["left_over"]) == ("exited", 3, [])
        assert not is_alive(shell)


def test_a_notice_isnt_for_guests(own_rig: Rig) -> None:
    """The job is told and ends in its own time; guests go on until then; a person is told."""
    own_rig.start_agent()
    go = Path(own_rig.folder, "go")
    wait = f"until [ -e {go} ]; do sleep 0.05; done"
    running(
        own_rig, "told", f"trap '{wait}; exit 0' TERM; echo ready; while :; do sleep 0.05; done"
    )
    own_rig.wait_for_line("told", "ready")
    script = "trap 'echo hit' TERM; echo $$; read x; echo $x"
    with (
        Caller(own_rig, "told", ["sh", "-c", script], stdin=True) as one,
        Caller(own_rig, "told", ["cat"], stdin=True, terminal=True) as person,
    ):
        pid_of(one)
        person.say(frames.INPUT, b"hi\n")
        person.until(b"hi\r\nhi")
        own_rig.client.ask("stop", run="told", why="preempt", grace_ms=10_000)
        person.until(b"stellwerk: this job has to end within 10 s, and this session with it")
        own_rig.wait("the notice", lambda: own_rig.report("told")["state"] == "stopping")
        assert ran(own_rig, "told", "echo", "late")[0] == b"late\n"
        one.say(frames.INPUT, b"still here\n")
        assert one.finish() == {"code": 0}
        assert b"still here" in one.output
        assert b"hit" not in one.output
    go.touch()
    record = own_rig.ended("told")
    assert (record["how"], record["code"]) == ("exited", 0)


def test_a_killed_agent_interrupts_nothing(own_rig: Rig) -> None:
    """The keeper speaks with the caller itself; the next agent serves new callers."""
    own_rig.start_agent()
    running(own_rig, "stays")
    with Caller(own_rig, "stays", ["cat"], stdin=True) as caller:
        own_rig.kill_agent()
        caller.say(frames.INPUT, b"hello")
        caller.until(b"hello")
        own_rig.start_agent()
        assert ran(own_rig, "stays", "echo", "again")[0] == b"again\n"
        caller.say(frames.END_OF_INPUT)
        assert caller.finish() == {"code": 0}
    assert os.listdir(os.path.join(own_rig.root, "sessions")) == []


def test_a_killed_wrapper_takes_its_guests_along(own_rig: Rig) -> None:
    """Nobody would end them any more."""
    own_rig.start_agent()
    running(own_rig, "dies")
    with Caller(own_rig, "dies", ["sh", "-c", "sleep 600 & echo $!; wait"]) as caller:
        child = pid_of(caller)
        os.kill(own_rig.wrapper("dies"), signal.SIGKILL)
        while caller.hear():
            pass
        assert caller.end is None
    assert own_rig.ended("dies")["how"] == "wrapper_died"
    own_rig.wait("its end", lambda: not is_alive(child))


def test_where_nothing_runs_there_is_no_way_in(house: Rig) -> None:
    """Each refusal has its code; ranks that aren't there are told from those that are."""
    with pytest.raises(Refusal, match="no run") as refusal:
        Caller(house, "never", ["true"])
    assert refusal.value.code == "unknown_run"
    with pytest.raises(Refusal, match="no rank 5 here, but 0") as refusal:
        Caller(house, "host", ["true"], rank=5)
    assert refusal.value.code == "no_rank"
    house.finish("over", "true")
    with pytest.raises(Refusal, match="has ended") as refusal:
        Caller(house, "over", ["true"])
    assert refusal.value.code == "ended"
    house.start("early", "true", setup="echo setting up; sleep 600")
    house.wait("the setup", lambda: house.report("early")["state"] == "setting_up")
    with pytest.raises(Refusal, match="setting_up") as refusal:
        Caller(house, "early", ["true"])
    assert refusal.value.code == "not_running"
    house.client.ask("kill", run="early")


def test_a_run_of_an_older_runtime_is_refused_in_words(own_rig: Rig) -> None:
    """Its wrapper doesn't say that it takes guests, and would never answer."""
    own_rig.start_agent()
    running(own_rig, "old")
    own_rig.kill_agent()
    status = Path(own_rig.path("old", "status.json"))
    status.write_text(status.read_text().replace('"takes":["exec"]', '"takes":[]'))
    own_rig.start_agent()
    with pytest.raises(Refusal, match="older runtime") as refusal:
        Caller(own_rig, "old", ["true"])
    assert refusal.value.code == "too_old"


@pytest.mark.skipif(namespaces.trouble() is not None, reason="this machine allows no namespaces")
def test_a_command_sees_what_the_job_sees(own_rig: Rig) -> None:
    """Its mounts, its work directory, and where it has one its image."""
    tools = Path(own_rig.folder, "tools")
    stand_in(tools)
    source = Path(own_rig.folder, "source")
    source.mkdir()
    (source / "there").write_text("mounted\n")
    own_rig.start_agent(env={"PATH": f"{tools}:{os.environ['PATH']}"})
    mounts = [{"target": "/mnt/nowhere-else/data", "source": str(source)}]
    running(own_rig, "viewed", mounts=mounts, sky_workdir=True)
    output, _, _ = ran(own_rig, "viewed", "sh", "-c", "pwd; cat /mnt/nowhere-else/data/there")
    assert output.decode().split() == [f"{own_rig.home}/sky_workdir", "mounted"]
    assert not subprocess.call(["test", "!", "-e", "/mnt/nowhere-else/data/there"])
    running(own_rig, "boxed", image="test/image:1")
    output, _, _ = ran(own_rig, "boxed", "bash", "-c", "cat /etc/in-image; echo $FROM_IMAGE; id -u")
    assert output.decode().split() == ["in", "the", "image", "yes", "0"]
    assert ran(own_rig, "boxed", "sh")[2]["code"] == 127


def test_guests_are_left_out_of_what_is_measured() -> None:
    """Neither they nor what is below them count, alive or reaped."""
    sampler = Sampler()
    busy = "import time\nwhile time.process_time() < 0.3: pass"
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", busy]) as guest:
        before = sampler.take({guest.pid})
        assert before.guest_cpu_ms < 200
        assert sampler.take().processes == before.processes + 1
        _, _, usage = os.wait4(guest.pid, 0)
        guest.returncode = 0
    assert sampler.cpu_ms() >= 200
    sampler.leave_out(usage)
    assert sampler.cpu_ms() < 100
    assert sampler.take().guest_cpu_ms >= 200


def test_a_port_of_the_job_is_reached(house: Rig) -> None:
    """Bytes go there and come back, each side may end first, and a port where nobody is says so."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        port = door.getsockname()[1]
        with Caller(house, "host", [], port=port, stdin=True) as caller:
            there, _ = door.accept()
            caller.say(frames.INPUT, b"hello")
            assert there.recv(16) == b"hello"
            there.sendall(b"good day")
            caller.until(b"good day")
            caller.say(frames.END_OF_INPUT)
            assert there.recv(16) == b""
            there.sendall(b"!" * 500_000)
            there.close()
            assert caller.finish() == {"code": 0}
            assert len(caller.output) == 500_008
    with Caller(house, "host", [], port=port, stdin=True) as caller:
        end = caller.finish()
    assert (end["code"], end["error"]["code"]) == (125, "not_listening")
    with Caller(house, "host", [], port=70_000) as caller:
        assert "`port` is a whole number" in caller.finish()["error"]["message"]


def test_a_connection_ends_with_its_caller(house: Rig) -> None:
    """What listens sees it end."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        caller = Caller(house, "host", [], port=door.getsockname()[1], stdin=True)
        there, _ = door.accept()
        caller.hang_up()
        there.settimeout(15)
        assert there.recv(16) == b""
        there.close()
