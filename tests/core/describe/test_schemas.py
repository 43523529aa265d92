"""The schema for editors agrees with the reader on keys and kinds."""

import json
from pathlib import Path
from typing import Any

from stellwerk.core.describe.resources import RESOURCE_KEYS
from stellwerk.core.describe.schemas import task_schema
from stellwerk.core.describe.task import TASK_KEYS
from tests import yamls

CASES = Path(__file__).parents[2] / "conformance" / "cases"
KINDS: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "object": dict,
    "array": list,
    "null": type(None),
}


def accepts(schema: dict[str, Any], value: Any) -> bool:
    """Whether a value fits, by the few words of JSON Schema that the schema uses."""
    if "anyOf" in schema:
        return any(accepts(part, value) for part in schema["anyOf"])
    if "enum" in schema and value not in schema["enum"]:
        return False
    if "type" in schema:
        kinds = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
        fits = any(isinstance(value, KINDS[kind]) for kind in kinds)
        if not fits or (isinstance(value, bool) and "boolean" not in kinds):
            return False
    if isinstance(value, list):
        return all(accepts(schema.get("items", {}), item) for item in value)
    if not isinstance(value, dict):
        return True
    known = schema.get("properties", {})
    rest = schema.get("additionalProperties", {})
    if set(schema.get("required", [])) - set(value) or (rest is False and set(value) - set(known)):
        return False
    return all(accepts(known.get(key, rest or {}), item) for key, item in value.items())


def test_the_same_keys() -> None:
    """Every key of the reader is in the schema, at both levels."""
    schema = task_schema()
    assert set(TASK_KEYS) <= set(schema["properties"])
    assert set(schema["properties"]["resources"]["properties"]) == set(RESOURCE_KEYS)


def test_what_the_reader_accepts_an_editor_accepts() -> None:
    """Every document of every case that is to be read."""
    schema = task_schema()
    for stem in ("sky_tasks", "sky_tasks_more"):
        cases = yamls.read((CASES / f"{stem}.yaml").read_text(encoding="utf-8"))["cases"]
        for case in cases:
            if "expect" not in case:
                continue
            for document in yamls.read_all(case["yaml"]):
                assert accepts(schema, document), case["id"]


def test_the_file_for_editors_is_current() -> None:
    """Written anew by `python scripts/task_schema.py` when the reader learns something."""
    path = Path(__file__).parents[3] / "docs" / "task-file.schema.json"
    assert json.loads(path.read_text(encoding="utf-8")) == task_schema()


def test_slips_are_seen() -> None:
    """A typo, a wrong kind, a missing part."""
    schema = task_schema()
    slips: list[dict[str, Any]] = [
        {"resorces": {}},
        {"resources": {"acelerators": "A100"}},
        {"resources": {"any_of": [{"ordered": []}]}},
        {"num_nodes": "2"},
        {"run": ["a"]},
        {"workdir": {"ref": "main"}},
        {"file_mounts": {"/a": {"mode": "MOUNTED"}}},
        {"resources": {"labels": {"stellwerk/launcher": "pbs"}}},
        {"config": {"hooks": [{"events": ["stop"]}]}},
    ]
    for slip in slips:
        assert not accepts(schema, slip), slip
