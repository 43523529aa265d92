"""Images by the real podman: its store gives the files, the run is ours."""

import shutil
import subprocess

import pytest

from tests.flows.conftest import somebody
from tests.runtime.little_image import NAME, docker_archive

IMAGE = f"localhost/{NAME}"


@pytest.mark.skipif(shutil.which("podman") is None, reason="podman isn't installed here")
def test_a_task_runs_in_an_image_of_podmans_store() -> None:
    """Loaded by hand, as where no registry can be reached; `setup` and `run` share its changes."""
    with somebody() as person:
        load = subprocess.run(
            ["podman", "load"],
            input=docker_archive(),
            env=person.env,
            capture_output=True,
            check=False,
        )
        if load.returncode:
            pytest.skip(f"podman can't load an image here: {load.stderr.decode()[-300:]}")
        try:
            task = person.task(
                "cat /etc/in-image /opt/by-setup ~/sky_workdir/a.txt; id -u",
                more=(
                    f"resources: {{image_id: 'docker:{IMAGE}'}}\nfile_mounts: "
                    "{~/sky_workdir/a.txt: a.txt}\n"
                    "setup: |\n  mkdir -p /opt; echo by setup > /opt/by-setup\n"
                ),
            )
            person.write("a.txt", "a\n")
            told = person.stw("run", task).stdout.splitlines()
            assert told == ["in the image", "by setup", "a", "0"]
        finally:
            subprocess.run(["podman", "rmi", "-f", IMAGE], env=person.env, check=False)
