"""Runs that begin with the copy of another one's checkpoints, cut off while it is made."""

import os
from pathlib import Path

from tests.runtime.rig import Rig

ENTRIES = 8_000


def test_a_copy_that_is_cut_off_is_gone(rig: Rig, tmp_path: Path) -> None:
    """Cancelled while it copies, a run leaves nothing of it, and has written no checkpoint."""
    old, new = tmp_path / "old", tmp_path / "new"
    (old / "checkpoint-1").mkdir(parents=True)
    (old / "checkpoint-1" / "w").write_text("whole")
    for number in range(ENTRIES):
        (old / "checkpoint-1" / f"x{number}").symlink_to("w")
    rig.start("cut", "true", resume_from=str(old), checkpoint_dir=str(new))
    copied = new / ".resuming.unfinished" / "checkpoint-1" / "w"
    rig.wait("the copy", lambda: os.path.lexists(copied))
    rig.client.ask("stop", run="cut", why="cancel", grace_ms=0)
    end = rig.ended("cut")
    assert (end["how"], end["wrote_checkpoint"]) == ("cancelled", False)
    assert os.listdir(new) == []
    assert (
        rig.finish(
            "on",
            "ls $STELLWERK_CHECKPOINT_DIR/checkpoint-1 | wc -l",
            resume_from=str(old),
            checkpoint_dir=str(new),
        )["code"]
        == 0
    )
    assert rig.log("on").split() == [str(ENTRIES + 1)]
