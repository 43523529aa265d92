"""Reads what the user's interactive bash would offer, once per state of its start-up files.

`bash -i` under a usual ~/.bashrc costs some tenths of a second. Its exported variables become a
JSON file, its functions, aliases, options and other variables a file that scripts source. Start-up
files that fail or don't come back give the plain environment and a sentence that says so.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import signal
import time
from collections.abc import Mapping
from typing import NamedTuple, Optional

from .files import Places, read_json, write_atomically, write_json
from .processes import kill_all_below
from .spec import is_variable_name
from .system import become_subreaper, close_descriptors, now_ms

CAPTURE_LIMIT_S = 20.0
_FAILURE_KEPT_MS = 10 * 60 * 1000
_FORMAT = 2
_START_UP_FILES = ("/etc/bash.bashrc", "/etc/bashrc", "~/.bashrc", "~/.bash_aliases", "~/.inputrc")
_OF_ANOTHER_SESSION = frozenset(
    "_ PWD OLDPWD SHLVL COLUMNS LINES TERM_SESSION_ID WINDOWID SSH_CLIENT SSH_CONNECTION "
    "SSH_TTY GPG_TTY XDG_SESSION_ID NOTIFY_SOCKET INVOCATION_ID JOURNAL_STREAM LISTEN_FDS "
    "LISTEN_PID BASH_ENV ENV PROMPT_COMMAND PS1 PS2 PS4 LS_COLORS STARSHIP_SESSION_KEY".split()
)
_OF_ANOTHER_JOB = ("STELLWERK_", "SKYPILOT_", "SLURM_", "PET_", "OMPI_", "PMIX_", "TORCHELASTIC_")
_NOT_CARRIED = frozenset(
    "BASH EUID UID PPID SHELLOPTS DIRSTACK GROUPS RANDOM SRANDOM SECONDS LINENO PIPESTATUS "
    "FUNCNAME HISTCMD IFS OPTIND OPTERR OPTARG PROMPT_COMMAND PROMPT_DIRTRIM PS0 PS1 PS2 PS3 "
    "PS4 MAILCHECK MACHTYPE HOSTTYPE OSTYPE EPOCHSECONDS EPOCHREALTIME COLUMNS LINES TERM _ "
    "__stw_v".split()
)
_OPTIONS_LEFT_OUT = frozenset(
    "monitor emacs vi history histexpand ignoreeof noexec onecmd privileged".split()
)
_SHOPTS_LEFT_OUT = frozenset("login_shell restricted_shell expand_aliases".split())
_CAPTURE = r"""
set +o > "$1/options"; set +eux; shopt -p > "$1/shopts"
IFS=$' \t\n'
for __stw_v in $(compgen -v); do
  declare -p "$__stw_v" 2>/dev/null; printf '\0'
done > "$1/variables"
declare -f > "$1/functions"
alias -p > "$1/aliases"
if [ -x /usr/bin/env ]; then /usr/bin/env -0 > "$1/env"; else command env -0 > "$1/env"; fi
printf complete > "$1/complete"
"""


class Shell(NamedTuple):
    """The environment a job starts from, and the file its scripts source (None: nothing)."""

    env: dict[str, str]
    script: Optional[str]
    why_plain: Optional[str]


def login_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What of a process's environment holds for any later session of the same user."""
    return {
        name: value
        for name, value in environ.items()
        if name not in _OF_ANOTHER_SESSION and not name.startswith(_OF_ANOTHER_JOB)
    }


def snapshot_key(environment: Mapping[str, str]) -> str:
    """Names the state of the start-up files and of what they start from."""
    home = environment.get("HOME", "/")
    facts: list[object] = [_FORMAT, os.getuid(), sorted(environment.items())]
    for name in _START_UP_FILES:
        path = name.replace("~", home, 1)
        try:
            found = os.stat(path)
            facts.append([path, found.st_size, found.st_mtime_ns])
        except OSError:
            facts.append([path, None])
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]


def load(places: Places, key: str, environment: Mapping[str, str]) -> Optional[Shell]:
    """The snapshot of that key if it was taken; a failed one is tried again after ten minutes."""
    stored = read_json(os.path.join(places.shell, f"{key}.json"))
    if stored is None:
        return None
    why = stored.get("why_plain")
    if why is not None:
        if abs(now_ms() - int(stored.get("captured_at_ms", 0))) > _FAILURE_KEPT_MS:
            return None
        return Shell(dict(environment), None, str(why))
    script = os.path.join(places.shell, f"{key}.sh")
    if not os.path.exists(script):
        return None
    kept = {name: value for name, value in environment.items() if name not in stored["unset"]}
    return Shell({**kept, **stored["set"]}, script, None)


