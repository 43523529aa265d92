"""Decides where Stellwerk keeps its things and what a user's settings are, and remembers why.

Each setting comes from the first of: a variable `STELLWERK_…`, the file
`~/.config/stellwerk/config.toml`, the machine's file `/etc/stellwerk/config.toml`, its default. In
the machine's file an administrator names the socket of a server that several people use. The server
and the command line read the same settings, so that both find the same socket.
"""

import os
from collections.abc import Callable, Mapping
from typing import NamedTuple

from stellwerk.core.model.errors import Problem, StellwerkError
from stellwerk.core.model.queue_settings import QUEUE_SETTINGS

Value = str | int


class Setting(NamedTuple):
    """One setting with its value and where that came from."""

    name: str
    value: Value
    origin: str
    about: str


class Settings(NamedTuple):
    """All settings, and the paths that follow from them."""

    all: Mapping[str, Setting]

    def text(self, name: str) -> str:
        """A setting that is text."""
        return str(self.all[name].value)

    def paths(self, name: str) -> dict[str, str]:
        """A setting that gives names their paths."""
        return dict(_pairs(self.text(name)))

    def number(self, name: str) -> int:
        """A setting that is a whole number."""
        return int(self.all[name].value)

    @property
    def home(self) -> str:
        """The folder of everything durable: journal, blobs, runs, the server's log."""
        return self.text("home")

    @property
    def socket(self) -> str:
        """The Unix socket of the server; its folder is open to its user only."""
        return self.text("socket")

    @property
    def socket_is_default(self) -> bool:
        """Whether nobody named a socket, so that its folder must be the user's own."""
        return self.all["socket"].origin == "default"

    @property
    def cache(self) -> str:
        """A folder whose content can be made again: hashes of files, names for completion."""
        return self.text("cache")

    @property
    def server_log(self) -> str:
        """Where the server writes what it has to say."""
        return os.path.join(self.home, "server.log")


class _Spec(NamedTuple):
    about: str
    default: Callable[[Mapping[str, str], Mapping[str, Setting]], Value]
    is_number: bool = False
    is_path: bool = False
    is_table: bool = False


def load(env: Mapping[str, str] | None = None) -> Settings:
    """Reads all settings; raises StellwerkError that names every bad one."""
    env = os.environ if env is None else env
    path, machines = config_file(env), machine_file(env)
    written, problems = _read_file(path)
    for_all, more = _read_file(machines)
    problems += more
    settings: dict[str, Setting] = {}
    for name, spec in _SPECS.items():
        variable = f"STELLWERK_{name.upper()}"
        raw: object
        if env.get(variable):
            raw, origin = env[variable], variable
        elif name in written:
            raw, origin = written[name], path
        elif name in for_all:
            raw, origin = for_all[name], machines
        else:
            raw, origin = spec.default(env, settings), "default"
        value = _checked(name, spec, raw, origin, env, problems)
        settings[name] = Setting(name, value, origin, spec.about)
    if problems:
        raise StellwerkError(problems)
    return Settings(settings)


def clean_environment(settings: Settings, env: Mapping[str, str]) -> dict[str, str]:
    """What of a terminal's variables the server, the agent and so every later job begin with.

    Whatever else happens to be exported where the server is started would reach all jobs after it.
    """
    import pwd

    user = pwd.getpwuid(os.getuid())
    kept = {name: value for name, value in env.items() if _is_kept(name)}
    chosen = settings.text("keep_env").replace(",", " ").split()
    kept |= {name: env[name] for name in chosen if name in env}
    own = {"HOME": user.pw_dir, "USER": user.pw_name, "LOGNAME": user.pw_name}
    return {**own, "SHELL": user.pw_shell, "PATH": settings.text("path"), **kept}


def _is_kept(name: str) -> bool:
    return name.upper() in _KEPT or name.startswith(("STELLWERK_", "LC_"))


