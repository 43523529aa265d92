"""A run's own view of the files: as root and as a user without rights, and where there is none."""

import hashlib
import json
import os
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from stellwerk.runtime import namespaces
from tests.runtime.rig import Refusal, Rig, a_rig, a_rig_of_nobody, processes_of

pytestmark = pytest.mark.skipif(
    namespaces.trouble() is not None, reason="this machine allows no namespaces"
)


@pytest.fixture(scope="module", params=["this user", "nobody"])
def viewer(request: pytest.FixtureRequest) -> Iterator[Rig]:
    """An agent of this user, and one of a user who may do little."""
    with a_rig() if request.param == "this user" else a_rig_of_nobody() as made:
        made.start_agent()
        yield made


@pytest.fixture(scope="module")
def nobody() -> Iterator[Rig]:
    """An agent of a user who may do little."""
    with a_rig_of_nobody() as made:
        made.start_agent()
        yield made


def folder(rig: Rig, name: str, **files: str) -> str:
    """A folder with files, which belongs to the rig's user."""
    top = Path(rig.folder, name)
    top.mkdir()
    for path, text in files.items():
        (top / path).write_text(text)
    owner = os.stat(rig.folder)
    for one in (top, *top.iterdir()):
        os.chown(one, owner.st_uid, owner.st_gid)
    return str(top)


def mount(target: str, source: str, **more: Any) -> dict[str, Any]:
    return {"target": target, "source": source, **more}


def test_mounts_are_where_the_job_looks(viewer: Rig) -> None:
    """At home, below `/`, one inside of another; a folder, a file; and nobody else sees them."""
    data = folder(viewer, "data", a="a\n")
    inner = folder(viewer, "inner", b="b\n")
    end = viewer.finish(
        "where",
        "cat ~/data/a /stw-view/deep/a /stw-view/deep/in/b ~/file\n"
        "echo new > ~/data/made; pwd; id -u",
        mounts=[
            mount("/stw-view/deep/in", inner),
            mount("~/data", data),
            mount("/stw-view/deep", data),
            mount("~/file", f"{inner}/b"),
        ],
    )
    assert end["message"] == ""
    home = f"{viewer.home}/sky_workdir"
    uid = str(os.stat(viewer.folder).st_uid)
    assert viewer.log("where").split() == ["a", "a", "b", "b", home, uid]
    assert Path(data, "made").read_text() == "new\n"
    assert os.listdir(viewer.home) == [".bashrc"]
    assert not os.path.exists("/stw-view")
    assert sorted(os.listdir(data)) == ["a", "made"]


def test_ranks_and_setup_share_one_view(viewer: Rig) -> None:
    """What one rank writes the other reads, and processes of a run may look at each other."""
    end = viewer.finish(
        "share",
        "touch seen-$R; until [ -e seen-0 ] && [ -e seen-1 ]; do sleep 0.02; done; "
        "readlink /proc/self/ns/mnt; cat by-setup",
        setup="readlink /proc/self/ns/mnt; echo hello > ~/sky_workdir/by-setup",
        ranks=[{"rank": 0, "env": {"R": "0"}}, {"rank": 1, "env": {"R": "1"}}],
        sky_workdir=True,
    )
    assert end["code"] == 0
    [space] = viewer.log("share", "setup.log").split()
    assert viewer.log("share").split() == [space, "hello"]
    assert viewer.log("share", "rank-1.log").split() == [space, "hello"]
    assert space != os.readlink("/proc/self/ns/mnt")
    assert os.path.exists(viewer.path("share", "work/by-setup"))


def test_nothing_can_be_written_where_it_is_read_only(viewer: Rig) -> None:
    """Neither by the job nor by making it writable again."""
    data = folder(viewer, "only-read", a="a\n")
    script = "echo x > ~/only/b || echo refused; chmod u+w ~/only/a || echo refused too"
    viewer.finish("only", script, mounts=[mount("~/only", data, read_only=True)])
    assert [line for line in viewer.log("only").splitlines() if line.startswith("refused")] == [
        "refused", "refused too",
    ]  # fmt: skip