def capture(
    places: Places, key: str, environment: Mapping[str, str], limit_s: float = CAPTURE_LIMIT_S
) -> None:
    """Take the snapshot, unless another process just did. Blocks: for a process of its own."""
    lock = os.open(
        os.path.join(places.shell, f"{key}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
    )
    fcntl.flock(lock, fcntl.LOCK_EX)
    if load(places, key, environment) is not None:
        return
    become_subreaper()
    _remove_unfinished(places.shell)
    folder = os.path.join(places.shell, f"{key}.{os.getpid()}.capture")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    why = _run_capture(folder, environment, limit_s)
    target = os.path.join(places.shell, key)
    result: dict[str, object] = {"v": _FORMAT, "captured_at_ms": now_ms(), "why_plain": why}
    if why is None:
        # What the shell was given isn't written: people keep tokens in variables.
        exported = _exported(folder)
        result["set"] = {n: v for n, v in exported.items() if environment.get(n) != v}
        result["unset"] = [name for name in environment if name not in exported]
        write_atomically(f"{target}.sh", _script(folder, environment))
    write_json(f"{target}.json", result)
    _remove_flat(folder)


def _run_capture(folder: str, environment: Mapping[str, str], limit_s: float) -> Optional[str]:
    """Run the interactive shell; None, or why it gave nothing."""
    import subprocess

    home = environment.get("HOME", "/")
    with open(os.path.join(folder, "output"), "wb") as output:
        try:
            shell = subprocess.Popen(
                ["bash", "-i", "-c", _CAPTURE, "bash", folder],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=dict(environment),
                cwd=home if os.path.isdir(home) else "/",
                start_new_session=True,
            )
        except OSError as error:
            return f"bash can't be started: {error.strerror}"
        try:
            status = shell.wait(limit_s)
        except subprocess.TimeoutExpired:
            _end_everything()
            return f"the shell's start-up files (~/.bashrc) were not through after {limit_s:g} s"
    _end_everything()
    if os.path.exists(os.path.join(folder, "complete")):
        return None
    how = f"status {status}" if status >= 0 else f"signal {-status}"
    return f"the shell's start-up files (~/.bashrc) ended the shell with {how}"


def _end_everything() -> None:
    for _ in range(100):
        if not kill_all_below(os.getpid(), passes=2):
            return
        time.sleep(0.02)


def _exported(folder: str) -> dict[str, str]:
    raw = _bytes(folder, "env").decode("utf-8", "surrogateescape")
    pairs = (entry.partition("=") for entry in raw.split("\0") if "=" in entry)
    return login_environment({name: value for name, _, value in pairs})


def _script(folder: str, environment: Mapping[str, str]) -> bytes:
    """The file that scripts source; without what bash can't read back."""
    options = [
        line
        for line in _bytes(folder, "options").splitlines()
        if line.split()[-1].decode() not in _OPTIONS_LEFT_OUT
    ]
    shopts = [
        line
        for line in _bytes(folder, "shopts").splitlines()
        if line.split()[-1].decode() not in _SHOPTS_LEFT_OUT
    ]
    variables = [text for text in _bytes(folder, "variables").split(b"\0") if _is_carried(text)]
    # Aliases come last: while they are active bash would expand them inside the functions.
    definitions = b"\n".join([*shopts, *variables, _bytes(folder, "functions")])
    ending = b"\n".join([_bytes(folder, "aliases"), b"shopt -s expand_aliases", *options, b""])
    whole = b"\n".join([definitions, ending])
    if _is_readable(folder, whole, environment):
        return whole
    return b"\n".join([*shopts, ending])


def _is_carried(declaration: bytes) -> bool:
    """Whether a line of `declare -p` is a plain variable of the user's own."""
    words = declaration.strip().split(None, 2)
    if len(words) < 3 or words[0] != b"declare" or any(flag in words[1] for flag in b"xrnF"):
        return False
    name = words[2].partition(b"=")[0].decode("utf-8", "replace")
    of_bash = name in _NOT_CARRIED or name.startswith(("BASH_", "COMP_", "HIST", "STELLWERK_"))
    return is_variable_name(name) and not of_bash


def _is_readable(folder: str, script: bytes, environment: Mapping[str, str]) -> bool:
    import subprocess

    path = os.path.join(folder, "candidate")
    write_atomically(path, script)
    checked = subprocess.run(
        ["bash", "--norc", "--noprofile", "-c", '. "$1" && printf fine', "bash", path],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=CAPTURE_LIMIT_S,
        env=dict(environment),
        check=False,
    )
    return checked.stdout.endswith(b"fine")


def _bytes(folder: str, name: str) -> bytes:
    try:
        with open(os.path.join(folder, name), "rb") as file:
            return file.read()
    except OSError:
        return b""


def _remove_unfinished(shells: str) -> None:
    """Remove what a killed capture left, which holds all of an environment."""
    for name in os.listdir(shells):
        key, _, kind = name.rpartition(".")
        if kind == "capture" and not os.path.exists(f"/proc/{key.rpartition('.')[2]}"):
            with contextlib.suppress(OSError):  # another capture was faster
                _remove_flat(os.path.join(shells, name))


def _remove_flat(folder: str) -> None:
    for name in os.listdir(folder):
        os.unlink(os.path.join(folder, name))
    os.rmdir(folder)


def capture_in_child(places: Places, key: str, environment: Mapping[str, str]) -> int:
    """Fork a process that takes the snapshot; its pid. See with `load` what became of it."""
    pid = os.fork()
    if pid:
        return pid
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        close_descriptors()
        capture(places, key, environment)
    finally:
        os._exit(0)
