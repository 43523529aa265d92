"""Decides what may be asked of a runtime: the fields of a start, their defaults, every error.

A spec is a JSON object with these fields (those without a default must be there):

- `v` 1; `run` name of the run's directory; `generation`, `epoch` numbers for fencing;
  `workload`, `name`, `project` text.
- `script` bash text, or `argv` a program and its arguments, executed without a shell.
- `setup` bash text run once before; `setup_key` names its result on this machine: where it is
  kept its files are taken over instead; `setup_env` variables of the setup alone.
- `cwd` an absolute directory, or null for the run's own `work`; `checkpoint_dir`, `output_dir`
  absolute, or null for the run's own.
- `resume_from` an absolute directory, or null: where `checkpoint_dir` is empty it gets the last
  whole checkpoints of that one, before the setup.
- `mounts` a list of `{target, source | secret, copy, read_only}`: `target` absolute or `~/…`;
  `source` an absolute folder or file; `secret` the name of a value that comes beside the spec and
  becomes a file; `copy` gives the run its own copy. `sky_workdir` true shows the work directory
  as `~/sky_workdir` too, where the machine can. `image` names a container image in whose files
  the job runs as the image's root; null for those of the machine.
- `env` variables of all ranks; `inherit_env` true when it is complete, false when the shell's
  start-up files come first; `shell` is `snapshot` (they are read once) or `interactive` (each
  time).
- `ranks` a list of `{rank, env}`; `gang` where the run has others on other machines:
  `{hosts: [{node, ranks}], host}`, the hosts of all ranks, and which of them this one is.
- `notes` lines that the log of the first rank here begins with.
- `grace_ms` from a notice to the end of everything; `term_signals` a list of `[signal, lead_ms]`:
  the signal is sent that long before the end of the grace, or at once where lead_ms is null.
- `recover_on_exit_codes` codes that mean what 85 means: saved, put me back.
- `time_limit_ms` after this long, counted from the start, a notice comes; `window_end_in_ms`
  by then everything is gone, the notice comes one grace earlier. null or 0: no limit.
- `holds` what the run was given on this machine, for others to be told: `{cpus_milli, memory_bytes,
  gpus: {INDEX: bytes}}`.
- `log_limit_bytes` noted when the logs grow past it; at twice the size the run is ended.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any, NamedTuple, Optional

from .files import RUN_NAME, JSONObject
from .spec_gang import Gang, read_gang

DEFAULT_GRACE_MS = 30_000
DEFAULT_LOG_LIMIT_BYTES = 4 * 1024**3
PUT_ME_BACK = 85
MOST_SIGNALS = 16
_LONGEST_STRING = 128 * 1024 - 1
_LONGEST_TEXT = 8 * 1024 * 1024
_LONGEST_TIME_MS = 10 * 365 * 24 * 3600 * 1000
_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")


class Rank(NamedTuple):
    """One replica on this machine and the environment that is its own."""

    rank: int
    env: dict[str, str]


class Mount(NamedTuple):
    """Something of this machine, or a secret, that appears at a place of the job's choice."""

    target: str
    source: Optional[str]
    secret: Optional[str]
    copy: bool
    read_only: bool


class Identity(NamedTuple):
    """What every record of a run carries."""

    run: str
    generation: int
    epoch: int
    workload: str
    name: str