def test_a_copy_is_the_runs_own(viewer: Rig) -> None:
    """With links and times as they were; what the job changes in it changes nothing else."""
    data = folder(viewer, "copied", a="a\n")
    os.utime(f"{data}/a", (1_000, 1_000))
    os.symlink("a", f"{data}/link")
    os.chown(f"{data}/link", *os.stat(data)[4:6], follow_symlinks=False)
    script = "stat -c %Y ~/c/a; readlink ~/c/link conf/link; echo x >> ~/c/a; rm conf/a"
    end = viewer.finish(
        "copy",
        script,
        mounts=[
            mount("~/c", data, copy=True),
            mount("~/sky_workdir/conf", data, copy=True),
        ],
    )
    assert (end["code"], viewer.log("copy").split()) == (0, ["1000", "a", "a"])
    assert Path(data, "a").read_text() == "a\n"


def test_a_secret_is_a_file_in_memory(viewer: Rig) -> None:
    """It is nowhere on the disk, not in what the runtime writes down, and not there outside."""
    viewer.finish(
        "secret",
        "stat -c %a ~/.s/key; stat -f -c %T ~/.s/key; md5sum < ~/.s/key",
        mounts=[{"target": "~/.s/key", "secret": "KEY"}],
        secret_files={"KEY": "token"},
    )
    digest = hashlib.md5(b"token").hexdigest()
    assert viewer.log("secret").split() == ["600", "tmpfs", digest, "-"]
    assert not os.path.exists(f"{viewer.home}/.s")
    for path in Path(viewer.path("secret")).rglob("*"):
        assert not path.is_file() or b"token" not in path.read_bytes()


def test_placeholders_of_two_runs(viewer: Rig) -> None:
    """The first to end takes nothing away from the other; the last one leaves nothing behind."""
    data = folder(viewer, "both", a="a\n")
    wait = "until [ -e {} ]; do sleep 0.02; done; cat ~/both/a"
    for run in ("one", "two"):
        viewer.start(run, wait.format(f"{viewer.folder}/go-{run}"), mounts=[mount("~/both", data)])
        viewer.wait("the job", partial(processes_of, run))
    for run in ("one", "two"):
        Path(viewer.folder, f"go-{run}").touch()
        assert viewer.ended(run)["code"] == 0
        assert os.path.exists(f"{viewer.home}/both") == (run == "one")
    assert viewer.log("two") == "a\n"


def test_what_was_there_stays(viewer: Rig) -> None:
    """A folder of the user's own is hidden from the job, and is theirs again afterwards."""
    own = Path(viewer.home, "own")
    own.mkdir()
    (own / "mine").write_text("mine\n")
    data = folder(viewer, "instead", a="a\n")
    viewer.finish("hide", "ls ~/own", mounts=[mount("~/own", data)])
    assert viewer.log("hide") == "a\n"
    assert (own / "mine").read_text() == "mine\n"


def test_a_folder_that_the_user_may_not_change_has_a_twin(nobody: Rig) -> None:
    """It shows what the real one has and the target as well, and takes nothing that gets lost."""
    if os.access("/usr/share", os.W_OK) and os.stat(nobody.folder).st_uid == 0:
        pytest.skip("this user may write everywhere")
    data = folder(nobody, "shown", a="a\n")
    script = (
        "cat /usr/share/stw-view/a; ls /usr/share | grep -v stw-view | md5sum; "
        "touch /usr/share/new || echo refused; ls / | grep -c stw-top"
    )
    end = nobody.finish(
        "twin", script, mounts=[mount("/usr/share/stw-view", data), mount("/stw-top", data)]
    )
    said = nobody.log("twin").splitlines()
    assert end["code"] == 0
    assert said[0] == "a"
    assert "refused" in said
    assert said[-1] == "1"
    real = subprocess.run("ls /usr/share | md5sum", shell=True, capture_output=True, check=True)
    assert said[1] == real.stdout.decode().strip()


@pytest.mark.parametrize("target", ["/proc/x", "/dev"])
def test_places_of_the_machine_are_refused(viewer: Rig, target: str) -> None:
    """What lies there is the kernel's."""
    run = "no" + target.replace("/", "-")
    end = viewer.finish(run, "true", mounts=[mount(target, viewer.home)])
    assert end["how"] == "spawn_failed"
    assert "can't be replaced" in end["message"]


