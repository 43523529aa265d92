"""What a runtime may be asked for."""

import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.runtime.spec import DEFAULT_GRACE_MS, SpecError, read_signals, read_spec

LEAST = {"v": 1, "run": "r", "generation": 1, "epoch": 1, "workload": "w", "script": "true"}


def problems(**changes: object) -> dict[str, str]:
    with pytest.raises(SpecError) as error:
        read_spec({**LEAST, **changes})
    return dict(error.value.problems)


def test_defaults() -> None:
    """What isn't said has the value that the schema names."""
    spec = read_spec(LEAST)
    assert spec.ranks == [(0, {})]
    assert spec.grace_ms == DEFAULT_GRACE_MS
    assert spec.term_signals == [(signal.SIGTERM, None)]
    assert spec.put_me_back == {85}
    assert spec.time_limit_ms is None
    assert spec.shell == "snapshot"
    assert not spec.inherit_env


@pytest.mark.parametrize(
    ("changes", "field", "message"),
    [
        ({"v": 2}, "v", "reads version 1"),
        ({"run": None}, "run", "is missing"),
        ({"run": "../x"}, "run", "other characters"),
        ({"run": "a/b"}, "run", "other characters"),
        ({"setup_key": "a b"}, "setup_key", "other characters"),
        ({"generation": None}, "generation", "is missing"),
        ({"generation": -1}, "generation", "no whole number"),
        ({"epoch": True}, "epoch", "no whole number"),
        ({"argv": ["x"]}, "script", "not both"),
        ({"script": None}, "script", "either"),
        ({"script": None, "argv": []}, "argv", "at least one"),
        ({"script": 7}, "script", "no text"),
        ({"script": "\ud800"}, "script", "written as bytes"),
        ({"cwd": "relative"}, "cwd", "no absolute path"),
        ({"env": {"A": 1}}, "env.A", "no text"),
        ({"env": {"A-B": "x"}}, "env.A-B", "no name"),
        ({"env": {"1A": "x"}}, "env.1A", "no name"),
        ({"env": {"A": "x" * 131_072}}, "env.A", "most Linux allows"),
        ({"env": []}, "env", "no map"),
        ({"ranks": []}, "ranks", "at least one"),
        ({"ranks": [{"rank": 0}, {"rank": 0}]}, "ranks[1]", "twice"),
        ({"ranks": [{"rank": 0, "env": {"A": "\0"}}]}, "ranks[0].env.A", "NUL"),
        ({"shell": "zsh"}, "shell", "known are"),
        ({"term_signals": [["KILL", None]]}, "term_signals", "no pair"),
        ({"term_signals": [["USR1", -1]]}, "term_signals", "no pair"),
        ({"term_signals": [["USR1", 1]] * 17}, "term_signals", "the most is 16"),
        ({"recover_on_exit_codes": [0]}, "recover_on_exit_codes", "1 to 255"),
        ({"inherit_env": "yes"}, "inherit_env", "true nor false"),
        ({"time_limit_ms": 1.5}, "time_limit_ms", "no whole number"),
        ({"surprise": 1}, "surprise", "no field"),
    ],
)
def test_each_fault_has_its_place(changes: dict[str, object], field: str, message: str) -> None:
    """A wrong value is named by its field, in words."""
    found = problems(**changes)
    assert list(found) == [field]
    assert message in found[field]


def test_all_faults_at_once() -> None:
    """Nobody has to repair a spec one fault at a time."""
    assert list(problems(run="a/b", cwd="x", env={"A": 1}, more=1)) == [
        "cwd",
        "env.A",
        "run",
        "more",
    ]


def test_odd_names_of_a_complete_environment() -> None:
    """An environment given as it is may have names that bash doesn't know."""
    assert read_spec({**LEAST, "inherit_env": True, "env": {"BASH_FUNC_f%%": "() { :; }"}}).env


def test_a_part_of_a_gang_knows_its_place() -> None:
    """Its own ranks are those of its host; anything else is refused with the reason."""
    hosts = [{"node": "pc1", "ranks": [0]}, {"node": "pc2", "ranks": [1, 2]}]
    ranks = [{"rank": 1, "env": {}}, {"rank": 2, "env": {}}]
    spec = read_spec({**LEAST, "ranks": ranks, "gang": {"hosts": hosts, "host": 1}})
    assert spec.gang is not None
    assert spec.gang.hosts[spec.gang.host] == ("pc2", [1, 2])
    assert "has other ranks" in problems(ranks=ranks, gang={"hosts": hosts, "host": 0})["gang"]
    wrongs: list[object] = [[], {"hosts": hosts}, {"hosts": hosts, "host": 7}, {"hosts": [3]}]
    for wrong in wrongs:
        assert problems(ranks=ranks, gang=wrong)["gang"].startswith("is no `")


def test_signals_by_name_and_lead() -> None:
    """Names with and without SIG, the longest lead first, one without a lead at once."""
    complaints: list[str] = []
    found = read_signals(
        [["TERM", 1000], ["sigusr1", 5000], [12, None]], lambda _f, m: complaints.append(m)
    )
    assert found == [(signal.SIGUSR2, None), (signal.SIGUSR1, 5000), (signal.SIGTERM, 1000)]
    assert complaints == []


@given(
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5)),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)
        ),
        max_leaves=6,
    ),
    st.sampled_from([*LEAST, "env", "ranks", "term_signals", "argv", "gang", "notes"]),
)
def test_any_value_is_read_or_refused(value: object, field: str) -> None:
    """Whatever stands in a field, the answer is a spec or a list of problems."""
    try:
        spec = read_spec({**LEAST, field: value})
    except SpecError as error:
        fields = [place for place, _ in error.problems]
    else:
        fields = [spec.run]
    assert fields
