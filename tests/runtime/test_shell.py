"""The environment of `bash -i`, read once."""

import os
import sys
import time
from pathlib import Path

import pytest

from stellwerk.runtime import snapshot
from tests.runtime.rig import Rig, result_of

BASHRC = r"""
case $- in *i*) ;; *) return;; esac
echo "this line is not for the log"; echo "nor this" >&2
export FROM_RC='two words'
not_exported="with \"quotes\" and
a second line"
list=(a "b c")
declare -A map=([k]=v)
export -n unexported=1
readonly fixed=2
greet() { say "$1 ${not_exported%%$'\n'*}"; }
alias say='echo said'
alias ll='ls -l'
shopt -s extglob nullglob
set -o pipefail
case abc in !(x)) matched=yes;; esac
on_ext() { [[ $1 == +([0-9]) ]] && echo digits; }
sleep 300 &
"""
USES = r"""
say hello
greet() { echo "greet is not overwritten"; }
on_ext 123
echo "$FROM_RC|$not_exported|${list[1]}|${map[k]}|$unexported|$matched"
echo /nonexistent*/x end
false | true; echo "pipefail $?"
type -t ll
env | grep -c ^FROM_RC
"""


def bashrc(rig: Rig, text: str) -> None:
    """Give the user of a rig other start-up files."""
    Path(rig.home, ".bashrc").write_text(text)


@pytest.mark.parametrize("shell", ["snapshot", "interactive"])
def test_job_sees_what_bash_i_offers(rig: Rig, shell: str) -> None:
    """Variables, functions, aliases and options, once from the snapshot and once from bash -i."""
    bashrc(rig, BASHRC)
    end = rig.finish(f"uses-{shell}", USES, shell=shell, env={"OWN": "x"})
    log = rig.log(f"uses-{shell}")
    lines = [line for line in log.splitlines() if not line.startswith(("this", "nor"))]
    assert lines == [
        "said hello",
        "digits",
        'two words|with "quotes" and',
        "a second line|b c|v|1|yes",
        "end",
        "pipefail 1",
        "alias",
        "1",
    ]
    assert end["shell"] == {"source": shell, "why_plain": None}
    assert ("this line is not" in log) == (shell == "interactive")
    assert "job control" not in log


@pytest.mark.parametrize("shell", ["snapshot", "interactive"])
def test_variables_of_the_job_win_over_the_start_up_files(rig: Rig, shell: str) -> None:
    """What the task says stays as it says, whatever ~/.bashrc exports; secrets too."""
    bashrc(rig, "export A=rc B=rc TOKEN=rc\nPATH=/rc:$PATH\n")
    rig.finish(
        f"wins-{shell}",
        'echo "$A $B $TOKEN"; case $PATH in /rc:*) echo path;; esac',
        shell=shell,
        env={"A": "task's"},
        secrets={"TOKEN": "sealed"},
    )
    assert rig.log(f"wins-{shell}") == "task's rc sealed\npath\n"


def test_a_new_bashrc_counts_at_once(rig: Rig) -> None:
    """A changed start-up file is read anew for the next run."""
    bashrc(rig, "export WHICH=old\n")
    rig.finish("old", "echo $WHICH")
    bashrc(rig, "export WHICH=newer\n")
    rig.finish("new", "echo $WHICH")
    assert (rig.log("old"), rig.log("new")) == ("old\n", "newer\n")


def test_a_bashrc_that_ends_the_shell(rig: Rig) -> None:
    """The job runs in the plain environment, and the record says why."""
    bashrc(rig, "export X=1\nexit 3\n")
    end = rig.finish("plain", 'echo "$X|$HOME"')
    assert rig.log("plain") == f"|{rig.home}\n"
    assert end["shell"]["source"] == "plain"
    assert "ended the shell with status 3" in end["shell"]["why_plain"]


def test_a_bashrc_that_never_ends(own_rig: Rig) -> None:
    """It is left after a time, with everything it had started."""
    bashrc(own_rig, "echo $$ > ~/pid; sleep 300\n")
    folder = os.path.join(own_rig.folder, "probe")
    program = (
        f"import sys; sys.path.insert(0, {own_rig.program!r})\n"
        "from stellwerk.runtime import snapshot\n"
        "from stellwerk.runtime.files import Places\n"
        f"places = Places({folder!r}); places.make()\n"
        f"env = {{'HOME': {own_rig.home!r}, 'PATH': '/usr/bin:/bin'}}\n"
        "key = snapshot.snapshot_key(env)\n"
        "snapshot.capture(places, key, env, limit_s=0.4)\n"
        "print(snapshot.load(places, key, env).why_plain)\n"
    )
    began = time.monotonic()
    shown = result_of([sys.executable, "-c", program])
    assert "were not through after 0.4 s" in shown.stdout, shown.stderr
    assert time.monotonic() - began < 5
    shell = Path(own_rig.home, "pid").read_text().strip()
    assert not os.path.exists(f"/proc/{shell}")


def test_key_follows_start_up_files_and_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another HOME, PATH or file is another snapshot; a variable of one session is not."""
    env = {"HOME": str(tmp_path), "PATH": "/bin"}
    key = snapshot.snapshot_key(env)
    assert snapshot.snapshot_key({**env, "PATH": "/usr/bin"}) != key
    (tmp_path / ".bashrc").write_text("x=1")
    assert snapshot.snapshot_key(env) != key
    session = {"SSH_CONNECTION": "x", "SLURM_JOB_ID": "1", "STELLWERK_RUN_ID": "r", "_": "y"}
    assert snapshot.login_environment({**env, **session}) == env


def test_users_own_bash_env_comes_back(rig: Rig) -> None:
    """A BASH_ENV of the task is there for the shells that the job starts."""
    bashrc(rig, "")
    extra = Path(rig.folder, "extra.sh")
    extra.write_text("echo extra\n")
    rig.finish("be", "bash -c 'echo inner'", env={"BASH_ENV": str(extra)})
    assert rig.log("be") == "extra\ninner\n"


def test_what_the_agent_was_given_is_in_no_file(own_rig: Rig) -> None:
    """A token in the environment reaches the jobs as ever, but is never written to the disk."""
    rig = own_rig
    bashrc(rig, "export FROM_RC=rc\nexport CHANGED=$CHANGED:more\nunset GONE\n")
    left = Path(rig.root, "shell", "0123.999999999.capture")
    left.mkdir(parents=True)
    (left / "env").write_text("TOKEN=hush-hush")
    given = {"TOKEN": "hush-hush", "CHANGED": "some", "GONE": "hush-gone"}
    rig.start_agent(env=given)
    end = rig.finish("hush", 'echo "$TOKEN|$FROM_RC|$CHANGED|${GONE-unset}" | tr h H')
    assert end["shell"]["why_plain"] is None
    assert rig.log("hush") == "HusH-HusH|rc|some:more|unset\n"
    for path in Path(rig.root).rglob("*"):
        assert not path.is_file() or b"hush-" not in path.read_bytes(), path
