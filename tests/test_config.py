"""Every setting has a value, and says where it has it from."""

import os
import tempfile
from pathlib import Path

import pytest

from stellwerk.config import Settings, clean_environment, config_file, group_file, load
from stellwerk.core.model.errors import StellwerkError

RUNTIME = "XDG_RUNTIME_DIR"


def write(text: str) -> str:
    path = config_file(os.environ)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text)
    return path


def origin(settings: Settings, name: str) -> str:
    return settings.all[name].origin


def test_a_variable_holds_before_the_file_and_the_file_before_the_default() -> None:
    """The order of the three sources, and the name of each."""
    path = write('output = "wide"\nstart_timeout_ms = 5\n')
    settings = load({**os.environ, "STELLWERK_OUTPUT": "json"})
    assert (settings.text("output"), origin(settings, "output")) == ("json", "STELLWERK_OUTPUT")
    assert (settings.number("start_timeout_ms"), origin(settings, "start_timeout_ms")) == (5, path)
    assert origin(settings, "cache") == "default"


def test_every_bad_setting_is_told_at_once() -> None:
    """Unknown names with a suggestion, wrong values with their origin."""
    path = write('outptu = "json"\nstart_timeout_ms = "soon"\nask_above_files = true\ncache = 3\n')
    with pytest.raises(StellwerkError) as caught:
        load()
    assert [(p.code, p.message) for p in caught.value.problems] == [
        ("config/unknown", "unknown setting `outptu`"),
        ("config/value", f"`cache` (from {path}) is no text: 3"),
        ("config/value", f"`start_timeout_ms` is `soon` (from {path}), not a whole number"),
        ("config/value", f"`ask_above_files` is `True` (from {path}), not a whole number"),
    ]
    assert caught.value.problems[0].help == "did you mean `output`?"


def test_a_file_that_is_no_toml_is_named() -> None:
    """With its place and what to write."""
    path = write("output: json\n")
    with pytest.raises(StellwerkError, match="TOML") as caught:
        load()
    assert caught.value.problems[0].file == path


def test_paths_are_absolute_and_know_the_home() -> None:
    """`~` is the caller's home, and a relative path starts where the caller stands."""
    settings = load({"HOME": "/home/ada", "STELLWERK_HOME": "~/s", "STELLWERK_CACHE": "c"})
    assert settings.home == "/home/ada/s"
    assert settings.cache == os.path.abspath("c")


def test_each_home_has_a_socket_of_its_own(home_of_its_own: str) -> None:
    """Two states on one machine are two servers; the same state is always the same socket."""
    env = {"HOME": "/home/ada", RUNTIME: f"{home_of_its_own}/run"}
    one, two = (load({**env, "STELLWERK_HOME": home}).socket for home in ("/a", "/b"))
    assert one != two
    assert one == load({**env, "STELLWERK_HOME": "/a"}).socket
    assert one.startswith(f"{home_of_its_own}/run/stellwerk-")


@pytest.mark.parametrize("runtime", ["", "/nowhere/at/all", "/tmp/" + "x" * 100])
def test_the_socket_path_is_short_whatever_the_runtime_directory(runtime: str) -> None:
    """A path of more than 107 bytes can't be a socket."""
    settings = load({"HOME": "/h", RUNTIME: runtime, "STELLWERK_HOME": "/" + "deep/" * 60})
    assert settings.socket.startswith(f"/tmp/stellwerk-{os.getuid()}-")
    assert len(settings.socket) < 100
    assert settings.socket_is_default


def test_a_named_socket_is_taken_as_it_is() -> None:
    """Whoever names one answers for its folder."""
    settings = load({"HOME": "/h", "STELLWERK_SOCKET": "/srv/stellwerk/s"})
    assert settings.socket == "/srv/stellwerk/s"
    assert not settings.socket_is_default


