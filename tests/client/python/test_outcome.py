"""What comes back of a call: values, exceptions with their traceback, and reasons in words."""

import pickle
from pathlib import Path
from typing import Any, cast

import pytest

from stellwerk.client import Client
from stellwerk.client.machines import FarFile, FarFiles
from stellwerk.client.python import CallError
from stellwerk.client.python.calls import called, pickled
from stellwerk.client.python.far_side import main
from stellwerk.client.python.outcome import RESULT, bring_outcome, read_outcome, why_none
from stellwerk.client.wire import End, RunView, Show
from stellwerk.core.model.reasons import RenderedReason


def made(tmp_path: Path, function: Any, *args: Any) -> tuple[int, Any]:
    """The status and the outcome of a call that the far side makes."""
    call, result = tmp_path / "1.call", tmp_path / "1.result"
    call.write_bytes(pickled(function, args, {}))
    return main(str(call), str(result)), read_outcome(str(result))


def test_a_value_comes_back(tmp_path: Path) -> None:
    """Also of a function that has no name of its own."""
    status, outcome = made(tmp_path, lambda x: {"twice": x * 2}, 21)
    assert (status, outcome.value, outcome.error) == (0, {"twice": 42}, None)


def test_an_exception_comes_back_with_where_it_was_raised(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The traceback is its cause, and is in the job's log too."""

    def deep() -> None:
        raise KeyError("weights")

    status, outcome = made(tmp_path, deep)
    assert status == 1
    assert isinstance(outcome.error, KeyError)
    assert "in deep" in str(outcome.error.__cause__)
    assert "KeyError: 'weights'" in capsys.readouterr().err


def test_what_cant_be_pickled_is_told(tmp_path: Path) -> None:
    """Instead of a job that ended well and gave nothing."""
    status, outcome = made(tmp_path, lambda: (x for x in "ab"))
    assert status == 1
    assert "can't be pickled" in str(outcome.error)


def test_no_outcome_is_none(tmp_path: Path) -> None:
    """A call that was killed leaves nothing, and never half of it."""
    assert read_outcome(str(tmp_path / "none")) is None


class FarAway:
    """A client whose files are elsewhere."""

    def __init__(self, data: bytes | None) -> None:
        self.data = data

    def files(self, name: str, area: str, path: str) -> FarFiles:
        found = [] if self.data is None else [FarFile(RESULT)]
        return FarFiles(is_here=False, is_folder=True, files=found)

    def file_bytes(self, name: str, area: str, path: str, offset: int, limit: int) -> bytes:
        assert self.data is not None
        return self.data[offset : offset + 7]


def test_an_outcome_is_brought_from_elsewhere(tmp_path: Path) -> None:
    """Piece by piece; where there is none, there is none."""
    made(tmp_path, lambda: "far")
    data = (tmp_path / "1.result").read_bytes()
    outcome = bring_outcome(cast(Client, FarAway(data)), show(None))
    assert outcome is not None
    assert outcome.value == "far"
    assert bring_outcome(cast(Client, FarAway(None)), show(None)) is None


def show(reason: RenderedReason | None) -> Show:
    end = End(code=137, signal=9, last_lines=["step 7", "step 8"])
    return Show(
        id="w-1", name="fit", phase="Failed", runs=[RunView("w-1-1", 1, end=end)], reason=reason
    )


def test_the_reason_is_told_in_words() -> None:
    """With the last lines, what to do, and the code for programs."""
    reason = RenderedReason("out_of_memory", "ended", "you", "it used all", "`stw logs NAME`", {})
    error = why_none(show(reason))
    assert (error.workload, error.reason) == ("fit", "out_of_memory")
    assert "fit: it used all\n  | step 7\n  | step 8  help: `stw logs fit`" in str(error)
    again = pickle.loads(pickle.dumps(error))
    assert isinstance(again, CallError)
    assert (again.workload, str(again)) == ("fit", str(error))


def test_a_call_that_called_exit_is_told() -> None:
    """It succeeded as a job, and gave no value."""
    assert "called exit" in str(why_none(show(None)))


@pytest.mark.parametrize(
    ("function", "name"),
    [(lambda: 1, "lambda"), (show, "show"), (print, "print"), (pytest.raises, "raises")],
)
def test_a_call_is_named_after_its_function(function: Any, name: str) -> None:
    """In letters that a workload's name may have."""
    assert called(function) == name
    assert called(function, "My Lab") == f"my-lab-{name}"
