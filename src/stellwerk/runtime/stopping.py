"""Decides who gets a signal when a job is to stop, and what its end means. Pure."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple, Optional

PREEMPT, CANCEL, WINDOW, TIME_LIMIT = "preempt", "cancel", "window", "time_limit"
CONSOLE = "console"
"""Somebody sat down at the machine: it ends as any that is preempted."""
PEER = "peer"
"""Another machine's part of the same run is over, and this one can't go on without it."""
WHYS = (PREEMPT, CANCEL, WINDOW, TIME_LIMIT, PEER, CONSOLE)

SHELL = "shell"
RANK_SHELL = "rank shell"
LAUNCHER = "launcher"
CATCHES = "catches"
OTHER = "other"

_SHELLS = frozenset("sh bash dash zsh ksh mksh ash fish rbash".split())
_LAUNCHERS = frozenset(
    "torchrun timeout srun mpirun mpiexec orterun prterun prun mpiexec.hydra hydra_pmi_proxy "
    "hydra_bstrap_proxy orted prted prte horovodrun deepspeed make gmake sudo apptainer "
    "singularity starter starter-suid docker podman tini dumb-init time xargs parallel "
    "unbuffer script stdbuf catatonit".split()
)
_LAUNCHERS_WITH_VERB = {
    "uv": {"run", "tool"},
    "uvx": set(),
    "conda": {"run"},
    "mamba": {"run"},
    "micromamba": {"run"},
    "poetry": {"run"},
    "pdm": {"run"},
    "hatch": {"run"},
    "pipenv": {"run"},
    "pixi": {"run"},
    "rye": {"run"},
    "accelerate": {"launch"},
    "composer": set(),
    "colossalai": {"run"},
    "dotenv": {"run"},
    "jsrun": set(),
}
_LAUNCHER_MODULES = frozenset(
    "torch.distributed.run torch.distributed.launch torch.distributed.launcher "
    "accelerate.commands.launch deepspeed.launcher.runner deepspeed.launcher.launch "
    "horovod.runner.launch".split()
)
_SERVANTS = frozenset("wandb-core gpu_stats tee cat tensorboard".split())
"""Programs that serve a trainer and may catch signals: they stay until it has ended."""


class Seen(NamedTuple):
    """A process of the job as it was when the notice came."""

    pid: int
    parent: int
    argv: Sequence[str]
    reacts: bool
    """It catches the signal, or holds it back to look at it later."""
    reads_pipe: bool = False
    is_rank_shell: bool = False
    """It was started as one of ours, with our trap and none of the user's."""


class Recipients(NamedTuple):
    """Who gets the signal: at once; when all of `awaited` have ended. `only_shells_awaited`:
    they may be waiting for one of the later ones before they can look at their own trap."""

    now: list[int]
    later: list[int]
    awaited: list[int]
    only_shells_awaited: bool


def _program(argv: Sequence[str]) -> tuple[str, list[str]]:
    """Name of the program and its arguments, looking through an interpreter to its script."""
    if not argv:
        return "", []
    name = os.path.basename(argv[0]).lstrip("-")
    rest = list(argv[1:])
    if name.startswith(("python", "pypy")):
        while rest and rest[0].startswith("-"):
            option = rest.pop(0)
            if option == "-m" and rest:
                return rest[0], rest[1:]
            if option in {"-X", "-W"} and rest:
                rest.pop(0)
            elif option == "-c":
                return name, []
        if rest:
            return os.path.basename(rest[0]), rest[1:]
    return name, rest


def is_launcher(argv: Sequence[str]) -> bool:
    """Whether a program only starts others and would harm them by passing the signal on."""
    name, rest = _program(argv)
    if name in _LAUNCHERS or name in _LAUNCHER_MODULES:
        return True
    verbs = _LAUNCHERS_WITH_VERB.get(name)
    if verbs is None:
        return False
    first = next((word for word in rest if not word.startswith("-")), None)
    return not verbs or first in verbs


def kind_of(process: Seen) -> str:
    """What a process is to a notice."""
    name = os.path.basename(process.argv[0]).lstrip("-") if process.argv else ""
    if name in _SHELLS:
        # One that was ours may have become something else by `exec`.
        return RANK_SHELL if process.is_rank_shell else SHELL
    if is_launcher(process.argv):
        return LAUNCHER
    if _program(process.argv)[0] in _SERVANTS:
        return OTHER
    return CATCHES if process.reacts else OTHER


