"""A failed worker's own words aren't hidden by what its launcher says after them."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from stellwerk.runtime.epilogues import telling_lines
from stellwerk.runtime.files import last_lines

FRAMES = ["Traceback (most recent call last):", *['  File "/x/run.py", line 1, in run'] * 12]
TABLE = """torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\x20
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2026-11-30_21:27:21
  host      : n1
  rank      : 2 (local_rank: 0)
  exitcode  : -15 (pid: 3218)  (SIGTERM)
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-30_21:27:20
  host      : n1
  rank      : 3 (local_rank: 1)
  exitcode  : 7 (pid: 3219)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
============================================================""".splitlines()
NOTE = (
    "E1130 21:27:21.065000 3124 torch/distributed/elastic/multiprocessing/api.py:1002] failed "
    "(exitcode: 7) local_rank: 1"
)
CAUSE = [
    "Root Cause (first observed failure):",
    "  host      : n1",
    "  rank      : 3 (local_rank: 1)",
    "  exitcode  : 7 (pid: 3219)",
]


def test_what_torchrun_adds_gives_way_to_its_worker() -> None:
    """The first failure is named, its words come before, those of its victims are left out."""
    said = ["step 4", "[rank3]: ValueError: bad batch", "[rank2]: RuntimeError: peer is gone"]
    assert telling_lines([*said, NOTE, *FRAMES, *TABLE]) == [*said[:2], *CAUSE]
    assert telling_lines([*said, NOTE, *FRAMES, *TABLE, "bye"]) == [*said[:2], *CAUSE, "bye"]


def test_a_worker_with_a_traceback_of_its_own_keeps_it() -> None:
    """Only the launcher's is left out."""
    own = [*FRAMES, "ModuleNotFoundError: No module named 'x'"]
    assert telling_lines([*own, *FRAMES, *TABLE]) == [*own, *CAUSE]


def test_where_nothing_else_was_said_the_launcher_is_heard() -> None:
    """Better its table than nothing; and whoever has no launcher is left alone."""
    assert telling_lines([NOTE, *FRAMES, *TABLE]) == [NOTE, *FRAMES, *TABLE]
    assert telling_lines([*FRAMES, "ValueError: no"]) == [*FRAMES, "ValueError: no"]
    assert telling_lines(["a", NOTE]) == ["a", NOTE]


@given(st.integers(0, len(TABLE)), st.integers(0, len(FRAMES)))
def test_a_table_that_is_cut_off_does_no_harm(kept: int, frames: int) -> None:
    """Wherever the log ends, the worker's words are there."""
    assert "own" in telling_lines(["own", *FRAMES[:frames], *TABLE[:kept]])


def test_the_last_lines_of_a_log_are_the_workers(tmp_path: Path) -> None:
    """Though the launcher's would be enough to fill them."""
    log = tmp_path / "run.log"
    log.write_text("\n".join(["CUDA out of memory", NOTE, *FRAMES, *TABLE, ""]))
    assert last_lines(str(log)) == ["CUDA out of memory", *CAUSE]
