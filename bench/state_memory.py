"""Prints how many bytes the live state takes for each of so many pending workloads."""

import sys
import tracemalloc

import msgspec

from stellwerk.core.model import events as ev
from stellwerk.core.model.commands import Submit
from stellwerk.core.model.ids import BlobHash, WorkloadId
from stellwerk.core.state import State, fold
from stellwerk.testing.builders import a_shape


def main(count: int) -> float:
    """Folds what was read, as the engine reads commands: nothing is shared between two of them."""
    state, shape = State(), a_shape()
    read = msgspec.json.Decoder(ev.Submitted).decode
    tracemalloc.start()
    for number in range(count):
        submit = Submit(
            id=WorkloadId(f"w-{number:012x}"),
            name=f"waiting-{number}",
            project="default",
            shape=shape,
            task=BlobHash(f"{number % 7:064x}"),
        )
        event = read(msgspec.json.encode(ev.Submitted(f"owner-{number % 5}", submit)))
        fold(state, ev.Record(number + 1, number, 1, "somebody", "default", event))
        state.drain_touched()
    return tracemalloc.get_traced_memory()[0] / count


if __name__ == "__main__":
    print(main(int(sys.argv[1])))
