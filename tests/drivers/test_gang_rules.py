"""What the parts of a run over several hosts mean together, and which order follows."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.drivers.agents.gang import Part, next_steps, part_of, together, whole_end
from tests.drivers.gang_world import HOSTS, RUN, a_part


@pytest.mark.parametrize(
    ("ends", "how", "code", "put_back", "rank"),
    [
        (({}, {}, {}), "exited", 0, False, 0),
        (({"how": "peer", "code": 143}, {"code": 7}, {}), "exited", 7, False, 1),
        (({"code": 1, "ended_at_ms": 4}, {"code": 7}, {}), "exited", 1, False, 0),
        (({"code": 1}, {"how": "reboot", "code": None}, {}), "reboot", None, False, 1),
        (({"how": "cancelled", "code": 143}, {"code": 7}, {}), "cancelled", 143, False, 0),
        (({"how": "notice", "code": 85, "put_back": True}, {}, {}), "notice", 85, True, 0),
        (({"how": "notice", "code": 9, "put_back": True}, {"code": 1}, {}), "notice", 9, True, 0),
        (
            ({"how": "notice", "put_back": True}, {"done_said": True}, {}),
            "exited",
            0,
            False,
            0,
        ),
        (({"how": "setup_failed", "code": 2}, {"how": "peer", "code": 143}, {}), "setup_failed", 2,
         False, 0),
    ],
)  # fmt: skip
def test_one_part_decides_how_the_run_ended(
    ends: tuple[dict[str, Any], ...], how: str, code: int | None, put_back: bool, rank: int
) -> None:
    """A cancellation, a lost host, a notice, the first that failed by itself, in that order."""
    parts = {
        host: a_part(host, **{"how": "exited", "code": 0, **end}) for host, end in enumerate(ends)
    }
    end = whole_end(parts)
    assert (end.how, end.code, end.put_back, end.rank) == (how, code, put_back, rank)


def test_the_failure_that_was_heard_first_decides_whatever_the_clocks_say() -> None:
    """And its message says what was done with the others."""
    parts = {
        0: a_part(0, how="exited", code=134, ended_at_ms=1),
        1: a_part(1, how="exited", code=7, ended_at_ms=9),
        2: a_part(2, how="peer", code=143),
    }
    end = whole_end(parts, [1, 0])
    assert (end.code, end.rank) == (7, 1)
    said = "rank 1 on pc2 ended with exit code 7; then its other machines were told to end"
    assert end.message == said


part_states = st.fixed_dictionaries(
    {
        "prepared": st.booleans(),
        "released": st.booleans(),
        "ended": st.sampled_from(
            [None, {"how": "exited", "code": 0}, {"how": "exited", "code": 3}]
        ),
        "state": st.sampled_from(["setting_up", "running"]),
    }
)


@given(st.dictionaries(st.integers(0, 2), part_states), st.sets(st.integers(0, 2)), st.booleans())
def test_nobody_is_let_go_before_all_are_prepared(
    states: dict[int, dict[str, Any]], connected: set[int], may_go: bool
) -> None:
    """The head first, and only if that is wanted; nobody is let go when one has failed."""
    parts: dict[int, Part] = {}
    for host, state in states.items():
        said = {
            "run": RUN,
            "generation": 1,
            "gang": {"hosts": HOSTS, "host": host},
            "status": {"gang": {"prepared": state["prepared"], "released": state["released"]}},
            **{name: state[name] for name in ("state", "ended")},
        }
        part = part_of("room", said)
        assert part is not None
        parts[host] = part
    for step in next_steps(parts, connected, "", may_go=may_go):
        assert step.host in connected
        if step.op == "go" and step.host == 0:
            assert may_go
            assert all(parts[host].prepared for host in range(3))
        elif step.op == "go":
            assert parts[0].released
        else:
            assert any(
                part.end is not None and (part.end.code == 3 or not part.released)
                for part in parts.values()
            )
    if parts:
        told = together(parts)
        assert (told.end is not None) == (
            len(parts) == 3 and all(part.end is not None for part in parts.values())
        )


ALL = {0, 1, 2}


def prepared(host: int, **far: Any) -> Part:
    """A part that waits for the word."""
    said = {
        "run": RUN,
        "generation": 1,
        "state": "setting_up",
        "gang": {"hosts": HOSTS, "host": host},
        "status": {"gang": {"prepared": True, "released": False, **far}},
    }
    part = part_of("room", said)
    assert part is not None
    return part


def test_the_others_look_for_the_head_before_they_begin() -> None:
    """It begins at the first address at which all have found it; the known one is the best."""
    door = {"port": 99, "addresses": ["10.1.0.1", "10.2.0.1"]}
    parts = {host: prepared(host, door=None if host else door) for host in range(3)}
    steps = next_steps(parts, ALL, "10.0.0.1", may_go=True)
    assert [(step.op, step.host) for step in steps] == [("find", 1), ("find", 2)]
    assert steps[0].fields == {"addresses": ["10.0.0.1", "10.1.0.1", "10.2.0.1"], "port": 99}
    no = "no answer"
    for way, env in (
        ({"10.0.0.1": "", "10.1.0.1": ""}, {}),
        ({"10.0.0.1": no, "10.2.0.1": ""}, {"MASTER_ADDR": "10.2.0.1"}),
        ({"10.0.0.1": no, "10.2.0.1": "", "10.1.0.1": ""}, {"MASTER_ADDR": "10.1.0.1"}),
        ({"10.0.0.1": no}, {}),
    ):
        parts[1], parts[2] = prepared(1, ways=way), prepared(2, ways={**way, "x": ""})
        (step,) = next_steps(parts, ALL, "10.0.0.1", may_go=True)
        assert (step.op, step.host, step.fields) == ("go", 0, {"env": env})


def test_a_failure_that_speaks_of_another_is_not_the_cause() -> None:
    """Even if it was heard first: a process may lose its connections before it has ended."""
    said = ["terminate called", "  what():  Connection closed by peer [10.0.0.2]:4711"]
    parts = {
        0: a_part(0, how="signaled", code=134, last_lines=said),
        1: a_part(1, how="exited", code=7, last_lines=["this one gives up"]),
        2: a_part(2, how="peer", code=143),
    }
    assert whole_end(parts, [0, 1]).code == 7
    parts[0] = a_part(0, how="signaled", code=134, last_lines=["frame #11: clone3"])
    assert whole_end(parts, [0, 1]).code == 7
    parts[1] = a_part(1, how="exited", code=1, last_lines=["Connection reset by peer"])
    assert whole_end(parts, [0, 1]).code == 134


def test_a_host_that_has_found_no_way_is_named_when_the_run_fails() -> None:
    """With what was tried; a run that didn't need it isn't disturbed."""
    parts = {host: a_part(host, how="exited", code=1) for host in range(3)}
    parts[2] = parts[2]._replace(ways={"10.0.0.1": "no answer"})
    said = "pc3 can't reach pc1 (10.0.0.1: no answer); is a firewall between them?"
    assert whole_end(parts).message.endswith(said)
    parts = {host: a_part(host, how="exited", code=0) for host in range(3)}
    parts[2] = parts[2]._replace(ways={"10.0.0.1": "no answer"})
    assert whole_end(parts).message == ""


def test_what_mpirun_wants_started_is_carried_until_its_end_is_told() -> None:
    """To the part where it is to be, once; its end back to the head; and all end well with it."""
    begun: dict[str, Any] = {"released": True, "prepared": True}
    head = a_part(0)._replace(launches={"1-2": (1, "orted")}, **begun)
    other = a_part(1)._replace(stands_in=True, **begun)
    third = a_part(2)._replace(stands_in=True, **begun)
    parts = {0: head, 1: other, 2: third}

    def steps() -> list[tuple[str, int, dict[str, Any]]]:
        return [
            (one.op, one.host, one.fields) for one in next_steps(parts, [0, 1, 2], "", may_go=True)
        ]

    assert steps() == [("launch", 1, {"launch": "1-2", "command": "orted"})]
    parts[1] = other._replace(launched={"1-2": None})
    assert steps() == []
    parts[1] = other._replace(launched={"1-2": 3})
    assert steps() == [("launched", 0, {"launch": "1-2", "code": 3})]
    parts[0] = a_part(0, how="exited", code=0)._replace(**begun)
    assert [(op, host) for op, host, _ in steps()] == [("over", 1), ("over", 2)]
