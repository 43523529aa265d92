"""The pure rules of stopping: what an end means, and who gets a signal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.runtime.stopping import (
    WHYS,
    End,
    Facts,
    Seen,
    classify,
    is_launcher,
    recipients,
)

QUIET = Facts(
    cause="ranks",
    code=0,
    signal=None,
    notice=None,
    withdrawn=False,
    reached_by_it=False,
    reaped_codes=frozenset(),
    put_me_back=frozenset([85]),
    done_said=False,
    wrote_checkpoint=False,
)


def facts(**changes: object) -> Facts:
    return QUIET._replace(**changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "how", "checkpointed", "put_back"),
    [
        # without a notice
        ({}, "exited", False, False),
        ({"code": 1}, "exited", False, False),
        ({"code": 139, "signal": 11}, "signaled", False, False),
        ({"code": 85}, "exited", True, True),
        ({"code": 17, "put_me_back": frozenset([85, 17])}, "exited", True, True),
        ({"code": 1, "reaped_codes": frozenset([85])}, "exited", False, False),
        ({"cause": "setup", "code": 2}, "setup_failed", False, False),
        ({"cause": "spawn", "code": None}, "spawn_failed", False, False),
        ({"cause": "killed", "code": 137}, "killed", False, False),
        ({"cause": "log_limit", "code": 143}, "log_limit", False, False),
        # after a notice in force
        ({"notice": "preempt", "code": 85}, "notice", True, True),
        ({"notice": "window", "code": 85}, "window", True, True),
        ({"notice": "preempt", "code": 143, "reaped_codes": frozenset([85])}, "notice", True, True),
        ({"notice": "preempt", "code": 0, "wrote_checkpoint": True}, "notice", False, True),
        ({"notice": "preempt", "code": 0}, "exited", False, False),
        (
            {"notice": "preempt", "code": 0, "wrote_checkpoint": True, "done_said": True},
            "exited",
            False,
            False,
        ),
        ({"notice": "preempt", "code": 143, "done_said": True}, "notice", False, True),
        ({"notice": "window", "code": 137, "signal": 9}, "window", False, True),
        ({"notice": "preempt", "cause": "setup", "code": 143}, "notice", False, True),
        ({"notice": "preempt", "cause": "not_started", "code": None}, "notice", False, True),
        ({"notice": "preempt", "cause": "killed", "code": 137}, "killed", False, False),
        # a time limit is the job's own end
        ({"notice": "time_limit", "code": 85}, "time_limit", True, False),
        ({"notice": "time_limit", "code": 143}, "time_limit", False, False),
        ({"notice": "time_limit", "code": 0}, "exited", False, False),
        # cancelled whatever the status
        ({"notice": "cancel", "code": 85}, "cancelled", True, False),
        ({"notice": "cancel", "code": 0, "done_said": True}, "cancelled", False, False),
        ({"notice": "cancel", "cause": "killed", "code": 137}, "cancelled", False, False),
        # a notice that was taken back
        (
            {"notice": "preempt", "withdrawn": True, "code": 0, "wrote_checkpoint": True},
            "exited",
            False,
            False,
        ),
        ({"notice": "preempt", "withdrawn": True, "code": 85}, "exited", True, True),
        ({"notice": "preempt", "withdrawn": True, "code": 1}, "exited", False, False),
        (
            {"notice": "preempt", "withdrawn": True, "code": 143, "reached_by_it": True},
            "notice",
            False,
            True,
        ),
        (
            {"notice": "preempt", "withdrawn": True, "cause": "not_started", "code": None},
            "notice",
            False,
            True,
        ),
        ({"notice": "cancel", "withdrawn": True, "code": 1}, "exited", False, False),
        (
            {"notice": "time_limit", "withdrawn": True, "code": 143, "reached_by_it": True},
            "notice",
            False,
            True,
        ),
    ],
)
def test_meaning_of_an_end(
    changes: dict[str, object], how: str, checkpointed: bool, put_back: bool
) -> None:
    """The table of DESIGN, line by line."""
    end = classify(facts(**changes))
    assert (how, checkpointed, put_back) == (end.how, end.checkpointed, end.put_back)


def test_saved_by_an_orphan_gives_its_code() -> None:
    """When the shell was gone before its child had saved, the child's code is the run's."""
    end = classify(facts(notice="preempt", code=143, reaped_codes=frozenset([0, 85])))
    assert end == End("notice", 85, None, checkpointed=True, put_back=True)


any_facts = st.builds(
    Facts,
    cause=st.sampled_from(["ranks", "setup", "not_started", "killed", "log_limit", "spawn"]),
    code=st.one_of(st.none(), st.sampled_from([0, 1, 17, 85, 137, 143])),
    signal=st.one_of(st.none(), st.sampled_from([9, 11, 15])),
    notice=st.one_of(st.none(), st.sampled_from(WHYS)),
    withdrawn=st.booleans(),
    reached_by_it=st.booleans(),
    reaped_codes=st.frozensets(st.sampled_from([0, 1, 85])),
    put_me_back=st.sampled_from([frozenset([85]), frozenset([85, 17])]),
    done_said=st.booleans(),
    wrote_checkpoint=st.booleans(),
)


@given(any_facts)
def test_put_back_is_never_a_surprise(known: Facts) -> None:
    """Nothing cancelled, killed or past its limit runs again; without a notice only 85 does."""
    end = classify(known)
    if end.how in {"cancelled", "killed", "time_limit", "log_limit", "spawn_failed"}:
        assert not end.put_back
    if end.how in {"exited", "signaled", "setup_failed"}:
        assert end.put_back == end.checkpointed
    if known.notice == "cancel" and not known.withdrawn:
        assert end.how == "cancelled"


@given(any_facts.filter(lambda known: known.notice in {"preempt", "window"}))
def test_a_preempted_job_is_never_lost(known: Facts) -> None:
    """After a preemption a run goes back, unless it was done, killed, or ended on its own."""
    end = classify(known._replace(withdrawn=False, cause="ranks"))
    is_done = end.how == "exited" and end.code == 0
    assert end.put_back != is_done


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("torchrun train.py", True),
        ("/opt/venv/bin/python /opt/venv/bin/torchrun --nproc 8 train.py", True),
        ("python3.11 -m torch.distributed.run train.py", True),
        ("python -u -X dev -m torch.distributed.run train.py", True),
        ("uv run train.py", True),
        ("uv --quiet run train.py", True),
        ("uv pip install x", False),
        ("timeout 1h python train.py", True),
        ("/usr/bin/srun -N2 python train.py", True),
        ("mpirun -np 4 python train.py", True),
        ("accelerate launch train.py", True),
        ("accelerate config", False),
        ("/env/bin/python /env/bin/accelerate launch train.py", True),
        ("conda run -n env python train.py", True),
        ("python train.py", False),
        ("python timeout.py", False),
        ("python -c torchrun", False),
        ("bash -c timeout", False),
        ("", False),
    ],
)
def test_known_launchers(command: str, expected: bool) -> None:
    """A launcher is known by its program, also behind an interpreter or a module's name."""
    assert is_launcher(command.split()) == expected


