"""Lays out what a run finds on this machine before it starts."""

from pathlib import Path
from typing import Any, NamedTuple

from stellwerk.drivers.agents.layout import at_fault, layout_of
from stellwerk.drivers.agents.snapshots import BlobReader
from stellwerk.drivers.base import DriverError, StartOrder
from stellwerk.drivers.local.workdir import make_tree
from stellwerk.runtime.removing import remove_tree
from stellwerk.runtime.trees import remove_generations

LAID_OUT = ("work", "mounts")
"""Folders beside the runtime's own, with `RUN.GENERATION` in them."""


class Laid(NamedTuple):
    """What was laid out: additions to the runtime's spec, and what to remove if nothing starts."""

    spec: dict[str, Any]
    made: list[str]

    def take_back(self) -> None:
        """Removes what was made."""
        for path in self.made:
            remove_tree(path)


def lay_out(order: StartOrder, root: Path, blobs: BlobReader) -> Laid:
    """Makes everything an order needs below the runtime's root; twice is once.

    Raises a final DriverError if it can't be made, whatever the cause: nothing was started then.
    """
    layout = layout_of(order, str(root), blobs)
    laid = Laid(layout.spec, [])
    try:
        for tree in layout.trees:
            target = str(root / tree.place)
            if make_tree(target, tree.entries, blobs):
                laid.made.append(target)
    except DriverError:
        laid.take_back()
        raise
    except Exception as fault:
        laid.take_back()
        raise at_fault(fault) from fault
    return laid


def remove_layout(root: Path, run: str) -> None:
    """Removes what was laid out for all generations of a run that is over."""
    for folder in LAID_OUT:
        remove_generations(str(root / folder), run)
