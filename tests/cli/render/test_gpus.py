"""GPUs as people see them: labels, what each run holds of what it asked for, what lies idle."""

import pytest

from stellwerk.cli.render.gpus import (
    IDLE_MS,
    GpuLine,
    gpu_columns,
    history_lines,
    idle_lines,
    idle_ms,
    summary,
)
from stellwerk.cli.terminal import Terminal
from stellwerk.client.fleet import DeviceView, GpuHistory, GpuPoints, GpuUser

GIB = 2**30


def terminal(*, tty: bool = True, unicode: bool = True) -> Terminal:
    return Terminal(is_tty=tty, width=100, colour=False, unicode=unicode)


def a_line(index: int = 0, **more: object) -> GpuLine:
    device = DeviceView(index, "A100", memory_bytes=40 * GIB, **more)  # type: ignore[arg-type]
    return GpuLine("lab", "n1", 4_000, device)


def cells(line: GpuLine) -> dict[str, str]:
    return {column.key: str(column.cell(line)) for column in gpu_columns(terminal())}


def test_who_uses_what_of_what_it_asked_for() -> None:
    """With the device's number, its load, and a bar of what is given away."""
    users = [
        GpuUser("w-1-1", "train", 18 * GIB, round(9.1 * GIB), 1_000),
        GpuUser("w-2-1", "", GIB),
    ]
    found = cells(
        a_line(
            label="1:2",
            held_bytes=20 * GIB,
            users=users,
            free_bytes=30 * GIB,
            reserved_bytes=GIB,
            busy_percent=97,
        )
    )
    assert (found["device"], found["busy"], found["used"]) == ("1:2 A100", "97%", "9 GiB")
    assert found["runs"] == "train 9.1/18 GiB, w-2-1 ?/1 GiB"
    assert found["memory"].endswith("20/40")
    assert "█" * 11 + "·" * 11 in found["memory"]
    assert cells(a_line(unified=True, runs=["r"]))["runs"] == "r"
    assert cells(a_line(unified=True))["note"] == "its memory is the machine's"


def test_of_many_on_a_card_the_first_are_named() -> None:
    """A line stays a line; the rest is counted."""
    users = [GpuUser(f"w-{n}-1", f"s{n}", GIB, 0) for n in range(6)]
    assert cells(a_line(users=users))["runs"] == (
        "s0 0/1 GiB, s1 0/1 GiB, s2 0/1 GiB, s3 0/1 GiB and 2 more"
    )


def test_idle_is_what_runs_hold_and_none_uses() -> None:
    """The longest first; one of two users that works makes it busy, and so does who isn't known."""

    def held(*idle: int | None, index: int = 0) -> GpuLine:
        users = [GpuUser(f"w-{n}-1", idle_ms=one) for n, one in enumerate(idle)]
        return a_line(index, users=users)

    lines = [
        held(IDLE_MS, index=0), held(3 * IDLE_MS, 2 * IDLE_MS, index=1), held(0, IDLE_MS, index=2),
        held(None, IDLE_MS, index=3), held(index=4), held(IDLE_MS - 1, index=5),
    ]  # fmt: skip
    assert [line.device.index for line in idle_lines(lines)] == [1, 0]
    assert idle_ms(lines[3].device) is None
    assert summary(lines) == "6 GPUs, 6 of them free"


@pytest.mark.parametrize(("unicode", "marks"), [(True, "▁ █▄"), (False, "0 94")])
def test_the_past_is_a_row_of_marks(unicode: bool, marks: str) -> None:
    """A blank is a time in which nobody looked."""
    points = [(0, 0, 10), (600_000, 40 * GIB, 30), (900_000, 20 * GIB, None)]
    history = GpuHistory([GpuPoints("lab", "n1", "0", points)])
    (line,) = history_lines(history, terminal(unicode=unicode))
    assert line == f"n1/0  {marks}  at most 40 GiB, 20% busy"
    assert "nothing is known yet" in history_lines(GpuHistory(), terminal())[0]