def config_file(env: Mapping[str, str]) -> str:
    """The user's file of settings; it need not exist."""
    base = env.get("XDG_CONFIG_HOME") or os.path.join(_user_home(env), ".config")
    return os.path.join(base, "stellwerk", "config.toml")


def machine_file(env: Mapping[str, str]) -> str:
    """The machine's file of settings; it need not exist."""
    return env.get("STELLWERK_MACHINE_CONFIG") or "/etc/stellwerk/config.toml"


def group_file(home: str) -> str:
    """Where a server's state remembers the group that it is shared with."""
    return os.path.join(home, "socket-group")


def machine_id() -> str:
    """Names this machine, so that a home shared by several machines keeps their states apart."""
    for path in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        try:
            with open(path, encoding="ascii") as file:
                text = file.read().strip()
        except (OSError, UnicodeDecodeError):
            continue
        if text and text != "uninitialized":
            return text
    return os.uname().nodename


def _read_file(path: str) -> tuple[dict[str, object], list[Problem]]:
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        return {}, []
    except OSError as error:
        message = f"{path} can't be read: {error.strerror}"
        return {}, [Problem("config/unreadable", message, "make it readable, or remove it")]
    import tomllib

    try:
        written = tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        return {}, [Problem("config/syntax", str(error), "write it as TOML: `name = value`", path)]
    return written, [
        Problem("config/unknown", f"unknown setting `{name}`", _suggestion(name), path)
        for name in written
        if name not in _SPECS
    ]


def _suggestion(name: str) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, _SPECS, 1)
    return f"did you mean `{close[0]}`?" if close else f"settings are: {', '.join(_SPECS)}"


def _checked(
    name: str,
    spec: _Spec,
    raw: object,
    origin: str,
    env: Mapping[str, str],
    problems: list[Problem],
) -> Value:
    if spec.is_number:
        try:
            number = int(str(raw))
        except ValueError:
            number = -1
        if number < 0 or isinstance(raw, bool):
            problems.append(
                Problem("config/value", f"`{name}` is `{raw}` (from {origin}), not a whole number")
            )
        return number
    if spec.is_table:
        return _checked_table(name, raw, origin, env, problems)
    if not isinstance(raw, str) or "\0" in raw:
        problems.append(Problem("config/value", f"`{name}` (from {origin}) is no text: {raw!r}"))
        return ""
    return _full_path(raw, env) if spec.is_path else raw


def _full_path(written: str, env: Mapping[str, str]) -> str:
    if written == "~" or written.startswith("~/"):
        written = _user_home(env) + written[1:]
    return os.path.abspath(written)


def _pairs(text: str) -> list[tuple[str, str]]:
    """`NAME=PATH;NAME=PATH`, as a variable holds a table."""
    parts = (part.partition("=") for part in text.split(";") if part.strip())
    return [(name.strip(), path.strip()) for name, _, path in parts]


def _checked_table(
    name: str, raw: object, origin: str, env: Mapping[str, str], problems: list[Problem]
) -> str:
    pairs = list(raw.items()) if isinstance(raw, dict) else _pairs(str(raw))
    found = []
    for key, path in pairs:
        unfit = not isinstance(path, str) or not key or any(c in f"{key}{path}" for c in "\0;=")
        if unfit or not path.startswith(("/", "~/")):
            message = f"`{name}` (from {origin}) gives `{key}` no absolute path: {path!r}"
            help = 'write `name = "/path"` below it, or NAME=/path;NAME=/path in a variable'
            problems.append(Problem("config/value", message, help))
        else:
            found.append(f"{key}={_full_path(path, env)}")
    return ";".join(found)


def _user_home(env: Mapping[str, str]) -> str:
    return env.get("HOME") or os.path.expanduser("~")


def _default_home(env: Mapping[str, str], _so_far: Mapping[str, Setting]) -> Value:
    base = env.get("XDG_STATE_HOME") or os.path.join(_user_home(env), ".local", "state")
    return os.path.join(base, "stellwerk", machine_id())