def seen(pid: int, command: str, parent: int = 1, **more: bool) -> Seen:
    return Seen(pid, parent, command.split(), more.pop("reacts", False), **more)


def test_trainer_under_a_launcher_in_a_pipe() -> None:
    """The trainer and the shells at once; launcher, filter and plain workers afterwards."""
    job = [
        seen(1, "/bin/bash run.sh", reacts=True, is_rank_shell=True),
        seen(2, "torchrun train.py", reacts=True),
        seen(3, "python train.py", parent=2, reacts=True),
        seen(4, "python -c spawn_main", parent=3),
        seen(5, "tee log", reads_pipe=True),
        seen(6, "bash helper.sh"),
        seen(7, "wandb-core", reacts=True),
    ]
    chosen = recipients(job, is_last_signal=True)
    assert chosen.now == [1, 3, 6]
    assert chosen.later == [2, 4, 5, 7]
    assert chosen.awaited == [3]
    assert not chosen.only_shells_awaited


def test_everybody_at_once_when_nothing_reacts() -> None:
    """Without a process that saves there is nothing to protect, launchers included."""
    job = [
        seen(1, "bash run.sh", reacts=True, is_rank_shell=True),
        seen(2, "timeout 9 python x.py", reacts=True),
        seen(3, "python x.py"),
    ]
    chosen = recipients(job, is_last_signal=True)
    assert sorted(chosen.now) == [1, 2, 3]
    assert chosen.later == chosen.awaited == []


def test_script_with_a_trap_of_its_own_is_awaited() -> None:
    """A shell that isn't ours and reacts is waited for, and known to be only a shell."""
    job = [seen(1, "bash run.sh", reacts=True), seen(2, "sleep 60", parent=1)]
    chosen = recipients(job, is_last_signal=True)
    assert (chosen.now, chosen.later, chosen.awaited) == ([1], [2], [1])
    assert chosen.only_shells_awaited


def test_early_signal_goes_only_to_those_that_want_it() -> None:
    """A first signal of several would kill what doesn't catch it."""
    job = [
        seen(1, "bash run.sh", reacts=False, is_rank_shell=True),
        seen(2, "python train.py", reacts=True),
        seen(3, "tee log"),
        seen(4, "srun x", reacts=True),
    ]
    chosen = recipients(job, is_last_signal=False)
    assert (chosen.now, chosen.later) == ([2], [])


def test_rank_shell_replaced_by_its_program() -> None:
    """After `exec python train.py` the rank's first process is a trainer, not a shell."""
    job = [
        seen(1, "python train.py", reacts=True, is_rank_shell=True),
        seen(2, "tee log", reads_pipe=True),
    ]
    chosen = recipients(job, is_last_signal=True)
    assert (chosen.now, chosen.later, chosen.awaited) == ([1], [2], [1])


def test_reading_shell_with_a_trainer_below_is_no_filter() -> None:
    """`cat list | while read x; do train; done` must not start the next training."""
    job = [
        seen(1, "bash run.sh", reacts=True, is_rank_shell=True),
        seen(2, "bash run.sh", parent=1, reads_pipe=True),
        seen(3, "python train.py", parent=2, reacts=True),
    ]
    assert recipients(job, is_last_signal=True).now == [1, 2, 3]


commands = st.sampled_from(
    ["bash x.sh", "python t.py", "tee log", "torchrun t.py", "sleep 9", "uv run t.py", "make all"]
)


@given(st.lists(st.tuples(commands, st.booleans(), st.booleans(), st.integers(0, 5)), max_size=9))
def test_everybody_is_told_once(rows: list[tuple[str, bool, bool, int]]) -> None:
    """The last signal reaches each process exactly once, and only what got it is waited for."""
    job = [
        seen(pid, command, parent, reacts=reacts, reads_pipe=pipe)
        for pid, (command, reacts, pipe, parent) in enumerate(rows, 10)
    ]
    chosen = recipients(job, is_last_signal=True)
    assert sorted(chosen.now + chosen.later) == [process.pid for process in job]
    assert set(chosen.awaited) <= set(chosen.now)
    assert bool(chosen.later) <= bool(chosen.awaited)