def test_machines_that_share_a_home_keep_their_states_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The default state's path carries the machine's id."""
    homes = set()
    for machine in ("one", "two"):
        monkeypatch.setattr("stellwerk.config.machine_id", lambda machine=machine: machine)
        homes.add(load({"HOME": "/home/ada"}).home)
    assert homes == {
        "/home/ada/.local/state/stellwerk/one",
        "/home/ada/.local/state/stellwerk/two",
    }


def test_a_clean_environment_has_nothing_of_the_terminal() -> None:
    """Who and where, how to reach the network, our own; not what else is exported there."""
    terminal = {
        "HOME": "/home/ada",
        "LANG": "C.UTF-8",
        "LC_TIME": "de_DE.UTF-8",
        "STELLWERK_HOME": "/state",
        "XDG_RUNTIME_DIR": "/run/user/1",
        "https_proxy": "http://proxy:3128",
        "SSL_CERT_FILE": "/ca.pem",
        "PATH": "/home/ada/experiment/bin",
        "AWS_SECRET_ACCESS_KEY": "x",
        "CUDA_VISIBLE_DEVICES": "0",
        "PYTHONPATH": "/home/ada/experiment",
        "VIRTUAL_ENV": "/home/ada/experiment",
        "LICENCE": "7",
    }
    clean = clean_environment(load({"STELLWERK_HOME": "/state"}), terminal)
    kept = ("HOME", "LANG", "LC_TIME", "STELLWERK_HOME", "XDG_RUNTIME_DIR")
    for name in (*kept, "https_proxy", "SSL_CERT_FILE"):
        assert clean.pop(name) == terminal[name]
    assert clean.pop("PATH").endswith(":/usr/sbin:/usr/bin:/sbin:/bin")
    assert set(clean) == {"USER", "LOGNAME", "SHELL"}


def test_what_a_clean_environment_keeps_can_be_said() -> None:
    """The path, and variables by name; those that aren't set there stay so."""
    settings = load({"STELLWERK_PATH": "/opt/bin:/bin", "STELLWERK_KEEP_ENV": "LICENCE,NOT_SET"})
    clean = clean_environment(settings, {"LICENCE": "7", "PATH": "/x"})
    assert (clean["PATH"], clean["LICENCE"], "NOT_SET" in clean) == ("/opt/bin:/bin", "7", False)
    kept = load({"STELLWERK_KEEP_ENV": "PATH"})
    assert clean_environment(kept, {"PATH": "/x"})["PATH"] == "/x"


def test_the_machines_file_holds_before_the_default_and_names_a_shared_server(
    tmp_path: Path,
) -> None:
    """An administrator names a socket for all; a user's own file goes first."""
    machine = tmp_path / "machine.toml"
    machine.write_text('socket = "/run/x/server.sock"\noutput = "wide"\n')
    path = write('output = "json"\n')
    env = {**os.environ, "STELLWERK_MACHINE_CONFIG": str(machine)}
    settings = load(env)
    assert (settings.socket, origin(settings, "socket")) == ("/run/x/server.sock", str(machine))
    assert (settings.text("output"), origin(settings, "output")) == ("json", path)
    machine.write_text("socked = 1\n")
    with pytest.raises(StellwerkError, match="unknown setting `socked`"):
        load(env)


def test_a_socket_for_a_group_is_where_the_group_can_go(tmp_path: Path) -> None:
    """Not in the user's runtime folder; the state remembers for which group it was started."""
    env = {**os.environ, "STELLWERK_HOME": str(tmp_path / "home")}
    with tempfile.TemporaryDirectory(prefix="r") as runtime:
        assert load({**env, RUNTIME: runtime}).socket.startswith(runtime)
    (tmp_path / "home").mkdir()
    Path(group_file(str(tmp_path / "home"))).write_text("lab\n")
    settings = load(env)
    assert settings.text("socket_group") == "lab"
    assert settings.socket.startswith(f"/tmp/stellwerk-{os.getuid()}-")