def _default_group(_env: Mapping[str, str], so_far: Mapping[str, Setting]) -> Value:
    """The group that the server of this state was started for, if it was for one."""
    try:
        with open(group_file(str(so_far["home"].value)), encoding="utf-8") as file:
            return file.read().strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _default_socket(env: Mapping[str, str], so_far: Mapping[str, Setting]) -> Value:
    """A short path that belongs to the home, since a socket's path has at most 107 bytes.

    One for a group isn't in the user's runtime folder, which nobody else may enter.
    """
    import hashlib

    key = hashlib.sha256(os.fsencode(str(so_far["home"].value))).hexdigest()[:12]
    runtime = env.get("XDG_RUNTIME_DIR", "")
    is_own = not so_far["socket_group"].value
    if (
        is_own
        and runtime
        and len(runtime) < 60
        and os.path.isdir(runtime)
        and os.access(runtime, os.W_OK)
    ):
        return os.path.join(runtime, f"stellwerk-{key}", "server.sock")
    folder = f"/tmp/stellwerk-{os.getuid()}-{key}"  # noqa: S108 (ours alone, or it is refused)
    return os.path.join(folder, "server.sock")


def _default_buckets(_env: Mapping[str, str], so_far: Mapping[str, Setting]) -> Value:
    return os.path.join(str(so_far["home"].value), "buckets")


def _default_cache(env: Mapping[str, str], _so_far: Mapping[str, Setting]) -> Value:
    base = env.get("XDG_CACHE_HOME") or os.path.join(_user_home(env), ".cache")
    return os.path.join(base, "stellwerk")


def _plain(about: str) -> _Spec:
    return _Spec(about, lambda _env, _so_far: "")


def _amount(about: str, default: int) -> _Spec:
    return _Spec(about, lambda _env, _so_far: default, is_number=True)


