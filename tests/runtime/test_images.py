"""A job in an image: it sees the image's files and its own, and is a run like any other.

The image is a handful of this machine's own programs; the tool that hands it over is a stand-in
that speaks as podman does. `tests/lab` has the real one.
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from stellwerk.runtime import namespaces
from tests.runtime.little_image import add_driver, stand_in
from tests.runtime.rig import Rig, a_rig, a_rig_of_nobody

pytestmark = pytest.mark.skipif(
    namespaces.trouble() is not None, reason="this machine allows no namespaces"
)


@pytest.fixture(scope="module", params=["this user", "nobody"])
def dock(request: pytest.FixtureRequest) -> Iterator[Rig]:
    """An agent that finds the stand-in where podman would be."""
    with a_rig() if request.param == "this user" else a_rig_of_nobody() as rig:
        tools = Path(rig.folder, "tools")
        stand_in(tools)
        owner = os.stat(rig.folder)
        for path in (tools, *tools.iterdir()):
            os.chown(path, owner.st_uid, owner.st_gid)
        rig.start_agent(env={"PATH": f"{tools}:{os.environ['PATH']}"})
        yield rig


def asked(rig: Rig) -> list[str]:
    return Path(rig.folder, "tools", "asked").read_text().splitlines()


def test_a_job_runs_in_the_files_of_the_image(dock: Rig) -> None:
    """With its variables, the job's own, and its home; the image is fetched once."""
    script = "id -u; cat /etc/in-image; pwd; echo $FROM_IMAGE $HOME $A $SECRET; ls /etc/os-release"
    for run in ("first", "second"):
        end = dock.finish(
            run, script, image="test/image:1", env={"A": "a"}, secrets={"SECRET": "hush"}
        )
        assert (end["how"], end["code"]) == ("exited", 2)
        assert end["shell"]["source"] == "image"
        assert dock.log(run).splitlines()[:4] == [
            "0", "in the image", "/home/boss/sky_workdir", "yes /home/boss a hush",
        ]  # fmt: skip
    assert dock.log("first", "setup.log") == "pulling\n"
    assert [line for line in asked(dock) if line.startswith(("pull", "export"))] == [
        "pull test/image:1", "export c0ffee",
    ]  # fmt: skip
    assert dock.client.ask("probe")["facts"]["image_tool"] == "podman"


def test_setup_and_run_share_what_is_changed_and_nobody_else(dock: Rig) -> None:
    """What setup installs into the image is there in `run`, gone for the next one, and took no
    room of the image's own files.
    """
    end = dock.finish(
        "install",
        "cat /opt/tool; rm /etc/in-image; ls /etc",
        setup="mkdir -p /opt; echo tool > /opt/tool; touch by-setup",
        image="test/image:1",
        setup_key="never",
    )
    assert (end["code"], end["setup"]) == (0, "ok")
    assert dock.log("install").split()[0] == "tool"
    assert "in-image" not in dock.log("install")
    assert os.listdir(dock.path("install", "work")) == ["by-setup"]
    end = dock.finish("after", "cat /etc/in-image; cat /opt/tool", image="test/image:1")
    assert end["code"] == 1
    assert dock.log("after").splitlines()[0] == "in the image"
    assert not os.path.exists(dock.path("install", "view/layer"))


def test_mounts_are_in_the_image(dock: Rig) -> None:
    """At home, below `/`, and through links of the image, which lead into it and not out of it."""
    data = os.path.join(dock.folder, "data")
    os.mkdir(data)
    Path(data, "a").write_text("a\n")
    os.chown(data, *os.stat(dock.folder)[4:6])
    end = dock.finish(
        "mounts",
        "cat ~/x/a /ckpt/a /srv/data/a ~/.key\n"
        "echo new > /ckpt/b; echo r > $STELLWERK_OUTPUT_DIR/r",
        image="test/image:1",
        mounts=[
            {"target": "~/x", "source": data, "read_only": True},
            {"target": "/ckpt", "source": data},
            {"target": "/var/data", "source": data},
            {"target": "~/.key", "secret": "KEY"},
        ],
        secret_files={"KEY": "hush"},
    )
    assert end["message"] == ""
    assert dock.log("mounts").split() == ["a", "a", "a", "hush"]
    assert sorted(os.listdir(data)) == ["a", "b"]
    owner = os.stat(os.path.join(data, "b"))
    assert (owner.st_uid, stat.S_IMODE(owner.st_mode)) == (os.stat(data).st_uid, 0o644)
    assert os.listdir(dock.path("mounts", "output")) == ["r"]
    assert not os.path.exists("/ckpt/b")
    assert sorted(os.listdir(dock.home)) == [".bashrc"]


def test_a_job_with_gpus_has_their_driver_from_the_machine(dock: Rig) -> None:
    """Its libraries and programs are found after those of the image; without a GPU there are none.

    The driver is a stand-in: a card isn't needed to see that its files are where they should be.
    """
    add_driver(Path(dock.folder, "tools"))
    script = "cat /usr/local/stellwerk/lib/libcuda.so.1; echo $LD_LIBRARY_PATH; nvidia-smi"
    ranks = [{"rank": 0, "env": {"CUDA_VISIBLE_DEVICES": "0"}}]
    end = dock.finish("gpu", script, image="test/image:1", ranks=ranks)
    assert (end["code"], end["message"]) == (0, ""), dock.log("gpu")
    assert dock.log("gpu").splitlines() == [
        "driver library", "/usr/local/stellwerk/lib", "one card",
    ]  # fmt: skip
    assert dock.finish("no-gpu", script, image="test/image:1")["code"] == 127


def test_a_run_in_an_image_is_stopped_like_any_other(dock: Rig) -> None:
    """Notice, trap, exit code; and ranks of it fail together."""
    dock.start("stop", "echo ready; sleep 60; echo never", image="test/image:1")
    dock.wait_for_line("stop", "ready")
    dock.client.ask("stop", run="stop", why="preempt")
    end = dock.ended("stop", 5)
    assert (end["how"], end["put_back"]) == ("notice", True)
    assert "never" not in dock.log("stop")
    ranks = [{"rank": rank, "env": {"R": str(rank)}} for rank in (0, 1)]
    end = dock.finish("gang", "[ $R = 1 ] && exit 7; sleep 60", image="test/image:1", ranks=ranks)
    assert (end["code"], end["ranks"]) == (7, {"0": 137, "1": 7})


def test_an_image_that_is_not_to_be_had(dock: Rig) -> None:
    """The tool's own words, and the job never starts."""
    end = dock.finish("none", "echo never", image="nobody/nothing:1")
    assert end["how"] == "spawn_failed"
    assert end["message"] == "`podman pull nobody/nothing:1` failed: no such image"
    assert dock.log("none") == ""


def test_no_tool_no_image(own_rig: Rig) -> None:
    """It is said which would do."""
    own_rig.start_agent(env={"PATH": own_rig.folder})
    end = own_rig.finish("none", "echo never", image="test/image:1")
    assert end["message"] == "none of podman, docker and apptainer is installed here"
    assert own_rig.client.ask("probe")["facts"]["image_tool"] is None
