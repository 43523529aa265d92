"""What the page of a workload says of its failure."""

import msgspec

from stellwerk.cli.render import show
from stellwerk.cli.terminal import Terminal
from stellwerk.client import wire
from tests.client.fake_server import reason, run
from tests.client.fake_server import show as page

NOW = 1_700_000_060_000
SCREEN = Terminal(is_tty=True, colour=False, unicode=False, width=100)
FIRST = "rank 1 on pc02 ended with exit code 3"


def told(phase: str, **of_the_run: object) -> list[str]:
    """The page of a job whose one run ended so."""
    end = {"how": "exited", "code": 3, "message": FIRST, "last_lines": ["boom"]}
    runs = [run(1, "Ended", end=end, **of_the_run)]
    return show.lines_of(msgspec.convert(page("job", phase, runs=runs), wire.Show), SCREEN, NOW)


def test_a_failure_says_which_rank_was_first() -> None:
    """Above the last lines, as at the end of `run`; not where the table of runs has it already."""
    why = reason("exit_code", "ended", "the command ended with exit code 3")
    lines = told("Failed", reason=why)
    at = lines.index(f"  {FIRST}")
    assert lines[at - 1 : at + 3] == ["", f"  {FIRST}", "  last lines:", "  | boom"]
    assert sum(FIRST in line for line in told("Failed")) == 1
    assert not any(FIRST in line for line in told("Succeeded", reason=why))
