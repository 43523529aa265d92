"""The kinds of jobs that the soak submits, and what must have become of each."""

import random
from collections.abc import Callable
from typing import NamedTuple

SAY = 'echo "$STELLWERK_RUN_ID" >> {said}/$STELLWERK_WORKLOAD_ID\n'
AGAIN = "job_recovery: {max_restarts_on_errors: 2}"


class Kind(NamedTuple):
    """A kind of job: its text, how it must end, and how many runs that takes.

    One that is cancelled may end before it ran at all, so its runs are at most ``runs``.
    """

    name: str
    text: Callable[[str, random.Random], str]
    phase: str
    runs: int
    cancel_after_s: tuple[float, float] | None = None
    held: bool = False


def _task(said: str, body: str, resources: str = "cpus: 0.25") -> str:
    lines = "".join(f"  {line}\n" for line in (SAY.format(said=said) + body).splitlines())
    return f"name: soak\nresources: {{{resources}}}\nrun: |\n{lines}"


def _short(said: str, dice: random.Random) -> str:
    return _task(said, f"sleep {dice.uniform(0, 1.5):.2f}\n")


def _wide(said: str, dice: random.Random) -> str:
    return _task(said, f"sleep {dice.uniform(0, 0.5):.2f}\n", "cpus: 1")


def _gang(said: str, dice: random.Random) -> str:
    body = f'if [ "$SKYPILOT_NODE_RANK" = 0 ]; then {SAY.format(said=said).strip()}; fi\n'
    lines = "".join(f"  {line}\n" for line in (body + "sleep 0.2\n").splitlines())
    return f"name: soak\nnum_nodes: 2\nresources: {{cpus: 0.1}}\nrun: |\n{lines}"


def _retried(said: str, dice: random.Random) -> str:
    body = f"[ $(wc -l < {said}/$STELLWERK_WORKLOAD_ID) -ge 2 ] || exit 7\n"
    return _task(said, body, f"cpus: 0.25, {AGAIN}")


def _saved(said: str, dice: random.Random) -> str:
    body = (
        'f="$STELLWERK_CHECKPOINT_DIR/step"\n'
        'n=$(cat "$f" 2>/dev/null || echo 0)\n'
        'echo $((n + 1)) > "$f.new" && mv "$f.new" "$f"\n'
        f"sleep {dice.uniform(0, 0.5):.2f}\n"
        "[ $n -ge 1 ] || exit 85\n"
    )
    return _task(said, body)


def _failing(said: str, dice: random.Random) -> str:
    return _task(said, "exit 3\n")


def _endless(said: str, dice: random.Random) -> str:
    return _task(said, "sleep 3600\n")


KINDS = (
    (30, Kind("short", _short, "Succeeded", 1)),
    (20, Kind("wide", _wide, "Succeeded", 1)),
    (8, Kind("gang", _gang, "Succeeded", 1)),
    (8, Kind("retried", _retried, "Succeeded", 2)),
    (12, Kind("saved", _saved, "Succeeded", 2)),
    (4, Kind("failing", _failing, "Failed", 1)),
    (10, Kind("cancelled", _endless, "Cancelled", 1, cancel_after_s=(0.3, 4.0))),
    (4, Kind("cancelled at once", _endless, "Cancelled", 1, cancel_after_s=(0.0, 0.0))),
    (4, Kind("held", _short, "Succeeded", 1, held=True)),
)


def any_kind(dice: random.Random) -> Kind:
    """One of the kinds, by its weight."""
    return dice.choices([kind for _, kind in KINDS], [weight for weight, _ in KINDS])[0]
