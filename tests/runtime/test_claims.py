"""What runs of several Stellwerks tell each other that they hold, and which of it counts."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from stellwerk.runtime import claims

HOLDS = {"cpus_milli": 2000, "memory_bytes": 1 << 30, "gpus": {"0": 5 << 30}}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STELLWERK_CLAIMS", str(tmp_path / "claims"))
    return tmp_path / "claims"


def test_others_see_what_a_run_holds_until_it_ends(place: Path) -> None:
    """Its own Stellwerk doesn't; the folder is everybody's, the file its user's alone."""
    assert claims.of_others("/other") == []
    claims.claim("/one", "w-1-1", HOLDS)
    claims.claim("/one", "w-1-1", HOLDS)
    (told,) = claims.of_others("/other")
    assert {key: told[key] for key in HOLDS} == HOLDS
    assert (told["run"], bool(told["user"])) == ("w-1-1", True)
    assert claims.of_others("/one") == []
    assert stat.S_IMODE(place.stat().st_mode) == 0o1777
    (file,) = place.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    claims.give_back("/one", "w-1-1")
    assert (claims.of_others("/other"), list(place.iterdir())) == ([], [])


@pytest.mark.parametrize(
    "change",
    [
        {"boot_id": "another"},
        {"machine_id": "another"},
        {"starttime": 1},
        {"pid": 2**22 + 1},
        {"pid": 0},
        {"holds": [1]},
    ],
)
def test_a_claim_counts_only_while_its_wrapper_lives(
    place: Path, change: dict[str, object]
) -> None:
    """Nor after a boot, nor of a later process of the same number; what is dead is removed."""
    claims.claim("/one", "w-1-1", HOLDS)
    (file,) = place.iterdir()
    file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    assert claims.of_others("/other") == []
    assert file.exists() == ("holds" in change)


def test_a_process_that_died_holds_nothing(place: Path) -> None:
    """Whoever claimed was killed before it could give back."""
    code = "from stellwerk.runtime import claims; claims.claim('/one', 'w-1-1', {'cpus_milli': 1})"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert len(list(place.iterdir())) == 1
    assert claims.of_others("/other") == []


def test_nonsense_and_traps_are_passed_over(place: Path) -> None:
    """Amounts that can't be count as nothing; links, pipes and other names are never opened."""
    claims.claim(
        "/one",
        "w-1-1",
        {"cpus_milli": -5, "memory_bytes": 1 << 70, "gpus": {"x": 1, "9" * 5000: 1}},
    )
    (file,) = place.iterdir()
    stem = file.name.rpartition("-")[0]
    (place / f"{stem}-{'0' * 12}.json").symlink_to(file)
    os.mkfifo(place / f"{stem}-{'1' * 12}.json")
    (place / f"{stem}-{'2' * 12}.json").write_text("[" * 50_000)
    said = json.loads(file.read_text())
    for digit, field, number in (
        ("3", "pid", 2**70),
        ("4", "pid", float("inf")),
        ("5", "starttime", float("inf")),
    ):
        content = json.dumps({**said, field: number})
        (place / f"{stem}-{digit * 12}.json").write_text(content)
    (place / "notes.txt").write_text("hello")
    (told,) = claims.of_others("/other")
    assert (told["cpus_milli"], told["memory_bytes"], told["gpus"]) == (0, 0, {})
    place.chmod(0o777)
    assert claims.of_others("/other") == [], "anybody could take away what others say"
