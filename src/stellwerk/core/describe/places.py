"""Decides what a task needs of the place it runs at: where its mounts go, and where they come from.

A target below `~/sky_workdir` lies in the run's own work directory, which any machine has. One that
lies elsewhere must not be seen by others, so it needs a view of its own (user namespaces).
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

from stellwerk.core.describe.mounts import WORKDIR, scheme_of
from stellwerk.core.model.resources import IMAGES, NAMESPACES
from stellwerk.core.model.task import ResourceRequest, StorageMount, Task

_NEVER = ("/", "~", "/proc", "/sys", "/dev")
IMAGE_PREFIX = "docker:"
_IMAGE = re.compile(r"docker:[A-Za-z0-9][A-Za-z0-9._/:@-]*")
_LOGIN = "SKYPILOT_DOCKER_"
_SPOKEN_OF = "sky_workdir"


def inside_work(target: str) -> str | None:
    """The part of `~/sky_workdir/x` below the work directory, "" for itself; None elsewhere."""
    if target == WORKDIR:
        return ""
    return target[len(WORKDIR) + 1 :] if target.startswith(WORKDIR + "/") else None


def targets(task: Task) -> tuple[str, ...]:
    """Every place at which the task wants something."""
    secrets = (ref.mount_path for ref in task.managed_secrets if ref.mount_path)
    return (*task.file_mounts, *task.storage, *task.volumes, *secrets)


def can_be_target(target: str) -> bool:
    """Whether something can be mounted there at all."""
    parts = target.split("/")
    below = len(parts) > 1 and parts[0] in {"", "~"} and ".." not in parts and "\0" not in target
    return below and target not in _NEVER and not target.startswith(("/proc/", "/sys/"))


def needs(task: Task, request: ResourceRequest) -> tuple[str, ...]:
    """What a cluster must be able to do, whatever else it has."""
    if request.image_id:
        return (IMAGES, NAMESPACES)
    secret_files = any(ref.mount_path for ref in task.managed_secrets)
    outside = any(inside_work(target) is None for target in targets(task))
    return (NAMESPACES,) if secret_files or outside else ()


def image_of(request: ResourceRequest) -> str:
    """The container image that a request names, "" for none; only one that can be run here."""
    image = request.image_id
    return image.removeprefix(IMAGE_PREFIX) if isinstance(image, str) else ""


def can_be_image(request: ResourceRequest) -> bool:
    """Whether the image is one for any machine, and not one of a cloud's own."""
    image = request.image_id
    return not image or (isinstance(image, str) and _IMAGE.fullmatch(image) is not None)


def names_login(task: Task) -> bool:
    """Whether the task brings a login for a registry of images."""
    names = (*task.envs, *task.secrets, *(ref.name for ref in task.managed_secrets))
    return any(name.startswith(_LOGIN) for name in names)


def speaks_of_workdir(task: Task) -> bool:
    """Whether the task counts on `~/sky_workdir` as the place where it runs."""
    texts = (task.run, task.setup, *task.envs.values())
    return any(_SPOKEN_OF in text for text in texts)


def means(pattern: str, path: str) -> bool:
    """Whether a pattern means a file: it does with a whole folder; `*` may stand for any part."""
    return fnmatchcase(path, pattern) or path.startswith(pattern.rstrip("/") + "/")


def local_sources(mount: StorageMount) -> tuple[str, ...]:
    """What of the caller's own files goes into a bucket before it is mounted."""
    sources = (mount.source,) if isinstance(mount.source, str) else mount.source or ()
    return tuple(source for source in sources if scheme_of(source) is None)


def packed_targets(task: Task) -> dict[str, tuple[str, ...]]:
    """The files and folders of the caller that the task brings along, by target."""
    copies = {
        target: (source,)
        for target, source in task.file_mounts.items()
        if scheme_of(source) is None
    }
    uploads = {target: local_sources(mount) for target, mount in task.storage.items()}
    return {**copies, **{target: sources for target, sources in uploads.items() if sources}}
