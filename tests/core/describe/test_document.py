"""docs/task-file.md names every key, extra, flag and unsupported feature, and none that is gone."""

import re
from pathlib import Path

from stellwerk.core.describe.extras import EXTRAS
from stellwerk.core.describe.overrides import Overrides
from stellwerk.core.describe.resources import RESOURCE_KEYS
from stellwerk.core.describe.support import TABLE
from stellwerk.core.describe.task import TASK_KEYS
from stellwerk.core.describe.tasks import read_tasks

TEXT = (Path(__file__).parents[3] / "docs" / "task-file.md").read_text(encoding="utf-8")


def test_every_key_is_named() -> None:
    """A key that the reader learns is written down with it."""
    named = set(re.findall(r"`([^`\s]+)`", TEXT))
    assert not {*TASK_KEYS, *RESOURCE_KEYS} - named
    assert not {f"stellwerk/{name}" for name in EXTRAS} - named
    flags = {f"--{name.replace('_', '-')}" for name in Overrides.__struct_fields__[:-1]}
    assert not flags - set(re.findall(r"--[a-z-]+", TEXT))


def test_what_cant_be_run_is_listed() -> None:
    """When a feature lands, its line leaves both the table and the document."""
    listed = set(re.findall(r"`unsupported/([a-z-]+)`", TEXT))
    assert listed == {"tasks", *(line.code for line in TABLE)}


def test_the_example_is_a_task() -> None:
    """It reads as it stands, once its variable is given."""
    (example,) = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
    assert read_tasks(example, env={"RUN": "r1"}).name == "lora-bert"
