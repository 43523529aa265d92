"""Decides the environment of a task: variables with values as text, secrets by name.

Values become text as SkyPilot does it (`true` is "True", `3` is "3", `2e-5` stays). A variable
without a value must be given by a flag; a secret without one is a reference. Values of secrets are
kept apart from everything that is stored or shown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from stellwerk.core.describe.fields import expected, read_map, text
from stellwerk.core.describe.nodes import Entry, Node, Report
from stellwerk.core.model.task import SecretRef

LARGEST_VALUE = 128 * 1024
"""What Linux passes to a program in one variable, name, `=` and the final NUL included."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SCOPES = ("personal", "workspace", "global")
_DOCKER_LOGIN = ("SKYPILOT_DOCKER_USERNAME", "SKYPILOT_DOCKER_PASSWORD", "SKYPILOT_DOCKER_SERVER")

DEVICES_OF_A_RUN = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")


class Given(Struct, frozen=True):
    """What flags say about the environment; a None leaves a variable to the file."""

    envs: Mapping[str, str | None] = {}
    secrets: Mapping[str, str] = {}


class Environment(Struct, frozen=True):
    """The environment of one task; `spans` are the places of secret values in the text."""

    envs: dict[str, str]
    secrets: dict[str, str]
    managed: tuple[SecretRef, ...]
    spans: tuple[tuple[int, int], ...] = ()


def read_environment(report: Report, task: Node, given: Given) -> Environment:
    """The variables and secrets of a task, with those of the flags laid over them."""
    envs = _read_envs(report, task.get("envs"), given.envs)
    secrets: dict[str, str] = {}
    managed: dict[str, SecretRef] = {}
    spans: list[tuple[int, int]] = []
    _read_secrets(report, task.get("secrets"), secrets, managed, spans, given.secrets)
    _read_managed(report, task.get("managed_secrets"), managed)
    flag = "--secret"
    secrets |= {
        name: value
        for name, value in given.secrets.items()
        if check_name(report, None, flag, name) and check_size(report, None, flag, name, value)
    }
    _check_docker_login(report, task, envs, secrets)
    return Environment(envs, secrets, tuple(managed.values()), tuple(spans))


def as_text(node: Node) -> str:
    """A value as the text that SkyPilot would put into the environment."""
    return node.value if isinstance(node.value, str) else str(node.plain())


def check_name(report: Report, node: Node | None, path: str, name: str) -> bool:
    """Whether a shell can have a variable of this name; if not, it is reported."""
    if _NAME.fullmatch(name):
        return True
    report.problem(
        "spec/env-name",
        node,
        path,
        f"`{name[:60]}` can't be the name of an environment variable",
        "letters, digits and `_`, not beginning with a digit",
    )
    return False


def check_size(report: Report, node: Node | None, path: str, name: str, value: str) -> bool:
    """Whether a program can be given this value; if not, it is reported, without the value."""
    size = len(value.encode(errors="replace"))
    if len(name) + size + 2 > LARGEST_VALUE:
        report.problem(
            "spec/env-size",
            node,
            path,
            f"the value of `{name[:60]}` has {size / 1024:.0f} KiB; Linux allows 128 KiB",
            "put it into a file and name the file under `file_mounts`",
        )
        return False
    if "\0" in value:
        report.problem("spec/character", node, path, f"the value of `{name[:60]}` holds a NUL byte")
        return False
    return True


def _read_envs(
    report: Report, node: Node | None, given: Mapping[str, str | None]
) -> dict[str, str]:
    envs: dict[str, str] = {}
    if node is not None and node.kind != "map":
        expected(report, node, "envs", "a map of names and values")
    for entry in node.entries if node is not None else ():
        path = f"envs.{entry.key}"
        if not check_name(report, entry.key_node, path, entry.key):
            continue
        if not isinstance(entry.key_node.value, str):
            report.notice(
                "spec/env-name",
                entry.key_node,
                path,
                f"YAML reads this key as `{entry.key}`, and so the variable is called",
                "write the name in quotes",
            )
        if entry.value.is_null:
            if given.get(entry.key) is None:
                _report_missing(report, entry)
            continue
        value = as_text(entry.value)
        if check_size(report, entry.value, path, entry.key, value):
            envs[entry.key] = value
    for name, flag_value in given.items():
        if not check_name(report, None, "--env", name):
            continue
        if flag_value is not None and check_size(report, None, "--env", name, flag_value):
            envs[name] = flag_value
    _tell_of_devices(report, node, envs)
    return envs


def _tell_of_devices(report: Report, node: Node | None, envs: Mapping[str, str]) -> None:
    """Which GPUs a run sees follows from where it is placed, so nobody else can say it."""
    written = {entry.key: entry.key_node for entry in node.entries} if node is not None else {}
    for name in (name for name in DEVICES_OF_A_RUN if name in envs):
        report.notice(
            "spec/env-devices",
            written.get(name),
            f"envs.{name}",
            f"`{name}` has no effect on a machine with GPUs: a run sees those that it was given",
            "leave it out, and ask with `accelerators` for as many GPUs as it needs",
        )


