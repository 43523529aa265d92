"""Decides what a job's bash runs around the user's text: the prologue and the trap.

The prologue is read through BASH_ENV (or as the rc file of an interactive shell), so that the
user's text lies alone in its file and bash names the right lines in its messages.
"""

from __future__ import annotations

import shlex
import signal
from collections.abc import Iterable, Sequence
from typing import Optional

REAL_STDERR = 19
"""The descriptor that carries the log past an interactive shell's complaints about its terminal."""


def trap(codes: Iterable[int], signals: Iterable[int]) -> str:
    """The line that keeps a shell from starting another command after a notice.

    It ends with the status of the command that was running, or with a "put me back" status from
    anywhere in its pipe. A notice that was taken back meanwhile doesn't end the shell.
    """
    saved = "|".join(str(code) for code in sorted(set(codes)))
    names = " ".join(signal.Signals(number).name.replace("SIG", "", 1) for number in signals)
    handler = (
        '__stw_s=("$?" "${PIPESTATUS[@]}"); '
        'if ! [ -e "$STELLWERK_STOP_FILE.withdrawn" ]; then '
        'for __stw_x in "${__stw_s[@]}"; do '
        f'case "$__stw_x" in {saved}) exit "$__stw_x";; esac; done; '
        'exit "${__stw_s[0]}"; fi'
    )
    return f"trap {shlex.quote(handler)} {names}\n"


def prologue(snapshot: Optional[str], trap_line: str, user_bash_env: Optional[str]) -> str:
    """What plain bash reads before the user's text."""
    restore = (
        "unset BASH_ENV" if user_bash_env is None else f"BASH_ENV={shlex.quote(user_bash_env)}"
    )
    source = f". {shlex.quote(snapshot)}\n" if snapshot is not None else ""
    return f"{restore}\n{source}{trap_line}"


def interactive_prologue(kept_names: Sequence[str], trap_line: str) -> str:
    """What an interactive bash reads instead of ~/.bashrc: that file, then the job's variables.

    The variables were given to the process; the start-up files may have set them to something
    else, so they are remembered before. No value is ever written to this file.
    """
    names = " ".join(shlex.quote(name) for name in kept_names)
    return (
        f"exec 2>&{REAL_STDERR} {REAL_STDERR}>&-\n"
        f"__stw_kept=$(declare -p {names} 2>/dev/null)\n"
        "for __stw_rc in /etc/bash.bashrc /etc/bashrc ~/.bashrc; do\n"
        '  if [ -r "$__stw_rc" ]; then . "$__stw_rc"; fi\n'
        "done\n"
        'eval "$__stw_kept"\n'
        "unset __stw_kept __stw_rc\n"
        f"{trap_line}"
    )


def has_own_trap(text: str, signals: Iterable[int]) -> bool:
    """Whether a script seems to set a trap of its own for one of the signals."""
    wanted = {"EXIT", "0"}
    for number in signals:
        name = signal.Signals(number).name
        wanted |= {str(number), name, name.replace("SIG", "", 1)}
    for line in text.replace("\\\n", " ").splitlines():
        head, found, rest = line.partition("trap ")
        if found and not head.lstrip().startswith("#"):
            words = rest.replace(";", " ").replace('"', " ").replace("'", " ").split()
            if any(word.upper() in wanted for word in words):
                return True
    return False
