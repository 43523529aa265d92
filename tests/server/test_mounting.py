"""What a task's mounts are on this machine: folders for buckets, content, secrets, or a refusal."""

from pathlib import Path

import pytest

from stellwerk.config import Settings, load
from stellwerk.core.describe.tasks import read_tasks
from stellwerk.core.model.errors import Problem, StellwerkError
from stellwerk.core.model.task import Task
from stellwerk.drivers.base import MountOrder
from stellwerk.server.mounting import Mounted, Upload, mount
from tests.drivers.machine import Blobs

HASH = "a" * 64


class Place:
    """A machine with settings, on which folders stand for buckets."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data"
        (self.data / "sub").mkdir(parents=True)
        self.problems: list[Problem] = []
        self.paths = f"s3://lab={self.data};s3://lab/deep={self.data}/sub;named={self.data}"

    @property
    def settings(self) -> Settings:
        return load({
            "HOME": str(self.folder),
            "STELLWERK_HOME": str(self.folder / "state"),
            "STELLWERK_BUCKET_PATHS": self.paths,
        })  # fmt: skip

    def mount(self, mounts: str, **content: str) -> Mounted:
        """What a task with these mounts gets."""
        task = read_tasks(f"{mounts}\nrun: x")
        assert isinstance(task, Task)
        by_target = {name.replace("_", "/"): text for name, text in content.items()}
        return mount(task, by_target, self.settings, self.problems)

    def refusal(self, mounts: str) -> tuple[str, str]:
        """The code and words of the only thing that is wrong with them."""
        self.mount(mounts)
        [problem] = self.problems
        self.problems = []
        assert problem.help
        assert problem.path.startswith("file_mounts.")
        return problem.code, problem.message


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_bucket_without_a_setting_is_a_folder_of_ours(place: Place) -> None:
    """Made where it is missing; what comes for it goes into it, each time the same place."""
    found = place.mount("file_mounts: {/c: {name: ckpts, source: ./seed}}", _c=HASH)
    folder = str(place.folder / "state" / "buckets" / "ckpts")
    assert found.mounts == (MountOrder("/c", folder=folder),)
    assert found.uploads == (Upload(folder), Upload(folder, HASH))
    assert [notice.message for notice in found.notices] == [f"`/c` is the folder {folder}"]
    assert place.problems == []


@pytest.mark.parametrize(
    ("written", "folder", "copy", "read_only"),
    [
        ("{name: named}", "data", False, False),
        ("{name: named, mode: COPY}", "data", True, False),
        ("{name: named, mode: MOUNT_CACHED, type: DATASET_RO}", "data", False, True),
        ("{name: named, config: {mount: {read_only: true}}}", "data", False, True),
        ("{source: 's3://lab'}", "data", False, False),
        ("{source: 's3://lab/sub', mode: COPY}", "data/sub", True, False),
        ("{source: 's3://lab/deep', mode: COPY}", "data/sub", True, False),
        ("{source: 'gs://named'}", "data", False, False),
        ("s3://lab/sub", "data/sub", True, False),
        ("gs://named/sub", "data/sub", True, False),
    ],
)
def test_folders_that_stand_for_buckets(
    place: Place, written: str, folder: str, copy: bool, read_only: bool
) -> None:
    """By name, by URI, by the longest part of it; whose they are decides nothing."""
    found = place.mount(f"file_mounts: {{/m: {written}}}")
    order = MountOrder("/m", folder=str(place.folder / folder), copy=copy, read_only=read_only)
    assert found.mounts == (order,)
    assert found.uploads == ()
    assert place.problems == []


@pytest.mark.parametrize(
    ("written", "code", "words"),
    [
        ("s3://other/x", "no-bucket", "no folder stands for `s3://other`"),
        ("s3://labour/x", "no-bucket", "no folder stands for `s3://labour`"),
        ("https://a.example/x.tar", "no-bucket", "`https://a.example/x.tar` can't be reached"),
        ("{source: 's3://lab/gone', mode: COPY}", "missing", "data/gone, which is to be at `/m`"),
        ("{source: ./x}", "no-name", "nowhere to go"),
        ("{name: '../x', store: HF}", "name", "can't be the name of a bucket"),
        ("./x", "no-content", "did not come with the task"),
    ],
)
def test_what_is_refused(place: Place, written: str, code: str, words: str) -> None:
    """Before anything is queued, and with what to do."""
    content = {"_m": HASH} if written == "{source: ./x}" else {}
    place.mount(f"file_mounts: {{/m: {written}}}", **content)
    problems = [problem for problem in place.problems if problem.code == f"mount/{code}"]
    assert len(place.problems) == len(problems) == 1
    assert words in problems[0].message
    assert problems[0].help
    assert problems[0].path == "file_mounts./m"


def test_folders_of_the_machine_and_secrets(place: Place) -> None:
    """A host's path as it is written; a secret by its name alone."""
    found = place.mount(
        f"volumes:\n  /v: {{host_path: {place.data}}}\n"
        f"  /w: {{host_path: {place.data}, mode: rw}}\n"
        "managed_secrets: [{KEY: {mount_path: ~/.key}}, OTHER]"
    )
    folder = str(place.data)
    assert found.mounts == (
        MountOrder("/v", folder=folder, read_only=True),
        MountOrder("/w", folder=folder),
        MountOrder("~/.key", secret="KEY"),
    )
    assert place.refusal("volumes: {/v: {host_path: /not/there}}")[0] == "mount/missing"


def test_what_has_no_effect_is_told(place: Place) -> None:
    """Where a bucket would be kept elsewhere, or removed."""
    found = place.mount("file_mounts: {/a: {name: a, store: S3}, /b: {name: b, persistent: false}}")
    assert [notice.help for notice in found.notices] == [
        "`store: S3` has no effect",
        "`persistent: false` has no effect: it isn't removed afterwards",
    ]


def test_a_bucket_that_can_not_be_made_is_told(place: Place, tmp_path: Path) -> None:
    """In the words of the machine, and nothing is submitted."""
    (tmp_path / "file").write_text("")
    mounted = Mounted(uploads=(Upload(str(tmp_path / "file" / "bucket")),))
    blobs = Blobs(tmp_path / "blobs")
    with pytest.raises(StellwerkError, match=r"can't be written: Not a directory") as caught:
        mounted.prepare(blobs)
    assert caught.value.problems[0].code == "mount/not-written"
    mounted = Mounted(uploads=(Upload(str(tmp_path / "bucket"), HASH),))
    with pytest.raises(StellwerkError, match="isn't in the blob store"):
        mounted.prepare(blobs)


@pytest.mark.parametrize("written", ["named", "named=relative", "=/x", "a=/x;b"])
def test_settings_that_give_no_path(place: Place, written: str) -> None:
    """A mistake in the settings is told where they are read, not taken for no setting."""
    place.paths = written
    with pytest.raises(StellwerkError, match="no absolute path"):
        assert place.settings