class Spec(NamedTuple):
    """A checked spec; see the module for what the fields mean."""

    run: str
    generation: int
    epoch: int
    workload: str
    name: str
    project: str
    script: Optional[str]
    argv: Optional[list[str]]
    setup: Optional[str]
    setup_key: Optional[str]
    setup_env: dict[str, str]
    cwd: Optional[str]
    checkpoint_dir: Optional[str]
    output_dir: Optional[str]
    resume_from: Optional[str]
    mounts: list[Mount]
    sky_workdir: bool
    image: Optional[str]
    env: dict[str, str]
    inherit_env: bool
    shell: str
    ranks: list[Rank]
    gang: Optional[Gang]
    notes: list[str]
    grace_ms: int
    term_signals: list[tuple[int, Optional[int]]]
    recover_on_exit_codes: list[int]
    time_limit_ms: Optional[int]
    window_end_in_ms: Optional[int]
    log_limit_bytes: int
    holds: dict[str, Any]

    @property
    def identity(self) -> Identity:
        """What every record of this run carries."""
        return Identity(self.run, self.generation, self.epoch, self.workload, self.name)

    @property
    def put_me_back(self) -> frozenset[int]:
        """Exit codes that mean: saved, put me back."""
        return frozenset([PUT_ME_BACK, *self.recover_on_exit_codes])


class SpecError(Exception):
    """A spec that can't be carried out, with every reason: `problems` is `[(field, message)]`."""

    def __init__(self, problems: list[tuple[str, str]]) -> None:
        super().__init__("; ".join(f"{field}: {message}" for field, message in problems))
        self.problems = problems


Complain = Callable[[str, str], None]


class _Reader:
    """Takes fields out of an object and collects what is wrong with them."""

    def __init__(self, raw: JSONObject) -> None:
        self.raw = raw
        self.seen: set[str] = set()
        self.problems: list[tuple[str, str]] = []

    def complain(self, field: str, message: str) -> None:
        self.problems.append((field, message))

    def get(self, field: str) -> Any:
        self.seen.add(field)
        return self.raw.get(field)

    def text(self, field: str, default: Optional[str] = None) -> str:
        value = self.optional_text(field)
        if value is None:
            if default is None and self.raw.get(field) is None:
                self.complain(field, "is missing")
            return default or ""
        return value

    def optional_text(self, field: str) -> Optional[str]:
        value = self.get(field)
        if value is None:
            return None
        if not isinstance(value, str):
            self.complain(field, "is no text")
        elif len(value) > _LONGEST_TEXT:
            self.complain(field, f"has {len(value)} characters, the most is {_LONGEST_TEXT}")
        elif not _check_string(field, value, self.complain):
            return value
        return None

    def number(self, field: str, default: Optional[int], highest: int = 2**53) -> int:
        value = self.get(field)
        if value is None:
            if default is None:
                self.complain(field, "is missing")
            return default or 0
        if type(value) is not int or not 0 <= value <= highest:
            self.complain(field, f"is no whole number from 0 to {highest}")
            return 0
        return value

    def directory(self, field: str) -> Optional[str]:
        value = self.optional_text(field)
        if value is not None and not os.path.isabs(value):
            self.complain(field, f"`{value}` is no absolute path")
        return value

    def strings(self, field: str) -> Optional[list[str]]:
        value = self.get(field)
        if value is None:
            return None
        if not isinstance(value, list) or not value:
            self.complain(field, "is no list of texts with at least one")
            return None
        for index, item in enumerate(value):
            place = f"{field}[{index}]"
            if not isinstance(item, str):
                self.complain(place, "is no text")
            elif not _check_string(place, item, self.complain) and len(item) > _LONGEST_STRING:
                self.complain(place, f"is longer than the {_LONGEST_STRING} bytes Linux allows")
        return value

    def flag(self, field: str) -> bool:
        value = self.get(field)
        if value is not None and not isinstance(value, bool):
            self.complain(field, "is neither true nor false")
        return value is True


