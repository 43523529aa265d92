"""What an agent answers: to older leaders, to late starts, to nonsense, and to whom."""

import os

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.runtime.rig import Client, Refusal, Rig, result_of


def test_fencing(own_rig: Rig) -> None:
    """Older leaders and older generations are refused, also by the next agent."""
    rig = own_rig
    rig.start_agent()
    rig.start("f", "sleep 60", generation=3, epoch=5)
    for change in ({"generation": 2, "epoch": 5}, {"generation": 3, "epoch": 4}):
        with pytest.raises(Refusal, match="has been here") as refusal:
            rig.start("f", "sleep 60", **change)
        assert refusal.value.code == "fenced"
    for fields in ({"generation": 2, "epoch": 5}, {"generation": 3, "epoch": 4}):
        with pytest.raises(Refusal) as refusal:
            rig.client.ask("stop", run="f", why="cancel", **fields)
        assert refusal.value.code == "fenced"
    with pytest.raises(Refusal) as refusal:
        rig.start("f", "sleep 60", generation=4, epoch=5)
    assert refusal.value.code == "busy"
    rig.kill_agent()
    rig.start_agent()
    with pytest.raises(Refusal, match="epoch 5") as refusal:
        rig.start("g", "true", epoch=4)
    assert refusal.value.error["epoch"] == 5


def test_forgotten_run_does_not_start_again(own_rig: Rig) -> None:
    """A late start of a removed run is refused; a newer generation may start."""
    rig = own_rig
    rig.start_agent()
    rig.finish("gone", "true")
    with pytest.raises(Refusal) as refusal:
        rig.start("live", "sleep 60") and rig.client.ask("forget", run="live")
    assert refusal.value.code == "not_ended"
    assert rig.client.ask("forget", run="gone")["removed"]
    assert not rig.client.ask("forget", run="gone")["removed"]
    rig.wait("removal", lambda: not os.listdir(os.path.join(rig.root, "trash")))
    rig.kill_agent()
    rig.start_agent()
    with pytest.raises(Refusal) as refusal:
        rig.start("gone", "true")
    assert refusal.value.code == "forgotten"
    assert not rig.start("gone", "true", generation=2)["existing"]


@pytest.mark.parametrize(
    ("name", "mode", "message"),
    [("x" * 120, 0o700, "longer than the 107 bytes"), ("agent", 0o777, "others than its user")],
)
def test_unusable_socket(own_rig: Rig, name: str, mode: int, message: str) -> None:
    """A path Linux can't take and a directory others may write to are refused in words."""
    folder = os.path.join(own_rig.folder, "open")
    os.mkdir(folder)
    os.chmod(folder, mode)
    command = own_rig.command("serve", "--root", own_rig.root)
    result = result_of([*command, "--socket", os.path.join(folder, name)])
    assert result.returncode == 69
    assert message in result.stderr


def test_socket_and_root_are_private(rig: Rig) -> None:
    """Only their user can look into the root or reach the socket."""
    rig.finish("private", "true")
    assert os.stat(rig.socket).st_mode & 0o777 == 0o600
    assert os.stat(os.path.dirname(rig.socket)).st_mode & 0o777 == 0o700
    assert os.stat(rig.root).st_mode & 0o777 == 0o700
    assert os.stat(rig.path("private", "spec.json")).st_mode & 0o777 == 0o600


def test_nonsense_is_answered(rig: Rig) -> None:
    """What isn't a request gets an error, and the connection goes on."""
    client = Client(rig.socket)
    for line, code in ((b"{", "not_json"), (b"[1]", "not_json"), (b'{"op": 7}', "unknown_op")):
        client.send_raw(line)
        assert client.receive()["error"]["code"] == code
    with pytest.raises(Refusal) as refusal:
        client.ask("stop", run="../etc", why="cancel")
    assert refusal.value.code == "unknown_run"
    with pytest.raises(Refusal):
        client.ask("start", spec={"v": 1, "run": "../x"})
    assert client.ask("hello")["ok"]
    client.close()


odd = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.text(max_size=4)),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.text(), inner)),
    max_leaves=4,
)


@hypothesis.settings(suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(["start", "stop", "withdraw", "kill", "forget", "read", "no-op"]),
    st.dictionaries(
        st.sampled_from(
            [
                "spec",
                "secrets",
                "run",
                "generation",
                "epoch",
                "why",
                "grace_ms",
                "signals",
                "offset",
            ]
        ),
        odd,
    ),
)
def test_odd_requests_are_answered(rig: Rig, op: str, fields: dict[str, object]) -> None:
    """Whatever a request says, it gets an answer, and never a fault of the runtime."""
    try:
        code = "" if rig.client.ask(op, **fields)["ok"] else "fault"
    except Refusal as refusal:
        code = refusal.code
    assert code != "fault"


def test_deep_nesting_is_refused(rig: Rig) -> None:
    """What no parser can follow is no crash, and the agent goes on for others."""
    client = Client(rig.socket)
    client.send_raw(b"[" * 100_000)
    assert client.receive()["error"]["code"] == "not_json"
    client.close()
    assert rig.client.ask("hello")["ok"]
