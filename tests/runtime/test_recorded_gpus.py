"""What real drivers said (`make gpu` records it) gives devices that work can be put on."""

import json
from pathlib import Path

import pytest

from stellwerk.core.inventory.facts import node_of

RECORDED = sorted((Path(__file__).parent / "recorded_gpus").glob("*.json"))


@pytest.mark.skipif(not RECORDED, reason="nothing was recorded yet: `make gpu` needs a GPU")
def test_recorded_answers_are_understood() -> None:
    """Each card that the driver could describe is one to be given out, and says its memory."""
    for path in RECORDED:
        facts = json.loads(path.read_text())
        well = [gpu for gpu in facts["gpus"] if not gpu["trouble"] and not gpu.get("mig")]
        found = node_of({"cpus": 1, "memory_bytes": 1, "disk_free_bytes": 1, **facts}).devices
        assert [one.uuid for one in found] == [gpu["uuid"] for gpu in well], path.name
        assert all(0 < one.usable_bytes <= one.memory_bytes for one in found), path.name