def read_spec(raw: JSONObject) -> Spec:
    """Check a spec and fill in its defaults; raises SpecError with every problem."""
    reader = _Reader(raw)
    if reader.get("v") != 1:
        reader.complain("v", f"is {raw.get('v')!r}; this runtime reads version 1")
    inherit = reader.flag("inherit_env")
    spec = Spec(
        run=reader.text("run"),
        generation=reader.number("generation", None),
        epoch=reader.number("epoch", None),
        workload=reader.text("workload"),
        name=reader.text("name", ""),
        project=reader.text("project", ""),
        script=reader.optional_text("script"),
        argv=reader.strings("argv"),
        setup=reader.optional_text("setup"),
        setup_key=reader.optional_text("setup_key"),
        setup_env=check_env("setup_env", reader.get("setup_env"), reader.complain),
        cwd=reader.directory("cwd"),
        checkpoint_dir=reader.directory("checkpoint_dir"),
        output_dir=reader.directory("output_dir"),
        resume_from=reader.directory("resume_from"),
        mounts=_read_mounts(reader),
        sky_workdir=reader.flag("sky_workdir"),
        image=reader.optional_text("image"),
        env=check_env("env", reader.get("env"), reader.complain, any_name=inherit),
        inherit_env=inherit,
        shell=reader.text("shell", "snapshot"),
        ranks=_read_ranks(reader),
        gang=read_gang(reader.get("gang"), raw.get("ranks"), reader.complain),
        notes=reader.strings("notes") or [],
        grace_ms=reader.number("grace_ms", DEFAULT_GRACE_MS, _LONGEST_TIME_MS),
        term_signals=read_signals(reader.get("term_signals"), reader.complain),
        recover_on_exit_codes=_read_codes(reader),
        time_limit_ms=reader.number("time_limit_ms", 0, _LONGEST_TIME_MS) or None,
        window_end_in_ms=reader.number("window_end_in_ms", 0, _LONGEST_TIME_MS) or None,
        log_limit_bytes=reader.number("log_limit_bytes", 0) or DEFAULT_LOG_LIMIT_BYTES,
        holds=held if isinstance(held := reader.get("holds"), dict) else {},
    )
    _check_whole(spec, reader)
    if reader.problems:
        raise SpecError(reader.problems)
    return spec


def _check_whole(spec: Spec, reader: _Reader) -> None:
    if spec.run and not RUN_NAME.fullmatch(spec.run):
        reader.complain("run", "has other characters than letters, digits, `.`, `_`, `-`")
    if spec.setup_key and not RUN_NAME.fullmatch(spec.setup_key):
        reader.complain("setup_key", "has other characters than letters, digits, `.`, `_`, `-`")
    if (reader.raw.get("script") is None) == (reader.raw.get("argv") is None):
        reader.complain("script", "give either `script` or `argv`, and not both")
    if spec.image is not None and (spec.image.startswith("-") or spec.argv is not None):
        reader.complain("image", "is for a `script`, and no option")
    if spec.shell not in {"snapshot", "interactive"}:
        reader.complain("shell", f"is `{spec.shell}`; known are `snapshot` and `interactive`")
    for field in sorted(set(reader.raw) - reader.seen):
        reader.complain(field, "is no field of a spec")


def _read_ranks(reader: _Reader) -> list[Rank]:
    value = reader.get("ranks")
    if value is None:
        return [Rank(0, {})]
    if not isinstance(value, list) or not value:
        reader.complain("ranks", "is no list with at least one rank")
        return []
    ranks: list[Rank] = []
    for index, item in enumerate(value):
        place = f"ranks[{index}]"
        number = item.get("rank") if isinstance(item, dict) else None
        if type(number) is not int or not 0 <= number < 100_000:
            reader.complain(place, "has no `rank` that is a whole number below 100000")
            continue
        if any(number == rank.rank for rank in ranks):
            reader.complain(place, f"rank {number} is there twice")
        ranks.append(Rank(number, check_env(f"{place}.env", item.get("env"), reader.complain)))
    return sorted(ranks)


