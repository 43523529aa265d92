"""What every release has written down is still read, and means what it meant."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stellwerk.core.model import events as ev
from tests.journals.summary import read, summary

JOURNALS = sorted(Path(__file__).parent.glob("*.jsonl"), key=lambda path: path.name)
RECORD = "record it with `python scripts/record_journal.py` before the release"


def lines_of(journal: Path) -> list[bytes]:
    return journal.read_bytes().splitlines()


def lost(old: Any, new: Any, place: str = "") -> list[str]:
    """What an old line says that isn't in what was read of it."""
    if isinstance(old, dict) and isinstance(new, dict):
        return [
            found
            for key, value in old.items()
            for found in (
                lost(value, new[key], f"{place}.{key}") if key in new else [f"{place}.{key}"]
            )
        ]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [
            found
            for index, (one, other) in enumerate(zip(old, new, strict=True))
            for found in lost(one, other, f"{place}[{index}]")
        ]
    return [] if old == new else [place]


@pytest.mark.parametrize("journal", JOURNALS, ids=lambda path: path.stem)
def test_a_recorded_journal_folds_to_the_same_state(journal: Path) -> None:
    """Its end is what was written down when it was recorded."""
    expected = json.loads(journal.with_suffix(".state.json").read_text())
    assert expected == summary(lines_of(journal))


@pytest.mark.parametrize("journal", JOURNALS, ids=lambda path: path.stem)
def test_no_field_of_an_old_line_is_passed_over(journal: Path) -> None:
    """A renamed field would be read as its default: every field must still be a field."""
    for line in lines_of(journal):
        again = json.loads(msgspec.json.encode(read(line)))
        assert not lost(json.loads(line), again), line.decode()


def test_every_type_of_event_is_in_a_journal() -> None:
    """So a new type can't be released without being recorded."""
    recorded = {json.loads(line)["event"]["type"] for path in JOURNALS for line in lines_of(path)}
    tags = {str(kind.__struct_config__.tag) for kind in ev.Event.__args__}
    assert recorded >= tags, f"{sorted(tags - recorded)} are in no journal: {RECORD}"


def test_a_changed_struct_is_noticed() -> None:
    """The checks can fail: an unknown type isn't read, a renamed field is told with its place."""
    line = lines_of(JOURNALS[0])[0]
    with pytest.raises(msgspec.ValidationError):
        read(line.replace(b'"leader-changed"', b'"captain-changed"'))
    with pytest.raises(msgspec.ValidationError):
        read(line.replace(b'"version":', b'"edition":', 1))
    renamed = json.loads(line.replace(b'"actor":', b'"agent":'))
    assert lost(renamed, json.loads(line)) == [".agent"]
