"""What the commands say of arrays: one line in a list, all output together, the end of the last."""

from collections.abc import Sequence

from stellwerk.cli.output import narrate
from stellwerk.cli.render.phases import DOING
from stellwerk.cli.terminal import Narrator
from stellwerk.client.api import Client
from stellwerk.client.arrays import ARRAY, ArrayView
from stellwerk.client.refusals import ApiError
from stellwerk.client.wire import Row, Until
from stellwerk.core.model.errors import StellwerkError


def is_array(client: Client, name: str, error: StellwerkError) -> bool:
    """Whether a name that no workload has is that of an array."""
    unknown = isinstance(error, ApiError) and error.code == "find/workload"
    return unknown and client.array(name) is not None


def row_of(array: ArrayView) -> Row:
    """An array as one line of a list, with its elements counted by phase."""
    return Row(
        id=array.id,
        name=array.name,
        kind=ARRAY,
        phase=counted(array),
        owner=array.owner,
        queue=array.queue,
        priority=array.priority,
        submitted_ms=array.submitted_ms,
        wants=array.wants,
    )


def counted(array: ArrayView) -> str:
    """`92 Pending, 8 Running`."""
    return ", ".join(f"{count:,} {one}" for one in DOING if (count := array.phases.get(one)))


def print_logs(client: Client, name: str, narrator: Narrator, *, follows: bool) -> int:
    """The output of all elements one after the other, each line with its index."""
    elements = client.elements(name)
    for element in elements:
        index = element.name.rpartition("-")[2].encode()
        if element.runs:
            lines = b"".join(client.logs(element.id)).splitlines(keepends=True)
            narrator.data(b"".join(b"[%b] %b" % (index, line) for line in lines))
    if follows:
        narrator.say(f"an array isn't followed   next: stw wait {name}")
    return 0


def waited(client: Client, name: str, until: Until, left_s: float | None) -> Sequence[Row]:
    """Waits for one, or for all elements of an array; of these it gives what hasn't succeeded."""
    try:
        return [client.wait(name, until, left_s)]
    except StellwerkError as error:
        if not is_array(client, name, error):
            raise
    narrate(f"{name}: {counted(client.wait_array(name, left_s))}")
    return [row for row in client.elements(name) if row.phase != "Succeeded"]