_KEPT = frozenset(
    # who and where
    "HOME USER LOGNAME LANG LANGUAGE TZ "
    "XDG_RUNTIME_DIR XDG_CONFIG_HOME XDG_STATE_HOME XDG_CACHE_HOME XDG_DATA_HOME "
    # how this machine reaches the network
    "HTTP_PROXY HTTPS_PROXY FTP_PROXY ALL_PROXY NO_PROXY "
    "SSL_CERT_FILE SSL_CERT_DIR CURL_CA_BUNDLE REQUESTS_CA_BUNDLE GIT_SSL_CAINFO "
    "NODE_EXTRA_CA_CERTS AWS_CA_BUNDLE GRPC_DEFAULT_SSL_ROOTS_FILE_PATH PIP_CERT PIP_CONFIG_FILE "
    "PIP_INDEX_URL PIP_EXTRA_INDEX_URL PIP_FIND_LINKS PIP_TRUSTED_HOST UV_CONFIG_FILE UV_INDEX "
    "UV_DEFAULT_INDEX UV_INDEX_URL UV_EXTRA_INDEX_URL UV_FIND_LINKS "
    "UV_NATIVE_TLS UV_SYSTEM_CERTS".split()
)
"""Variables that stay, in capitals; proxies are written small as well."""

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_SPECS: dict[str, _Spec] = {
    "home": _Spec("journal, blobs, runs and the server's log", _default_home, is_path=True),
    "socket_group": _Spec(
        "the group whose members use this server too, each as themselves", _default_group
    ),
    "socket": _Spec("the server's Unix socket", _default_socket, is_path=True),
    "cache": _Spec("what can be made again", _default_cache, is_path=True),
    "buckets": _Spec(
        "the folder in which each bucket of `file_mounts` has a folder of its name",
        _default_buckets,
        is_path=True,
    ),
    "bucket_paths": _Spec(
        "folders that are buckets, by name or URI: s3://data=/mnt/data",
        lambda _env, _so_far: "",
        is_table=True,
    ),
    "output": _Spec("how lists are written when -o isn't given", lambda _env, _so_far: "table"),
    "path": _Spec(
        "the PATH of the server, and of jobs before ~/.bashrc adds to it",
        lambda _env, _so_far: _PATH,
    ),
    "keep_env": _plain(
        "further variables that the server and all jobs take over from whoever starts it: A,B"
    ),
    "join_listen": _Spec(
        "where machines dial in that can't be dialled: 0.0.0.0:7443; empty is nowhere",
        lambda _env, _so_far: "",
    ),
    "join_cert": _Spec(
        "the certificate (and chain) for that; without one only this machine may dial in",
        lambda _env, _so_far: "",
    ),
    "join_key": _Spec("the key of that certificate", lambda _env, _so_far: ""),
    "join_url": _Spec(
        "the address by which machines reach that, if it is another: https://lab.example:7443",
        lambda _env, _so_far: "",
    ),
    "start_timeout_ms": _Spec(
        "how long a starting server is waited for", lambda _env, _so_far: 15_000, is_number=True
    ),
    "ask_above_files": _Spec(
        "a work directory with more files is packed only with --yes",
        lambda _env, _so_far: 100_000,
        is_number=True,
    ),
    "ask_above_bytes": _Spec(
        "a larger work directory is packed only with --yes",
        lambda _env, _so_far: 10 * 2**30,
        is_number=True,
    ),
    "interactive_idle_limit": _Spec(
        "when a `stw run --shell` ends that nobody uses: 30m; 0 never",
        lambda _env, _so_far: "1h",
    ),
    "admins": _Spec(
        "who may do everything on a shared server, beside its user and root: ben, @wheel",
        lambda _env, _so_far: "",
    ),
    "visibility": _Spec(
        "what people see of others' work: all, names (not texts and output), or own",
        lambda _env, _so_far: "names",
    ),
    "projects": _plain("the projects that people's work counts for: vision: ada ben; speech: cyd"),
    "max_priority": _amount("the highest priority that people may give their own work", 1000),
    "max_running": _amount("how many runs each may have at a time; 0 any number", 0),
    "max_gpus": _amount("how many GPUs each may hold at a time; 0 any number", 0),
    "max_pending": _amount("how many workloads of each may wait; 0 any number", 0),
    "gpu_jobs": _plain(
        "how many runs may share a GPU by its memory: 4; k017: 1 (0 as it lasts, 1 nobody shares)"
    ),
    **{name: _amount(*said) for name, said in QUEUE_SETTINGS.items()},
    "limits": _plain("other limits for some: ada: running=8 gpus=4; project vision: gpus=16"),
    "keep_runs_days": _amount("how long output and directories of ended workloads are kept", 30),
    "keep_runs_bytes": _amount("beyond this the oldest of them go, after a week", 100 * 2**30),
    "keep_outputs_days": _amount("how long results of ended workloads are kept; 0 for ever", 0),
    "keep_outputs_bytes": _amount("beyond this the oldest results go; 0 for any amount", 0),
    "keep_checkpoints_days": _amount("how long checkpoints of them are kept; 0 for ever", 0),
    "keep_checkpoints_bytes": _amount("beyond this the oldest of these go; 0 for any amount", 0),
    "checkpoint_home": _Spec(
        "where checkpoints are copied to that follow their job from machine to machine",
        lambda _env, so_far: os.path.join(str(so_far["home"].value), "checkpoint-home"),
        is_path=True,
    ),
    "checkpoint_home_bytes": _amount("what it may take; 0 for any amount", 0),
    "checkpoint_copy_bytes_s": _amount("how fast each job's are copied there; 0 as it goes", 0),
    "keep_workloads_days": _amount("how long ended workloads stay in the lists; 0 for ever", 0),
    "keep_decisions_days": _amount("how long decisions stay that nothing refers to any more", 30),
    "keep_commands_days": _amount("how long a repeated request is known as the same one", 7),
    "keep_unused_days": _amount("how long content stays that nothing refers to", 1),
    "tidy_every_hours": _amount("how often the server removes what is too old; 0 never", 24),
}
