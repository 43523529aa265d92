"""Who sits at a machine, and what its runs are told then."""

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.runtime.console import Presence, Seen, look
from stellwerk.runtime.console_watch import ConsoleWatch
from stellwerk.runtime.files import Places, read_json
from tests.runtime.rig import a_rig

PERSON = {"CLASS": "user", "REMOTE": "0", "STATE": "active", "TYPE": "wayland"}
SAVES = "trap 'exit 85' TERM; echo up; while :; do sleep 0.05; done"


def seated(tree: Path, session: dict[str, str], *, number: str = "c2") -> None:
    """Puts a session in front of the seat."""
    for name in ("seats", "sessions"):
        (tree / name).mkdir(parents=True, exist_ok=True)
    lines = "".join(f"{name}={value}\n" for name, value in session.items())
    (tree / "sessions" / number).write_text(f"# private\nUID=1000\n{lines}")
    whole = tree / "seats" / ".new"
    whole.write_text(f"IS_SEAT0=1\nACTIVE={number}\nACTIVE_UID=1000\n")
    whole.rename(tree / "seats" / "seat0")


def left(tree: Path) -> None:
    """Nobody is in front of the seat."""
    (tree / "seats").mkdir(parents=True, exist_ok=True)
    (tree / "seats" / "seat0").write_text("IS_SEAT0=1\n")


def test_a_person_in_front_of_the_seat_is_there(tmp_path: Path) -> None:
    """Of whatever kind their session is."""
    seated(tmp_path, PERSON)
    assert look(str(tmp_path)) == Seen(True, "logind", "wayland")
    left(tmp_path)
    assert look(str(tmp_path)) == Seen(False, "logind")


@pytest.mark.parametrize(
    "other",
    [{"CLASS": "greeter"}, {"CLASS": "manager"}, {"REMOTE": "1"}, {"STATE": "online"}],
)
def test_others_than_a_person_in_front_are_nobody(tmp_path: Path, other: dict[str, str]) -> None:
    """A login screen, a service, a login over SSH, and who switched to somebody else."""
    seated(tmp_path, {**PERSON, **other})
    assert not look(str(tmp_path)).taken


def test_what_logind_writes_may_be_broken(tmp_path: Path) -> None:
    """A session that is just going, and a name that leads elsewhere, are nobody."""
    seated(tmp_path, PERSON, number="c2")
    (tmp_path / "sessions" / "c2").unlink()
    assert not look(str(tmp_path)).taken
    (tmp_path / "secret").write_text("CLASS=user\nSTATE=active\n")
    (tmp_path / "seats" / "seat0").write_text("ACTIVE=../secret\n\xff\n=\nACTIVE\n", "latin-1")
    assert not look(str(tmp_path)).taken


def logged_in(terminal: str, host: str, pid: int) -> bytes:
    """A record of the file of logins."""
    names = (terminal.encode(), b"1", b"ada", host.encode())
    return struct.pack("<h2xi32s4s32s256shhiii16s20s", 7, pid, *names, 0, 0, 0, 0, 0, b"", b"")


def test_without_logind_the_file_of_logins_tells(tmp_path: Path) -> None:
    """A terminal of the machine counts, one over SSH and one whose process is gone don't."""
    utmp, nothing = tmp_path / "utmp", str(tmp_path / "none")
    assert look(nothing, str(utmp)) == Seen(False, "")
    utmp.write_bytes(logged_in("pts/3", "10.0.0.7", 1) + logged_in("tty2", "", 2**30))
    assert look(nothing, str(utmp)) == Seen(False, "utmp")
    utmp.write_bytes(utmp.read_bytes() + logged_in("tty1", "", 1))
    assert look(nothing, str(utmp)) == Seen(True, "utmp", "tty")
    utmp.write_bytes(b"short")
    assert look(nothing, str(utmp)) == Seen(False, "")


@given(
    quiet_ms=st.integers(0, 50),
    looks=st.lists(st.tuples(st.booleans(), st.integers(0, 30)), max_size=60),
)
def test_a_machine_changes_hands_seldom(quiet_ms: int, looks: list[tuple[bool, int]]) -> None:
    """It is taken at once, and free only when nobody was there for as long as asked."""
    presence, now_ms, last_ms = Presence(quiet_ms), 0, None
    freed: list[int] = []
    for there, after_ms in looks:
        now_ms += after_ms
        changed = presence.saw(there, now_ms)
        last_ms = now_ms if there else last_ms
        quiet = last_ms is None or now_ms - last_ms >= quiet_ms
        assert presence.taken is (there or not quiet)
        if changed and not presence.taken:
            assert not freed or now_ms - freed[-1] >= quiet_ms
            freed.append(now_ms)


def test_who_sits_down_gets_the_machine_back(tmp_path: Path) -> None:
    """Runs are told at once, and so is what starts after; the rule outlives agent and control."""
    tree = tmp_path / "logind"
    left(tree)
    with a_rig() as rig:
        env = {"STELLWERK_LOGIND_FOLDER": str(tree)}
        rig.start_agent(env=env)
        assert rig.client.ask("console")["console"]["do"] == "ignore"
        rig.client.ask("console", do="notice", quiet_ms=0)
        rig.start("job", SAVES)
        rig.wait_for_line("job", "up")
        rig.kill_agent()
        rig.start_agent(env=env)
        seated(tree, PERSON)
        ended = rig.ended("job")
        assert (ended["how"], ended["put_back"], ended["checkpointed"]) == ("notice", True, True)
        assert ended["notice"]["why"] == "console"
        state = rig.client.ask("console")["console"]
        assert (state["taken"], state["seen_by"]) == (True, "logind")
        again = rig.finish("again", f"echo out; {SAVES}")
        assert (again["how"], again["put_back"]) == ("notice", True)
        left(tree)
        rig.wait("free", lambda: not rig.client.ask("console")["console"]["taken"])
        assert rig.finish("after", "exit 0")["how"] == "exited"


class StillLoop:
    """A loop whose timers nobody waits for."""

    def after(self, _name: str, _delay_ms: int, _call: object) -> None:
        """Nothing is due."""

    def cancel(self, *_names: str) -> None:
        """Nothing was."""


def test_a_rule_is_checked_before_it_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What isn't one changes nothing; a file that somebody spoilt means no rule."""
    monkeypatch.setenv("STELLWERK_LOGIND_FOLDER", str(tmp_path))
    path = Places(str(tmp_path)).console
    told: list[object] = []
    watch = ConsoleWatch(path, StillLoop(), lambda: None, told.append)  # type: ignore[arg-type]
    assert "do" in (watch.set("shoot", None) or "")
    assert "quiet_ms" in (watch.set("notice", -1) or "")
    assert read_json(path) is None
    assert watch.rule == "ignore"
    seated(tmp_path, PERSON)
    found = [(watch.set(rule, None), watch.taken) for rule in ("notice", "ignore")]
    assert found == [(None, True), (None, False)]
    assert len(told) == 1
    Path(path).write_text('{"do": ["notice"], "quiet_ms": "soon"}')
    fresh = ConsoleWatch(path, StillLoop(), lambda: None, told.append)  # type: ignore[arg-type]
    fresh.begin()
    assert fresh.rule == "ignore"
