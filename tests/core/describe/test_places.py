"""What a task needs of a place: where its mounts go, and what must be possible there."""

import pytest

from stellwerk.core.describe.places import (
    can_be_image,
    can_be_target,
    image_of,
    inside_work,
    means,
    needs,
    packed_targets,
    speaks_of_workdir,
    targets,
)
from stellwerk.core.describe.tasks import read_tasks
from stellwerk.core.lower import lower
from stellwerk.core.model.resources import IMAGES, NAMESPACES
from stellwerk.core.model.task import ResourceRequest, Task


def task(text: str) -> Task:
    found = read_tasks(f"{text}\nrun: x")
    assert isinstance(found, Task)
    return found


@pytest.mark.parametrize(
    ("target", "place"),
    [
        ("~/sky_workdir", ""),
        ("~/sky_workdir/a/b", "a/b"),
        ("~/sky_workdirs", None),
        ("~/x", None),
        ("/sky_workdir/x", None),
    ],
)
def test_places_in_the_work_directory(target: str, place: str | None) -> None:
    """Only what is really below it."""
    assert inside_work(target) == place


@pytest.mark.parametrize("target", ["/a", "~/a", "~/sky_workdir", "/dev/shm/x", "~/a..b"])
def test_targets(target: str) -> None:
    """Absolute, or below the home."""
    assert can_be_target(target)


@pytest.mark.parametrize(
    "target", ["/", "~", "a", "~bob/x", "/a/../b", "~/..", "/proc/1", "/sys/x", "/dev", "/a\0"]
)
def test_no_targets(target: str) -> None:
    """Ways out, other people's homes, and the machine's own."""
    assert not can_be_target(target)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("workdir: .", ()),
        ("file_mounts: {~/sky_workdir/a: ./a}", ()),
        ("file_mounts: {~/sky_workdir/a: {name: a}}", ()),
        ("file_mounts: {~/a: ./a}", (NAMESPACES,)),
        ("file_mounts: {/a: {name: a}}", (NAMESPACES,)),
        ("volumes: {/a: {host_path: /tmp}}", (NAMESPACES,)),
        ("managed_secrets: [A]", ()),
        ("managed_secrets: [{A: {mount_path: ~/sky_workdir/a}}]", (NAMESPACES,)),
        ("resources: {image_id: 'docker:a:1'}", (IMAGES, NAMESPACES)),
    ],
)
def test_needs(text: str, wanted: tuple[str, ...]) -> None:
    """Nothing is asked of a cluster that the task doesn't use; placement is told the same."""
    found = task(text)
    assert needs(found, found.resources[0]) == wanted
    assert [one.needs for one in lower(found).shape.alternatives] == [wanted]


def test_an_image_is_a_matter_of_the_alternative() -> None:
    """Only the choice that has one needs a cluster for it."""
    found = task("resources: {any_of: [{image_id: 'docker:a'}, {cpus: 2}]}")
    assert sorted(one.needs for one in lower(found).shape.alternatives) == [
        (),
        (IMAGES, NAMESPACES),
    ]


@pytest.mark.parametrize(
    ("image", "name", "fits"),
    [
        (None, "", True),
        ("docker:ubuntu:22.04", "ubuntu:22.04", True),
        ("docker:nvcr.io/nvidia/pytorch:25.01-py3", "nvcr.io/nvidia/pytorch:25.01-py3", True),
        ("docker:--rm", "--rm", False),
        ("docker:a b", "a b", False),
        ("ami-0123", "ami-0123", False),
        ({"us-east-1": "docker:a"}, "", False),
    ],
)
def test_images(image: str | dict[str, str] | None, name: str, fits: bool) -> None:
    """One that a tool could take for an option is none."""
    request = ResourceRequest(image_id=image)
    assert (image_of(request), can_be_image(request)) == (name, fits)


def test_what_is_packed() -> None:
    """Sources of the caller's own, of copies and of buckets."""
    found = task(
        "file_mounts: {/a: ./a, /b: 's3://b/c', /c: {name: c, source: [x, y]}, /d: {name: d}}\n"
        "volumes: {/e: {host_path: /tmp}}\nmanaged_secrets: [{F: {mount_path: /f}}]"
    )
    assert packed_targets(found) == {"/a": ("./a",), "/c": ("x", "y")}
    assert sorted(targets(found)) == ["/a", "/b", "/c", "/d", "/e", "/f"]


def test_who_speaks_of_the_work_directory() -> None:
    """In `run`, `setup` or a variable; others need no view for it."""
    assert speaks_of_workdir(task("envs: {OUT: ~/sky_workdir/out}"))
    assert speaks_of_workdir(task("setup: cd ~/sky_workdir"))
    assert not speaks_of_workdir(task("envs: {OUT: ~/out}"))


@pytest.mark.parametrize(
    ("pattern", "path", "meant"),
    [
        ("requirements*.txt", "requirements-gpu.txt", True),
        ("uv.lock", "sub/uv.lock", False),
        ("src", "src/a/b.py", True),
        ("src/", "src/a.py", True),
        ("src", "srcs/a.py", False),
    ],
)
def test_patterns_of_files(pattern: str, path: str, meant: bool) -> None:
    """A folder means all that is in it."""
    assert means(pattern, path) is meant