def _read_mounts(reader: _Reader) -> list[Mount]:
    value = reader.get("mounts")
    mounts: list[Mount] = []
    if value is not None and not isinstance(value, list):
        reader.complain("mounts", "is no list")
        return mounts
    for index, item in enumerate(value or ()):
        inner = _Reader(item if isinstance(item, dict) else {})
        mount = Mount(
            target=inner.text("target"),
            source=inner.directory("source"),
            secret=inner.optional_text("secret"),
            copy=inner.flag("copy"),
            read_only=inner.flag("read_only"),
        )
        parts = mount.target.split("/")
        if parts[0] not in {"", "~"} or len(parts) < 2 or ".." in parts:
            inner.complain("target", f"`{mount.target}` is neither absolute nor below `~`")
        if (mount.source is None) == (mount.secret is None):
            inner.complain("source", "give either `source` or `secret`, and not both")
        if mount.secret is not None and not is_variable_name(mount.secret):
            inner.complain("secret", "is no name of a variable (letters, digits, `_`)")
        for field in sorted(set(inner.raw) - inner.seen):
            inner.complain(field, "is no field of a mount")
        for field, message in inner.problems:
            reader.complain(f"mounts[{index}].{field}", message)
        mounts.append(mount)
    return mounts


def _read_codes(reader: _Reader) -> list[int]:
    value = reader.get("recover_on_exit_codes")
    if value is None:
        return []
    if not isinstance(value, list) or any(type(x) is not int or not 1 <= x <= 255 for x in value):
        reader.complain("recover_on_exit_codes", "is no list of exit codes from 1 to 255")
        return []
    return value


def read_signals(value: Any, complain: Complain) -> list[tuple[int, Optional[int]]]:
    """Signals with their lead times, the longest lead first; SIGTERM at once where none is given.

    A signal is a number or a name with or without SIG. SIGKILL and SIGSTOP give no notice.
    """
    if not value:
        return [(int(signal.SIGTERM), None)]
    signals: list[tuple[int, Optional[int]]] = []
    for item in value if isinstance(value, list) else [None]:
        pair = item if isinstance(item, (list, tuple)) and len(item) == 2 else (None, None)
        number, lead = _signal_number(pair[0]), pair[1]
        if number is None or not (lead is None or (type(lead) is int and lead >= 0)):
            complain("term_signals", f"`{item}` is no pair of a signal and its lead time in ms")
        else:
            signals.append((number, lead))
    if len(signals) > MOST_SIGNALS:
        complain("term_signals", f"has {len(signals)} signals; the most is {MOST_SIGNALS}")
    return sorted(signals, key=lambda pair: (pair[1] is not None, -(pair[1] or 0)))


def _signal_number(value: Any) -> Optional[int]:
    if isinstance(value, str):
        name = value.upper()
        found = getattr(signal, name if name.startswith("SIG") else f"SIG{name}", None)
        value = int(found) if isinstance(found, signal.Signals) else None
    if type(value) is not int or not 0 < value < signal.NSIG:
        return None
    return None if value in {signal.SIGKILL, signal.SIGSTOP} else value


def check_env(
    field: str, value: Any, complain: Complain, *, any_name: bool = False
) -> dict[str, str]:
    """An environment whose every name and value a process can be given."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        complain(field, "is no map of texts")
        return {}
    for name, text in value.items():
        place = f"{field}.{name[:80]}"
        if not isinstance(text, str):
            complain(place, "is no text")
        elif not name or "=" in name or "\0" in name or not (any_name or is_variable_name(name)):
            complain(place, "is no name of a variable (letters, digits, `_`)")
        elif not _check_string(place, text, complain):
            size = len(os.fsencode(name)) + len(os.fsencode(text)) + 2
            if size > _LONGEST_STRING:
                complain(place, f"has {size} bytes; the most Linux allows is {_LONGEST_STRING}")
    return value


def is_variable_name(name: str) -> bool:
    """Whether bash takes this as the name of a variable."""
    return bool(name) and not name[0].isdigit() and _NAME_CHARACTERS.issuperset(name)


def _check_string(field: str, value: str, complain: Complain) -> bool:
    """Complain about text that can't be given to a process; True if there was something."""
    if "\0" in value:
        complain(field, "has a NUL byte in it, which no process can be given")
        return True
    try:
        os.fsencode(value)
    except UnicodeEncodeError:
        complain(field, "has characters that can't be written as bytes")
        return True
    return False
