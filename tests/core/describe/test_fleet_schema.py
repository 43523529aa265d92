"""The schema of a fleet file for editors agrees with the reader."""

import json
from pathlib import Path

import pytest

from stellwerk.core.describe.fleet import KINDS, read_fleet
from stellwerk.core.describe.fleet_schema import fleet_schema
from stellwerk.core.describe.fleet_short import CLUSTER_FIELDS
from stellwerk.core.describe.placement_extras import EXTRAS
from tests import yamls
from tests.core.describe import test_fleet, test_fleet_short
from tests.core.describe.test_schemas import accepts

SCHEMA = fleet_schema()


def test_what_the_reader_accepts_an_editor_accepts() -> None:
    """Every document of the tests of both forms."""
    for document in (*test_fleet.ALL, *test_fleet_short.ALL):
        assert accepts(SCHEMA, json.loads(json.dumps(yamls.read(document), default=str)))


def test_every_key_is_described() -> None:
    """No key of the short form is left without a kind of value."""
    for document in SCHEMA["anyOf"]:
        for key, value in document["properties"].items():
            assert value, key


def test_the_file_for_editors_is_current() -> None:
    """Written anew by `python scripts/fleet_schema.py` when the reader learns something."""
    path = Path(__file__).parents[3] / "docs" / "fleet-file.schema.json"
    assert json.loads(path.read_text(encoding="utf-8")) == SCHEMA


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("speed: 1.5", "sped: 1.5"),
        ("type: room", "type: rom"),
        ("state: drained", "state: gone"),
        ("rack: r1", "rak: r1"),
        ("usd_per_hour", "usd_an_hour"),
        ("pinned: true", "pined: true"),
        ("stellwerk/v1", "stelwerk/v1"),
        ("tier: student", "tier: 1"),
    ],
)
def test_slips_are_seen(old: str, new: str) -> None:
    """A typo, a wrong kind, a wrong version."""
    room = test_fleet_short.ROOM
    assert old in room
    slip = yamls.read(room.replace(old, new))
    assert not accepts(SCHEMA, json.loads(json.dumps(slip, default=str)))


def test_the_examples_of_the_page() -> None:
    """Every YAML block of `docs/fleet-file.md` is read without a word, by reader and editor."""
    page = Path(__file__).parents[3] / "docs" / "fleet-file.md"
    blocks = page.read_text(encoding="utf-8").split("```yaml\n")[1:]
    assert len(blocks) == 3
    for block in blocks:
        text = block.split("```")[0]
        found = read_fleet(text).require()
        assert not found.notices
        for document in yamls.read_all(text):
            assert accepts(SCHEMA, json.loads(json.dumps(document, default=str)))


def test_the_page_names_every_key() -> None:
    """Keys and annotations that the reader knows."""
    page = (Path(__file__).parents[3] / "docs" / "fleet-file.md").read_text(encoding="utf-8")
    named = [*CLUSTER_FIELDS, *(f"stellwerk/{name}" for name in EXTRAS)]
    for key in named:
        assert f"`{key}`" in page or f"{key}: " in page, key
    for kind in KINDS:
        assert kind in page