def recipients(processes: Sequence[Seen], *, is_last_signal: bool) -> Recipients:
    """Who gets a notice's signal, and when.

    An early signal of several goes only to those that react to it. The last one goes at once to
    all that react and to the shells; launchers and all others get it when those that react have
    ended, or at once when nothing reacts. Our own shells' trap doesn't count as reacting: they
    wait for their command, not for themselves. A shell that only reads from a pipe
    (`train | while read line; …`) is a filter like any other.
    """
    if not is_last_signal:
        reacting = [p.pid for p in processes if p.reacts and kind_of(p) != LAUNCHER]
        return Recipients(reacting, [], [], only_shells_awaited=False)
    now, later, awaited = [], [], []
    only_shells = True
    busy = _above_reacting(processes)
    for process in processes:
        kind = kind_of(process)
        if kind == SHELL and process.reads_pipe and not process.reacts and process.pid not in busy:
            kind = OTHER
        if kind in {RANK_SHELL, SHELL, CATCHES}:
            now.append(process.pid)
        else:
            later.append(process.pid)
        if kind == CATCHES or (kind == SHELL and process.reacts):
            awaited.append(process.pid)
            only_shells = only_shells and kind == SHELL
    if not awaited:
        return Recipients(now + later, [], [], only_shells_awaited=False)
    return Recipients(now, later, awaited, only_shells)


def _above_reacting(processes: Sequence[Seen]) -> set[int]:
    """Processes with a descendant that reacts and is neither shell nor launcher."""
    parents = {process.pid: process.parent for process in processes}
    above: set[int] = set()
    for process in processes:
        if kind_of(process) == CATCHES:
            pid = parents.get(process.pid)
            while pid is not None and pid not in above:
                above.add(pid)
                pid = parents.get(pid)
    return above


class Facts(NamedTuple):
    """What is known when nothing of a job is left."""

    cause: str
    """What came to an end: `ranks`, `setup`, `not_started` (a notice came before the ranks), or
    what was done to it: `killed`, `log_limit`, `spawn` (a process could not be started)."""
    code: Optional[int]
    """Exit code of the run: the deciding rank's, 128 + n after signal n; None: nothing ran."""
    signal: Optional[int]
    notice: Optional[str]
    """Why it had a notice, the gravest of several; None: it had none."""
    withdrawn: bool
    """The notice was taken back, and no other came."""
    reached_by_it: bool
    """The signals went out less than a grace ago: a notice taken back may have caused the end."""
    reaped_codes: frozenset[int]
    """Exit codes of all other processes reaped since the notice."""
    put_me_back: frozenset[int]
    done_said: bool
    wrote_checkpoint: bool


class End(NamedTuple):
    """What an end means. `checkpointed`: the job itself said that it saved and wants to go on."""

    how: str
    code: Optional[int]
    signal: Optional[int]
    checkpointed: bool
    put_back: bool


def classify(facts: Facts) -> End:
    """What the end of a run means."""
    code, number = facts.code, facts.signal
    in_force = facts.notice is not None and not facts.withdrawn
    saved = code in facts.put_me_back
    if facts.notice is not None and facts.reaped_codes & facts.put_me_back:
        code = code if saved else min(facts.reaped_codes & facts.put_me_back)
        saved, number = True, None
    if in_force and facts.notice == CANCEL:
        return End("cancelled", code, number, saved, put_back=False)
    forced = {"killed": "killed", "log_limit": "log_limit", "spawn": "spawn_failed"}
    if facts.cause in forced:
        return End(forced[facts.cause], code, number, checkpointed=False, put_back=False)
    if in_force and facts.notice == PEER:
        return End("peer", code, number, saved, put_back=False)
    if facts.notice is not None:
        verdict = _after_notice(facts, code, number, saved, in_force=in_force)
        if verdict is not None:
            return verdict
    if facts.cause == "setup" and not saved:
        return End("setup_failed", code, number, checkpointed=False, put_back=False)
    how = "exited" if number is None else "signaled"
    return End(how, code, number, checkpointed=saved, put_back=saved)


def _after_notice(
    facts: Facts, code: Optional[int], number: Optional[int], saved: bool, *, in_force: bool
) -> Optional[End]:
    """The end of a job that had a notice; None if it means what it would have meant without."""
    how = {WINDOW: "window", TIME_LIMIT: "time_limit"}.get(facts.notice or "", "notice")
    if how == "time_limit" and not in_force:
        # The limit was lifted: what its signals broke goes on like anything interrupted.
        how = "notice"
    may_go_on = how != "time_limit"
    if facts.cause == "not_started":
        return End(how, code, number, checkpointed=saved, put_back=may_go_on)
    if not in_force:
        if saved or code == 0 or not facts.reached_by_it:
            return None
        return End(how, code, number, checkpointed=False, put_back=True)
    finished = code == 0 and facts.cause == "ranks"
    if finished and not saved and (facts.done_said or not facts.wrote_checkpoint):
        return End("exited", 0, None, checkpointed=False, put_back=False)
    return End(how, code, number, checkpointed=saved, put_back=may_go_on)