@pytest.mark.parametrize(
    ("mounts", "field"),
    [
        ([mount("~/..", "/tmp")], "mounts[0].target"),
        ([mount("/a/../etc", "/tmp")], "mounts[0].target"),
        ([mount("~bob/x", "/tmp")], "mounts[0].target"),
        ([mount("/a", "relative")], "mounts[0].source"),
        ([{"target": "/a"}], "mounts[0].source"),
        ([mount("/a", "/tmp", secret="A")], "mounts[0].source"),
        ([{"target": "/a", "secret": "../a"}], "mounts[0].secret"),
        ([{"target": "/a", "secret": "A"}], "secret_files"),
        ([mount("/a", "/tmp", mode="MOUNT")], "mounts[0].mode"),
        ("/a", "mounts"),
    ],
)
def test_mounts_that_make_no_sense(viewer: Rig, mounts: Any, field: str) -> None:
    """They are named, and nothing starts."""
    with pytest.raises(Refusal) as refused:
        viewer.start("bad", "true", mounts=mounts)
    assert refused.value.code == "spec_invalid"
    assert field in [problem[0] for problem in refused.value.error["problems"]]


def test_stellwerk_does_not_saw_off_its_branch(viewer: Rig) -> None:
    """A mount above its own files would hide the job's own script."""
    end = viewer.finish("saw", "true", mounts=[mount(viewer.folder, viewer.home)])
    assert end["how"] == "spawn_failed"
    assert "Stellwerk itself" in end["message"]


def test_a_file_where_a_folder_is_to_be(viewer: Rig) -> None:
    """Which is which is said; so is a source that isn't there."""
    end = viewer.finish("kind", "true", mounts=[mount("~/.bashrc", viewer.home)])
    assert "`" in end["message"]
    assert "is to be a folder, but there is a file" in end["message"]
    end = viewer.finish("gone", "true", mounts=[mount("~/x", f"{viewer.folder}/nowhere")])
    assert (end["how"], end["put_back"]) == ("spawn_failed", False)
    assert "`" in end["message"]
    assert "No such file or directory" in end["message"]
    assert os.listdir(viewer.home).count("x") == 0


def test_links_inside_the_work_directory_need_no_view(own_rig: Rig) -> None:
    """Without namespaces a bucket below `~/sky_workdir` is a link; other targets are refused."""
    own_rig.start_agent(env={namespaces.PRETEND_NONE: "1"})
    facts = own_rig.client.ask("probe")["facts"]
    assert facts["namespaces"] is False
    assert namespaces.PRETEND_NONE in facts["namespaces_trouble"]
    bucket = folder(own_rig, "bucket", a="a\n")
    end = own_rig.finish(
        "inside",
        "cat ckpt/a; echo b > ckpt/b; pwd; ls conf",
        mounts=[
            mount("~/sky_workdir/ckpt", bucket),
            mount("~/sky_workdir/conf", bucket, copy=True),
        ],
        sky_workdir=True,
    )
    assert end["code"] == 0
    assert own_rig.log("inside").split() == ["a", own_rig.path("inside", "work"), "a"]
    assert Path(bucket, "b").read_text() == "b\n"
    end = own_rig.finish("outside", "true", mounts=[mount("~/x", bucket)])
    assert end["how"] == "spawn_failed"
    assert "mount nothing outside of `~/sky_workdir/`" in end["message"]


def test_a_wrapper_that_is_killed_leaves_no_job_in_its_view(viewer: Rig) -> None:
    """The agent outside of the view finds and ends what is left of the run."""
    data = folder(viewer, "killed", a="a\n")
    viewer.start("kill", "(setsid sleep 60 &) ; echo ready; sleep 60", mounts=[mount("~/k", data)])
    viewer.wait_for_line("kill", "ready")
    os.kill(viewer.wrapper("kill"), 9)
    assert viewer.ended("kill")["how"] == "wrapper_died"
    viewer.finish("again", "cat ~/k/a", mounts=[mount("~/k", data)])
    assert viewer.log("again") == "a\n"
    assert not os.path.exists(f"{viewer.home}/k")


def test_the_probe_says_that_there_are_namespaces(viewer: Rig) -> None:
    """As a fact, tried out."""
    facts = viewer.client.ask("probe")["facts"]
    assert (facts["namespaces"], facts["namespaces_trouble"]) == (True, None)
    assert json.dumps(facts)
