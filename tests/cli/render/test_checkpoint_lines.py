"""What a page says of a job's checkpoints."""

import msgspec

from stellwerk.cli.render import show
from stellwerk.cli.terminal import Terminal
from stellwerk.client import wire
from tests.client.fake_server import show as page

NOW = 1_700_000_060_000
SCREEN = Terminal(is_tty=True, colour=False, unicode=False, width=100)


def test_a_page_says_where_its_checkpoints_are() -> None:
    """What is at home, how old that is, and what would be lost with its machine."""

    def saved(step: int) -> dict[str, object]:
        return {"name": f"step-{step}.pt", "step": step, "bytes": 3 << 20, "saved_ms": NOW}

    told = {
        "at_home": saved(200),
        "home_ms": NOW - 240_000,
        "machines": ["k017/pc1"],
        "folder": "/home",
        "newer": saved(300),
        "newer_on": ["k017/pc1"],
        "trouble": "there is no room",
    }
    shown = msgspec.convert(page("train", "Running", checkpoint=told), wire.Show)
    lines = [line.strip() for line in show.lines_of(shown, SCREEN, NOW)]
    home = next(line for line in lines if line.startswith("at home"))
    assert home == "at home     step-200.pt (step 200), 3 MiB, copied 4 min ago from k017/pc1"
    assert "not there   step-300.pt (step 300) is on k017/pc1 alone: there is no room" in lines, (
        lines
    )
