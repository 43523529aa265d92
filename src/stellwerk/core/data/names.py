"""Decides how models and data sets of the Hugging Face hub are named: `hf://datasets/org/name`.

A revision of one is a commit, whole and written out: a branch says something else tomorrow, and
then the same task would read other data.
"""

import re

from msgspec import Struct

HUB = "hf://"
_NAME = re.compile(r"hf://(datasets/)?([A-Za-z0-9][\w.-]*)(/[A-Za-z0-9][\w.-]*)?")
_COMMIT = re.compile(r"[0-9a-f]{40}")


class HubTrouble(Struct, frozen=True):
    """What is wrong with how something of the hub is written."""

    code: str
    message: str
    help: str


def on_hub(name: str) -> bool:
    """Whether work can fetch this by itself, wherever it is."""
    return name.startswith(HUB)


def is_commit(revision: str) -> bool:
    """Whether this is a whole commit."""
    return _COMMIT.fullmatch(revision) is not None


def trouble_of(written: str) -> HubTrouble | None:
    """What is wrong with `hf://…@COMMIT`; None for what is right, and for names of another kind."""
    if not on_hub(written):
        return None
    name, _, revision = written.partition("@")
    if _NAME.fullmatch(name) is None or "--" in name or ".." in name:
        message = f"`{name[:120]}` is no name of a model or data set"
        return HubTrouble("spec/data-name", message, "write `hf://datasets/org/name@COMMIT`")
    if not revision:
        message = f"`{name[:120]}` has no revision"
        remedy = f"write `{name[:120]}@$REVISION`, and `envs: {{REVISION: null}}`"
        return HubTrouble("spec/data-revision", message, remedy)
    if not is_commit(revision):
        message = f"`{revision[:60]}` is no commit: other data may be there under it tomorrow"
        url = f"https://huggingface.co/{name.removeprefix(HUB)}"
        remedy = f"its 40 digits are told by `git ls-remote {url}`, and by `stw data where`"
        return HubTrouble("spec/data-revision", message, remedy)
    return None