def _report_missing(report: Report, entry: Entry) -> None:
    report.problem(
        "spec/env-missing",
        entry.key_node,
        f"envs.{entry.key}",
        f"the variable `{entry.key}` has no value",
        f'give it with `--env {entry.key}=VALUE`, or write `{entry.key}: ""` for an empty one',
    )


def _reference(written: str) -> SecretRef:
    name = written.removeprefix("secrets:")
    scope, dot, rest = name.partition(".")
    if dot and scope in _SCOPES:
        return SecretRef(rest, scope)
    return SecretRef(name)


def _add_reference(
    report: Report, node: Node, path: str, ref: SecretRef, managed: dict[str, SecretRef]
) -> None:
    if not check_name(report, node, path, ref.name):
        return
    other = managed.setdefault(ref.name, ref)
    # Named twice it is one secret; a mount path or scope given at either place holds.
    managed[ref.name] = SecretRef(
        ref.name, other.scope or ref.scope, other.mount_path or ref.mount_path
    )


def _read_secrets(
    report: Report,
    node: Node | None,
    secrets: dict[str, str],
    managed: dict[str, SecretRef],
    spans: list[tuple[int, int]],
    given: Mapping[str, str],
) -> None:
    """A name without a value is a reference unless a flag gives the value.

    With the prefix `secrets:` it stays one, as in SkyPilot, though the value of a flag will do.
    """
    if node is None:
        return
    if node.kind == "list":
        for i, item in enumerate(node.items):
            _read_listed(report, item, f"secrets[{i}]", managed)
        return
    if node.kind != "map":
        expected(report, node, "secrets", "a map of names, or a list of `secrets:NAME`")
        return
    for entry in node.entries:
        path = f"secrets.{entry.key}"
        if entry.value.is_null:
            if entry.key not in given:
                _add_reference(report, entry.key_node, path, _reference(entry.key), managed)
        elif entry.key.startswith("secrets:"):
            _note_span(entry.value, spans)
            report.problem(
                "spec/secret",
                entry.key_node,
                path,
                f"`{entry.key[:60]}` is a reference and takes no value",
                "leave the value out, or the `secrets:`",
            )
        elif check_name(report, entry.key_node, path, entry.key):
            _note_span(entry.value, spans)
            value = as_text(entry.value)
            if check_size(report, entry.key_node, path, entry.key, value):
                secrets[entry.key] = value
                report.notice(
                    "spec/secret-inline",
                    entry.key_node,
                    path,
                    f"the value of the secret `{entry.key}` stands in the file",
                    f"write `{entry.key}: null` and give it with `--secret {entry.key}`",
                )


def _note_span(node: Node, spans: list[tuple[int, int]]) -> None:
    if node.kind == "scalar" and node.end > node.start:
        spans.append((node.start, node.end))
    for child in (*node.items, *(entry.value for entry in node.entries)):
        _note_span(child, spans)


def _read_listed(report: Report, item: Node, path: str, managed: dict[str, SecretRef]) -> None:
    written = text(report, item, path)
    if written is None:
        return
    if not written.startswith("secrets:"):
        report.problem(
            "spec/secret",
            item,
            path,
            "an entry of this list must begin with `secrets:`",
            "write `secrets:NAME`, or a map with `NAME: null`",
        )
        return
    _add_reference(report, item, path, _reference(written), managed)


def _read_managed(report: Report, node: Node | None, managed: dict[str, SecretRef]) -> None:
    if node is None:
        return
    if node.kind != "list":
        expected(report, node, "managed_secrets", "a list of names")
        return
    for i, item in enumerate(node.items):
        path = f"managed_secrets[{i}]"
        if item.kind == "map" and len(item.entries) == 1:
            entry = item.entries[0]
            mount = None
            if not entry.value.is_null:
                options = read_map(report, entry.value, f"{path}.{entry.key}", {"mount_path": text})
                mount = options.get("mount_path")
            ref = _reference(entry.key)
            _add_reference(
                report, entry.key_node, path, SecretRef(ref.name, ref.scope, mount), managed
            )
        elif item.text is not None:
            _add_reference(report, item, path, _reference(item.text), managed)
        else:
            expected(report, item, path, "a name, or one name with its `mount_path`")


def _check_docker_login(
    report: Report, task: Node, envs: Mapping[str, str], secrets: Mapping[str, str]
) -> None:
    """Registry logins come all three together, from one place, or not at all."""
    in_envs = [name for name in _DOCKER_LOGIN if name in envs]
    in_secrets = [name for name in _DOCKER_LOGIN if name in secrets]
    found = in_secrets or in_envs
    if not found or (len(found) == len(_DOCKER_LOGIN) and not (in_envs and in_secrets)):
        return
    names = ", ".join(f"`{name}`" for name in _DOCKER_LOGIN)
    report.problem(
        "spec/docker-login", task.get("envs") or task.get("secrets") or task, "envs",
        "the login for an image registry is incomplete", f"give {names} all in one place",
    )  # fmt: skip
